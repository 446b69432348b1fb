"""Noise drawn exactly: every digit of its tables, its distribution, and what it proves.

Seeds are fixed, so every verdict is the same on every machine; alarms are at one in 10^9.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import SfumatoError
from sfumato.privacy import (
    DiscreteNoise,
    NoiseKind,
    Randomness,
    choose,
    coins,
    least_weight,
    threshold_of,
)
from sfumato.privacy import _discrete as discrete
from sfumato.privacy._discrete import uniform_below
from sfumato.privacy._exact import cumulative, exponential
from sfumato.privacy.accounting._gaussian import delta_of_gaussian

ALARM = 1e-9
KINDS: tuple[NoiseKind, ...] = ("gaussian", "laplace")
# small enough that every value has a probability worth comparing; cells below bits, so that the
# second step has something to do
SMALL: list[tuple[NoiseKind, int, int]] = [
    ("gaussian", 4, 4), ("gaussian", 5, 4), ("gaussian", 6, 4),
    ("laplace", 2, 2), ("laplace", 2, 0), ("laplace", 3, 1), ("laplace", 5, 3),
]  # fmt: skip


class Scripted:
    """A stream of the words that a test chose; fails when it is asked for more."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def bits(self, size: int) -> bytearray:
        count = size // 8
        taken, self.words = self.words[:count], self.words[count:]
        assert len(taken) == count, "more random bits were asked for than the test foresaw"
        return bytearray(b"".join(word.to_bytes(8, "little") for word in taken))


def weight(kind: NoiseKind, bits: int, value: int) -> float:
    if kind == "gaussian":
        return math.exp(-(value**2) / 2 ** (2 * bits + 1))
    return math.exp(-abs(value) / 2**bits)


def probabilities(kind: NoiseKind, bits: int) -> dict[int, float]:
    reach = 60 * 2**bits
    weights = {value: weight(kind, bits, value) for value in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {value: each / total for value, each in weights.items()}


def p_value(drawn: list[int], kind: NoiseKind, bits: int) -> float:
    """Chi-square against the exact probabilities; values that hardly occur are counted together."""
    counts, expected = Counter(drawn), probabilities(kind, bits)
    common = [value for value, chance in expected.items() if chance * len(drawn) >= 10]
    seen = [counts[value] for value in common]
    wanted = [expected[value] * len(drawn) for value in common]
    seen.append(len(drawn) - sum(seen))
    wanted.append(len(drawn) - sum(wanted))
    return float(stats.chisquare(seen, wanted).pvalue)


@pytest.mark.parametrize(
    ("numerator", "shift"), [(0, 3), (1, 20), (1, 6), (5, 0), (2816, 6), (12345, 13), (300, 0)]
)
@pytest.mark.parametrize("precision", [10, 64, 250])
def test_exponentials_lie_between_their_bounds(numerator: int, shift: int, precision: int) -> None:
    low, high = exponential(numerator, shift, precision)
    with localcontext() as context:
        context.prec = 200
        true = (-Decimal(numerator) / 2**shift).exp() * 2**precision
        assert low <= true <= high
    assert high - low <= 2


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("cells", [4, 7])
@pytest.mark.parametrize("bits", [64, 128])
def test_every_digit_of_the_cumulative_sums_is_right(square: bool, cells: int, bits: int) -> None:
    floors = cumulative(square, cells, bits)
    with localcontext() as context:
        context.prec = 90
        exponents = [
            Decimal(a * a) / 2 ** (2 * cells + 1) if square else Decimal(a) / 2**cells
            for a in range(len(floors) * (2 if square else 3))
        ]
        weights = [(-each).exp() for each in exponents]
        total, reached = sum(weights), Decimal(0)
        for floor, each in zip(floors, weights):
            reached += each
            assert floor == int(reached / total * 2**bits)
    assert floors[-1] == 2**bits - 1 > floors[-2]


@pytest.mark.parametrize(("kind", "bits", "cells"), SMALL)
def test_values_have_their_exact_probabilities(kind: NoiseKind, bits: int, cells: int) -> None:
    noise = DiscreteNoise(kind, bits, cells)
    drawn = noise.draw(400_000, Randomness(1).keystream()).tolist()
    assert p_value(drawn, kind, bits) > ALARM


class Oracle:
    """The same two distributions as Canonne, Kamath and Steinke print them: fractions and coins."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def below(self, limit: int) -> int:
        return int(self.generator.integers(0, limit))

    def coin(self, chance: Fraction) -> bool:
        return self.below(chance.denominator) < chance.numerator

    def exponential_coin(self, exponent: Fraction) -> bool:
        """Algorithm 1: heads with probability exp(-exponent)."""
        while exponent > 1:
            if not self.exponential_coin(Fraction(1)):
                return False
            exponent -= 1
        count = 1
        while self.coin(exponent / count):
            count += 1
        return count % 2 == 1

    def laplace(self, scale: int) -> int:
        """Algorithm 2."""
        while True:
            part = self.below(scale)
            if not self.exponential_coin(Fraction(part, scale)):
                continue
            whole = 0
            while self.exponential_coin(Fraction(1)):
                whole += 1
            size = part + scale * whole
            negative = self.below(2) == 1
            if size or not negative:
                return -size if negative else size

    def gaussian(self, sigma: int) -> int:
        """Algorithm 3."""
        while True:
            drawn = self.laplace(sigma)
            exponent = Fraction((abs(drawn) - sigma) ** 2, 2 * sigma**2)
            if self.exponential_coin(exponent):
                return drawn


@pytest.mark.parametrize(("kind", "bits"), [("gaussian", 4), ("laplace", 2)])
def test_a_slow_obvious_sampler_agrees(kind: NoiseKind, bits: int) -> None:
    """What the fast one is compared with is what the literature's algorithm gives."""
    oracle = Oracle(2)
    draw: Callable[[int], int] = oracle.gaussian if kind == "gaussian" else oracle.laplace
    assert p_value([draw(2**bits) for _ in range(15_000)], kind, bits) > ALARM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [20, 28, 31])
def test_wide_noise_is_right_in_its_shape_and_in_its_last_bits(kind: NoiseKind, bits: int) -> None:
    drawn = DiscreteNoise(kind, bits).draw(500_000, Randomness(3).keystream())
    values = drawn / 2.0**bits
    ranks = (stats.norm if kind == "gaussian" else stats.laplace).cdf(values)
    for places, count in (((ranks * 500).astype(int), 500), (drawn & 255, 256)):
        assert stats.chisquare(np.bincount(places, minlength=count)).pvalue > ALARM
    assert np.abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 6 / math.sqrt(len(values))


@pytest.mark.parametrize("bits", [37, 40, 50])
def test_very_wide_laplace_noise_uses_all_its_bits(bits: int) -> None:
    drawn = DiscreteNoise("laplace", bits).draw(200_000, Randomness(4).keystream())
    ranks = stats.laplace.cdf(drawn / 2.0**bits)
    assert stats.kstest(ranks, "uniform").pvalue > ALARM
    for shift in range(0, bits - 12, 4):
        seen = np.bincount(drawn >> shift & 15, minlength=16)
        assert stats.chisquare(seen).pvalue > ALARM, shift


def first_word(place: int, coin: int = 0xFFFF, low: int = 0, negative: bool = False) -> int:
    """A first word: 16 bits of the cell, 16 of the coin (all ones keeps), b and the sign."""
    return (place >> 48) << 48 | coin << 32 | low << 1 | negative


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [0, 3, 60])
def test_a_tie_in_64_bits_is_settled_by_further_bits(kind: NoiseKind, cell: int) -> None:
    """A uniform number that agrees with a cumulative sum in 64 bits may lie on either side of it."""
    noise = DiscreteNoise(kind, 20)
    square = kind == "gaussian"
    tie = cumulative(square, noise.cells, 64)[cell]
    further = cumulative(square, noise.cells, 128)[cell]
    assert further >> 64 == tie
    rest = further & (2**64 - 1)
    for place, next_word, found in (
        (tie - 1, None, cell),
        (tie, rest - 1, cell),
        (tie, rest + 1, cell + 1),
        (tie + 1, None, cell + 1),
    ):
        words = [first_word(place), (place & (2**48 - 1)) << 16, 2**64 - 1]
        words += [] if next_word is None else [next_word, 2**64 - 1]
        stream = Scripted(words)
        assert noise.draw(1, stream)[0] == found << 13  # type: ignore[arg-type]
        assert not stream.words


def test_a_tie_in_128_bits_is_settled_by_still_further_bits() -> None:
    noise = DiscreteNoise("gaussian", 20)
    longest = cumulative(True, noise.cells, 192)[5]
    words = [longest >> 128, longest >> 64 & (2**64 - 1), longest & (2**64 - 1)]
    for last, found in ((words[2] - 1, 5), (words[2] + 1, 6)):
        place = words[0]
        script = [first_word(place), (place & (2**48 - 1)) << 16, 2**64 - 1]
        stream = Scripted([*script, words[1], last, 2**64 - 1])
        assert noise.draw(1, stream)[0] == found << 13  # type: ignore[arg-type]


def test_the_farthest_cell_is_not_the_last_one_of_the_table() -> None:
    """A word of ones is beyond every sum of the table: the tail goes on."""
    noise = DiscreteNoise("gaussian", 20)
    ones = 2**64 - 1
    last = len(cumulative(True, noise.cells, 64)) - 1
    further = cumulative(True, noise.cells, 128)
    middle = further[last] & ones
    stream = Scripted([first_word(ones), ones, ones, middle + 1, ones])
    assert noise.draw(1, stream)[0] == (last + 1) << 13  # type: ignore[arg-type]


def test_minus_zero_is_drawn_again() -> None:
    """Kept, zero would be twice as likely as it should be."""
    noise = DiscreteNoise("gaussian", 20)
    zero, minus_zero = first_word(1 << 48), first_word(1 << 48, negative=True)
    one = first_word(1 << 48, low=1, negative=True)
    assert noise.draw(1, Scripted([zero]))[0] == 0  # type: ignore[arg-type]
    assert noise.draw(1, Scripted([minus_zero, one]))[0] == -1  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [0.001, 0.3, 1.0])
def test_coins_of_an_exponential_probability(exponent: float) -> None:
    """The count of heads stops at an odd number with probability exp(-exponent)."""
    stream, count = Randomness(5).keystream(), 300_000
    numerators = np.full(count, int(exponent * 2**63), dtype=np.uint64)
    first = discrete.random_words(count, stream) >> np.uint64(1)
    kept = int(discrete._keeps(numerators, first, stream).sum())
    assert stats.binomtest(kept, count, math.exp(-exponent)).pvalue > ALARM


def test_whole_numbers_below_a_limit_are_uniform_and_biased_words_are_drawn_again() -> None:
    limits = np.full(90_000, 3, dtype=np.uint64)
    drawn = uniform_below(limits, Randomness(6).keystream())
    assert stats.chisquare(np.bincount(drawn.astype(int), minlength=3)).pvalue > ALARM
    # 2^64 = 3 * 6148914691236517205 + 1: only the last word has no whole multiple of 3 around it
    three = np.array([3], dtype=np.uint64)
    assert uniform_below(three, Scripted([2**64 - 1, 7]))[0] == 1  # type: ignore[arg-type]
    assert uniform_below(three, Scripted([2**64 - 2]))[0] == 2  # type: ignore[arg-type]
    four = np.array([4], dtype=np.uint64)
    assert uniform_below(four, Scripted([2**64 - 1]))[0] == 3  # type: ignore[arg-type]


def test_a_choice_follows_its_weights_to_the_last_unit() -> None:
    weights = np.array([[1, 0, 2, 5], [3, 3, 1, 1]], dtype=np.uint64)
    rows = np.repeat(weights, 40_000, axis=0)
    chosen = choose(rows, Randomness(7).keystream()).reshape(2, -1)
    for row, wanted in zip(chosen, weights):
        seen = np.bincount(row, minlength=4)
        assert not seen[wanted == 0].any()
        expected = wanted[wanted > 0] / wanted.sum() * len(row)
        assert stats.chisquare(seen[wanted > 0], expected).pvalue > ALARM
    # a sum of 8 divides 2^64: the word modulo 8 is the point
    for word, column in ((0, 0), (1, 2), (2, 2), (3, 3), (7, 3)):
        assert choose(weights[:1], Scripted([word]))[0] == column  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 4.0, 30.0, 500.0])
@pytest.mark.parametrize("largest", [1 << 20, 1 << 48])
def test_bounds_of_weights_prove_epsilon_and_are_not_wider(epsilon: float, largest: int) -> None:
    least = least_weight(epsilon, largest)
    with localcontext() as context:
        context.prec = 80
        exact = Decimal(largest) * (-Decimal(epsilon) / 2).exp()
        assert exact <= least <= max(exact + 1, 1)


@pytest.mark.parametrize("chance", [2.0**-70, 1e-9, 0.1, 1 / 3, 0.5, 1 - 2.0**-53, 1.0])
def test_coins_show_heads_no_less_often_than_asked(chance: float) -> None:
    threshold = threshold_of(chance)
    assert Fraction(threshold, 2**64) >= Fraction(chance)
    assert Fraction(threshold - 1, 2**64) < Fraction(chance)
    if chance >= 2.0**-11:
        assert Fraction(threshold, 2**64) == Fraction(chance), "exact, not only no less"
    heads = coins(threshold, 1, Scripted([threshold - 1]))  # type: ignore[arg-type]
    assert heads[0]
    if chance < 1:
        assert not coins(threshold, 1, Scripted([threshold]))[0]  # type: ignore[arg-type]
    else:
        assert coins(threshold, 1, Scripted([2**64 - 1]))[0]  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_noise_and_another_does_not() -> None:
    noise = DiscreteNoise("laplace", 24)
    one, again, other = (noise.draw(100_000, Randomness(seed).keystream()) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).mean() > 0.999


def test_noise_that_cannot_be_drawn_is_refused_in_words() -> None:
    with pytest.raises(SfumatoError, match=r"at most 2\^31"):
        DiscreteNoise("gaussian", 32)
    for cells in (3, 11):
        with pytest.raises(SfumatoError, match=r"between 2\^4 and 2\^10 cells"):
            DiscreteNoise("gaussian", 20, cells)
    for kind in KINDS:
        assert len(discrete._table(kind, 10).floors) < 2**16, "a cell's number fits into 16 bits"
    with pytest.raises(SfumatoError, match="probability"):
        threshold_of(0.0)


# -- what the noise proves (docs/soundness.md, "Noise on a lattice") -----------------------------------


def discrete_delta(epsilon: float, weights: np.ndarray, shift: tuple[int, ...]) -> float:
    """The exact delta of a discrete distribution (given far out) against itself, shifted."""
    moved = np.roll(weights, shift, axis=tuple(range(weights.ndim)))
    return float(np.maximum(weights - math.exp(epsilon) * moved, 0).sum())


def gaussian_weights(sigma: float, dimensions: int) -> np.ndarray:
    reach = int(14 * sigma)
    line = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    line /= line.sum()
    return line if dimensions == 1 else line[:, None] * line[None, :]


@pytest.mark.parametrize("sigma", [3.0, 5.0, 8.0])
@pytest.mark.parametrize("width", [1.0, 1.25, 1.5])
@pytest.mark.parametrize("shift", [(1,), (4,), (9,), (3, 2), (1, 5)])
def test_a_discrete_gaussian_is_no_worse_than_a_slightly_narrower_continuous_one(
    sigma: float, width: float, shift: tuple[int, ...]
) -> None:
    """The theorem with its constants, at sizes where both sides can be summed.

    The code uses width 4 at sigma 2^20 and more, where the loss is below 2^-36.
    """
    theta = 2.0001 * math.exp(-2 * math.pi**2 * width**2)
    eta = len(shift) * math.log((1 + theta) / (1 - theta))
    narrower = math.sqrt(sigma**2 - width**2)
    weights = gaussian_weights(sigma, len(shift))
    mu = math.hypot(*shift) / narrower
    for epsilon in np.linspace(2 * eta, 6.0, 25):
        claimed = math.exp(eta) * delta_of_gaussian(float(epsilon) - 2 * eta, mu)
        assert discrete_delta(float(epsilon), weights, shift) <= claimed + 1e-15


def test_the_narrower_gaussian_is_needed() -> None:
    """At the same width the discrete one can be worse: what is charged is not for nothing."""
    weights, worse = gaussian_weights(1.0, 1), 0
    for epsilon in np.linspace(0.0, 3.0, 200):
        exact = discrete_delta(float(epsilon), weights, (1,))
        worse += exact > delta_of_gaussian(float(epsilon), 1.0) + 1e-6
    assert worse > 0


@pytest.mark.parametrize("scale", [1, 3, 16])
@pytest.mark.parametrize("moved", [1, 2, 7])
def test_discrete_laplace_costs_exactly_its_move_and_no_more_anywhere(
    scale: int, moved: int
) -> None:
    """At delta 0 epsilon is moved / scale; elsewhere a continuous one moved by 1 / (4 scale) more."""
    reach = 60 * scale
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    weights /= weights.sum()
    inner = slice(2 * moved, -2 * moved)
    ratio = np.log(weights / np.roll(weights, moved))[inner]
    assert ratio.max() == pytest.approx(moved / scale, rel=1e-12)
    longer = moved / scale + 1 / (4 * scale**2)
    for epsilon in np.linspace(0, moved / scale, 40):
        continuous = max(0.0, 1 - math.exp((epsilon - longer) / 2))
        assert discrete_delta(float(epsilon), weights, (moved,)) <= continuous + 1e-12


def test_a_part_of_the_key_stream_that_was_passed_is_not_drawn_again() -> None:
    stream = Randomness(seed=1).keystream()
    stream.skip_to(3)
    assert stream.next_part().bits(32) != stream.next_part().bits(32)
    with pytest.raises(ValueError, match="used up"):
        stream.skip_to(4)
