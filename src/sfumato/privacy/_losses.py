"""The privacy loss of one term on a grid, rounded pessimistically.

Loss l(x) = log P(x)/Q(x) with x ~ P. The mass of each grid cell (e_i, e_i + h] is put on its two ends
so that both its P-mass and its Q-mass are kept: the hockey-stick curve of the result is the chord of
the true, convex curve ("connect the dots", Doroshenko et al. 2022), hence never below it.
What lies above the grid counts as an infinite loss, what lies below is rounded up to its first point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from sfumato.privacy._terms import (
    AccountingError,
    AtomicTerm,
    GaussianTerm,
    LaplaceTerm,
    SampledTerm,
    SharedTerm,
    Term,
    participation,
)

Array = NDArray[np.float64]

# More points than this in one step's grid means that the interval is too fine for the question.
MOST_POINTS = 1 << 22


class GridTooFineError(Exception):
    """Internal: ask again with a wider interval."""


@dataclass(frozen=True)
class Losses:
    """Probabilities of the losses ``(first + i) * interval``, and of an infinite loss."""

    first: int
    masses: Array
    infinite: float


@dataclass(frozen=True)
class LossPair:
    """Both orders of a pair; ``reverse`` is ``forward`` itself for a symmetric pair."""

    forward: Losses
    reverse: Losses


def losses_of(term: Term, interval: float, tail: float) -> LossPair:
    """The loss of ``term`` on the grid; at most ``tail`` of its mass becomes an infinite loss."""
    match term:
        case GaussianTerm():
            only = _gaussian(term.mu, interval, tail)
            return LossPair(only, only)
        case SampledTerm():
            return _sampled(term, interval, tail)
        case SharedTerm():
            only = _shared(term, interval, tail)
            return LossPair(only, only)
        case LaplaceTerm():
            only = _laplace(term.epsilon, interval)
            return LossPair(only, only)
        case AtomicTerm():
            only = _atomic(term, interval)
            return LossPair(only, only)
    raise AccountingError(f"No privacy loss is known for {term!r}.")


def _gaussian(mu: float, interval: float, tail: float) -> Losses:
    reach = -float(ndtri(tail))
    low = math.floor((mu * mu / 2 - mu * reach) / interval)
    high = math.ceil((mu * mu / 2 + mu * reach) / interval)
    edges = _edges(low, high, interval) / mu + mu / 2
    one, zero = np.ones(1), np.zeros(1)
    return _pair(low, interval, edges, (one, np.array([mu])), (one, zero)).forward


def _shared(term: SharedTerm, interval: float, tail: float) -> Losses:
    """Participation is known: a mixture of plain Gaussian losses, and no loss when nobody joined."""
    weights, _ = participation(term.probability, term.group)
    parts = [
        (weight, _gaussian(count * term.mu, interval, tail))
        for count, weight in enumerate(weights)
        if count and weight > 0
    ]
    low = min(0, *(part.first for _, part in parts))
    high = max(1, *(part.first + part.masses.size for _, part in parts))
    masses = np.zeros(high - low)
    masses[-low] += weights[0]
    for weight, part in parts:
        masses[part.first - low : part.first - low + part.masses.size] += weight * part.masses
    return Losses(low, masses, math.fsum(weight * part.infinite for weight, part in parts))


def _sampled(term: SampledTerm, interval: float, tail: float) -> LossPair:
    weights, _ = participation(term.probability, term.group)
    means = np.arange(weights.size) / term.sigma
    log_weights = np.log(np.maximum(weights, 1e-300))
    reach = -float(ndtri(tail))
    left = -reach - (means[-1] if term.two_sided else 0.0)
    ratio = _log_ratio(log_weights, means, term.two_sided)
    ends = np.array([left, means[-1] + reach])
    low, high = (float(value) for value in ratio(ends))
    first, last = math.floor(low / interval), math.ceil(high / interval)
    grid = _edges(first, last, interval)
    if term.group == 1:
        edges = _inverse_single(grid, term)
    else:
        edges = _inverse(grid, ratio, ends)
    other = (weights, -means) if term.two_sided else (np.ones(1), np.zeros(1))
    pair = _pair(first, interval, edges, (weights, means), other)
    return LossPair(pair.forward, pair.forward) if term.two_sided else pair


def _log_ratio(log_weights: Array, means: Array, two_sided: bool) -> Callable[[Array], Array]:
    """log P/Q of the group pair; increasing in x, because each factor is monotone."""
    level = log_weights - means**2 / 2

    def ratio(x: Array) -> Array:
        above = _log_sum(level, means, x)
        return above - _log_sum(level, -means, x) if two_sided else above

    return ratio


def _log_sum(level: Array, slopes: Array, x: Array) -> Array:
    """log sum exp(level_k + slope_k x) for slopes k times a unit: a polynomial in exp(unit x)."""
    unit = float(slopes[1])
    reach = float(np.abs(slopes[-1]) * np.abs(x).max(initial=0.0))
    if reach < 300 and float(level.min()) > -300:
        z = np.exp(unit * x)
        total = np.full(x.shape, math.exp(level[-1]))
        for constant in level[-2::-1]:
            total *= z
            total += math.exp(constant)
        return np.asarray(np.log(total))
    total = np.full(x.shape, -np.inf)
    for constant, slope in zip(level, slopes, strict=True):
        total = np.logaddexp(total, constant + slope * x)
    return total


def _inverse_single(grid: Array, term: SampledTerm) -> Array:
    """Where the loss equals the grid, for one record (closed form)."""
    q, s = term.probability, term.sigma
    if not term.two_sided:
        # e^l = 1 - q + q exp(x/s - 1/(2 s^2)); below log(1 - q) there is nothing
        inner = np.expm1(grid) + q
        with np.errstate(divide="ignore", invalid="ignore"):
            found = s * (np.log(np.maximum(inner, 0.0)) - math.log(q)) + 1 / (2 * s)
        return np.asarray(found)
    # with z = exp(x/s), c = exp(-1/(2 s^2)): q c z^2 - (1 - q)(e^l - 1) z - e^l q c = 0; odd in l
    size = np.abs(grid)
    log_c = math.log(q) - 1 / (2 * s * s)
    half = (1 - q) * -np.expm1(-size) / 2
    # both sides divided by e^l, so that nothing overflows
    root = half + np.sqrt(half**2 + np.exp(2 * log_c - size))
    return np.asarray(np.sign(grid) * s * (size + np.log(root) - log_c))


def _inverse(grid: Array, ratio: Callable[[Array], Array], ends: Array) -> Array:
    """Where the loss equals the grid, for a group: a monotone table, then safeguarded Newton."""
    table = np.linspace(ends[0], ends[1], 4097)
    values = np.maximum.accumulate(ratio(table))
    place = np.clip(np.searchsorted(values, grid) - 1, 0, table.size - 2)
    low, high = table[place], table[place + 1]
    x = np.interp(grid, values, table)
    for _ in range(3):
        error = ratio(x) - grid
        low, high = np.where(error < 0, x, low), np.where(error >= 0, x, high)
        step = 1e-6
        slope = (ratio(x + step) - ratio(x - step)) / (2 * step)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = x - error / slope
        inside = np.isfinite(moved) & (moved >= low) & (moved <= high)
        x = np.where(inside, moved, (low + high) / 2)
    return np.maximum.accumulate(x)


def _pair(
    first: int,
    interval: float,
    edges: Array,
    above: tuple[Array, Array],
    below: tuple[Array, Array],
) -> LossPair:
    """Both orders of (mixture ``above``, mixture ``below``), whose loss is ``grid`` at ``edges``."""
    grid = _grid(first, edges.size, interval)
    log_p, p_under, p_over = _cells(edges, *above)
    log_q, q_under, q_over = _cells(edges, *below)
    shrink = -math.expm1(-interval)
    with np.errstate(invalid="ignore", over="ignore"):
        # the share of a cell's mass that goes to its upper end, from keeping both masses
        share = -np.expm1(grid[:-1] + log_q - log_p) / shrink
        share_back = -np.expm1(-grid[1:] + log_p - log_q) / shrink
    share = np.clip(np.where(np.isnan(share), 1.0, share), 0.0, 1.0)
    share_back = np.clip(np.where(np.isnan(share_back), 1.0, share_back), 0.0, 1.0)
    p, q = np.exp(log_p), np.exp(log_q)
    forward = np.zeros(edges.size)
    forward[1:] += p * share
    forward[:-1] += p * (1 - share)
    forward[0] += p_under
    reverse = np.zeros(edges.size)
    reverse[:-1] += q * share_back
    reverse[1:] += q * (1 - share_back)
    reverse[-1] += q_over
    return LossPair(
        Losses(first, forward, p_over),
        Losses(-(first + edges.size - 1), reverse[::-1].copy(), q_under),
    )


def _cells(edges: Array, weights: Array, means: Array) -> tuple[Array, float, float]:
    """Log-mass of a Gaussian mixture between the edges, and its mass below and above all of them."""
    total = np.full(edges.size - 1, -np.inf)
    under = over = 0.0
    for weight, mean in zip(weights, means, strict=True):
        if weight <= 0:
            continue
        z = edges - mean
        # on the right half, the mirror image: differences of small numbers, not of ones
        right = z[:-1] > 0
        hi = log_ndtr(np.where(right, -z[:-1], z[1:]))
        lo = log_ndtr(np.where(right, -z[1:], z[:-1]))
        with np.errstate(divide="ignore", invalid="ignore"):
            cell = hi + np.log(-np.expm1(lo - hi))
        cell = np.where(np.isnan(cell), -np.inf, cell) + math.log(weight)
        total = cell if weights.size == 1 else np.logaddexp(total, cell)
        under += weight * math.exp(float(log_ndtr(z[0])))
        over += weight * math.exp(float(log_ndtr(-z[-1])))
    return total, under, over


def _laplace(epsilon: float, interval: float) -> Losses:
    """Lap(0, 1) against Lap(epsilon, 1): atoms at both ends and e^{-|x|}/2 between them."""
    first, last = math.floor(-epsilon / interval) - 1, math.ceil(epsilon / interval)
    grid = _edges(first, last, interval)
    # loss > t exactly when x < (epsilon - t)/2, for t between the atoms at both ends
    where = (epsilon - np.clip(grid, -epsilon, epsilon)) / 2
    inside = grid < epsilon
    p_above = np.where(inside, 1 - np.exp(-where) / 2, 0.0)
    q_above = np.where(inside, np.exp(where - epsilon) / 2, 0.0)
    p_above[grid < -epsilon] = q_above[grid < -epsilon] = 1.0
    return _from_survival(first, interval, p_above, q_above)


def _from_survival(first: int, interval: float, p_above: Array, q_above: Array) -> Losses:
    """Connect the dots from P(loss > e_i) and Q(loss > e_i), where nothing lies above the grid."""
    grid = _grid(first, p_above.size, interval)
    p, q = -np.diff(p_above), -np.diff(q_above)
    upper = np.clip((p - np.exp(grid[:-1]) * q) / -math.expm1(-interval), 0.0, p)
    masses = np.zeros(p_above.size)
    masses[1:] += upper
    masses[:-1] += p - upper
    return Losses(first, masses, float(p_above[-1]))


def _atomic(term: AtomicTerm, interval: float) -> Losses:
    """Losses +epsilon, 0, -epsilon; each atom is split over the two grid points around it."""
    down = term.up * math.exp(-term.epsilon)
    reach = math.ceil(term.epsilon / interval) + 1
    if 2 * reach + 1 > MOST_POINTS:
        raise GridTooFineError
    masses = np.zeros(2 * reach + 1)
    for loss, mass in (
        (term.epsilon, term.up),
        (0.0, max(0.0, 1 - term.up - down)),
        (-term.epsilon, down),
    ):
        cell = math.floor(loss / interval)
        upper = -math.expm1(cell * interval - loss) / -math.expm1(-interval)
        upper = min(max(upper, 0.0), 1.0)
        masses[cell + reach] += mass * (1 - upper)
        masses[cell + 1 + reach] += mass * upper
    return Losses(-reach, (1 - term.delta) * masses, term.delta)


def _edges(first: int, last: int, interval: float) -> Array:
    if last - first + 1 > MOST_POINTS:
        raise GridTooFineError
    return _grid(first, last - first + 1, interval)


def _grid(first: int, size: int, interval: float) -> Array:
    return np.asarray(np.arange(first, first + size) * interval, dtype=np.float64)
