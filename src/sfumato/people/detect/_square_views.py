"""Square views of a picture: the whole of it letterboxed, and overlapping squares of a wide one.

The small networks see 128 to 224 pixels. A wide picture squeezed into that loses its small people;
looking again at squares as high as the picture finds them, for the price of one run each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box, hull


@dataclass(frozen=True, slots=True)
class View:
    """A square of side ``side`` whose left-top corner lies at (x, y) of the picture."""

    x: float
    y: float
    side: float

    def picture(self, image: Image, size: int, low: float, high: float) -> npt.NDArray[np.float32]:
        """The view resampled to ``size`` x ``size`` with 0..255 mapped to ``low``..``high``."""
        scale = size / self.side
        # Pixel centres: output u + 0.5 = scale * (input x + 0.5 - x0)
        shift = (scale - 1) / 2
        matrix = np.array([[scale, 0, shift - scale * self.x], [0, scale, shift - scale * self.y]])
        if scale < 0.5:  # plain interpolation would alias, so average first
            image, matrix = _shrunk(image, matrix, math.floor(1 / scale))
        view = cv2.warpAffine(image, matrix, (size, size), flags=cv2.INTER_LINEAR)
        return view.astype(np.float32) * np.float32((high - low) / 255) + np.float32(low)


def _shrunk(
    image: Image, matrix: npt.NDArray[np.float64], by: int
) -> tuple[Image, npt.NDArray[np.float64]]:
    height, width = (math.ceil(side / by) for side in image.shape[:2])
    padded = cv2.copyMakeBorder(
        image, 0, height * by - image.shape[0], 0, width * by - image.shape[1], cv2.BORDER_REPLICATE
    )
    small = np.asarray(cv2.resize(padded, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    adjusted = matrix.copy()
    adjusted[:, :2] *= by
    adjusted[:, 2] += matrix[:, 0] * (by - 1) / 2 + matrix[:, 1] * (by - 1) / 2
    return small, adjusted


def reduced(image: Image, side: int) -> tuple[Image, float, float]:
    """A copy whose shorter side is about ``side``, if the picture is larger, and how much wider and
    higher the picture is: done once, because every view would otherwise shrink it anew."""
    height, width = image.shape[:2]
    factor = min(height, width) / side
    if factor <= 1:
        return image, 1.0, 1.0
    size = round(width / factor), round(height / factor)
    small = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return small, width / size[0], height / size[1]


def square_views(width: int, height: int, *, tiles: bool) -> Iterator[View]:
    """The whole picture, centred, and with ``tiles`` the squares along its longer side."""
    side = float(max(width, height))
    yield View((width - side) / 2, (height - side) / 2, side)
    short = float(min(width, height))
    if not tiles or side < 1.15 * short:
        return
    # neighbours overlap by at least a third, so that nobody is cut in every view
    count = math.ceil((side - short) / (short * 2 / 3)) + 1
    for i in range(count):
        along = (side - short) * i / (count - 1)
        yield View(along, 0.0, short) if width > height else View(0.0, along, short)


def windows(near: Sequence[Box], width: int, height: int, least: float) -> list[View]:
    """Few square views that hold every box of ``near`` with its own size of room on each side.

    A view is at least ``least`` wide, so that small boxes are seen as large as in the whole picture;
    boxes that fit into one view share it.
    """
    groups: list[tuple[Box, ...]] = []
    inside = [box.clip(width, height) for box in near]
    for box in sorted((box for box in inside if box.area), key=lambda box: -box.area):
        for i, group in enumerate(groups):
            if _reach([*group, box]) <= max(_reach(group), least):
                groups[i] = (*group, box)
                break
        else:
            groups.append((box,))
    return [_around(group, width, height, least) for group in groups]


def _reach(group: Sequence[Box]) -> float:
    whole = hull([box.grow(_room(box), _room(box)) for box in group])
    return max(whole.width, whole.height)


def _room(box: Box) -> float:
    return max(box.width, box.height)


def _around(group: Sequence[Box], width: int, height: int, least: float) -> View:
    side = max(_reach(group), least)
    x, y = hull([box.grow(_room(box), _room(box)) for box in group]).centre

    def start(middle: float, length: int) -> float:
        # inside the picture as far as the view fits into it
        return min(max(middle - side / 2, 0.0), max(length - side, 0.0))

    return View(start(x, width), start(y, height), side)
