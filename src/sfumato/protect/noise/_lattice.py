"""Numbers on a public lattice, and noise in whole steps of it (docs/soundness.md, "Noise on a lattice").

What is released are integers: a number divided by the public spacing and rounded, plus noise that is
drawn exactly. The noise is always a power of two of spacings wide, and its width in the picture's
units follows from the spacing. Whatever is done with the integers afterwards is post-processing.

Rounding moves a number by half a spacing at most, and double precision moves it a little before; both
on either side of a neighbouring pair. So the sensitivity that noise is made for includes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.privacy import MOST_NOISE_BITS, DiscreteNoise, KeyStream, NoiseKind

Numbers = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]

# Half of a unit in the last place of 1: no operation in double precision is off by a larger part.
UNIT_ROUNDOFF = 2.0**-53
LEAST_BITS = 20
# Steps are made so small that rounding adds no more than 2^-20 to the noise, where bits allow it.
_ROUNDING_SHARE = 20
# No number lies further than this from zero, so that sums with noise stay within 64 bits.
_MOST_STEPS = 2.0**61
# A discrete Gaussian is as good as a continuous one narrower by 2^-36; a discrete Laplace as good
# as a continuous one whose mean moves by 2^-22 of a step more in each number. More than covered here,
# with the rounding of the few operations that compute a sensitivity.
_WIDER, _LONGER = 1 + 2.0**-30, 1 + 2.0**-20


class LatticeError(SfumatoError):
    """Noise so small, or a unit so large, that no lattice of 64 bits serves it."""


def summation_error(terms: int) -> float:
    """How far off a sum of ``terms`` products may be, as a part of the sum of their sizes.

    In any order, with fused operations or without (Higham, Accuracy and Stability, lemma 3.1).
    """
    return terms * UNIT_ROUNDOFF / (1 - terms * UNIT_ROUNDOFF)


@dataclass(frozen=True)
class Reach:
    """How far a change of the unit can move the numbers that are noised.

    ``length``: in exact arithmetic, in the l1 or l2 norm (``order``). ``touched``: how many numbers it
    can move at all. ``largest``: the size of any number. ``error``: how far off double precision may
    be in one of them, its division by the spacing included.
    """

    length: float
    touched: int
    largest: float
    error: float
    order: Literal[1, 2] = 2

    @property
    def spread(self) -> float:
        """The norm of a move by one in every number that can be touched."""
        return float(self.touched) if self.order == 1 else math.sqrt(self.touched)

    def on(self, spacing: float) -> float:
        """The same on a lattice: with what rounding may add, half a step on either side."""
        rounded = self.spread * (_LONGER * spacing + 2 * self.error)
        return (self.length + rounded) * _WIDER


@dataclass(frozen=True)
class Lattice:
    """Whole multiples of ``spacing``, and noise of ``scale`` = 2^bits spacings on them."""

    scale: float
    bits: int
    kind: NoiseKind = "gaussian"

    @classmethod
    def calibrated(cls, multiplier: float, reach: Reach, kind: NoiseKind = "gaussian") -> Lattice:
        """The least noise that is ``multiplier`` times the sensitivity on its own lattice."""
        bits = _bits(multiplier * reach.length, reach, kind)
        # scale = multiplier * reach.on(scale / 2^bits), solved for the scale
        share = multiplier * reach.spread * _LONGER * _WIDER / 2.0**bits
        if share > 0.5:
            raise LatticeError(
                f"Expected a unit that touches fewer numbers, or a larger epsilon, got "
                f"{reach.touched} numbers and noise of {multiplier:.3g} times their move: rounding "
                "them would need more noise than the picture itself."
            )
        alone = (reach.length + 2 * reach.spread * reach.error) * _WIDER
        return cls(multiplier * alone / (1 - share) * _WIDER, bits, kind)._within(reach)

    @classmethod
    def of_scale(cls, scale: float, reach: Reach, kind: NoiseKind = "gaussian") -> Lattice:
        """For noise that somebody else chose: steps that are small beside what the unit moves."""
        return cls(scale, _bits(scale, reach, kind), kind)._within(reach)

    def _within(self, reach: Reach) -> Lattice:
        if not (self.spacing > 1e-290 and reach.largest / self.spacing < _MOST_STEPS):
            raise LatticeError(
                f"Expected noise of more than {reach.largest * 2.0**self.bits / _MOST_STEPS:.3g}, "
                f"got {self.scale:.3g}: nothing would be hidden. Choose a smaller epsilon."
            )
        return self

    @property
    def spacing(self) -> float:
        return math.ldexp(self.scale, -self.bits)

    @property
    def noise(self) -> DiscreteNoise:
        return DiscreteNoise(self.kind, self.bits)

    def points(self, values: Numbers) -> Points:
        """The nearest point of the lattice to each value, in steps."""
        steps = np.rint(values / self.spacing)
        if not np.abs(steps).max(initial=0.0) < 2 * _MOST_STEPS:
            raise LatticeError(
                "Expected finite numbers no larger than those of an 8-bit picture, got others."
            )
        return steps.astype(np.int64)

    def noised(self, values: Numbers, stream: KeyStream) -> Points:
        """What is released of ``values``; all that follows is post-processing."""
        points = self.points(values)
        points += self.noise.draw(points.size, stream).reshape(points.shape)
        return points

    def values(self, points: Points) -> Numbers:
        """Points in the picture's units again."""
        return np.asarray(points * self.spacing)


def _bits(scale: float, reach: Reach, kind: NoiseKind) -> int:
    """As many as make rounding small beside what the unit moves, if all numbers stay within 64 bits."""
    wanted = _log2(reach.spread * scale / reach.length) + _ROUNDING_SHARE
    room = _log2(_MOST_STEPS / reach.largest * scale)
    return max(LEAST_BITS, min(math.ceil(wanted), math.floor(room), MOST_NOISE_BITS[kind]))


def _log2(value: float) -> float:
    """Of 1 for anything smaller, and of no more than a word holds."""
    return math.log2(min(max(value, 1.0), 2.0**64))
