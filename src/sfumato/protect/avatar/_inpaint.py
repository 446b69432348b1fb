"""Erasing people: first what other frames saw of the background, then what lies around.

With a camera at rest the background is the median of every pixel's uncovered values. With a moving
camera, frames are aligned by points followed outside people (shift, turn, zoom), and a hidden pixel
takes the median of what the nearest frames show there. What nobody ever saw is filled from around.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

from sfumato.protect.avatar._patches import synthesise

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
_WINDOW = 7  # half the side of the window in which a point is followed
_FEWEST = 12  # points that must be followed before anything is concluded
_STILL = 0.7  # pixels that a camera at rest may seem to move
_NEIGHBOURS = 24  # frames that a hidden pixel of a moving camera is sought in
_DOUBT = 30.0  # squared grey levels at which texture and membrane count alike
_SIDEWAYS = 8.0  # how much stiffer the membrane is from side to side
_UNKNOWNS = 20_000  # pixels of a hole that are solved for at once
_BLOCK = 64  # rows of the median at a time, to bound memory


@dataclass(frozen=True)
class Erased:
    """``frames`` without people; ``unseen`` pixels were guessed from their surroundings."""

    frames: Frames
    unseen: Masks
    still_camera: bool


def erase(frames: Frames, hidden: Masks) -> Erased:
    """Fill the hidden pixels (T, H, W) of frames (T, H, W, 3)."""
    warps = camera_motion(frames, hidden)
    if warps is None:
        return _erase_still(frames, hidden)
    return _erase_moving(frames, hidden, warps)


def background(frames: Frames, hidden: Masks) -> tuple[Frames, Masks]:
    """The median picture of what was seen uncovered, and where that was never."""
    seen = ~hidden
    never = np.asarray(~seen.any(axis=0))
    out: Frames = np.zeros(frames.shape[1:], np.uint8)
    for top in range(0, frames.shape[1], _BLOCK):
        rows = slice(top, top + _BLOCK)
        out[rows] = _masked_median(frames[:, rows], seen[:, rows])
    return out, never


def _masked_median(values: Frames, valid: Masks) -> Frames:
    """The lower median over time of the valid values; 0 where there is none."""
    ranked = np.where(valid[..., None], values, np.uint8(255)).astype(np.int16)
    ranked[~valid] = 256
    ranked.sort(axis=0)
    count = valid.sum(axis=0)
    middle = np.maximum((count - 1) // 2, 0)[None, ..., None]
    picked = np.take_along_axis(ranked, np.broadcast_to(middle, (1, *ranked.shape[1:])), 0)[0]
    return np.where((count > 0)[..., None], picked, 0).astype(np.uint8)


def _erase_still(frames: Frames, hidden: Masks) -> Erased:
    light = _light(frames, hidden)
    even = frames
    if light.any():
        even = np.clip(frames - light[:, None, None], 0, 255).astype(np.uint8)
    plate, never = background(even, hidden)
    plate = fill_around(plate, never)
    out = frames.copy()
    for t in range(len(frames)):
        lit = np.clip(plate + light[t], 0, 255).astype(np.uint8)
        out[t][hidden[t]] = lit[hidden[t]]
    return Erased(out, hidden & never, True)


def _light(frames: Frames, hidden: Masks) -> npt.NDArray[np.int16]:
    """How much brighter each frame is than the first, per channel: lamps and exposure change.

    Medians of the differences between neighbours, over what both show uncovered, added up.
    """
    steps = np.zeros((len(frames), 3), np.int16)
    for t in range(1, len(frames)):
        both = ~(hidden[t] | hidden[t - 1])
        if both.any():
            change = frames[t][both].astype(np.int16) - frames[t - 1][both]
            steps[t] = np.median(change, axis=0)
    return np.cumsum(steps, axis=0, dtype=np.int16)


def _erase_moving(frames: Frames, hidden: Masks, warps: list[npt.NDArray[np.float64]]) -> Erased:
    count = len(frames)
    out, unseen = frames.copy(), np.zeros_like(hidden)
    shown = (~hidden).astype(np.uint8)
    for t in range(count):
        if not hidden[t].any():
            continue
        order = np.argsort(np.abs(np.arange(count) - t), kind="stable")[1 : _NEIGHBOURS + 1]
        rows, columns = _extent(hidden[t])
        hole = hidden[t][rows, columns]
        views = np.zeros((len(order), *hole.shape, 3), np.uint8)
        valid = np.zeros((len(order), *hole.shape), bool)
        corner = np.array([[1, 0, -columns.start], [0, 1, -rows.start], [0, 0, 1]], np.float64)
        size = (hole.shape[1], hole.shape[0])
        for k, s in enumerate(order):
            # pixels of frame s -> pixels of the hole's surroundings in frame t
            across = corner @ np.linalg.inv(warps[t]) @ warps[s]
            views[k] = cv2.warpPerspective(frames[s], across, size)
            valid[k] = cv2.warpPerspective(shown[s], across, size, flags=cv2.INTER_NEAREST) > 0
        found = hole & valid.any(axis=0)
        out[t][rows, columns][found] = _masked_median(views, valid)[found]
        unseen[t][rows, columns] = hole & ~found
        # texture made anew in every frame would flicker
        out[t] = fill_around(out[t], unseen[t], texture=False)
    return Erased(out, unseen, False)


def _extent(mask: npt.NDArray[np.bool_]) -> tuple[slice, slice]:
    """The rows and columns that hold all of a mask."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def fill_around(image: Frames, missing: npt.NDArray[np.bool_], *, texture: bool = True) -> Frames:
    """Spatial inpainting: a smooth fill from coarse to fine, then texture of the surroundings."""
    if not missing.any():
        return image
    if missing.all():
        return np.full_like(image, 128)
    smooth = _pull_push(image.astype(np.float32), ~missing)
    if texture:
        # texture hides where the hole was, a membrane errs less where no texture fits
        made, doubt = synthesise(image, missing, smooth)
        trust = (_DOUBT / (_DOUBT + doubt))[..., None]
        smooth = trust * made + (1 - trust) * _membrane(image, missing, smooth)
    out = image.copy()
    out[missing] = np.clip(np.rint(smooth[missing]), 0, 255).astype(np.uint8)
    return out


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
    return np.asarray(filled, dtype=np.float32)


def camera_motion(frames: Frames, hidden: Masks) -> list[npt.NDArray[np.float64]] | None:
    """Maps that take each frame's pixels to the first frame's, or None for a still camera."""
    count, height, width = hidden.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    warps, total = [np.eye(3)], np.eye(3)
    apart = np.ones((2 * _WINDOW + 1, 2 * _WINDOW + 1), np.uint8)
    near = [cv2.dilate(mask.astype(np.uint8), apart) > 0 for mask in hidden]
    grey = [_even(frame, ~mask) for frame, mask in zip(frames, hidden, strict=True)]
    if _still(grey, near):
        return None
    moved = 0.0
    for t in range(1, count):
        total = total @ _between(grey[t], grey[t - 1], near[t - 1] | near[t])
        warps.append(total.copy())
        there = cv2.perspectiveTransform(corners[None], total)[0]
        moved = max(moved, float(np.abs(there - corners).max()))
    return None if moved < _STILL else warps


def _still(grey: list[npt.NDArray[np.uint8]], near: list[npt.NDArray[np.bool_]]) -> bool:
    """Whether most points of the first frame are where they were in frames all along.

    Looked up directly, because small errors from frame to frame add up to a motion.
    """
    for t in np.unique(np.linspace(1, len(grey) - 1, 8).astype(int)) if len(grey) > 1 else []:
        followed = _followed(grey[0], grey[t], near[0] | near[t])
        if followed is None:
            continue
        start, end = followed
        if np.median(np.linalg.norm(end - start, axis=1)) > _STILL / 2:
            return False
    return True


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
) -> npt.NDArray[np.float64]:
    """Shift, turn and zoom from ``now`` to ``before``; none when too little can be tracked."""
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
    return np.vstack([np.asarray(found, dtype=np.float64), [0, 0, 1]])
