"""Algorithm 1 of the avatar paper, repaired (SOUNDNESS 2.3): from found people to replaced people.

poses -> bodies -> drawing with alpha and mask r; detected masks -> q, held, grown, feathered; inpaint
q away; draw the avatars over it. The public mask is r AND q AND alpha == 1: its pixels are written by
the renderer alone, from body, pose, camera, the people's own outlines and a light that is fixed beforehand.
They depend on the recording through pose and masks only. The public layer keeps them as they were written; in
the video, which is for looking at, the same avatars are shown in the colour of the room's light.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body import (
    INDEX,
    Camera,
    Drawing,
    Light,
    Motion,
    SkinnedBody,
    draw,
    fit,
    proportions,
    stretched,
    to_srgb,
)
from sfumato.media import Image
from sfumato.protect._method import ProtectError
from sfumato.protect.avatar._conditions import DrawnBody
from sfumato.protect.avatar._erase_mask import (
    EraseMask,
    erase_mask,
    extent,
    grown_people,
    rim,
    unreplaced,
)
from sfumato.protect.avatar._inpaint import Erased, erase, fill_around
from sfumato.protect.avatar._recover_missed import recover_missed_people
from sfumato.protect.avatar._scene import OwnPixels, Scene, Track, outline

Frames = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.bool_]
Colour = npt.NDArray[np.float32]
Eraser = Callable[[Sequence[Image] | Frames, Masks], Erased]
Refine = Callable[[Sequence[Drawing], Sequence[DrawnBody], Camera], Frames]
GREY = 128
_GAP = 30  # frames for which a lost person is thought to go on
_REACH, _EDGE = (
    0.05,
    2,
)  # how far an avatar may reach beyond its person, in heights; pixels of the rim
_SOFT = 0.03  # of a stand-in's height over which its rim fades
_SLIM = 0.75  # outline of a pose whose person was segmented as well
_SHADOW, _SOLE = 0.45, (0.17, 0.06)  # darkness under a foot, and its size in metres


@dataclass(frozen=True)
class Rules:
    """How people are replaced; all of it is public."""

    missed: str = "blank"
    hold: int = 1
    grow: float = 0.02
    feather: float = 0.006
    smooth: float = 0.04  # seconds
    proportions: str = "person"
    samples: int = 3


@dataclass(frozen=True)
class ComposedFrame:
    """One frame without its people. ``public`` marks pixels that the renderer alone wrote, which are
    ``layer``'s; ``blanked`` are stand-ins of people without a pose, and what was covered after that."""

    image: Image
    public: Mask
    layer: Image
    inside: Mask
    weight: Colour
    blanked: Mask


@dataclass(frozen=True)
class Replaced:
    """A recording without its people, all frames at once."""

    frames: Frames
    public: Masks
    layer: Frames
    erase_mask: EraseMask
    erased: Erased
    blanked: Masks
    errors: tuple[float, ...]  # of the fit of every track, in metres

    def public_layer(self) -> Frames:
        """Public pixels as the renderer wrote them, and nothing (black) elsewhere."""
        return np.where(self.public[..., None], self.layer, np.uint8(0))


def replace(
    frames: Frames,
    found: Scene,
    bodies: Sequence[SkinnedBody],
    rules: Rules,
    light: Light,
    *,
    rate: float = 25.0,
    eraser: Eraser = erase,
    refiner: Refine | None = None,
) -> Replaced:
    """Replace everyone who was found; ``bodies[i]`` stands for track i, ``rate`` is frames a second."""
    work = Replacement(
        frames, found, bodies, rules, light, rate=rate, eraser=eraser, refiner=refiner
    )
    made = list(work)

    def all_of(name: str) -> npt.NDArray[np.generic]:
        return np.stack([getattr(each, name) for each in made])

    hide = EraseMask(all_of("inside"), all_of("weight"))  # type: ignore[arg-type]
    return Replaced(
        all_of("image"), all_of("public"), all_of("layer"), hide, work.erased,  # type: ignore[arg-type]
        all_of("blanked"), work.errors,  # type: ignore[arg-type]
    )  # fmt: skip


class Replacement:
    """One window of a recording whose people are replaced; iterating gives frame after frame.

    ``eraser`` fills the pixels that must go; ``refiner`` repaints the avatars inside their outline, from
    the drawings alone; ``tint`` is the colour of the room's light against the renderer's.
    """

    def __init__(
        self,
        frames: Sequence[Image] | Frames,
        found: Scene,
        bodies: Sequence[SkinnedBody],
        rules: Rules,
        light: Light,
        *,
        rate: float = 25.0,
        eraser: Eraser = erase,
        refiner: Refine | None = None,
        tint: Colour | None = None,
    ) -> None:
        height, width = frames[0].shape[:2]
        if found.masks.shape != (len(frames), height, width):
            raise ProtectError(
                f"Expected person masks shaped {(len(frames), height, width)}, got "
                f"{found.masks.shape}: every frame needs its mask."
            )
        self._frames, self._found, self._rules, self._light = frames, found, rules, light
        self._tint = tint
        self._motions: list[_Acting] = [
            _acting(track, body, found, rules, rate)
            for track, body in zip(found.tracks, bodies, strict=True)
        ]
        self.errors = tuple(each.error for each in self._motions)
        self.figures = [DrawnBody(each.joints, each.there) for each in self._motions]
        self._seen = recover_missed_people(frames, found)
        self._packed = [  # bits: of large pictures there are many
            np.packbits(grown_people(self._wanted(t), self._regions(t), rules.grow))
            for t in range(len(frames))
        ]
        hidden = np.empty(found.masks.shape, bool)
        for t in range(len(frames)):
            hidden[t] = rim(self._inside(t), rules.feather) > 0
        self.erased = eraser(frames, hidden)
        self._people = _surely_people(found, everything=rules.missed == "fail")
        self._drawings: list[Drawing] | None = None
        self._painted: Frames | None = None
        if refiner is not None:
            self._drawings = [self._drawn(t) for t in range(len(frames))]
            self._painted = refiner(self._drawings, self.figures, found.camera)

    def __iter__(self) -> Iterator[ComposedFrame]:
        return map(self._composed, range(len(self._frames)))

    def _wanted(self, t: int) -> Mask:
        """Everything that belongs to a person on frame ``t``."""
        wanted = self._seen[t].copy()
        for each in self._motions:
            if each.track.present[t]:
                slim = _SLIM if each.track.regions else 1.0
                wanted |= outline(each.track.joints[t], self._found.camera, slim=slim)
        return np.asarray(wanted)

    def _regions(self, t: int) -> list[OwnPixels]:
        return [region for each in self._motions if (region := each.region(t)) is not None]

    def _inside(self, t: int) -> Mask:
        """What is erased entirely: people on this frame and its neighbours, grown."""
        hold, shape = self._rules.hold, self._found.masks.shape[1:]
        around = np.bitwise_or.reduce(self._packed[max(0, t - hold) : t + hold + 1])
        return np.unpackbits(around, count=shape[0] * shape[1]).view(bool).reshape(shape)

    def _drawn(self, t: int) -> Drawing:
        here = [each for each in self._motions if each.there[t]]
        drawing = draw(
            [each.body.mesh(each.motion, t) for each in here],
            self._found.camera,
            light=self._light,
            samples=self._rules.samples,
        )
        _keep_near(drawing, [each.region(t) for each in here])
        return drawing

    def _composed(self, t: int) -> ComposedFrame:
        drawing = self._drawn(t) if self._drawings is None else self._drawings[t]
        inside = self._inside(t)
        weight = rim(inside, self._rules.feather)
        filled, _ = self.erased.frame(t)
        calm = _mixed(filled, self._frames[t], weight)
        feet = [
            _shadows(each.joints[t], self._found.camera) for each in self._motions if each.there[t]
        ]
        _contact_shadows(calm, [spot for each in feet for spot in each], drawing)
        standing_in = self._without_avatar(t, drawing)
        if standing_in.any() and self._rules.missed == "fail":
            raise ProtectError(
                f"A person was found and could not be replaced on frame {t} of a window: "
                "nothing was released. Use missed=blank to show such people as grey silhouettes."
            )
        _stand_in(calm, standing_in)
        painted = None if self._painted is None else self._painted[t]
        layer = pictured(drawing) if painted is None else painted
        shown = (
            layer if painted is not None or self._tint is None else pictured(drawing, self._tint)
        )
        inside |= drawing.touched
        public = drawing.mask & inside
        return ComposedFrame(
            merge(calm, drawing, shown), public, layer, inside, weight, standing_in
        )

    def _without_avatar(self, t: int, drawing: Drawing) -> Mask:
        """The own pixels of people in whose place no avatar stands."""
        left = np.zeros(drawing.alpha.shape, bool)
        known = np.zeros(drawing.alpha.shape, bool)
        for each in self._motions:
            region = each.region(t)
            if region is None:
                continue
            known[region.window] |= region.cut
            if not each.there[t] and (region.sure or self._rules.missed == "fail"):
                left[region.window] |= region.cut
        rest = self._seen[t] & ~known & self._people
        if rest.any():
            left |= unreplaced(rest[None], (drawing.touched | known)[None])[0]
        return left & ~drawing.mask


def _surely_people(found: Scene, *, everything: bool) -> Mask:
    """Where somebody may stand in for what was found again, by its looks alone, on frames without a person: in the
    outlines of those who were surely there, and anywhere if people were not told apart."""
    regions = [region for track in found.tracks for region in track.regions]
    out = np.full(found.masks.shape[1:], everything or not regions)
    for region in regions:
        if region is not None and region.sure:
            out[region.window] |= region.cut
    return out


@dataclass(frozen=True)
class _Acting:
    """A body that plays one track."""

    track: Track
    body: SkinnedBody
    motion: Motion
    joints: npt.NDArray[np.float64]
    there: Mask  # frames on which it is drawn
    error: float

    def region(self, t: int) -> OwnPixels | None:
        return self.track.regions[t] if self.track.regions else None


def _acting(track: Track, body: SkinnedBody, found: Scene, rules: Rules, rate: float) -> _Acting:
    if not track.present.any():  # found, and never posed
        rest = Motion(
            np.tile(np.eye(3), (len(track.joints), 24, 1, 1)), np.zeros((len(track.joints), 3))
        )
        return _Acting(
            track, body, rest, np.asarray(track.joints, np.float64), track.present, float("nan")
        )
    shaped = body
    if rules.proportions == "person":
        shaped = stretched(body, proportions(track.joints, body))
    made = fit(track.joints, shaped, smooth=rules.smooth * rate, floor=found.floor)
    there = bridged(track.present, _GAP)
    if track.regions:  # told apart: not drawn where nobody was found
        there &= track.found
    return _Acting(track, shaped, made.motion, shaped.joints(made.motion), there, made.error)


def pictured(drawing: Drawing, tint: Colour | None = None) -> Image:
    """The colours of a drawing, not yet laid over anything."""
    out = np.zeros((*drawing.alpha.shape, 3), np.uint8)
    place = extent(drawing.touched)
    if place is not None:
        colour = drawing.colour[place] / np.maximum(drawing.alpha[place][..., None], 1e-6)
        out[place] = to_srgb(colour if tint is None else colour * tint)
    return out


def merge(behind: Image, drawing: Drawing, painted: Image | None = None) -> Image:
    """Lay a drawing over a picture; where alpha is 1 the picture has no part in the result.

    ``painted`` takes the place of the drawing's colours.
    """
    place = extent(drawing.touched)
    if place is None:
        return behind
    out, colour = behind.copy(), (pictured(drawing) if painted is None else painted)[place]
    alpha = drawing.alpha[place][..., None]
    mixed = np.rint(colour * alpha + behind[place] * (1 - alpha)).astype(np.uint8)
    out[place] = np.where(alpha == 1, colour, mixed)
    return out


def _mixed(filled: Image, shown: Image, weight: Colour) -> Image:
    """The filling where weight is 1, the frame where it is 0."""
    out = filled.copy()
    place = extent((weight > 0) & (weight < 1))
    if place is not None:
        w = weight[place][..., None]
        out[place] = np.rint(filled[place] * w + shown[place] * (1 - w)).astype(np.uint8)
    return out


def _keep_near(drawing: Drawing, regions: Sequence[OwnPixels | None]) -> None:
    """Show avatars no farther than their people reach: who stands behind something stays behind it."""
    shape = drawing.alpha.shape
    for number, region in enumerate(regions):
        if region is None:
            continue
        reach = max(3, round(_REACH * region.height))
        place = extent(drawing.owner == number, reach + _EDGE)
        if place is None:
            continue
        own = np.zeros(shape, bool)
        own[region.window] = region.cut
        away = cv2.distanceTransform(1 - own[place].astype(np.uint8), cv2.DIST_L2, 5)
        if not own[place].any():
            away[:] = shape[0] + shape[1]
        soft = np.clip(1 - (away - reach) / _EDGE, 0, 1)
        factor = np.where(drawing.owner[place] == number, soft, np.float32(1)).astype(np.float32)
        drawing.alpha[place] *= factor
        drawing.colour[place] *= factor[..., None]


def _stand_in(calm: Image, own: Mask) -> None:
    """A soft grey silhouette, inside the outline of whoever could not be posed."""
    place = extent(own, 2)
    if place is None:
        return
    part = own[place].astype(np.uint8)
    width = max(1.0, _SOFT * part.shape[0])
    away = cv2.distanceTransform(np.pad(part, 1), cv2.DIST_L2, 3)[1:-1, 1:-1]
    alpha = np.clip(away / width, 0, 1)[..., None].astype(np.float32)
    mixed = GREY * alpha + calm[place] * (1 - alpha)
    calm[place] = np.rint(mixed).astype(np.uint8)


_Spot = tuple[tuple[slice, slice], npt.NDArray[np.float64]]


def _shadows(joints: npt.NDArray[np.float64], camera: Camera) -> Iterator[_Spot]:
    """A soft spot under each foot that is down: where, and how dark."""
    feet = [(joints[INDEX[f"{s}_ankle"]] + 2 * joints[INDEX[f"{s}_toe"]]) / 3
            for s in ("left", "right")]  # fmt: skip
    lowest = min(foot[1] for foot in feet)
    for foot in feet:
        depth = float(camera.to_camera(foot)[2])
        down = float(np.exp(-max(foot[1] - lowest, 0) / 0.06))
        if depth < 0.3 or down < 0.1:
            continue
        x, y = camera.project(foot - [0.0, 0.03, 0.0])
        a, b = (max(2, round(size * camera.focal / depth)) for size in _SOLE)
        rows = slice(max(0, int(y) - 2 * b), min(camera.height, int(y) + 2 * b + 1))
        columns = slice(max(0, int(x) - 2 * a), min(camera.width, int(x) + 2 * a + 1))
        if rows.stop > rows.start and columns.stop > columns.start:
            v, u = np.mgrid[rows, columns]
            yield (
                (rows, columns),
                np.exp(-(((u - x) / a) ** 2) - ((v - y) / b) ** 2) * _SHADOW * down,
            )


def _contact_shadows(calm: Image, spots: Sequence[_Spot], drawing: Drawing) -> None:
    """Darken the floor under feet; the darkest spot counts where several meet."""
    shade = np.zeros(calm.shape[:2])
    for place, spot in spots:
        if drawing.touched[place].any():  # where the foot itself is hidden, so is its shadow
            shade[place] = np.maximum(shade[place], spot)
    place_all = extent(shade > 0.004)
    if place_all is not None:
        part = calm[place_all] * (1 - shade[place_all][..., None])
        calm[place_all] = np.rint(part).astype(np.uint8)


def bridged(present: npt.NDArray[np.bool_], gap: int) -> npt.NDArray[np.bool_]:
    """A track with its holes of up to ``gap`` frames closed."""
    row = present.astype(np.uint8)[None]
    padded = np.pad(row, ((0, 0), (gap, gap)))
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, np.ones((1, gap + 1), np.uint8))
    return np.asarray((closed[0, gap : gap + len(present)] > 0) | present)


def covered(made: ComposedFrame, seen: Mask, rules: Rules) -> ComposedFrame:
    """A frame without what is still ``seen`` of people in it: a smooth patch, of nothing but its surroundings.

    Public pixels are the renderer's whatever is seen in them: they stay as they are.
    """
    hidden = erase_mask(seen[None], hold=0, grow=rules.grow, feather=0).inside[0] & ~made.public
    image, place = made.image.copy(), extent(hidden, max(hidden.shape) // 16 + 1)
    if place is not None:
        image[place] = fill_around(image[place], hidden[place], texture=False)
    return dataclasses.replace(made, image=image, blanked=made.blanked | hidden)
