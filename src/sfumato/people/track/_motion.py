"""How much a picture has changed since the last look: the more, the sooner the next one."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image

Thumbnail = npt.NDArray[np.float32]
_CELLS = (24, 16)  # a person is some cells wide
# grey levels of a cell, and the share of cells that must have changed by them
_MOVED, _STIRRED = (12.0, 0.06), (6.0, 0.005)
_STILL = 8  # frames between two looks at a picture in which nothing stirs, at most


def thumbnail(image: Image) -> Thumbnail:
    """The mean brightness of a few cells; every fourth row and column of a large picture is enough."""
    step = max(1, min(image.shape[:2]) // 128)
    sparse = np.ascontiguousarray(image[::step, ::step, 1])
    return cv2.resize(sparse, _CELLS, interpolation=cv2.INTER_AREA).astype(np.float32)


def bounds(every: int) -> tuple[int, int]:
    """The fewest and the most frames from one look to the next: half of ``every`` where the picture moves,
    so that bridging would be a guess, and twice as many where nothing in it stirs."""
    return (every + 1) // 2, max(every, min(2 * every, _STILL)) if every > 1 else 1


def most_between_looks(every: int) -> int:
    """The most frames from one look to the next."""
    return bounds(every)[1]


def due(before: Thumbnail | None, now: Thumbnail, since: int, every: int) -> bool:
    """Whether it is time to look again, ``since`` frames after the last look."""
    fewest, most = bounds(every)
    if before is None or since >= most:
        return True
    if since < fewest:
        return False
    change = now - before
    change -= np.median(change)  # a lamp or an exposure moves nobody
    level, share = _STIRRED if since >= every else _MOVED
    return float((np.abs(change) >= level).mean()) >= share
