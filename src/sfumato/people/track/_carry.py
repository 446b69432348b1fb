"""Where somebody went who is not found any more: followed by what the picture shows there.

Corners on the person are followed from frame to frame (Lucas-Kanade, forth and back). As long as most of
them are found again and the place looks alike, the person is there.
"""

from __future__ import annotations

from collections import OrderedDict

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box

Grey = npt.NDArray[np.uint8]
Points = npt.NDArray[np.float32]
_SIDE = 320  # of the copies on which corners are followed
_CORE = 0.7  # of a box: its rim shows what is behind the person
_CORNERS, _FEWEST = 40, 4
_BACK = 1.0  # pixels by which a corner may miss its start
_FOUND = 0.4  # of the corners must be found again
_ALIKE = 0.5  # correlation of a place with what it showed at the last sighting


class RecentFrames:
    """Small grey copies of the last frames."""

    def __init__(self, kept: int) -> None:
        self._kept, self._grey = kept, OrderedDict[int, tuple[Grey, float]]()

    def add(self, index: int, image: Image) -> None:
        factor = min(1.0, _SIDE / max(image.shape[:2]))
        size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
        small = cv2.resize(
            image, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_NEAREST
        )
        self._grey[index] = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8), factor
        while len(self._grey) > self._kept:
            self._grey.popitem(last=False)

    def carried(self, box: Box, start: int, end: int) -> Box | None:
        """The box of frame ``start`` on the neighbouring frame ``end``; None if it is lost."""
        if start not in self._grey or end not in self._grey:
            return None
        (a, factor), (b, _) = self._grey[start], self._grey[end]
        rows, columns = _scaled(box, factor).scale(_CORE).pixels(a.shape[1], a.shape[0])
        part = a[rows, columns]
        if min(part.shape) < 3:
            return None
        corners = cv2.goodFeaturesToTrack(part, _CORNERS, 0.02, 2)
        if corners is None or len(corners) < _FEWEST:
            # nothing to follow on a plain surface: it stays if it looks alike
            return box
        points = np.asarray(corners, np.float32) + np.array([columns.start, rows.start], np.float32)
        there, forth = flow(a, b, points)
        back, home = flow(b, a, there)
        good = forth & home
        good &= np.linalg.norm((back - points).reshape(-1, 2), axis=1) <= _BACK
        if good.sum() < max(_FEWEST, _FOUND * len(points)):
            return None
        x, y = np.median((there - points).reshape(-1, 2)[good], axis=0) / factor
        return box.shift(float(x), float(y))

    def alike(self, box: Box, index: int, other: Box, at: int) -> bool:
        """Whether two places of two frames show the same thing."""
        if index not in self._grey or at not in self._grey:
            return False
        parts = []
        for place, number in ((box, index), (other, at)):
            grey, factor = self._grey[number]
            part = grey[_scaled(place, factor).scale(_CORE).pixels(grey.shape[1], grey.shape[0])]
            if min(part.shape) < 3:
                return False
            parts.append(
                cv2.resize(part, (24, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
            )
        a, b = (part - part.mean() for part in parts)
        spread = float(np.linalg.norm(a) * np.linalg.norm(b))
        if spread < 24 * 32:  # two plain surfaces: their brightness decides
            return abs(float(parts[0].mean() - parts[1].mean())) < 12
        return float((a * b).sum()) / spread >= _ALIKE


def flow(a: Grey, b: Grey, points: Points) -> tuple[Points, npt.NDArray[np.bool_]]:
    """Where the points of one picture are in another, and which of them were found."""
    there, ok, _ = cv2.calcOpticalFlowPyrLK(
        a, b, points, points.copy(), winSize=(15, 15), maxLevel=3
    )
    return np.asarray(there, np.float32), np.asarray(ok).ravel() > 0


def _scaled(box: Box, factor: float) -> Box:
    return Box(box.x0 * factor, box.y0 * factor, box.x1 * factor, box.y1 * factor)
