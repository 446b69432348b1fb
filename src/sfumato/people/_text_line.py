"""Lines of text in a picture, and the pages and screens that they fill."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.people._boxes import Box

Corners = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

SURE = 0.65  # a line with this score needs no second sighting
AGREE = 0.3  # part of a line that another look must have found as well to believe in a faint one
# what makes a page or a screen: so many lines, so near to each other, in so large a part of it
_PAGE_LINES, _PAGE_GAP, _PAGE_FILLED = 4, 1.6, 0.35
_PAGE_ALIKE, _PAGE_PARALLEL = 1.8, 0.97  # heights, and the cosine between two lines


@dataclass(frozen=True, slots=True, eq=False)
class TextLine:
    """A turned rectangle around a line of text: its four corners (4, 2), in order, and a score."""

    corners: Corners
    score: float = 1.0

    @classmethod
    def around(
        cls,
        centre: Sequence[float],
        size: Sequence[float],
        angle: float,
        score: float = 1.0,
    ) -> TextLine:
        """As OpenCV describes a turned rectangle: centre, width and height, degrees."""
        return cls(np.asarray(cv2.boxPoints((centre, size, angle)), np.float32), score)

    @property
    def box(self) -> Box:
        (x0, y0), (x1, y1) = self.corners.min(axis=0), self.corners.max(axis=0)
        return Box(float(x0), float(y0), float(x1), float(y1), self.score, "text")

    @property
    def sides(self) -> tuple[float, float]:
        """The shorter side, which is the height of the text, and the longer one."""
        a = float(np.linalg.norm(self.corners[1] - self.corners[0]))
        b = float(np.linalg.norm(self.corners[2] - self.corners[1]))
        return min(a, b), max(a, b)

    @property
    def direction(self) -> Corners:
        """In which the text runs, forth or back; of length 1."""
        a, b = self.corners[1] - self.corners[0], self.corners[2] - self.corners[1]
        longer = max(a, b, key=lambda side: float(np.linalg.norm(side)))
        return np.asarray(longer / max(float(np.linalg.norm(longer)), 1e-6), np.float32)

    def counts(self, others: Iterable[TextLine]) -> bool:
        """Whether it is sure by itself, or one of ``others``, which another look found, agrees."""
        return self.score >= SURE or self.agrees(others)

    def agrees(self, others: Iterable[TextLine]) -> bool:
        """Whether ``others`` lie where it lies."""
        return sum(each.box.covers(self.box) for each in others) >= AGREE

    def sure(self) -> TextLine:
        """The same line, confirmed by another sighting."""
        return TextLine(self.corners, max(self.score, SURE))

    def moved(self, x: float, y: float) -> TextLine:
        return TextLine(self.corners + np.array([x, y], np.float32), self.score)

    def towards(self, other: TextLine, share: float) -> TextLine:
        """Between this line (share 0) and the same one on a later frame (share 1)."""
        middle = (1 - share) * self.corners.mean(axis=0) + share * other.corners.mean(axis=0)
        larger = max(self, other, key=lambda line: line.box.area)
        shift = middle - larger.corners.mean(axis=0)
        return TextLine(larger.corners + shift.astype(np.float32), max(self.score, other.score))

    def grown(self, margin: float) -> TextLine:
        """Every side moved outwards by ``margin`` pixels."""
        centre, size, angle = cv2.minAreaRect(self.corners)
        return TextLine.around(
            centre, (size[0] + 2 * margin, size[1] + 2 * margin), angle, self.score
        )


def text_mask(lines: Iterable[TextLine], height: int, width: int) -> Mask:
    """Every pixel that a line touches."""
    drawn = np.zeros((height, width), np.uint8)
    for line in lines:
        paint(drawn, line)
    return drawn.view(bool)


def paint(drawn: npt.NDArray[np.uint8], line: TextLine, origin: tuple[int, int] = (0, 0)) -> None:
    """Fill the line with ones in an array whose left-top pixel is ``origin``, rounded outwards."""
    corners = line.grown(0.5).corners - np.array(origin, np.float32)
    # the corner of a pixel is a whole number here and a half in OpenCV
    points = np.round((corners - 0.5) * 16).astype(np.int32)
    cv2.fillConvexPoly(drawn, points, (1,), cv2.LINE_8, 4)


def with_pages(lines: Sequence[TextLine]) -> list[TextLine]:
    """The lines, and a rectangle around every group that is as dense as a page or a screen."""
    if len(lines) < _PAGE_LINES:
        return list(lines)
    found = list(lines)
    for group in _neighbours(_distinct(lines)):
        if len(group) < _PAGE_LINES:
            continue
        points = np.concatenate([line.corners for line in group])
        centre, size, angle = cv2.minAreaRect(points)
        written = sum(math.prod(line.sides) for line in group)
        if written >= _PAGE_FILLED * size[0] * size[1]:
            page = TextLine.around(centre, size, angle, max(line.score for line in group))
            found.append(page.grown(float(np.median([line.sides[0] for line in group]))))
    return found


def _distinct(lines: Sequence[TextLine]) -> list[TextLine]:
    """Without those that lie in others, so that a line which is found twice counts once."""
    found: list[TextLine] = []
    for line in sorted(lines, key=lambda line: -line.box.area):
        if sum(other.box.covers(line.box) for other in found) < 0.5:
            found.append(line)
    return found


def _neighbours(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Groups of lines that are written like those of one page."""
    group = list(range(len(lines)))
    for i in range(len(lines)):
        for j in range(i):
            if group[i] != group[j] and _on_one_page(lines[i], lines[j]):
                group = [group[i] if one == group[j] else one for one in group]
    return [
        [line for line, one in zip(lines, group, strict=True) if one == number]
        for number in dict.fromkeys(group)
    ]


def _on_one_page(a: TextLine, b: TextLine) -> bool:
    """As high, in the same direction, and next to each other: below, or side by side."""
    low, high = sorted((a.sides[0], b.sides[0]))
    along = a.direction
    if high > _PAGE_ALIKE * low or abs(float(along @ b.direction)) < _PAGE_PARALLEL:
        return False
    apart = b.corners.mean(axis=0) - a.corners.mean(axis=0)
    beside = abs(float(along @ apart)) - (a.sides[1] + b.sides[1]) / 2
    below = abs(float(along[0] * apart[1] - along[1] * apart[0]))
    return beside <= _PAGE_GAP * high and below <= _PAGE_GAP * high
