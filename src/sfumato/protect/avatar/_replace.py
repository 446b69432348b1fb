"""Algorithm 1 of the avatar paper, repaired (SOUNDNESS 2.3): from found people to replaced people.

poses -> bodies -> drawing with alpha and mask r; detected masks -> q, held, grown, feathered; inpaint
q away; draw the avatars over it. The public mask is r AND q AND alpha == 1: its pixels are written by
the renderer alone, from body, pose, camera and a light that is fixed beforehand. They depend on the
recording through the pose only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body import (
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
from sfumato.protect._method import ProtectError
from sfumato.protect.avatar._conditions import DrawnBody
from sfumato.protect.avatar._erase_mask import EraseMask, erase_mask, unreplaced
from sfumato.protect.avatar._inpaint import Erased, erase
from sfumato.protect.avatar._recover_missed import recover_missed_people
from sfumato.protect.avatar._scene import Scene, outline

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
Eraser = Callable[[Frames, Masks], Erased]
Refine = Callable[[Sequence[Drawing], Sequence[DrawnBody], Camera], Frames]
GREY = 128
_GAP = 30  # frames for which a lost person is thought to go on


@dataclass(frozen=True)
class Rules:
    """How people are replaced; all of it is public."""

    missed: str = "blank"
    hold: int = 1
    grow: float = 0.02
    feather: float = 0.012
    smooth: float = 0.04  # seconds
    proportions: str = "person"
    samples: int = 3


@dataclass(frozen=True)
class Replaced:
    """A recording without its people. ``public`` marks pixels that the renderer alone wrote."""

    frames: Frames
    public: Masks
    erase_mask: EraseMask
    erased: Erased
    blanked: Masks
    errors: tuple[float, ...]  # of the fit of every track, in metres

    def public_layer(self) -> Frames:
        """Public pixels, and nothing (black) elsewhere."""
        return np.where(self.public[..., None], self.frames, np.uint8(0))


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
    """Replace everyone who was found; ``bodies[i]`` stands for track i, ``rate`` is frames a second.

    ``eraser`` fills the pixels that must go; ``refiner`` repaints the avatars inside their outline,
    from the drawings alone.
    """
    if found.masks.shape != frames.shape[:3]:
        raise ProtectError(
            f"Expected person masks shaped {frames.shape[:3]}, got {found.masks.shape}: "
            "every frame needs its mask."
        )
    drawings, figures, errors = _drawn(found, bodies, rules, light, rate)
    painted = None if refiner is None else refiner(drawings, figures, found.camera)
    touched = np.stack([drawing.touched for drawing in drawings])
    outlines = _outlines(found)
    seen = recover_missed_people(frames, found.masks, outlines)
    wanted = seen | touched | outlines
    hide = erase_mask(wanted, hold=rules.hold, grow=rules.grow, feather=rules.feather)
    left = unreplaced(seen, touched)
    if left.any() and rules.missed == "fail":
        raise ProtectError(
            f"A person was found and could not be replaced in {int(left.any((1, 2)).sum())} frames: "
            "nothing was released. Use missed=blank to grey such regions out."
        )
    blanked = erase_mask(left, hold=rules.hold, grow=rules.grow, feather=0).inside & hide.inside
    erased = eraser(frames, hide.weight > 0)
    out = np.empty_like(frames)
    public = np.zeros(frames.shape[:3], bool)
    for t, drawing in enumerate(drawings):
        weight = hide.weight[t][..., None]
        calm = np.rint(erased.frames[t] * weight + frames[t] * (1 - weight)).astype(np.uint8)
        calm[blanked[t]] = GREY
        out[t] = merge(calm, drawing, None if painted is None else painted[t])
        public[t] = drawing.mask & hide.inside[t]
    return Replaced(out, public, hide, erased, blanked, errors)


def grey_out(made: Replaced, seen: Masks, rules: Rules) -> Replaced:
    """What was made, without what is still ``seen`` (T, H, W) of people in it.

    Public pixels are the renderer's whatever is seen in them: they stay as they are.
    """
    if not seen.any():
        return made
    if rules.missed == "fail":
        raise ProtectError(
            f"A face of the recording was found in {int(seen.any((1, 2)).sum())} frames of the output: "
            "nothing was released. Use missed=blank to grey such regions out."
        )
    greyed = erase_mask(seen, hold=rules.hold, grow=rules.grow, feather=0).inside & ~made.public
    frames = np.where(greyed[..., None], np.uint8(GREY), made.frames)
    return dataclasses.replace(made, frames=frames, blanked=made.blanked | greyed)


def merge(behind: Frames, drawing: Drawing, painted: Frames | None = None) -> Frames:
    """Lay a drawing over a picture; where alpha is 1 the picture has no part in the result.

    ``painted`` takes the place of the drawing's colours.
    """
    alpha = drawing.alpha[..., None]
    colour = to_srgb(drawing.colour / np.maximum(alpha, 1e-6)) if painted is None else painted
    mixed = np.rint(colour * alpha + behind * (1 - alpha)).astype(np.uint8)
    return np.where(alpha == 1, colour, mixed)


def _drawn(
    found: Scene, bodies: Sequence[SkinnedBody], rules: Rules, light: Light, rate: float
) -> tuple[list[Drawing], list[DrawnBody], tuple[float, ...]]:
    motions: list[tuple[SkinnedBody, Motion, npt.NDArray[np.bool_]]] = []
    errors = []
    for track, body in zip(found.tracks, bodies, strict=True):
        shaped = body
        if rules.proportions == "person":
            shaped = stretched(body, proportions(track.joints, body))
        made = fit(track.joints, shaped, smooth=rules.smooth * rate, floor=found.floor)
        motions.append((shaped, made.motion, bridged(track.present, _GAP)))
        errors.append(made.error)
    drawings = [
        draw(
            [body.mesh(motion, t) for body, motion, there in motions if there[t]],
            found.camera,
            light=light,
            samples=rules.samples,
        )
        for t in range(len(found.masks))
    ]
    figures = [DrawnBody(body.joints(motion), there) for body, motion, there in motions]
    return drawings, figures, tuple(errors)


def bridged(present: npt.NDArray[np.bool_], gap: int) -> npt.NDArray[np.bool_]:
    """A track with its holes of up to ``gap`` frames closed."""
    row = present.astype(np.uint8)[None]
    padded = np.pad(row, ((0, 0), (gap, gap)))
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, np.ones((1, gap + 1), np.uint8))
    return np.asarray((closed[0, gap : gap + len(present)] > 0) | present)


def _outlines(found: Scene) -> Masks:
    """Where the poses say that people are: a person that segmentation missed is erased as well."""
    out = np.zeros_like(found.masks)
    for track in found.tracks:
        for t in np.flatnonzero(track.present):
            out[t] |= outline(track.joints[t], found.camera)
    return out
