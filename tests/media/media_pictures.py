"""Pictures for the media tests."""

from __future__ import annotations

import numpy as np


def smooth_picture(width: int, height: int, number: int) -> np.ndarray:
    """A soft ramp with a bright square that walks: survives lossy codecs, differs by frame."""
    rows, columns = np.mgrid[0:height, 0:width]
    image = np.stack(
        [
            40 + 120 * columns / max(1, width - 1),
            60 + 100 * rows / max(1, height - 1),
            np.full((height, width), 30.0 + 6 * (number % 30)),
        ],
        axis=2,
    )
    side = max(1, min(width, height) // 4)
    left = (number * 2) % max(1, width - side)
    image[:side, left : left + side] = 220
    return image.astype(np.uint8)


def noise_picture(width: int, height: int, number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
