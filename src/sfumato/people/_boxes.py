"""Boxes: where something is in a picture, and the few operations that keep it covered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels, left-top inclusive, right-bottom exclusive, and how sure we are.

    Coordinates are real numbers and may lie outside the picture; :meth:`clip` cuts them to it.
    ``source`` names the detector that found it.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    score: float = 1.0
    source: str = ""

    @property
    def width(self) -> float:
        return max(0.0, self.x1 - self.x0)

    @property
    def height(self) -> float:
        return max(0.0, self.y1 - self.y0)

    @property
    def area(self) -> float:
        return self.width * self.height

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def grow(self, x: float, y: float) -> Box:
        """Move every side outwards by ``x`` or ``y`` pixels."""
        return replace(self, x0=self.x0 - x, y0=self.y0 - y, x1=self.x1 + x, y1=self.y1 + y)

    def scale(self, factor: float) -> Box:
        """Grow about the centre so that each side becomes ``factor`` times as long."""
        return self.grow(self.width * (factor - 1) / 2, self.height * (factor - 1) / 2)

    def shift(self, x: float, y: float) -> Box:
        return replace(self, x0=self.x0 + x, y0=self.y0 + y, x1=self.x1 + x, y1=self.y1 + y)

    def clip(self, width: int, height: int) -> Box:
        """The part inside a picture; empty when there is none."""
        x0, x1 = (min(max(x, 0.0), float(width)) for x in (self.x0, self.x1))
        y0, y1 = (min(max(y, 0.0), float(height)) for y in (self.y0, self.y1))
        return replace(self, x0=x0, y0=y0, x1=x1, y1=y1)

    def pixels(self, width: int, height: int) -> tuple[slice, slice]:
        """Rows and columns of every pixel the box touches: outwards rounded, never inwards."""
        inside = self.clip(width, height)
        rows = slice(int(np.floor(inside.y0)), int(np.ceil(inside.y1)))
        return rows, slice(int(np.floor(inside.x0)), int(np.ceil(inside.x1)))

    def covers(self, other: Box) -> float:
        """Which part of ``other`` lies inside this box, 0 to 1."""
        return _intersection(self, other) / other.area if other.area else 0.0


def _intersection(a: Box, b: Box) -> float:
    width = min(a.x1, b.x1) - max(a.x0, b.x0)
    height = min(a.y1, b.y1) - max(a.y0, b.y0)
    return max(0.0, width) * max(0.0, height)


def iou(a: Box, b: Box) -> float:
    """Intersection over union; 0 for empty boxes."""
    shared = _intersection(a, b)
    union = a.area + b.area - shared
    return shared / union if union else 0.0


def hull(boxes: Sequence[Box]) -> Box:
    """The smallest box around all of them, with the best score."""
    best = max(boxes, key=lambda box: box.score)
    return Box(
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
        best.score,
        best.source,
    )


def suppress(boxes: Iterable[Box], threshold: float = 0.3) -> list[Box]:
    """Non-maximum suppression: the best box of every group that overlaps by ``threshold`` or more."""
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.score, reverse=True):
        if all(iou(box, other) < threshold for other in kept):
            kept.append(box)
    return kept


def unite(boxes: Iterable[Box], threshold: float = 0.3) -> list[Box]:
    """Boxes of several detectors: those that overlap become one box around both.

    Where suppression would pick the better one, a union must not lose what the other one saw.
    """
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.score, reverse=True):
        for i, other in enumerate(kept):
            if iou(box, other) >= threshold or max(box.covers(other), other.covers(box)) > 0.7:
                kept[i] = hull([other, box])
                break
        else:
            kept.append(box)
    return kept


def box_mask(boxes: Iterable[Box], width: int, height: int) -> npt.NDArray[np.bool_]:
    """The pixels that any of the boxes touches."""
    mask = np.zeros((height, width), dtype=bool)
    for box in boxes:
        mask[box.pixels(width, height)] = True
    return mask


def from_rows(rows: npt.NDArray[Any], scores: npt.NDArray[Any], source: str) -> list[Box]:
    """Boxes from an (n, 4) array of corners."""
    return [
        Box(float(x0), float(y0), float(x1), float(y1), float(score), source)
        for (x0, y0, x1, y1), score in zip(rows, scores, strict=True)
    ]
