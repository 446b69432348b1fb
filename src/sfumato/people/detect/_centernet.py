"""CenterNet on a MobileNet: boxes of people (of COCO's eighty kinds of things, the first)."""

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

_STRIDE = 4
_REACH = 16  # the four distances from the middle to the sides are in units of this many pixels
_PEAK = 3  # a middle is the largest of this many cells around
_KINDS = "tower_0/CenternetHead/centernet_cls_output/BiasAdd"  # logits; people come first
_SIDES = "tower_0/CenternetHead/centernet_wh_output/BiasAdd"


class CenterNet:
    """``centernet``: people from behind, lying down, cut off by the edge; small ones in tiles."""

    name = "centernet"
    device = DEVICE
    at_once = in_tiles = turns = True
    birth = 0.25  # score from which a find alone is somebody new

    def __init__(
        self,
        *,
        threshold: float = 0.2,
        sides: tuple[int, int] = (384, 512),
        tile_side: int = 512,
        tiles: bool = True,
        offline: bool = False,
    ) -> None:
        self._threshold = threshold
        self._sides, self._tile_side, self._tiles = sides, tile_side, tiles
        graph = load_graph_model("centernet", offline=offline)
        # people are the first kind: what the others would say need not be computed
        self._models = LiteRtModels(
            lambda size: convert(graph, size, (_KINDS, _SIDES), channels={_KINDS: 1})
        )

    def detect(self, image: Image, *, tiles: bool = True) -> list[Box]:
        """Everybody, the surest first; without ``tiles`` those who are large enough."""
        height, width = image.shape[:2]
        found: list[Box] = []
        cut: list[bool] = []
        for tile in whole_and_tiles(
            image, self._sides, self._tile_side, tiles=self._tiles and tiles
        ):
            corners, scores = decode(self._models(tile.pixels), self._threshold)
            here = from_rows(tile.to_picture(corners), scores, self.name)
            found += here
            cut += [tile.cuts(box, width, height) for box in here]
        kept = one_each(found, cut)
        return sorted((found[i] for i in kept), key=lambda box: -box.score)


def decode(heads: Sequence[Floats], threshold: float) -> tuple[Floats, Floats]:
    """Corners (n, 4) in pixels of the network's input and scores (n,), the surest first."""
    kinds, sides = heads
    logits = np.ascontiguousarray(kinds[..., 0])
    largest = cv2.dilate(logits, np.ones((_PEAK, _PEAK), np.uint8))
    score = np.asarray(1 / (1 + np.exp(-np.clip(logits, -80, 80))), np.float32)
    y, x = np.nonzero((logits == largest) & (score >= threshold))
    order = np.argsort(-score[y, x], kind="stable")
    y, x = y[order], x[order]
    middle = np.stack([x, y, x, y], axis=1).astype(np.float32) * np.float32(_STRIDE)
    outwards = np.array([-1, -1, 1, 1], np.float32) * np.float32(_REACH)
    return middle + sides[y, x] * outwards, score[y, x]
