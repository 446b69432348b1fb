"""Erasing people: first what other frames saw of the background, then what lies around.

With a camera at rest the background is the median of every pixel's uncovered values, remembered from one
window of frames to the next. With a moving camera, frames are aligned by points followed outside people,
and a hidden pixel takes the median of what other frames show there. What nobody ever saw is filled from
around, and then stays as it was filled. Where frame and filling meet, the filling is moved to the frame's light.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

from sfumato.media import Image
from sfumato.protect.avatar._erase_mask import extent
from sfumato.protect.avatar._patches import synthesise

Frames = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.bool_]
Warp = npt.NDArray[np.float64]
_WINDOW = 7  # half the side of the window in which a point is followed
_FEWEST = 12  # points that must be followed before anything is concluded
_MANY = 60  # points from which on a homography is looked for
_STILL = 0.7  # pixels that a camera at rest may seem to move
_FOLLOWED_AT = 480  # pixels of the longer side at which the camera's motion is looked for
_FILLED_AT = 420  # and at which a hole is filled with texture
_VIEWS = (
    2,
    4,
    7,
    11,
    16,
    22,
    30,
    45,
)  # frames away, before and after, in which a hole is looked for
_DOUBT = 30.0  # squared grey levels at which texture and membrane count alike
_SIDEWAYS = 8.0  # how much stiffer the membrane is from side to side
_UNKNOWNS = 20_000  # pixels of a hole that are solved for at once
_MOST = 31  # frames that a median is taken of
_PIXELS = 200_000  # of a median at a time, to bound memory
_SAMPLES = 40_000  # pixels by which light is compared
_AROUND = 8  # pixels around a hole in which filling and frame are compared
_OTHER = 32.0  # grey levels between them there: something else is before the camera now
_RELAXED = 4  # rounds in which a smooth filling of one size is drawn to its rim
_SEAM = 32.0  # grey levels by which a filling is moved to fit its surroundings
_SEAM_AT = 96  # pixels of the side at which that is worked out
_SAME_ROOM = 12.0  # grey levels between two windows of one still camera


class Erased:
    """Frames without people, made one at a time: ``frame(t)`` gives the picture and which of its pixels
    were guessed from their surroundings. Ask for frames in their order."""

    def __init__(
        self, count: int, fill: Callable[[int], tuple[Image, Mask]], still_camera: bool
    ) -> None:
        self._count, self._fill, self.still_camera = count, fill, still_camera
        self._all: tuple[Frames, Masks] | None = None

    def frame(self, t: int) -> tuple[Image, Mask]:
        if self._all is not None:
            return self._all[0][t], self._all[1][t]
        return self._fill(t)

    def _everything(self) -> tuple[Frames, Masks]:
        if self._all is None:
            made = [self._fill(t) for t in range(self._count)]
            self._all = np.stack([each[0] for each in made]), np.stack([each[1] for each in made])
        return self._all

    @property
    def frames(self) -> Frames:
        return self._everything()[0]

    @property
    def unseen(self) -> Masks:
        return self._everything()[1]


def erase(frames: Sequence[Image] | Frames, hidden: Masks) -> Erased:
    """Fill the hidden pixels (T, H, W) of frames (T, H, W, 3)."""
    return SceneEraser()(frames, hidden)


class SceneEraser:
    """Erases one window of a recording after the other, and remembers the room of a still camera."""

    def __init__(self) -> None:
        self._room: Image | None = None

    def __call__(self, frames: Sequence[Image] | Frames, hidden: Masks) -> Erased:
        warps = camera_motion(frames, hidden)
        if warps is not None:
            self._room = None
            return Erased(len(frames), _Moving(frames, hidden, warps), False)
        plate, never, light = self._plate(frames, hidden)

        def fill(t: int) -> tuple[Image, Mask]:
            place = extent(hidden[t], _AROUND)
            if place is None:
                return frames[t], np.zeros(hidden[t].shape, bool)
            out, hole, guessed = frames[t].copy(), hidden[t][place], hidden[t] & never
            lit = np.clip(plate[place] + light[t], 0, 255).astype(np.uint8)
            other = contradicted(lit, frames[t][place], hole, ~hole)
            lit = seamless(lit, frames[t][place], hole)
            out[place][hole] = lit[hole]
            if other.any():
                out[place] = fill_around(out[place], other, texture=False)
                guessed[place] |= other
            return out, guessed

        return Erased(len(frames), fill, True)

    def _plate(
        self, frames: Sequence[Image] | Frames, hidden: Masks
    ) -> tuple[Image, Mask, npt.NDArray[np.int16]]:
        """The empty room in the light of the first frame, where it was never seen, and how the light
        changes."""
        light = _light(frames, hidden)
        plate, never = background(frames, hidden, light)
        if never.any():
            known = self._remembered(plate, hidden[0])
            plate = fill_around(plate, never) if known is None else np.where(
                never[..., None], known, plate
            )  # fmt: skip
        self._room = plate
        return plate, never, light

    def _remembered(self, plate: Image, hidden: Mask) -> Image | None:
        """The room of the last window in the light of this one, if it is the same room."""
        if self._room is None or self._room.shape != plate.shape:
            return None
        shown = np.flatnonzero(~hidden.ravel())
        shown = shown[:: max(1, len(shown) // _SAMPLES)]
        if not len(shown):
            return None
        gap = plate.reshape(-1, 3)[shown].astype(np.int16) - self._room.reshape(-1, 3)[shown]
        offset = np.median(gap, axis=0).astype(np.int16)
        if np.mean(np.abs(gap - offset)) > _SAME_ROOM:
            return None
        return np.asarray(np.clip(self._room + offset, 0, 255).astype(np.uint8))


def background(
    frames: Sequence[Image] | Frames, hidden: Masks, light: npt.NDArray[np.int16] | None = None
) -> tuple[Image, Mask]:
    """The median picture of what was seen uncovered, and where that was never.

    Of many frames some are taken, evenly; a pixel that these do not show takes the last frame that does.
    """
    count = len(frames)
    offsets = np.zeros((count, 3), np.int16) if light is None else light
    out, ever = frames[0].copy(), np.asarray(hidden.any(axis=0))
    never = np.asarray(hidden.all(axis=0))
    if light is None and count <= _MOST:
        ever = np.ones_like(ever)  # the plain median, of every pixel
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST)).astype(int))
    spots = np.flatnonzero(ever)
    flat = out.reshape(-1, 3)
    for start in range(0, len(spots), _PIXELS):
        part = spots[start : start + _PIXELS]
        values = np.stack([
            np.clip(frames[t].reshape(-1, 3)[part] - offsets[t], 0, 255) for t in chosen
        ]).astype(np.uint8)  # fmt: skip
        seen = np.stack([~hidden[t].ravel()[part] for t in chosen])
        flat[part] = _masked_median(values, seen)
        missing = part[~seen.any(axis=0)]
        for t in range(count):
            there = missing[~hidden[t].ravel()[missing]]
            flat[there] = np.clip(frames[t].reshape(-1, 3)[there] - offsets[t], 0, 255)
    out[never] = 0
    return out, never


def _masked_median(values: Frames, valid: Masks) -> Frames:
    """The lower median over the first axis of the valid values; 0 where there is none."""
    # invalid ones sort to the end; a valid 255 sorts there too, and is as good as any
    ranked = np.where(valid[..., None], values, np.uint8(255))
    ranked.sort(axis=0)
    count = valid.sum(axis=0)
    middle = np.maximum((count - 1) // 2, 0)[None, ..., None]
    picked = np.take_along_axis(ranked, np.broadcast_to(middle, (1, *ranked.shape[1:])), 0)[0]
    return np.where((count > 0)[..., None], picked, 0).astype(np.uint8)


def _light(frames: Sequence[Image] | Frames, hidden: Masks) -> npt.NDArray[np.int16]:
    """How much brighter each frame is than the first, per channel: lamps and exposure change.

    The median difference of what both show uncovered; where that is next to nothing, the light of the frame
    before. Differences are not added up along time: small errors would be as well.
    """
    out = np.zeros((len(frames), 3), np.int16)
    stride = max(1, hidden[0].size // _SAMPLES)
    first = frames[0].reshape(-1, 3)[::stride].astype(np.int16)
    bare = ~hidden[0].ravel()[::stride]
    for t in range(1, len(frames)):
        both = bare & ~hidden[t].ravel()[::stride]
        if both.sum() >= max(16, 0.02 * both.size):
            now = frames[t].reshape(-1, 3)[::stride].astype(np.int16)
            out[t] = np.median(now[both] - first[both], axis=0)
        else:
            out[t] = out[t - 1]
    return out


def seamless(filled: Image, shown: Image, hole: Mask) -> Image:
    """The filling moved to the light of what is shown around the hole, smoothly and by a little."""
    moved = _from_ring(shown.astype(np.float32) - filled, _ring(hole), _SEAM)
    if moved is None:
        return filled
    return np.asarray(np.clip(np.rint(filled + moved), 0, 255), np.uint8)


def contradicted(filled: Image, shown: Image, hole: Mask, known: Mask) -> Mask:
    """Those parts of a hole around which the frame shows something else than what would fill it: what other
    frames show there is not what is behind the person now. ``known`` are pixels of the filling to go by."""
    ring = _ring(hole) & known
    side = 2 * _AROUND + 1
    share = cv2.blur(ring.astype(np.float32), (side, side))[..., None]
    # means of the neighbourhood are compared: an edge that lies a pixel beside is no other thing
    gap: Any = cv2.blur((filled.astype(np.float32) - shown) * ring[..., None], (side, side))
    spread = _from_ring(np.abs(gap) / np.maximum(share, 1e-3), ring, 255)
    return np.zeros(hole.shape, bool) if spread is None else hole & (spread.max(-1) > _OTHER)


def _ring(hole: Mask) -> Mask:
    """What lies around a hole."""
    side = 2 * _AROUND + 1
    return np.asarray(
        (cv2.dilate(hole.view(np.uint8), np.ones((side, side), np.uint8)) > 0) & ~hole
    )


def _from_ring(
    values: npt.NDArray[np.float32], ring: Mask, most: float
) -> npt.NDArray[np.float32] | None:
    """Values of the ring around a hole, smoothly continued into it; None where nothing is known."""
    share = ring.astype(np.float32)
    small = min(1.0, _SEAM_AT / max(ring.shape))
    size = max(2, round(ring.shape[1] * small)), max(2, round(ring.shape[0] * small))
    value: Any = cv2.resize(values * share[..., None], size, interpolation=cv2.INTER_AREA)
    share = np.asarray(cv2.resize(share, size, interpolation=cv2.INTER_AREA))
    known = share > 0.05
    if not known.any():
        return None
    mean = np.clip(value / np.maximum(share, 1e-6)[..., None], -most, most)
    mean[~known] = 0
    whole: Any = cv2.resize(
        _pull_push(mean, known), ring.shape[::-1], interpolation=cv2.INTER_LINEAR
    )
    return np.asarray(whole, np.float32)


class _Moving:
    """Fills one frame of a moving camera after the other."""

    def __init__(self, frames: Sequence[Image] | Frames, hidden: Masks, warps: list[Warp]) -> None:
        self._frames, self._hidden, self._warps = frames, hidden, warps
        self._last: tuple[int, Image, Mask] | None = (
            None  # the frame before: picture, guessed pixels
        )

    def __call__(self, t: int) -> tuple[Image, Mask]:
        hidden = self._hidden[t]
        place = extent(hidden, _AROUND)
        unseen = np.zeros(hidden.shape, bool)
        if place is None:
            return self._frames[t], unseen
        hole, out = hidden[place], self._frames[t].copy()
        found, seen = self._from_others(t, place, hole | _ring(hole))
        other = contradicted(found, out[place], hole, seen)
        seen &= hole
        filled = out[place].copy()
        filled[seen] = found[seen]
        unseen[place] = hole & ~seen & ~other
        self._from_before(t, place, filled, unseen[place])
        filled = fill_around(filled, other, texture=False)
        unseen[place] |= other
        out[place][hole] = seamless(filled, self._frames[t][place], hole)[hole]
        self._last = t, out, unseen
        return out, unseen

    def _from_others(self, t: int, place: tuple[slice, slice], hole: Mask) -> tuple[Image, Mask]:
        """The median of what other frames show of the hole, and where they show anything."""
        rows, columns = place
        corner = np.array([[1, 0, -columns.start], [0, 1, -rows.start], [0, 0, 1]], np.float64)
        size = (hole.shape[1], hole.shape[0])
        back, views, valid = np.linalg.inv(self._warps[t]), [], []
        for away in _VIEWS:
            for s in (t - away, t + away):
                if 0 <= s < len(self._frames):
                    across = corner @ back @ self._warps[s]
                    shown = (~self._hidden[s]).view(np.uint8)
                    views.append(cv2.warpPerspective(self._frames[s], across, size)[hole])
                    there = cv2.warpPerspective(shown, across, size, flags=cv2.INTER_NEAREST)
                    valid.append(there[hole] > 0)
        out, seen = np.zeros((*hole.shape, 3), np.uint8), np.zeros(hole.shape, bool)
        if views:
            each = np.stack(valid)
            out[hole] = _masked_median(np.stack(views), each)
            seen[hole] = each.any(axis=0)
        return out, seen

    def _from_before(self, t: int, place: tuple[slice, slice], filled: Image, unseen: Mask) -> None:
        """What nobody saw goes on as it was made up before; only what is new is made up."""
        if not unseen.any():
            return
        rows, columns = place
        new = unseen.copy()
        if self._last is not None and self._last[0] == t - 1:
            corner = np.array([[1, 0, -columns.start], [0, 1, -rows.start], [0, 0, 1]], np.float64)
            across = corner @ np.linalg.inv(self._warps[t]) @ self._warps[t - 1]
            size = (unseen.shape[1], unseen.shape[0])
            shown = cv2.warpPerspective(self._last[1], across, size)
            made = cv2.warpPerspective(
                self._last[2].view(np.uint8), across, size, flags=cv2.INTER_NEAREST
            ) > 0  # fmt: skip
            filled[unseen & made] = shown[unseen & made]
            new &= ~made
        if new.any():
            # texture made anew in every frame would flicker: only a large new hole gets it
            texture = new.sum() > 0.5 * unseen.sum()
            filled[:] = fill_around(filled, new, texture=texture)


def fill_around(image: Frames, missing: npt.NDArray[np.bool_], *, texture: bool = True) -> Frames:
    """Spatial inpainting: a smooth fill from coarse to fine, then texture of the surroundings."""
    if not missing.any():
        return image
    if missing.all():
        return np.full_like(image, 128)
    factor = _FILLED_AT / max(missing.shape)
    if factor < 0.8:
        return _filled_small(image, missing, factor, texture)
    smooth = _pull_push(image.astype(np.float32), ~missing)
    if texture:
        # texture hides where the hole was, a membrane errs less where no texture fits
        made, doubt = synthesise(image, missing, smooth)
        trust = (_DOUBT / (_DOUBT + doubt))[..., None]
        smooth = trust * made + (1 - trust) * _membrane(image, missing, smooth)
    out = image.copy()
    out[missing] = np.clip(np.rint(smooth[missing]), 0, 255).astype(np.uint8)
    return out


def _filled_small(
    image: Frames, missing: npt.NDArray[np.bool_], factor: float, texture: bool
) -> Frames:
    """The hole of a large picture, filled at a smaller size: it is softer than its surroundings."""
    size = round(missing.shape[1] * factor), round(missing.shape[0] * factor)
    hole = cv2.resize(missing.astype(np.uint8), size, interpolation=cv2.INTER_AREA) > 0
    hole |= cv2.resize(missing.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    made = fill_around(np.asarray(small), hole, texture=texture)
    whole = cv2.resize(made, missing.shape[::-1], interpolation=cv2.INTER_CUBIC)
    return np.where(missing[..., None], whole, image).astype(np.uint8)


def _membrane(
    image: Frames, missing: npt.NDArray[np.bool_], guess: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The hole as a sheet stretched from its rim, stiffer sideways: rooms go on from side to side.

    Large holes are solved at half the size: between rims a stretched sheet has no detail.
    """
    if missing.sum() > _UNKNOWNS:
        half = ((image.shape[1] + 1) // 2, (image.shape[0] + 1) // 2)
        smaller: Any = cv2.resize(
            np.where(missing[..., None], guess, image), half, interpolation=cv2.INTER_AREA
        )
        hole = cv2.resize(missing.astype(np.uint8), half, interpolation=cv2.INTER_AREA) > 0
        coarse = _membrane(np.clip(smaller, 0, 255).astype(np.uint8), hole, smaller)
        size = (image.shape[1], image.shape[0])
        return np.asarray(cv2.resize(coarse, size, interpolation=cv2.INTER_LINEAR), np.float32)
    height, width = missing.shape
    y, x = np.nonzero(missing)
    number = np.full((height, width), -1)
    number[y, x] = np.arange(len(y))
    pull, known = np.zeros(len(y)), np.zeros((len(y), 3))
    rows, columns, values = [], [], []
    for down, right, stiffness in (
        (0, 1, _SIDEWAYS),
        (0, -1, _SIDEWAYS),
        (1, 0, 1.0),
        (-1, 0, 1.0),
    ):
        there = (y + down >= 0) & (y + down < height) & (x + right >= 0) & (x + right < width)
        own = np.flatnonzero(there)
        beside = number[y[own] + down, x[own] + right]
        pull[own] += stiffness
        free = beside >= 0
        rows.append(own[free])
        columns.append(beside[free])
        values.append(np.full(int(free.sum()), -stiffness))
        rim = own[~free]
        known[rim] += stiffness * image[y[rim] + down, x[rim] + right]
    shape = (len(y), len(y))
    joined = tuple(np.concatenate(each) for each in (rows, columns))
    system = sparse.csc_matrix((np.concatenate(values), joined), shape=shape) + sparse.diags(pull)
    out = np.asarray(image, np.float32).copy()
    out[y, x] = splu(system.tocsc()).solve(known)
    return out


def _pull_push(
    image: npt.NDArray[np.float32], known: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Average known pixels down a pyramid until every cell has a value, then bring them back up."""
    weight = known.astype(np.float32)
    levels: list[tuple[Any, Any]] = [(image * weight[..., None], weight)]
    while min(levels[-1][1].shape) > 2 and (levels[-1][1] == 0).any():
        value, share = levels[-1]
        size = ((share.shape[1] + 1) // 2, (share.shape[0] + 1) // 2)
        levels.append((
            cv2.resize(value, size, interpolation=cv2.INTER_AREA),
            cv2.resize(share, size, interpolation=cv2.INTER_AREA),
        ))  # fmt: skip
    value, share = levels[-1]
    filled = value / np.maximum(share, 1e-6)[..., None]
    if (share == 0).any():
        filled[share == 0] = value.sum((0, 1)) / max(float(share.sum()), 1e-6)
    for value, share in reversed(levels[:-1]):
        size = (share.shape[1], share.shape[0])
        above = cv2.resize(filled, size, interpolation=cv2.INTER_LINEAR)
        trust = np.minimum(share, 1)[..., None]
        own = value / np.maximum(share, 1e-6)[..., None]
        filled = trust * own + (1 - trust) * above
        for _ in range(_RELAXED):
            filled = trust * own + (1 - trust) * cv2.blur(filled, (3, 3))
    return np.asarray(filled, dtype=np.float32)


def camera_motion(frames: Sequence[Image] | Frames, hidden: Masks) -> list[Warp] | None:
    """Maps that take each frame's pixels to the first frame's, or None for a still camera."""
    height, width = hidden.shape[1:]
    factor = min(1.0, _FOLLOWED_AT / max(height, width))
    size = round(width * factor), round(height * factor)
    corners = np.array([[0, 0], [size[0], 0], list(size), [0, size[1]]], np.float64)
    apart = np.ones((2 * _WINDOW + 1, 2 * _WINDOW + 1), np.uint8)
    near, grey = [], []
    for frame, mask in zip(frames, hidden, strict=True):
        small, there = frame, mask.astype(np.uint8)
        if factor < 1:
            small = np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)
            there = np.asarray(cv2.resize(there, size, interpolation=cv2.INTER_NEAREST), np.uint8)
        near.append(cv2.dilate(there, apart) > 0)
        grey.append(_even(small, there == 0))
    if _still(grey, near):
        return None
    warps, total, moved = [np.eye(3)], np.eye(3), 0.0
    for t in range(1, len(grey)):
        total = total @ _between(grey[t], grey[t - 1], near[t - 1] | near[t])
        warps.append(total.copy())
        there_now = cv2.perspectiveTransform(corners[None], total)[0]
        moved = max(moved, float(np.abs(there_now - corners).max()))
    if moved < _STILL:
        return None
    scale = np.diag([size[0] / width, size[1] / height, 1.0])
    return [np.linalg.inv(scale) @ warp @ scale for warp in warps]


def _still(grey: list[npt.NDArray[np.uint8]], near: list[npt.NDArray[np.bool_]]) -> bool:
    """Whether most points of the first frame are where they were in frames all along.

    Looked up directly, because small errors from frame to frame add up to a motion.
    """
    for t in np.unique(np.linspace(1, len(grey) - 1, 8).astype(int)) if len(grey) > 1 else []:
        followed = _followed(grey[0], grey[t], near[0] | near[t])
        if followed is None:
            continue
        if moved_together(*followed, grey[0].shape) > _STILL / 2:
            return False
    return True


def moved_together(
    start: npt.NDArray[np.float32], end: npt.NDArray[np.float32], shape: tuple[int, ...]
) -> float:
    """How far points moved together: in each quarter of the picture by their median, so that neither noise nor
    shadows that play over a floor are a motion, and a turn or zoom is one."""
    quarter = 2 * (start[:, 0] > shape[1] / 2) + (start[:, 1] > shape[0] / 2)
    total = 0.0
    for each in range(4):
        own = (end - start)[quarter == each]
        if len(own):
            total += len(own) * float(np.linalg.norm(np.median(own, axis=0)))
    return total / len(start)


def _even(image: Frames, shown: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Grey with a fixed middle, so that a lamp does not look like motion."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    middle = float(np.median(grey[shown])) if shown.any() else 128.0
    return np.asarray(np.clip(grey - middle + 128, 0, 255), dtype=np.uint8)


def _followed(
    before: npt.NDArray[np.uint8], now: npt.NDArray[np.uint8], hidden: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None:
    """Points (n, 2) of ``before`` and where they are ``now``; None when too few can be followed."""
    points = cv2.goodFeaturesToTrack(before, 300, 0.01, 5, mask=(~hidden).astype(np.uint8))
    if points is None or len(points) < _FEWEST:
        return None
    follow: Any = cv2.calcOpticalFlowPyrLK
    size = (2 * _WINDOW + 1, 2 * _WINDOW + 1)
    there, forth, _ = follow(before, now, points, None, winSize=size)
    back, again, _ = follow(now, before, there, None, winSize=size)
    # a point that does not come back to where it started was not followed
    good = (forth.ravel() == 1) & (again.ravel() == 1)
    good &= np.linalg.norm((back - points).reshape(-1, 2), axis=1) < 0.3
    if good.sum() < _FEWEST:
        return None
    start = np.asarray(points, np.float32).reshape(-1, 2)[good]
    return start, there.reshape(-1, 2)[good]


def _between(
    now: npt.NDArray[np.uint8], before: npt.NDArray[np.uint8], hidden: npt.NDArray[np.bool_]
) -> Warp:
    """The map from ``now`` to ``before``: shift, turn and zoom, and perspective where many points agree
    on it; none when too little can be tracked."""
    followed = _followed(before, now, hidden)
    if followed is None:
        return np.eye(3)
    start, end = followed
    if np.median(np.linalg.norm(end - start, axis=1)) < 0.15:  # most of the picture stands still
        return np.eye(3)
    found, inliers = cv2.estimateAffinePartial2D(
        end, start, method=cv2.RANSAC, ransacReprojThreshold=1.0
    )
    if found is None or inliers.sum() < 0.4 * len(start):
        return np.eye(3)
    plain = np.vstack([np.asarray(found, dtype=np.float64), [0, 0, 1]])
    if len(start) >= _MANY:
        bent, agreed = cv2.findHomography(end, start, cv2.RANSAC, 1.0)
        if bent is not None and agreed.sum() > 1.1 * inliers.sum():
            return np.asarray(bent, np.float64)
    return plain
