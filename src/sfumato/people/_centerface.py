"""CenterFace: face boxes of any size, through OpenCV's own runtime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from sfumato import store
from sfumato.media import Image
from sfumato.people._anchors import Floats, suppress_rows
from sfumato.people._boxes import Box, from_rows
from sfumato.people._litert import threads

_STRIDE = 4
_MULTIPLE = 32  # the network halves its input five times
_OVERLAP = 0.3
_SIDES = {"centerface": (640, 1280), "centerface-native": (1, 1 << 16)}
_OUTPUTS = ("537", "538", "539", "540")  # heat map, log size, offset, five landmarks


class CenterFace:
    """``centerface``: strong on small and turned faces.

    The picture is scaled so that its longer side lies within ``sides``: small pictures are
    enlarged, because a face below about ten pixels is not found, and large ones are reduced.
    ``centerface-native`` takes every picture at its own size: faster on small ones, blind to more.
    """

    device = "cpu (OpenCV)"

    def __init__(
        self,
        name: str = "centerface",
        *,
        threshold: float = 0.2,
        sides: tuple[int, int] | None = None,
        margin: float = 1.15,
        offline: bool = False,
    ) -> None:
        self.name = name
        self._sides = sides or _SIDES[name]
        self._threshold, self._margin = threshold, margin
        cv2.setNumThreads(threads())
        self._file = str(store.path("centerface", offline=offline))
        self._size = (0, 0)
        self._net: Any = None

    def detect(self, image: Image) -> list[Box]:
        height, width = image.shape[:2]
        longest = max(height, width)
        factor = min(max(longest, self._sides[0]), self._sides[1]) / longest
        wide, high = (_MULTIPLE * math.ceil(side * factor / _MULTIPLE) for side in (width, height))
        shrink = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
        scaled = cv2.resize(image, (wide, high), interpolation=shrink)
        blob = np.asarray(cv2.dnn.blobFromImage(scaled), np.float32)
        heat, size, offset, _ = self._run(blob, (wide, high))
        corners, scores = self._decode(heat[0, 0], size[0], offset[0])
        corners *= np.array([width / wide, height / high] * 2, dtype=np.float32)
        best = [group[0] for group in suppress_rows(corners, scores, _OVERLAP)]
        boxes = from_rows(corners[best], scores[best], self.name)
        return [box.scale(self._margin) for box in boxes]

    def _run(self, blob: Floats, size: tuple[int, int]) -> Sequence[Floats]:
        # OpenCV 4.14 keeps the buffers of the first size and then answers nonsense (scores of one
        # everywhere) for another, so every size gets a network of its own.
        if size != self._size:
            self._net, self._size = cv2.dnn.readNetFromONNX(self._file), size
        self._net.setInput(blob)
        outputs: Sequence[Floats] = self._net.forward(_OUTPUTS)
        return outputs

    def _decode(self, heat: Floats, size: Floats, offset: Floats) -> tuple[Floats, Floats]:
        """CenterNet's decoding: a cell's centre plus its offset, the size as an exponent."""
        y, x = np.nonzero(heat > self._threshold)
        extent = np.exp(size[:, y, x]) * _STRIDE
        cy = (y + offset[0, y, x] + 0.5) * _STRIDE
        cx = (x + offset[1, y, x] + 0.5) * _STRIDE
        half_height, half_width = extent / 2
        corners = np.stack(
            [cx - half_width, cy - half_height, cx + half_width, cy + half_height], axis=1
        )
        return corners.astype(np.float32), heat[y, x]
