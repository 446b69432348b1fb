"""Laplace noise on pixels, and on the means of blocks of pixels (DPPix)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from sfumato.media import Frame
from sfumato.privacy import Bounds, Guarantee, Laplace, Relation, Unit
from sfumato.protect._method import Promise, ProtectError, Shape
from sfumato.protect.video._block_mean import BlockMean
from sfumato.protect.video._extent import (
    A_PIXEL,
    BLIND_SETTINGS,
    NOT_COVERED,
    PUBLIC,
    UnitMethod,
    unit_extent,
)
from sfumato.protect.video._noisy_blocks import PEAK, NoisyBlocks
from sfumato.protect.video._prediction import predict_means

# float32 sums of means may be off by this part; the noise is widened accordingly
_ROUNDING = 1 + 1e-6


class LaplaceNoise(UnitMethod):
    """Laplace noise on every value of every pixel.

    Guarantee: epsilon-DP (delta 0) for the stated unit under replace: m pixels in n frames move the
    3 m n values by at most 255 each, so the scale is 255 * 3 m n / epsilon.

    | edge case | what happens |
    | --- | --- |
    | unit clip or video, length unknown | refused |
    | values beyond black and white | clipped after the noise, which is post-processing |
    """

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise on every pixel"
    provides: ClassVar[str] = "epsilon for pixels, frame, clip or video"

    def __init__(
        self,
        *,
        epsilon: float,
        unit: Unit | str,
        relation: Relation | str = Relation.REPLACE,
        seed: int | None = None,
    ) -> None:
        super().__init__(unit=unit, relation=relation, seed=seed)
        if not 0 < epsilon < float("inf"):
            raise ProtectError(f"Expected epsilon > 0 and finite, got {epsilon!r}.")
        self.epsilon = epsilon
        self.block_size = 1

    @property
    def lookahead(self) -> int:
        return 1

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "unit": str(self.unit),
            "relation": self.relation.value,
        }

    def basis(self, shape: Shape) -> BlockMean:
        return BlockMean(shape.height, shape.width, size=self.block_size)

    def sensitivity(self, shape: Shape) -> float:
        """Largest move of the released values in the l1 norm, over every change of the unit."""
        return PEAK * self.basis(shape).l1_gain(*unit_extent(self.unit, shape)) * _ROUNDING

    def scale(self, shape: Shape) -> float:
        """Scale of the Laplace noise on each released value."""
        return self.sensitivity(shape) / self.epsilon

    def promise(self, shape: Shape) -> Promise:
        return Guarantee(
            mechanism=self.summary,
            unit=self.unit,
            relation=self.relation,
            delta=0.0,
            event=Laplace(self.scale(shape) / self.sensitivity(shape), Bounds.DIFFERENCE),
            accountant="pld",
            public=PUBLIC,
            assumptions=(A_PIXEL, BLIND_SETTINGS),
            not_covered=NOT_COVERED,
            randomness=self.randomness.label,
        )

    def remarks(self, shape: Shape) -> list[str]:
        expected = predict_means(shape.height, shape.width, self.block_size, self.scale(shape))
        return [f"From public priors: {expected}."]

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        noisy = NoisyBlocks(
            self.basis(shape), self.scale(shape), self.randomness.generator(), noise="laplace"
        )
        for frame in frames:
            (picture,) = noisy([frame.image])
            yield replace(frame, image=picture)


class DpPix(LaplaceNoise):
    """DPPix: the mean of every block of b x b pixels, with Laplace noise (Fan 2018).

    Guarantee: epsilon-DP (delta 0) for the stated unit under replace. A pixel moves one mean of
    each channel by at most 255 / b^2, so m pixels in n frames need the scale 255 * 3 m n / (b^2
    epsilon). The paper's neighbours, pictures that differ in at most m pixels, are the unit
    ``pixels(m, frames=1)``.

    | edge case | what happens |
    | --- | --- |
    | size not divisible by b | filled up with grey, which is public |
    | m > b^2 | counted pixel by pixel: several blocks may be filled |
    """

    name: ClassVar[str] = "dppix"
    summary: ClassVar[str] = "block means with Laplace noise (DPPix)"
    provides: ClassVar[str] = "epsilon for pixels, frame, clip or video"

    def __init__(
        self,
        *,
        epsilon: float,
        unit: Unit | str,
        relation: Relation | str = Relation.REPLACE,
        b: int = 12,
        seed: int | None = None,
    ) -> None:
        super().__init__(epsilon=epsilon, unit=unit, relation=relation, seed=seed)
        if b < 1:
            raise ProtectError(f"Expected blocks of b >= 1 pixels, got {b!r}.")
        self.block_size = b

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"b": self.block_size}
