"""NanoDet: boxes of people by a third network, which takes no part in the search."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box, from_rows
from sfumato.people.detect._litert import DEVICE, LiteRtModels
from sfumato.people.detect._tfjs import load_graph_model
from sfumato.people.detect._tfjs_to_litert import convert
from sfumato.people.detect._tiles import one_each, whole_and_tiles

Floats = npt.NDArray[np.float32]

_STRIDES = (8, 16, 32)
_HEADS = tuple(f"PartitionedCall/Add_{number}" for number in (29, 33, 37))
_KINDS = 80  # logits of COCO's kinds of things; people come first
_BINS = 11  # each side's distance from the middle is a distribution over 0 to 10 strides
# what the network was trained with, in the order blue, green, red
_MEAN = np.array([103.53, 116.28, 123.675], np.float32)
_SPREAD = np.array([57.375, 57.12, 58.395], np.float32)


class NanoDet:
    """``nanodet``: whole people and parts of them; small ones in tiles."""

    name = "nanodet"
    device = DEVICE
    at_once = True
    birth = 0.35  # score from which a find alone is somebody new

    def __init__(
        self,
        *,
        threshold: float = 0.3,
        sides: tuple[int, int] = (416, 512),
        tile_side: int = 416,
        tiles: bool = True,
        offline: bool = False,
    ) -> None:
        self._threshold = threshold
        self._sides, self._tile_side, self._tiles = sides, tile_side, tiles
        graph = load_graph_model("nanodet", offline=offline)
        self._models = LiteRtModels(lambda size: convert(graph, size, _HEADS))

    def detect(self, image: Image) -> list[Box]:
        """Everybody, the surest first."""
        height, width = image.shape[:2]
        found: list[Box] = []
        cut: list[bool] = []
        for tile in whole_and_tiles(image, self._sides, self._tile_side, tiles=self._tiles):
            pixels = np.ascontiguousarray((tile.pixels[..., ::-1] - _MEAN) / _SPREAD)
            corners, scores = decode(self._models(pixels), self._threshold)
            here = from_rows(tile.to_picture(corners), scores, self.name)
            found += here
            cut += [tile.cuts(box, width, height) for box in here]
        kept = one_each(found, cut)
        return sorted((found[i] for i in kept), key=lambda box: -box.score)


def decode(heads: Sequence[Floats], threshold: float) -> tuple[Floats, Floats]:
    """Corners (n, 4) in pixels of the network's input and scores (n,), the surest first; one person may
    have several boxes."""
    corners: list[Floats] = []
    scores: list[Floats] = []
    for head, stride in zip(heads, _STRIDES, strict=True):
        logits = np.ascontiguousarray(head[..., 0])
        score = np.asarray(1 / (1 + np.exp(-np.clip(logits, -80, 80))), np.float32)
        largest = cv2.dilate(score, np.ones((3, 3), np.uint8))
        y, x = np.nonzero((score >= threshold) & (score == largest))
        bins = head[y, x, _KINDS:].reshape(-1, 4, _BINS)
        likely = np.exp(bins - bins.max(axis=-1, keepdims=True))
        away = (likely * np.arange(_BINS)).sum(axis=-1) / likely.sum(axis=-1) * stride
        middle = (np.stack([x, y, x, y], axis=1) + 0.5) * stride
        corners.append(np.asarray(middle + away * np.array([-1, -1, 1, 1]), np.float32))
        scores.append(score[y, x])
    every, sure = np.concatenate(corners), np.concatenate(scores)
    order = np.argsort(-sure, kind="stable")
    return every[order], sure[order]
