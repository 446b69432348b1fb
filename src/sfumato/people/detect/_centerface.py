"""CenterFace: face boxes of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np

from sfumato import store
from sfumato.media import Image
from sfumato.people._boxes import Box, from_rows, suppress
from sfumato.people.detect._anchors import Floats, suppress_rows
from sfumato.people.detect._litert import DEVICE, LiteRtModels
from sfumato.people.detect._onnx import read_graph
from sfumato.people.detect._onnx_to_litert import convert
from sfumato.people.detect._square_views import windows

_STRIDE = 4
_MULTIPLE = 32  # the network halves its input five times
_OVERLAP = 0.3
_OUTPUTS = ("537", "538", "539")  # heat map, log size, offset; the landmarks are not needed
_WINDOW = 192
# a window shifts the picture against the network's grid, which changes scores a little
_WINDOW_THRESHOLD = 0.75


class CenterFace:
    """``centerface``: strong on small and turned faces.

    The picture is scaled so that its longer side lies within ``sides``: small pictures are
    enlarged, because a face below about ten pixels is not found, and large ones are reduced.
    """

    name = "centerface"
    device = DEVICE
    at_once = True

    def __init__(
        self,
        *,
        threshold: float = 0.2,
        sides: tuple[int, int] = (640, 1280),
        margin: float = 1.15,
        offline: bool = False,
    ) -> None:
        self._sides = sides
        self._threshold, self._margin = threshold, margin
        graph = read_graph(store.path("centerface", offline=offline))
        self._models = LiteRtModels(lambda size: convert(graph, size, _OUTPUTS))

    def detect(self, image: Image) -> list[Box]:
        height, width = image.shape[:2]
        factor = self._factor(image)
        wide, high = (_MULTIPLE * math.ceil(side * factor / _MULTIPLE) for side in (width, height))
        shrink = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
        scaled = np.asarray(cv2.resize(image, (wide, high), interpolation=shrink), np.uint8)
        return self._look(scaled, width / wide, height / high)

    def detect_near(self, image: Image, near: Sequence[Box]) -> list[Box]:
        """The faces around the boxes ``near``, for a part of the price: only windows of the
        picture, each with as much around a box as the box is large, are looked at."""
        factor, found = self._factor(image), list[Box]()
        views = windows(near, image.shape[1], image.shape[0], _WINDOW / factor)
        if len(views) * _WINDOW**2 >= image.shape[0] * image.shape[1] * factor**2:
            return self.detect(image)
        for view in views:
            picture = np.asarray(view.picture(image, _WINDOW, 0.0, 255.0), np.float32)
            scale = view.side / _WINDOW
            found += [
                box.shift(view.x, view.y)
                for box in self._look(picture, scale, scale, _WINDOW_THRESHOLD)
            ]
        return suppress(found, _OVERLAP)

    def _factor(self, image: Image) -> float:
        longest: int = max(image.shape[:2])
        return float(min(max(longest, self._sides[0]), self._sides[1]) / longest)

    def _look(
        self, picture: Image | Floats, wider: float, higher: float, ease: float = 1.0
    ) -> list[Box]:
        """Faces of a picture in the network's own size, in pixels ``wider`` and ``higher``."""
        heat, extent, offset = self._models(picture.astype(np.float32))
        corners, scores = self._decode(heat[..., 0], extent, offset, ease * self._threshold)
        corners *= np.array([wider, higher] * 2, dtype=np.float32)
        best = [group[0] for group in suppress_rows(corners, scores, _OVERLAP)]
        boxes = from_rows(corners[best], scores[best], self.name)
        return [box.scale(self._margin) for box in boxes]

    @staticmethod
    def _decode(
        heat: Floats, size: Floats, offset: Floats, threshold: float
    ) -> tuple[Floats, Floats]:
        """CenterNet's decoding: a cell's centre plus its offset, the size as an exponent."""
        y, x = np.nonzero(heat > threshold)
        half_height, half_width = (np.exp(size[y, x]) * _STRIDE / 2).T
        cy = (y + offset[y, x, 0] + 0.5) * _STRIDE
        cx = (x + offset[y, x, 1] + 0.5) * _STRIDE
        corners = np.stack(
            [cx - half_width, cy - half_height, cx + half_width, cy + half_height], axis=1
        )
        return corners.astype(np.float32), heat[y, x]
