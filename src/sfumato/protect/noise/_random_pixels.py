"""Pixels replaced at random: Snow as published, and randomised response over grey levels (R7)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sfumato.media import Frame
from sfumato.privacy import (
    ApproximateRelease,
    Event,
    NoGuarantee,
    RandomizedResponse,
    SelfComposed,
    calibrate_event,
    coins,
    threshold_of,
)
from sfumato.protect._method import Promise, ProtectError, Shape
from sfumato.protect._setting_kinds import DeltaOrZero, Epsilon, Probability
from sfumato.protect.noise._bases import CHANNELS
from sfumato.protect.noise._extent import A_PIXEL, ELSEWHERE, UnitMethod, unit_extent
from sfumato.protect.noise._prediction import predict_replaced

LEVELS = 256
SNOW_GREY = np.uint8(127)


class Snow(UnitMethod):
    """Snow: every pixel becomes grey with probability p and is shown as it is otherwise.

    Guarantee: (0, 1 - p)-DP for one pixel under replace, and (0, 1 - p^(m n)) for m pixels in n
    frames: the release differs only if one of them survives. That is a weak promise, for a
    pixel that survives is shown in the clear; where delta rounds to 1 there is none. A pixel is
    replaced if a random word of 64 bits is below a threshold, whose share of 2^64 is p or above it.

    | edge case | what happens |
    | --- | --- |
    | p = 1 | everything is grey: epsilon 0, delta 0 |
    | three channels | replaced together, by one random word a pixel |
    """

    name: ClassVar[str] = "snow"
    summary: ClassVar[str] = "random pixels become grey, the rest is shown as it is"
    provides: ClassVar[str] = "(0, 1 - p^(m n)) for m pixels in n frames"
    audits: ClassVar[frozenset[str]] = frozenset({"release-code", "gather"})

    def __init__(self, *, p: Probability = 0.5, **released: Any) -> None:
        super().__init__(**released)
        self.p = p

    def survival(self, shape: Shape) -> float:
        """Probability that any pixel of the unit is shown, rounded up."""
        pixels, frames = unit_extent(self.unit, shape)
        return min(1.0, -math.expm1(pixels * frames * math.log(self.p)) * (1 + 1e-12))

    def promise(self, shape: Shape) -> Promise:
        delta = self.survival(shape)
        if delta >= 1 - 1e-6:
            return NoGuarantee(
                mechanism=self.summary,
                reason=f"Some pixel of {self.unit.sentence} is almost surely shown as it is.",
                not_covered=(ELSEWHERE,),
                randomness=self.randomness.label,
            )
        # the accountant's grid needs a little room above the exact delta
        stated = delta + (1e-9 if delta else 0.0)
        event = ApproximateRelease(0.0, delta, self.name)
        return self.guarantee(event, stated, "pld", assumptions=(A_PIXEL,))

    def remarks(self, shape: Shape) -> list[str]:
        return [
            f"Snow shows every pixel as it is with probability {1 - self.p:g}; "
            "people stay recognisable unless p is close to 1."
        ]

    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        stream, threshold = self.randomness.keystream(), threshold_of(self.p)
        stream.skip_to(first)
        for frame in frames:
            covered = coins(threshold, shape.height * shape.width, stream.next_part())
            covered = covered.reshape(shape.height, shape.width)
            yield replace(frame, image=np.where(covered[..., None], SNOW_GREY, frame.image))


class GreyLevelResponse(UnitMethod):
    """Randomised response: every value of every pixel becomes a uniform one with some probability.

    Guarantee: (epsilon, delta)-DP for the stated unit under replace (epsilon-DP at delta 0). One of
    the 256 grey levels of one channel is log(1 + 256 (1 - noise) / noise)-DP; m pixels in n frames
    are 3 m n independent values, composed exactly. A value is replaced if a random word of
    64 bits is below a threshold, whose share of 2^64 is the stated noise or above it.

    | edge case | what happens |
    | --- | --- |
    | ``noise`` given | no calibration: the card states the epsilon that it gives |
    | both or neither of ``epsilon`` and ``noise`` | refused |
    """

    name: ClassVar[str] = "randomized-response"
    summary: ClassVar[str] = "grey levels replaced by random ones (randomised response)"
    provides: ClassVar[str] = "(epsilon, delta) for pixels, frame, clip or video"

    def __init__(
        self,
        *,
        epsilon: Epsilon | None = None,
        noise: Probability | None = None,
        delta: DeltaOrZero = 0.0,
        **released: Any,
    ) -> None:
        super().__init__(**released)
        if (epsilon is None) == (noise is None):
            raise ProtectError("Expected either epsilon or noise for randomised response.")
        self.epsilon, self.fixed_noise, self.delta = epsilon, noise, delta

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"noise": self.fixed_noise}

    def values(self, shape: Shape) -> int:
        """How many independent answers the unit changes."""
        pixels, frames = unit_extent(self.unit, shape)
        return CHANNELS * pixels * frames

    def event(self, noise: float, shape: Shape) -> Event:
        return SelfComposed(RandomizedResponse(noise, LEVELS), self.values(shape))

    def noise(self, shape: Shape) -> float:
        """Probability that a value is replaced."""
        if self.fixed_noise is not None:
            return self.fixed_noise
        assert self.epsilon is not None
        values = self.values(shape)
        pure = _noise_of(self.epsilon / values * (1 - 1e-12))
        if self.delta == 0 or values == 1:
            return pure
        # spread is one over the epsilon of a single value; the pure answer is where to start
        spread = calibrate_event(
            lambda spread: self.event(_noise_of(1 / spread), shape),
            self.epsilon,
            self.delta,
            self.relation,
            guess=max(1e-3, math.sqrt(values) / self.epsilon),
        )
        return min(pure, _noise_of(1 / spread))

    def promise(self, shape: Shape) -> Promise:
        return self.guarantee(self.event(self.noise(shape), shape), self.delta, "pld")

    def remarks(self, shape: Shape) -> list[str]:
        noise = self.noise(shape)
        return [
            f"{100 * (1 - noise):.3g} % of the values are shown as they are, the others are random.",
            f"From public priors: {predict_replaced(noise)}.",
        ]

    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        stream, threshold = self.randomness.keystream(), threshold_of(self.noise(shape))
        stream.skip_to(first)
        size = (shape.height, shape.width, CHANNELS)
        for frame in frames:
            own = stream.next_part()
            replaced = coins(threshold, math.prod(size), own).reshape(size)
            drawn = np.frombuffer(own.bits(math.prod(size)), np.uint8).reshape(size)
            yield replace(frame, image=np.where(replaced, drawn, frame.image))


def _noise_of(epsilon: float) -> float:
    """Probability of replacement at which one value is ``epsilon``-DP, rounded up."""
    if epsilon > 600:
        raise ProtectError(
            f"Expected an epsilon of at most 600 a value, got {epsilon:.3g}: nothing is hidden then."
        )
    return min(1.0, LEVELS / (LEVELS + math.expm1(epsilon)) * (1 + 1e-15))
