"""Probabilities of exponential weights to any number of bits, in integers, with proven bounds.

Nothing here is rounded to the nearest: every number is a pair of integers that the true one lies
between, so that a caller can see whether its digits are settled and ask for more if they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

Bounds = tuple[int, int]

# The series of e^-x is summed for x below 2^-_SMALL; halving and squaring brings larger ones there.
_SMALL = 8
_GUARD = 64


def exponential(numerator: int, shift: int, precision: int) -> Bounds:
    """Integers around 2^precision exp(-numerator / 2^shift).

    The series alternates and its terms fall, so two neighbouring partial sums enclose it; every term
    is cut to an integer, which moves a sum by at most one for each term.
    """
    if numerator < 0:
        raise ValueError("Expected an exponent of at most zero.")
    halvings = max(0, numerator.bit_length() - shift + _SMALL)
    work = precision + halvings + _GUARD
    lower = (numerator << work) >> (shift + halvings)
    low, high = _series(lower + 1, work)[0], _series(lower, work)[1]
    for _ in range(halvings):
        low, high = (low * low) >> work, -(-(high * high) >> work)
    cut = work - precision
    return low >> cut, -(-high >> cut)


def _series(x: int, work: int) -> Bounds:
    """Around 2^work exp(-x / 2^work), for a small x."""
    term, total, count = 1 << work, 0, 0
    while term:
        total += -term if count % 2 else term
        count += 1
        term = ((term * x) >> work) // count
    # terms were cut by less than one each; the ones left out add up to less than one more
    return total - count - 1, total + count + 1


def weights(first: Bounds, change: Bounds, precision: int) -> Iterator[tuple[Bounds, Bounds]]:
    """Bounds of 1, r, r (r q), r (r q) (r q^2) ... with r = ``first`` and q = ``change``.

    With each weight comes its ratio to the next one.
    """
    (low, high), (ratio_low, ratio_high) = (1 << precision, 1 << precision), first
    while True:
        yield (low, high), (ratio_low, ratio_high)
        low, high = (low * ratio_low) >> precision, -(-(high * ratio_high) >> precision)
        ratio_low = (ratio_low * change[0]) >> precision
        ratio_high = -(-(ratio_high * change[1]) >> precision)


@lru_cache(maxsize=8)
def cumulative(square: bool, cells: int, bits: int) -> tuple[int, ...]:
    """floor(2^bits F(a)) for a = 0, 1, ... up to the first that is 2^bits - 1.

    F is the distribution of whole a >= 0 with weights exp(-a^2 / 2^(2 cells + 1)), or exp(-a /
    2^cells) without ``square``. No F(a) is a multiple of 2^-bits, because powers of e are not
    rational; hence a uniform number whose first ``bits`` bits are the floor may lie on either side.
    """
    precision = bits + _GUARD
    while (found := _cumulative(square, cells, bits, precision)) is None:
        precision += _GUARD
    return found


def _cumulative(square: bool, cells: int, bits: int, precision: int) -> tuple[int, ...] | None:
    """As above, or None where ``precision`` does not settle every floor."""
    one = 1 << precision
    if square:
        first = exponential(1, 2 * cells + 1, precision)
        change = exponential(1, 2 * cells, precision)
    else:
        first, change = exponential(1, cells, precision), (one, one)
    low = high = 0
    sums: list[Bounds] = []
    for (least, most), (_, ratio) in weights(first, change, precision):
        low, high = low + least, high + most
        sums.append((low, high))
        # ratios do not grow, so what follows is less than a geometric series
        rest = -(-(most * ratio) // (one - ratio))
        if rest <= 1 << (_GUARD // 2):
            break
    whole_low, whole_high = low, high + rest
    floors: list[int] = []
    for low, high in sums:
        floor = (low << bits) // whole_high
        if floor != (high << bits) // whole_low:
            return None
        floors.append(floor)
        if floor == (1 << bits) - 1:
            return tuple(floors)
    return None
