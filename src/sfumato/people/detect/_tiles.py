"""A picture as person detectors see it: whole, at its own shape, and in squares when it is wide.

A person who is cut by the edge of a square is found there in part; such a part counts only where
nothing else covers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box, iou
from sfumato.people.detect._square_views import square_views

_MULTIPLE = 32  # the networks halve their input five times
_ENLARGED = 1.0
_DETAIL_KEPT = 0.75  # a whole picture reduced to this or less is looked at in tiles as well
# per cent of the values, and grey levels: of a dark picture, of a lit one, of its noise
_BRIGHTEST, _DARK, _LIT, _MOST_NOISE, _MOST_GAIN = 99, 120, 220.0, 6.0, 2.5
_NEAR = 0.02  # of a tile's side: a box that ends this near to an inner edge was cut by it
_SAME = 0.5  # boxes of one person in two tiles overlap by this much of their union
_PART = 0.6  # a cut box that lies inside another by this much is a part of it


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """One input of a network: pixel (0, 0) lies at (x, y) of the picture, and one of its pixels is
    ``wider`` by ``higher`` there. ``whole`` is false for a part of the picture."""

    pixels: npt.NDArray[np.float32]
    x: float
    y: float
    wider: float
    higher: float
    whole: bool

    def to_picture(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Points (..., 2) or corners (..., 4) of the tile in pixels of the picture."""
        repeat = points.shape[-1] // 2
        scale = np.array([self.wider, self.higher] * repeat, np.float32)
        return points * scale + np.array([self.x, self.y] * repeat, np.float32)

    def cuts(self, box: Box, width: int, height: int) -> bool:
        """Whether a box, in pixels of the picture, ends at an edge of the tile that is inside."""
        if self.whole:
            return False
        high = float(self.pixels.shape[0] * self.higher)
        wide = float(self.pixels.shape[1] * self.wider)
        near = _NEAR * max(high, wide)
        return (
            (self.x > near and box.x0 < self.x + near)
            or (self.y > near and box.y0 < self.y + near)
            or (self.x + wide < width - near and box.x1 > self.x + wide - near)
            or (self.y + high < height - near and box.y1 > self.y + high - near)
        )


def whole_and_tiles(
    image: Image, sides: tuple[int, int], tile_side: int, *, tiles: bool
) -> Iterator[Tile]:
    """The whole picture, its longer side within ``sides``, and with ``tiles`` the squares along the
    longer side of a wide or high one, if the whole lost much of its detail.

    A small picture is enlarged a little at most: people who fill it would become too large for
    networks that were made for this size. A tile is never enlarged.
    """
    height, width = image.shape[:2]
    longest = max(height, width)
    factor = min(max(_ENLARGED * longest, sides[0]), sides[1]) / longest
    wide, high = (_multiple(length * factor) for length in (width, height))
    how = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    whole = cv2.resize(image, (wide, high), interpolation=how).astype(np.float32)
    yield Tile(whole, 0.0, 0.0, width / wide, height / high, True)
    if not tiles or factor > _DETAIL_KEPT:
        return
    for view in list(square_views(width, height, tiles=True))[1:]:
        side = min(tile_side, _multiple(view.side))
        pixels = view.picture(image, side, 0.0, 255.0)
        yield Tile(pixels, view.x, view.y, view.side / side, view.side / side, False)


def brightened(image: Image) -> Image:
    """A dark picture as bright as the networks are used to, unless its noise would be as bright; any
    other one as it is."""
    brightest = float(np.percentile(image[::4, ::4], _BRIGHTEST))
    if brightest >= _DARK:
        return image
    noise = float(cv2.absdiff(image, cv2.medianBlur(image, 3)).mean())
    gain = min(_MOST_GAIN, _LIT / max(brightest, 1.0), _MOST_NOISE / max(noise, 1e-6))
    return np.asarray(cv2.convertScaleAbs(image, alpha=gain), np.uint8) if gain > 1 else image


def loses_detail(image: Image, longest: int = 512) -> bool:
    """Whether a picture reduced to ``longest`` pixels loses so much that it is looked at in tiles too."""
    return bool(longest <= _DETAIL_KEPT * max(image.shape[:2]))


def _multiple(length: float) -> int:
    return _MULTIPLE * math.ceil(length / _MULTIPLE)


def one_each(
    boxes: Sequence[Box],
    cut: Sequence[bool],
    one: Callable[[int, int], bool] = lambda i, j: True,
) -> list[int]:
    """Which boxes to keep so that nobody is there twice, whole boxes before cut ones, the surest
    first: suppression that also drops the parts of people who were seen whole elsewhere. ``one`` says
    whether two that overlap are one person."""
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: (cut[i], -boxes[i].score)):
        same = any(iou(boxes[i], boxes[other]) >= _SAME and one(i, other) for other in kept)
        part = cut[i] and any(boxes[other].covers(boxes[i]) >= _PART for other in kept)
        if not same and not part:
            kept.append(i)
    return kept
