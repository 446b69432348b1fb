"""BlazeFace, short and full range: fast face boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.media import Image
from sfumato.people._boxes import Box, from_rows, unite
from sfumato.people.detect._anchors import cell_centres, decode, suppress_rows, weighted
from sfumato.people.detect._litert import DEVICE, LiteRtModel
from sfumato.people.detect._square_views import reduced, square_views

_OVERLAP = 0.3
_EASE = 0.6


@dataclass(frozen=True)
class _Variant:
    model: str
    layers: tuple[tuple[int, int], ...]
    threshold: float
    tiles: bool


# (stride, anchors per cell): short range 16x16x2 + 8x8x6 = 896, full range 48x48x1 = 2304
_VARIANTS = {
    "blazeface-short": _Variant("face-detection-short-range", ((8, 2), (16, 6)), 0.6, False),
    "blazeface": _Variant("face-detection-full-range", ((4, 1),), 0.5, True),
}


class BlazeFace:
    """``blazeface`` (full range, the default) or ``blazeface-short`` (within two metres).

    With ``tiles`` a wide picture is also looked at in overlapping squares, which finds smaller
    faces; on by default for the full range only, because the short range then sees faces in
    trousers. The network's box spans eyebrows to chin; ``margin`` widens it to the whole face.
    """

    device = DEVICE
    at_once = True

    def __init__(
        self,
        name: str = "blazeface",
        *,
        threshold: float | None = None,
        tiles: bool | None = None,
        margin: float = 1.3,
        offline: bool = False,
    ) -> None:
        variant = _VARIANTS[name]
        self.name = name
        self._threshold = variant.threshold if threshold is None else threshold
        self._tiles = variant.tiles if tiles is None else tiles
        self._margin = margin
        self._model = LiteRtModel(variant.model, offline=offline)
        self._size = self._model.input_size[0]
        self._centres = cell_centres(self._size, variant.layers)

    def detect(self, image: Image) -> list[Box]:
        return self._look(image, self._threshold)

    def detect_near(self, image: Image, near: Sequence[Box]) -> list[Box]:
        """All of the picture, as it is seen in one look, but more easily alarmed: for covers, which
        a codec still changes."""
        return self._look(image, _EASE * self._threshold)

    def _look(self, image: Image, threshold: float) -> list[Box]:
        found: list[Box] = []
        small, wider, higher = reduced(image, 2 * self._size)
        height, width = small.shape[:2]
        for view in square_views(width, height, tiles=self._tiles):
            raw, logits = self._model(view.picture(small, self._size, -1.0, 1.0))
            corners, _, scores = decode(raw, logits, self._centres, self._size, threshold)
            groups = suppress_rows(corners, scores, _OVERLAP)
            best = weighted(corners, scores, groups) * view.side
            best[:, 0::2] = (best[:, 0::2] + view.x) * wider
            best[:, 1::2] = (best[:, 1::2] + view.y) * higher
            found += from_rows(best, scores[[group[0] for group in groups]], self.name)
        return [box.scale(self._margin) for box in unite(found)]
