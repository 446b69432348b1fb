"""Whether a picture has moved so much since the last look that bridging to the next would be a guess."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image

Thumbnail = npt.NDArray[np.float32]
_CELLS = (24, 16)  # a person is some cells wide
_CHANGED, _SHARE = 12.0, 0.06  # grey levels of a cell, and cells that must have changed by them


def thumbnail(image: Image) -> Thumbnail:
    """The mean brightness of a few cells; every fourth row and column of a large picture is enough."""
    step = max(1, min(image.shape[:2]) // 128)
    sparse = np.ascontiguousarray(image[::step, ::step, 1])
    return cv2.resize(sparse, _CELLS, interpolation=cv2.INTER_AREA).astype(np.float32)


def moved(before: Thumbnail | None, now: Thumbnail) -> bool:
    if before is None:
        return True
    change = now - before
    change -= np.median(change)  # a lamp or an exposure moves nobody
    return float((np.abs(change) >= _CHANGED).mean()) >= _SHARE
