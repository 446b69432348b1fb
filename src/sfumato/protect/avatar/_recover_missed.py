"""People who sit still are lost now and then, and erasing would then give them back as background.

Erasing takes what other frames show uncovered. So whatever was found once is looked for, as it looked
then, in the frames where it is not covered. Small copies of the frames are enough for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.protect.avatar._scene import Scene, outline

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
_ALIKE = 12  # grey levels, in the channel that differs most
_UNCOVERED = 0.25  # of a person, before it counts as lost
_THERE = 0.6  # of what is uncovered must look as it did
_SMALLEST, _LARGEST = 0.0006, 1 / 6  # of the picture; a larger mask is a floor to the segmenter,
_SURE = 0.2  # unless poses take so much of it
_CLOSE = 0.04  # of the longer side: a white shirt before a white wall leaves a gap that wide
_CORE = 0.15  # of a region's smaller side: its rim shows what is behind the person
_EVERY = 6  # frames from one that is looked for to the next
_SIDE = 240  # pixels of the longer side of the copies


def recover_missed_people(frames: Sequence[Image] | Frames, found: Scene) -> Masks:
    """The masks (T, H, W) of a scene with everybody added who is in them on another frame and still there."""
    masks = found.masks
    if masks.any(axis=(1, 2)).all() and all(track.found.all() for track in found.tracks):
        return masks  # nobody was lost
    out = masks.copy()
    factor = min(1.0, _SIDE / max(masks.shape[1:]))
    size = max(1, round(masks.shape[2] * factor)), max(1, round(masks.shape[1] * factor))

    def smaller(image: npt.NDArray[np.uint8]) -> Frames:
        if factor == 1:
            return image
        return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)

    calm = np.stack([np.asarray(cv2.blur(smaller(frame), (3, 3)), np.uint8) for frame in frames])
    small = np.stack([smaller(mask.view(np.uint8) * np.uint8(255)) > 127 for mask in masks])
    posed = _posed(found, size)
    for s, place, shape in _lost(calm, small, posed):
        added = np.zeros(small.shape[1:], np.uint8)
        added[place] = shape
        whole = cv2.resize(added, masks.shape[:0:-1], interpolation=cv2.INTER_NEAREST)
        out[s] |= whole.view(bool)
    return out


def _posed(found: Scene, size: tuple[int, int]) -> Callable[[int], npt.NDArray[np.bool_]]:
    """Where a frame has people by their poses."""
    camera = found.camera.resized(*size)

    def on(t: int) -> npt.NDArray[np.bool_]:
        there = [outline(track.joints[t], camera) for track in found.tracks if track.present[t]]
        return np.any(there, axis=0) if there else np.zeros(size[::-1], bool)

    return on


def _lost(
    frames: Frames, masks: Masks, posed: Callable[[int], npt.NDArray[np.bool_]]
) -> list[tuple[int, tuple[slice, slice], npt.NDArray[np.bool_]]]:
    """Everything of a frame that another frame shows uncovered: that frame, the place and the shape."""
    found = []
    reach = 2 * max(1, round(_CLOSE * max(masks.shape[1:]) / 2)) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
    for t in sorted({*range(0, len(masks), _EVERY), len(masks) - 1, *_alone(masks)}):
        closed = cv2.morphologyEx(masks[t].astype(np.uint8), cv2.MORPH_CLOSE, kernel)
        parts, labels, stats, _ = cv2.connectedComponentsWithStats(closed)
        for part in range(1, parts):
            x, y, width, height, area = (int(value) for value in stats[part])
            place = (slice(y, y + height), slice(x, x + width))
            shape = labels[place] == part
            if area < _SMALLEST * closed.size or (
                area > _LARGEST * closed.size and posed(t)[place][shape].mean() < _SURE
            ):
                continue
            rim = max(1, round(_CORE * min(width, height)))
            core = cv2.erode(np.pad(shape.astype(np.uint8), rim), np.ones((2 * rim + 1,) * 2))
            inner = core[rim:-rim, rim:-rim] > 0
            bare = _uncovered(frames, masks, t, place, inner if inner.any() else shape)
            found += [(s, place, shape) for s in bare]
    return found


def _alone(masks: Masks) -> list[int]:
    """Frames with people whose neighbours have none: the only ones that show somebody."""
    there = masks.any(axis=(1, 2))
    before, after = np.roll(there, 1), np.roll(there, -1)
    return [int(t) for t in np.flatnonzero(there & ~(before & after))]


def _uncovered(
    frames: Frames, masks: Masks, t: int, place: tuple[slice, slice], shape: npt.NDArray[np.bool_]
) -> list[int]:
    """Frames in which the thing of frame ``t`` is uncovered for a good part and looks as it did."""
    bare = shape & ~masks[:, *place]
    amount = bare.sum(axis=(1, 2))
    then = frames[t][place].astype(np.int16)
    found = []
    for s in np.flatnonzero(amount >= _UNCOVERED * shape.sum()):
        alike = np.abs(frames[s][place] - then).max(axis=-1) <= _ALIKE
        if (alike & bare[s]).sum() >= _THERE * amount[s]:
            found.append(int(s))
    return found
