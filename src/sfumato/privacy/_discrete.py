"""Noise and coins drawn exactly, from random bits and integers alone.

Discrete Gaussian: P(x) proportional to exp(-x^2 / 2^(2 bits + 1)), standard deviation 2^bits.
Discrete Laplace: P(x) proportional to exp(-|x| / 2^bits).

**How.** Write |x| = a 2^j + b with 0 <= b < 2^j and j = bits - cells. The cell a is drawn from the
weights exp(-f(a 2^j)), f being the exponent, by comparing a uniform number with their cumulative
sums; b is uniform; the pair is kept with probability exp(-(f(a 2^j + b) - f(a 2^j))), else all is drawn
again. What is kept has weight exp(-f(|x|)); a fair sign follows, and minus zero is drawn again.

**Why it is exact.** A uniform number is compared by its first 64 bits with the first 64 bits of a
sum that was computed to proven digits; where they are equal (probability below 2^-50 a value), further
bits of both are made until they differ. The exponent of the second step is a fraction N / 2^63, so its
coin is made of comparisons of whole numbers alone (Canonne, Kamath, Steinke 2020, algorithm 1): count
k = 1, 2, ... as long as coins of probability N / 2^63 / k show heads; the count stops at an odd number
with probability exp(-N / 2^63). Nothing is a float.

**Why it is fast.** One word of 64 bits settles 98 values in 100: 16 bits find the cell in a table,
16 bits show that the coin is kept, 32 bits are b and the sign. Only the others take the long way.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.privacy._exact import cumulative, exponential
from sfumato.privacy._randomness import KeyStream

NoiseKind = Literal["gaussian", "laplace"]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

# What a promise says of itself where every random number was drawn by this module.
DRAWN_EXACTLY = "how its randomness is drawn: exactly, from integers"

MOST_NOISE_BITS: dict[NoiseKind, int] = {"gaussian": 31, "laplace": 50}
# Values made at a time: what is between stays in the cache.
_AT_ONCE = 1 << 15
_LOOKUP = 16
# Bits of b that the first word has room for, beside the sign.
_LOW = 31
_ONES = (1 << 64) - 1
# Bits of a proven bound on a power of e, beyond those of what it is multiplied with.
_GUARD = 64


class NoiseError(SfumatoError):
    """Noise that this module does not draw."""


@dataclass(frozen=True)
class DiscreteNoise:
    """Whole numbers with standard deviation (or Laplace scale) 2^bits, drawn exactly.

    | edge case | what happens |
    | --- | --- |
    | beyond 64 bits | the value is given modulo 2^64, which is post-processing of a sum |
    | ``cells`` | how finely the first step divides; changes the time, not the distribution |
    """

    kind: NoiseKind
    bits: int
    cells: int = 7

    def __post_init__(self) -> None:
        # with fewer cells an exponent within one may exceed 1; with more, their numbers exceed 16 bits
        fewest, most = 4 if self.kind == "gaussian" else 0, min(10, self.bits)
        if not (fewest <= self.cells <= most and self.bits <= MOST_NOISE_BITS[self.kind]):
            raise NoiseError(
                f"Expected {self.kind} noise of at most 2^{MOST_NOISE_BITS[self.kind]} and between "
                f"2^{fewest} and 2^{most} cells, got 2^{self.bits} and 2^{self.cells}."
            )

    def draw(self, count: int, stream: KeyStream) -> Integers:
        """``count`` independent values."""
        drawn = np.empty(count, dtype=np.int64)
        for start in range(0, count, _AT_ONCE):
            part = drawn[start : start + _AT_ONCE]
            left = np.arange(len(part))
            while len(left):
                values, kept = self._proposed(len(left), stream)
                part[left] = values
                left = left[~kept]
        return drawn

    def _proposed(self, count: int, stream: KeyStream) -> tuple[Integers, Mask]:
        """Values by the first word of each, and which of them are kept."""
        table = _table(self.kind, self.cells)
        words = random_words(count, stream)
        parts = words.view("<u2").reshape(count, 4)
        lead, coin = parts[:, 3], parts[:, 2]
        tail = parts.view("<u4")[:, 0]
        low = self._low_bits(tail, stream)
        cell = table.guess[lead].astype(np.int64)
        kept = coin > table.unsure[lead]
        (slow,) = np.nonzero(~kept)
        if len(slow):
            cell[slow], kept[slow] = self._settled(lead[slow], coin[slow], low[slow], stream)
        values = (cell << (self.bits - self.cells)) + low
        negative = (tail & 1).astype(bool)
        kept &= ~(negative & (values == 0))
        np.negative(values, out=values, where=negative)
        return values, kept

    def _low_bits(self, tail: npt.NDArray[np.uint32], stream: KeyStream) -> Integers:
        """b: the bits of |x| below its cell, uniform."""
        below = self.bits - self.cells
        low = (tail >> 1).astype(np.int64)
        if below > _LOW:
            more = random_words(len(tail), stream) >> np.uint64(64 + _LOW - below)
            return low | (more.astype(np.int64) << _LOW)
        return low & ((1 << below) - 1)

    def _settled(
        self,
        lead: npt.NDArray[np.uint16],
        coin: npt.NDArray[np.uint16],
        low: Integers,
        stream: KeyStream,
    ) -> tuple[Integers, Mask]:
        """Cell and verdict where the first 16 bits of either did not settle it."""
        floors = _table(self.kind, self.cells).floors
        place = _longer(lead, stream)
        cell = np.searchsorted(floors, place).astype(np.int64)
        exponent = self._exponent(cell, low)
        kept = _keeps(exponent, _longer(coin, stream) >> np.uint64(1), stream)
        for tied in np.flatnonzero(floors[cell] == place):
            cell[tied], kept[tied] = self._exactly(int(place[tied]), int(low[tied]), stream)
        return cell, kept

    def _exponent(self, cell: Integers, low: Integers) -> Words:
        """N of exp(-N / 2^63): what b adds to the exponent of its cell; below 2^63."""
        if self.kind == "laplace":
            return low.astype(np.uint64) << np.uint64(63 - self.bits)
        product = ((cell << (self.bits - self.cells + 1)) + low).astype(np.uint64)
        return (product * low.astype(np.uint64)) << np.uint64(62 - 2 * self.bits)

    def _exactly(self, place: int, low: int, stream: KeyStream) -> tuple[int, bool]:
        """A cell whose sum agrees with the uniform number in 64 bits: more bits of both.

        Such a cell may lie far out, so its exponent may exceed 1: one coin for every whole 1 of it.
        """
        square, bits = self.kind == "gaussian", 64
        while True:
            place = place << 64 | int(random_words(1, stream)[0])
            bits += 64
            floors = cumulative(square, self.cells, bits)
            cell = bisect_left(floors, place)
            if floors[cell] != place:
                break
        below = self.bits - self.cells
        shift = 2 * self.bits + 1 if square else self.bits
        added = ((cell << below + 1) + low) * low if square else low
        whole, part = divmod(added, 1 << shift)
        exponents = np.array([*[1 << 63] * whole, part << 63 - shift], dtype=np.uint64)
        coins = random_words(len(exponents), stream) >> np.uint64(1)
        return cell, bool(_keeps(exponents, coins, stream).all())


@dataclass(frozen=True)
class _Table:
    """Cumulative sums of the cells to 64 bits, and what 16 bits settle already.

    ``guess`` is the cell for each first 16 bits of the uniform number. A coin whose first 16 bits
    are above ``unsure`` keeps the pair whatever b is; none is where the cell is not settled.
    """

    floors: Words
    guess: npt.NDArray[np.uint16]
    unsure: npt.NDArray[np.uint16]


@lru_cache(maxsize=4)
def _table(kind: NoiseKind, cells: int) -> _Table:
    floors = np.array(cumulative(kind == "gaussian", cells, 64), dtype=np.uint64)
    first = np.arange(1 << _LOOKUP, dtype=np.uint64) << np.uint64(64 - _LOOKUP)
    last = first | np.uint64((1 << 64 - _LOOKUP) - 1)
    guess = np.searchsorted(floors, first, side="left")
    settled = guess == np.searchsorted(floors, last, side="right")
    # b adds less than this to the exponent of its cell
    if kind == "gaussian":
        numerator, shift = 2 * guess + 1, 2 * cells + 1
    else:
        numerator, shift = np.ones_like(guess), cells
    reached = -(-(numerator << _LOOKUP) >> shift) - 1
    unsure = np.where(settled, reached, (1 << _LOOKUP) - 1)
    return _Table(floors, guess.astype(np.uint16), unsure.astype(np.uint16))


def _longer(first: npt.NDArray[np.uint16], stream: KeyStream) -> Words:
    """Uniform words that begin with the 16 bits that were seen."""
    rest = random_words(len(first), stream) >> np.uint64(_LOOKUP)
    return (first.astype(np.uint64) << np.uint64(64 - _LOOKUP)) | rest


def _keeps(exponents: Words, first: Words, stream: KeyStream) -> Mask:
    """Coins of probability exp(-N / 2^63), N <= 2^63; ``first`` are the uniform 63 bits of k = 1."""
    kept = np.ones(len(exponents), dtype=bool)
    (heads,) = np.nonzero(first < exponents)
    count = 2
    while len(heads):
        again = random_words(len(heads), stream) >> np.uint64(1) < exponents[heads]
        again &= uniform_below(np.full(len(heads), count, dtype=np.uint64), stream) == 0
        kept[heads[~again]] = count % 2 == 1
        heads = heads[again]
        count += 1
    return kept


def random_words(count: int, stream: KeyStream) -> Words:
    """Uniform words of 64 bits, the same on every machine for the same stream."""
    return np.frombuffer(stream.bits(8 * count), dtype="<u8")


def uniform_below(limits: Words, stream: KeyStream) -> Words:
    """A uniform whole number below each of ``limits`` (at least 1), exactly.

    A word beyond the last whole multiple of the limit is drawn again.
    """
    ones = np.uint64(_ONES)
    last = ones - (ones % limits + np.uint64(1)) % limits
    drawn = random_words(len(limits), stream).copy()
    while len(over := np.flatnonzero(drawn > last)):
        drawn[over] = random_words(len(over), stream)
    return drawn % limits


def choose(weights: Words, stream: KeyStream) -> Integers:
    """For each row one column, with probability its weight over the row's sum, exactly."""
    upto = np.cumsum(weights, axis=1, dtype=np.uint64)
    points = uniform_below(upto[:, -1], stream)
    return np.asarray((upto <= points[:, None]).sum(axis=1), dtype=np.int64)


def least_weight(epsilon: float, largest: int) -> int:
    """The least whole w for which (largest / w)^2 <= e^epsilon is proven.

    Weights between w and ``largest`` move by at most epsilon / 2 in the logarithm, and so does
    their sum: a choice by them is epsilon-DP whatever they were computed from.
    """
    numerator, denominator = float(epsilon).as_integer_ratio()
    above = exponential(numerator, denominator.bit_length(), _GUARD)[1]
    return max(1, -(-(largest * above) >> _GUARD))


def threshold_of(probability: float) -> int:
    """The least t with t / 2^64 >= probability: what ``coins`` compares words with."""
    if not 0 < probability <= 1:
        raise NoiseError(f"Expected a probability in (0, 1], got {probability!r}.")
    numerator, denominator = float(probability).as_integer_ratio()
    return -(-(numerator << 64) // denominator)


def coins(threshold: int, count: int, stream: KeyStream) -> Mask:
    """Independent coins that show heads with probability ``threshold`` / 2^64, exactly."""
    return np.asarray(random_words(count, stream) <= np.uint64(threshold - 1))
