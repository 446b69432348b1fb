"""DP-Image: Gaussian noise on a clipped latent of every frame."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sfumato.media import Frame, Image
from sfumato.privacy import Bounds, Gaussian, KeyStream, calibrate_gaussian
from sfumato.protect._method import Promise, Shape
from sfumato.protect._setting_kinds import Delta, Epsilon
from sfumato.protect.noise._bases import CHANNELS
from sfumato.protect.noise._extent import BLIND_SETTINGS, PUBLIC, LatticeMethod, unit_extent
from sfumato.protect.noise._latent import Latent, dct_latent
from sfumato.protect.noise._lattice import UNIT_ROUNDOFF, Lattice, Points, Reach
from sfumato.protect.noise._prediction import predicted, prior_energies
from sfumato.settings import FileName, OnlyInPython

Code = npt.NDArray[np.float64]
# The clipped norm is computed in double precision; this is far more than it can be off.
_ROUNDING = 1 + 1e-9
# Frames for which powers are shared out where the unit is a whole recording.
_NOMINAL = 64


class DpImage(LatticeMethod):
    """Noise on a latent whose norm is clipped, so that the encoder may be anything public.

    All components share one norm, so each gets the part of it that serves the picture best at this
    epsilon, by how far it spreads over public pictures: few and coarse ones where the noise is
    loud, more where it is not. The way back is the least-squares estimate for the same spread.

    Guarantee: (epsilon, delta)-DP for the stated unit under replace. Whatever changes in a frame, its
    clipped latent moves by at most 2 C; n frames move by at most 2 C sqrt(n). The encoder must have
    been learned from other data than the recordings it protects: a file made with ``learn_latent``,
    or the built-in waves.

    | edge case | what happens |
    | --- | --- |
    | latent longer than C | shortened to C; the picture loses contrast |
    | unit pixels(m, frames=n) | counted as n whole frames: a latent has no pixels |
    | unit clip or video, length unknown | refused |
    """

    name: ClassVar[str] = "dp-image"
    summary: ClassVar[str] = "noise on a clipped latent of every frame (DP-Image)"
    provides: ClassVar[str] = "(epsilon, delta) for frame, clip or video"
    works_with: ClassVar[tuple[str, ...]] = ("opencv-python-headless",)
    counts_pixels: ClassVar[bool] = False

    def __init__(
        self,
        *,
        epsilon: Epsilon,
        delta: Delta,
        encoder: Annotated[Latent, OnlyInPython] | FileName | None = None,
        clip: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0,
        **released: Any,
    ) -> None:
        super().__init__(**released)
        self.epsilon, self.delta, self.clip = epsilon, delta, float(clip)
        self.multiplier = calibrate_gaussian(epsilon, delta)
        if encoder is None:
            self.latent = dct_latent()
        else:
            self.latent = encoder if isinstance(encoder, Latent) else Latent.load(encoder)
        spread = self.latent.spread.astype(np.float64)
        loudness = 2 * self.clip * self.multiplier * math.sqrt(self.unit.frame_count or _NOMINAL)
        self._powers = shared_power(spread, loudness)
        self._weights = np.sqrt(self._powers) / spread

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": str(self.unit),
            "relation": self.relation.value,
            "clip": self.clip,
            "components": len(self.latent.components),
            "encoder learned from": self.latent.learned_from,
        }

    @property
    def clip_norm(self) -> float:
        """C, where a typical latent has norm 1."""
        return self.clip

    def reach(self, shape: Shape) -> Reach:
        """How far two recordings' clipped latents lie apart, whatever the encoder made of them."""
        _, frames = unit_extent(self.unit, shape)
        return Reach(
            length=2 * self.clip_norm * math.sqrt(frames) * _ROUNDING,
            touched=frames * len(self.latent.components),
            largest=self.clip_norm * _ROUNDING,
            error=2 * UNIT_ROUNDOFF * self.clip_norm,
        )

    def lattice(self, shape: Shape) -> Lattice:
        return Lattice.calibrated(self.multiplier, self.reach(shape))

    def clipped(self, image: Image) -> Code:
        """The latent, of norm at most C."""
        code = self.latent.encode(image) * self._weights
        norm = float(np.linalg.norm(code))
        return code if norm <= self.clip_norm else code * (self.clip_norm / norm)

    def noised(self, image: Image, lattice: Lattice, stream: KeyStream) -> Points:
        """What is released of one frame; all that follows is post-processing."""
        return lattice.noised(self.clipped(image), stream)

    def promise(self, shape: Shape) -> Promise:
        event = Gaussian(self.scale(shape) / self.sensitivity(shape), Bounds.DIFFERENCE)
        learned = f"the encoder was learned from {self.latent.learned_from}"
        return self.guarantee(
            event, self.delta, "analytic-gaussian",
            public=(*PUBLIC, "the encoder"), assumptions=(learned, BLIND_SETTINGS),
        )  # fmt: skip

    def estimated(self, noisy: Code, scale: float) -> Code:
        """The latent before weights, by least squares (post-processing)."""
        spread = self.latent.spread.astype(np.float64)
        return noisy * spread * np.sqrt(self._powers) / (self._powers + scale**2)

    def remarks(self, shape: Shape) -> list[str]:
        spread, scale = self.latent.spread.astype(np.float64), self.scale(shape)
        height, width = self.latent.size
        lost = CHANNELS * float(prior_energies(height, width).sum()) - float((spread**2).sum())
        error = max(0.0, lost) + float((spread**2 * scale**2 / (self._powers + scale**2)).sum())
        total = max(0.0, lost) + float((spread**2).sum())
        expected = predicted(error, total, height * width * CHANNELS)
        used = int((self._powers > 0).sum())
        return [
            f"From public priors: {expected}.",
            f"At this epsilon {used} of {len(spread)} components of the latent are used.",
        ]

    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        stream, lattice = self.randomness.keystream(), self.lattice(shape)
        stream.skip_to(first)
        for frame in frames:
            released = self.noised(frame.image, lattice, stream.next_part())
            code = self.estimated(lattice.values(released), lattice.scale)
            yield replace(frame, image=self.latent.decode(code, shape.height, shape.width))


def shared_power(spread: Code, loudness: float) -> Code:
    """How much of a norm of 1 each component gets, from public numbers alone.

    Under noise of standard deviation s on every component, the expected error sum_i spread_i^2 s^2 /
    (p_i + s^2) is least, among powers p with sum 1, at p_i = max(0, level spread_i - s^2).
    """
    noise = loudness**2
    ordered = np.sort(spread)[::-1]
    counts = np.arange(1, len(ordered) + 1)
    levels = (1 + counts * noise) / np.cumsum(ordered)
    # the most components of which even the narrowest still gets something
    used = int(np.flatnonzero(levels * ordered > noise)[-1])
    return np.asarray(np.maximum(0.0, levels[used] * spread - noise))
