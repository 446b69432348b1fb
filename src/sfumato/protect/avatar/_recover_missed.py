"""People who sit still are lost now and then, and erasing would then give them back as background.

Erasing takes what other frames show uncovered. So whatever was found once is looked for, as it looked
then, in the frames where it is not covered. Small copies of the frames are enough for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.protect.avatar._erase_mask import extent
from sfumato.protect.avatar._scene import Scene, outline

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
Place = tuple[slice, slice]
Piece = tuple[int, Place, npt.NDArray[np.bool_]]  # a frame, and a shape at a place of it
Source = tuple[int, Place, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]  # and where to look for it
_ALIKE = 12  # grey levels, in the channel that differs most
_UNCOVERED = 0.25  # of a person, before it counts as lost
_THERE = 0.6  # of what is uncovered must look as it did
_SMALLEST, _LARGEST = 0.0006, 1 / 6  # of the picture; a larger mask is a floor to the segmenter,
_SURE = 0.2  # unless poses take so much of it
_CLOSE = 0.04  # of the longer side: a white shirt before a white wall leaves a gap that wide
_CORE = 0.15  # of a region's smaller side: its rim shows what is behind the person
_HARDLY = 0.5  # of a person's pixels
_UNSURE = 0.1  # of the picture: a larger one without joints may be a floor
_STRAY, _ASTRAY = (
    0.15,
    20.0,
)  # of its size that a piece moves in a frame; grey levels by which it then differs
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
    for s, place, shape in _lost(calm, small, posed, found):
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
    frames: Frames, masks: Masks, posed: Callable[[int], npt.NDArray[np.bool_]], found: Scene
) -> list[Piece]:
    """Everything of a frame that another frame shows uncovered: that frame, the place and the shape."""
    told_apart = any(track.regions for track in found.tracks)
    pieces = _of_people(masks, found) if told_apart else _of_masks(masks, posed)
    lost: list[Piece] = []
    for t, place, shape, where in pieces:
        rim = max(1, round(_CORE * min(shape.shape)))
        core = cv2.erode(np.pad(shape.astype(np.uint8), rim), np.ones((2 * rim + 1,) * 2))
        inner = core[rim:-rim, rim:-rim] > 0
        bare = _uncovered(frames, masks, t, place, inner if inner.any() else shape)
        lost += [(s, place, shape) for s in bare if where[s]]
        if told_apart:
            lost += _followed(frames, where, t, place, shape)
    return lost


def _followed(
    frames: Frames, where: npt.NDArray[np.bool_], t: int, place: Place, shape: npt.NDArray[np.bool_]
) -> list[Piece]:
    """Somebody of frame ``t`` where he or she goes on, or came from, while not found: step by step to where it
    looks most alike, as long as it does."""
    made: list[Piece] = []
    height, width = shape.shape
    room = max(3, round(_STRAY * min(shape.shape)))
    weight: Any = shape.astype(np.float32)
    for step in (-1, 1):
        top, left, s = place[0].start, place[1].start, t + step
        end = _last_lost(where, t, step)
        while (end - s) * step >= 0:
            y0, x0 = max(0, top - room), max(0, left - room)
            around = frames[s][y0 : top + height + room, x0 : left + width + room]
            then = frames[s - step][top : top + height, left : left + width]
            apart = cv2.matchTemplate(
                around.astype(np.float32), then.astype(np.float32), cv2.TM_SQDIFF, mask=weight
            )
            least, _, (x, y), _ = cv2.minMaxLoc(apart)
            if least > 3 * weight.sum() * _ASTRAY**2:
                break
            top, left = y0 + y, x0 + x
            if where[s]:
                made.append((s, (slice(top, top + height), slice(left, left + width)), shape))
            s += step
    return made


def _last_lost(where: npt.NDArray[np.bool_], t: int, step: int) -> int:
    """Up to which frame somebody of frame ``t`` is to be followed: to where he or she was found again for
    a while."""
    last, found, s = t, 0, t + step
    while 0 <= s < len(where) and found < _EVERY:
        found = 0 if where[s] else found + 1
        last = s if where[s] else last
        s += step
    return last


def _of_masks(masks: Masks, posed: Callable[[int], npt.NDArray[np.bool_]]) -> Iterator[Source]:
    """Connected parts of the masks, looked for on all frames: people were not told apart."""
    everywhere = np.ones(len(masks), bool)
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
            yield t, place, shape, everywhere


def _of_people(masks: Masks, found: Scene) -> Iterator[Source]:
    """Each person's own pixels as detectors found them, looked for where the person was not found, or hardly.

    What is carried on from other frames, and large shapes without joints, would spread floor and walls over
    all frames.
    """
    size = masks.shape[1:]
    whole = found.masks.shape[1:]
    for track in found.tracks:
        areas = np.array([0 if each is None else int(each.cut.sum()) for each in track.regions])
        looks = [t for t, each in enumerate(track.regions) if each is not None and each.looked]
        for t in sorted({*looks[:: max(1, _EVERY // 2)], *looks[-1:]}):
            own = track.regions[t]
            lost = areas < _HARDLY * areas[t]
            if own is None or not lost.any():
                continue
            if not own.sure and areas[t] > _UNSURE * masks[0].size * (whole[0] / size[0]) ** 2:
                continue
            drawn = np.zeros(whole, bool)
            drawn[own.window] = own.cut
            small = cv2.resize(drawn.view(np.uint8), size[::-1], interpolation=cv2.INTER_AREA)
            place = extent(small > 0)
            if place is not None:
                yield t, place, small[place] > 0, lost


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
