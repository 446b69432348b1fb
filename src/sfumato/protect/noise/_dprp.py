"""Video-DPRP: differentially private projection and reconstruction of whole videos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sfumato.media import Frame
from sfumato.privacy import (
    Bounds,
    Gaussian,
    Guarantee,
    Unit,
    calibrate_gaussian,
    format_epsilon,
)
from sfumato.protect._method import Promise, ProtectError, Shape, SpanRule
from sfumato.protect._setting_kinds import Delta, Epsilon, FrameCount
from sfumato.protect.noise._bases import CHANNELS, Basis, Dct3, reach_of
from sfumato.protect.noise._dprp_published import Coefficients, published_k, published_noise
from sfumato.protect.noise._extent import UnitMethod, unit_extent
from sfumato.protect.noise._lattice import Lattice, Reach
from sfumato.protect.noise._noisy_blocks import (
    LONGEST_SMOOTHING,
    NoisyBlocks,
    block_lengths,
    smoothed,
)
from sfumato.protect.noise._prediction import Prediction, predict_dct, predict_projection
from sfumato.protect.noise._random_bases import (
    Blocks,
    GaussianProjection,
    Srht,
    johnson_lindenstrauss,
)

BasisName = Literal["dct", "srht", "gaussian"]


class VideoDprp(UnitMethod):
    """Noise on the low-dimensional coefficients of a video.

    Guarantee: (epsilon, delta)-DP for the stated unit of pixels under replace, by the analytic
    Gaussian mechanism at the basis' own leverage sensitivity, drawn exactly on a lattice. With
    ``calibration="published"`` the noise is as wide as the paper's and the card shows what that gives.

    | edge case | what happens |
    | --- | --- |
    | length no multiple of a block | the last two blocks share their frames evenly, each with a basis and noise of its own |
    | unit clip or video, length unknown | refused |
    | nothing useful can be left | said before it runs; the release is still sound |
    | ``clips=3`` | the paper's "3 clips": three blocks, each frame in one of them |
    | ``k="32x32"`` | one of the paper's grids, times three channels (3072 numbers without it); the basis dct has kept_frames and kept_size instead, and says so |
    """

    name: ClassVar[str] = "dprp"
    summary: ClassVar[str] = "private projection and reconstruction of the whole picture"
    provides: ClassVar[str] = "(epsilon, delta) for pixels, frame, clip or video"
    noise_needs_size: ClassVar[bool] = True
    works_with: ClassVar[tuple[str, ...]] = ("torch",)

    def __init__(
        self,
        *,
        epsilon: Epsilon,
        delta: Delta,
        basis: BasisName = "dct",
        block: FrameCount = 64,
        kept_frames: FrameCount = 4,
        kept_size: Annotated[int, Field(ge=1, le=8192)] = 16,
        k: Coefficients | None = None,
        clips: Annotated[int, Field(ge=1, le=10**6)] | None = None,
        shrink: bool = True,
        smooth: Annotated[int, Field(ge=0, le=LONGEST_SMOOTHING)] = 0,
        calibration: Literal["sound", "published"] = "sound",
        b: Annotated[float, Field(gt=0, lt=1)] = 0.8,
        **released: Any,
    ) -> None:
        super().__init__(**released)
        if calibration == "published" and basis != "gaussian":
            raise ProtectError(
                "The published calibration belongs to the basis gaussian: choose that."
            )
        self._for_nothing = basis == "dct" and k is not None
        k = published_k(3072 if k is None else k)
        if kept_frames > block:
            raise ProtectError(
                f"Expected at most as many kept frames as a block has, got {kept_frames} of {block}."
            )
        self.epsilon, self.delta = epsilon, delta
        self.basis_name = basis
        self.block, self.kept_frames, self.kept_size, self.k = block, kept_frames, kept_size, k
        self.shrink, self.calibration, self.b = shrink, calibration, b
        self.clips, self.smooth = clips, smooth
        # fails early on an impossible epsilon or delta
        self.multiplier = calibrate_gaussian(epsilon, delta)

    @property
    def lookahead(self) -> int:
        return 2 * self.block + self.smooth

    def lookahead_for(self, shape: Shape) -> int:
        return 2 * self.block_length(shape) + self.smooth

    @property
    def needs_length(self) -> bool:
        return super().needs_length or self.clips is not None or self.calibration == "published"

    @property
    def settings(self) -> dict[str, Any]:
        shared = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": str(self.unit),
            "relation": self.relation.value,
            "basis": self.basis_name,
            "block": self.block,
            "clips": self.clips,
            "shrink": self.shrink,
            "smooth": self.smooth,
            "calibration": self.calibration,
        }
        if self.basis_name == "dct":
            return shared | {"kept_frames": self.kept_frames, "kept_size": self.kept_size}
        return shared | {"k": self.k} | ({"b": self.b} if self.calibration == "published" else {})

    def block_length(self, shape: Shape) -> int:
        """FrameCount in a block: as set, or what cuts the recording into ``clips`` equal parts."""
        if self.clips is None:
            return self.block if shape.frames is None else min(self.block, shape.frames)
        if shape.frames is None:
            raise ProtectError(
                f"Cutting a recording into {self.clips} clips needs the number of its frames: "
                "pass count=, or protect a file."
            )
        return -(-shape.frames // self.clips)

    def block_lengths(self, shape: Shape) -> set[int]:
        """Every length that a block may have, in a recording whose end may not be known."""
        size = self.block_length(shape)
        if shape.frames is None:
            return set(range(1, size + 1))
        return set(block_lengths(shape.frames, size))

    def kept_in(self, frames: int) -> int:
        """Frequencies in time kept of a block of ``frames``: up to the same one as in a whole block."""
        whole = self.block if self.clips is None else frames
        return min(frames, -(-self.kept_frames * frames // whole))

    def basis(self, shape: Shape, frames: int | None = None) -> Basis:
        """For blocks of this recording, or for one of ``frames`` frames."""
        block = frames or self.block_length(shape)
        if self.basis_name == "dct":
            return Dct3(
                shape.height,
                shape.width,
                block=block,
                kept_frames=self.kept_in(block),
                kept_size=self.kept_size,
            )
        return Blocks(random_basis(self.basis_name, shape.height, shape.width, self.k), block)

    def reach(self, shape: Shape, unit: Unit | None = None, frames: int | None = None) -> Reach:
        """How far any change of the unit moves a block's coefficients, before they are rounded."""
        return reach_of(self.basis(shape, frames), *unit_extent(unit or self.unit, shape))

    def lattice(self, shape: Shape, frames: int | None = None) -> Lattice:
        """Where the coefficients of a block are rounded to, and how wide the noise is there."""
        reach = self.reach(shape, frames=frames)
        if self.calibration == "published":
            sigma = published_noise(self.epsilon, self.delta, self.k, self.b).sigma_1
            return Lattice.of_scale(sigma, reach)
        return Lattice.calibrated(self.multiplier, reach)

    def sensitivity(
        self, shape: Shape, unit: Unit | None = None, frames: int | None = None
    ) -> float:
        """Largest move of the coefficients over every change of the unit, their rounding included."""
        return self.reach(shape, unit, frames).on(self.lattice(shape, frames).spacing)

    def scale(self, shape: Shape, frames: int | None = None) -> float:
        """Standard deviation of the noise on each coefficient of a block."""
        return self.lattice(shape, frames).scale

    def promise(self, shape: Shape) -> Promise:
        made = self._promise_for(self.unit, shape)
        if self.calibration != "published":
            return made
        # whoever reads the card of the paper's noise shall see what it gives for every unit
        others = tuple(
            f"what the paper promises: the same noise gives epsilon {format_epsilon(each.epsilon)} "
            f"for {each.unit} ({_terms(each)})"
            for each in self.true_promises(shape)
            if each.unit != self.unit
        )
        return replace(made, not_covered=(*made.not_covered, *others))

    def _promise_for(self, unit: Unit, shape: Shape) -> Guarantee:
        published = self.calibration == "published"
        # every block is as loud as its own basis needs for self.unit; for another unit one may be worse
        lengths = {self.block_length(shape)}
        if unit != self.unit and self.basis_name == "dct":
            lengths = self.block_lengths(shape)
        quietest = min(
            self.scale(shape, frames) / self.sensitivity(shape, unit, frames) for frames in lengths
        )
        mechanism = f"Video-DPRP{' as published' if published else ''}, basis {self.basis_name}"
        event = Gaussian(quietest, Bounds.DIFFERENCE)
        return self.guarantee(
            event, self.delta, "analytic-gaussian", unit=unit, mechanism=mechanism
        )

    def true_promises(self, shape: Shape, pixels: int = 16) -> list[Guarantee]:
        """The same noise stated for other units: m pixels, a frame, a person in every frame."""
        units = [Unit.pixels(pixels, frames=1), Unit.frame()]
        if shape.frames is not None:
            units.append(Unit.video())
        return [self._promise_for(unit, shape) for unit in units]

    def predict(self, shape: Shape) -> Prediction:
        """Expected quality from public priors."""
        block, scale = self.block_length(shape), self.scale(shape)
        if self.basis_name == "dct":
            kept = self.kept_in(block)
            return predict_dct(shape.height, shape.width, block, kept, self.kept_size, scale)
        length = shape.height * shape.width * CHANNELS
        # orthonormal rows keep variances; R has N(0, 1/k) entries, and tr (R'R)^-1 = k^2 / (d - k - 1)
        published = self.basis_name == "gaussian"
        variance = length / self.k if published else 1.0
        returned = self.k / max(1, length - self.k - 1) if published else 1.0
        return predict_projection(length, self.k, variance, returned, scale, shrink=self._shrinks)

    @property
    def _shrinks(self) -> bool:
        return self.shrink and self.calibration == "sound"

    def remarks(self, shape: Shape) -> list[str]:
        said = [f"From public priors: {self.predict(shape)}."]
        if self._for_nothing:
            said.append(
                "k is for the bases srht and gaussian: dct keeps kept_frames x kept_size x kept_size, "
                f"{self.kept_frames} x {self.kept_size} x {self.kept_size} a channel here."
            )
        if self.basis_name != "dct":
            kept = min(1.0, self.k / (shape.height * shape.width * CHANNELS))
            distortion = johnson_lindenstrauss(self.k, shape.frames or self.block)
            said.append(
                f"A random projection to k = {self.k} keeps {100 * kept:.2g} % of the picture's energy; "
                f"its Johnson-Lindenstrauss distortion is {distortion:.2g}."
            )
        if self.calibration == "published":
            said += [
                f"The published noise really gives epsilon {format_epsilon(each.epsilon)} for "
                f"{each.unit} ({_terms(each)})."
                for each in self.true_promises(shape)
            ]
        return said

    def spans(self, shape: Shape) -> SpanRule | None:
        """Whole blocks; what smooths over time would need noisy frames of the neighbouring spans."""
        return None if self.smooth else SpanRule(self.block_length(shape))

    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        timing: list[Frame] = []
        stream, block = self.randomness.keystream(), self.block_length(shape)
        if first % block:
            raise ProtectError(f"Expected a span of whole blocks of {block}, got one from {first}.")
        stream.skip_to(first // block)

        def pictures() -> Iterator[Any]:
            for frame in frames:
                # keep the timing only: the original picture must not outlive its block's turn
                timing.append(replace(frame, image=_NO_PICTURE))
                yield frame.image

        noisy = NoisyBlocks(
            basis=self.basis(shape),
            lattice=self.lattice(shape),
            stream=stream,
            shrink=self._shrinks,
            shorter=lambda length: (self.basis(shape, length), self.lattice(shape, length)),
        )
        for picture in smoothed(noisy(pictures()), self.smooth):
            yield replace(timing.pop(0), image=picture)


_NO_PICTURE = np.zeros((0, 0, 3), dtype=np.uint8)


# The random matrices are public, so everybody may draw the same ones: one for all videos of a size.
# Their own norms decide the sensitivity, for data chosen after them too (R6).
_MATRIX_KEY = 0x5F0A_70D9


@lru_cache(maxsize=1)
def random_basis(name: str, height: int, width: int, k: int) -> Srht | GaussianProjection:
    """The public random basis for pictures of this size, for blocks of one frame."""
    generator = np.random.Generator(np.random.Philox(key=_MATRIX_KEY))
    kind = Srht if name == "srht" else GaussianProjection
    return kind(height, width, block=1, k=k, generator=generator)


def _terms(promise: Guarantee) -> str:
    """What an epsilon is about, beside its unit."""
    return (
        f"relation {promise.relation.value}, delta {promise.delta:g}, every recording released once, "
        f"accountant {promise.accountant}"
    )
