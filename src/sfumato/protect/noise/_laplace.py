"""Laplace noise on pixels, and on the means of blocks of pixels (DPPix)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sfumato.media import Frame
from sfumato.privacy import Bounds, Laplace
from sfumato.protect._method import Promise, Shape
from sfumato.protect._setting_kinds import Epsilon
from sfumato.protect.noise._bases import reach_of
from sfumato.protect.noise._block_mean import BlockMean
from sfumato.protect.noise._extent import LatticeMethod, unit_extent
from sfumato.protect.noise._lattice import Lattice, Reach
from sfumato.protect.noise._noisy_blocks import NoisyBlocks
from sfumato.protect.noise._prediction import predict_means


class LaplaceNoise(LatticeMethod):
    """Laplace noise on every value of every pixel.

    Guarantee: epsilon-DP (delta 0) for the stated unit under replace: m pixels in n frames move the
    3 m n values by at most 255 each, so the scale is 255 * 3 m n / epsilon, and a little more for
    putting them on the lattice of the discrete Laplace noise.

    | edge case | what happens |
    | --- | --- |
    | unit clip or video, length unknown | refused |
    | values beyond black and white | clipped after the noise, which is post-processing |
    """

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise on every pixel"
    provides: ClassVar[str] = "epsilon for pixels, frame, clip or video"

    def __init__(self, *, epsilon: Epsilon, **released: Any) -> None:
        super().__init__(**released)
        self.epsilon = epsilon
        self.b = 1

    @property
    def lookahead(self) -> int:
        return 1

    def basis(self, shape: Shape) -> BlockMean:
        return BlockMean(shape.height, shape.width, size=self.b)

    def reach(self, shape: Shape) -> Reach:
        return reach_of(self.basis(shape), *unit_extent(self.unit, shape), "laplace")

    def lattice(self, shape: Shape) -> Lattice:
        return Lattice.calibrated(1 / self.epsilon, self.reach(shape), "laplace")

    def promise(self, shape: Shape) -> Promise:
        event = Laplace(self.scale(shape) / self.sensitivity(shape), Bounds.DIFFERENCE)
        return self.guarantee(event, 0.0, "pld")

    def remarks(self, shape: Shape) -> list[str]:
        expected = predict_means(shape.height, shape.width, self.b, self.scale(shape))
        return [f"From public priors: {expected}."]

    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        stream = self.randomness.keystream()
        stream.skip_to(first)
        noisy = NoisyBlocks(self.basis(shape), self.lattice(shape), stream)
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

    def __init__(self, *, b: Annotated[int, Field(ge=1, le=1024)] = 12, **released: Any) -> None:
        super().__init__(**released)
        self.b = b
