"""People who sit still are lost now and then, and erasing would then give them back as background.

Erasing takes what other frames show uncovered. So whatever was found once is looked for, as it looked
then, in the frames where it is not covered.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
_ALIKE = 12  # grey levels, in the channel that differs most
_UNCOVERED = 0.25  # of a person, before it counts as lost
_THERE = 0.5  # of what is uncovered must look as it did
_SMALLEST, _LARGEST = 0.0006, 1 / 6  # of the picture; a larger mask is a floor to the segmenter,
_SURE = 0.2  # unless poses take so much of it
_CLOSE = 0.04  # of the longer side: a white shirt before a white wall leaves a gap that wide
_EVERY = 6  # frames from one that is looked for to the next


def recover_missed_people(frames: Frames, masks: Masks, poses: Masks) -> Masks:
    """Masks (T, H, W) with everybody added who is in ``masks`` of another frame and still there.

    ``poses`` are the outlines of posed people, which are believed at any size.
    """
    out = masks.copy()
    calm = np.stack([cv2.blur(frame, (3, 3)) for frame in frames])
    reach = 2 * max(1, round(_CLOSE * max(masks.shape[1:]) / 2)) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
    for t in sorted({*range(0, len(masks), _EVERY), len(masks) - 1}):
        closed = cv2.morphologyEx(masks[t].astype(np.uint8), cv2.MORPH_CLOSE, kernel)
        parts, labels, stats, _ = cv2.connectedComponentsWithStats(closed)
        for part in range(1, parts):
            x, y, width, height, area = (int(value) for value in stats[part])
            place = (slice(y, y + height), slice(x, x + width))
            shape = labels[place] == part
            sure = area <= _LARGEST * closed.size or poses[t][place][shape].mean() >= _SURE
            if sure and area >= _SMALLEST * closed.size:
                for s in _lost(calm, masks, t, place, shape):
                    out[s][place] |= shape
    return out


def _lost(
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
