"""The privacy loss of one term on a grid, rounded pessimistically.

Loss l(x) = log P(x)/Q(x) with x ~ P. The mass of each grid cell (e_i, e_i + h] is put on its two ends
so that both its P-mass and its Q-mass are kept: the hockey-stick curve of the result is the chord of
the true, convex curve ("connect the dots", Doroshenko et al. 2022), hence never below it.
What lies above the grid counts as an infinite loss, what lies below is rounded up onto the grid.

Everything is computed from logarithms of densities and masses, never from exponentials of a loss, so
that little noise (losses of 1e5 and more) is as exact as much noise. Still each ``Losses`` is checked:
masses that are not probabilities are refused, because a number read from them would mean nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from sfumato.privacy.accounting._terms import (
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
MOST_POINTS = 1 << 20
# Beyond this index neighbouring points of a grid are hardly different numbers.
_MOST_INDEX = 1 << 40
# R17: probabilities that do not sum to one within this are refused.
_MASS_TOLERANCE = 1e-12
_HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2
# Losses on the grid are exact up to this, times 64 and the largest loss (see ``rounding``).
_ULP = 2.0**-50


class GridTooFineError(Exception):
    """Internal: ask again with a wider interval."""


@dataclass(frozen=True)
class Losses:
    """Probabilities of the losses ``(first + i) * interval``, and of an infinite loss."""

    first: int
    masses: Array
    infinite: float

    def __post_init__(self) -> None:
        total = float(self.masses.sum()) + self.infinite
        sound = bool((self.masses >= 0).all()) and self.infinite >= 0
        if not (sound and abs(total - 1) <= _MASS_TOLERANCE):
            raise AccountingError(
                f"Expected privacy losses whose probabilities sum to 1, got {total!r}: double "
                "precision does not suffice for this event, so no epsilon is stated; use more noise "
                "or fewer steps."
            )

    def rounding(self, interval: float) -> float:
        """How far floating point may have moved a loss of this grid: pay it in epsilon per step."""
        last = self.first + self.masses.size - 1
        return _ULP * (64 + max(abs(self.first), abs(last)) * interval)


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
    first, grid = _edges((mu / 2 - reach) * mu, (mu / 2 + reach) * mu, interval)
    edges = grid / mu + mu / 2
    zero = np.zeros(1)
    return _pair(first, interval, edges, (zero, np.array([mu])), (zero, zero)).forward


def _shared(term: SharedTerm, interval: float, tail: float) -> Losses:
    """Participation is known: a mixture of plain Gaussian losses, and no loss when nobody joined."""
    weights, _ = participation(term.probability, term.group)
    # the largest first: it needs the widest grid, and says so before others are computed
    parts = [
        (float(weights[count]), _gaussian(count * term.mu, interval, tail))
        for count in range(weights.size - 1, 0, -1)
        if weights[count] > 0
    ]
    low = min(0, *(part.first for _, part in parts))
    high = max(1, *(part.first + part.masses.size for _, part in parts))
    if high - low > MOST_POINTS:
        raise GridTooFineError
    masses = np.zeros(high - low)
    masses[-low] += weights[0]
    for weight, part in parts:
        masses[part.first - low : part.first - low + part.masses.size] += weight * part.masses
    return Losses(low, masses, math.fsum(weight * part.infinite for weight, part in parts))


def _sampled(term: SampledTerm, interval: float, tail: float) -> LossPair:
    weights, _ = participation(term.probability, term.group)
    means = np.arange(weights.size) / term.sigma
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    reach = -float(ndtri(tail))
    ratio = _LogRatio(log_weights, means, term.two_sided)
    ends = np.array([-reach - (means[-1] if term.two_sided else 0.0), means[-1] + reach])
    low, high = (float(value) for value in ratio(ends)[0])
    # many components make each point dearer
    parts = int(np.count_nonzero(weights))
    first, grid = _edges(low, high, interval, 8 * MOST_POINTS // max(8, parts))
    if term.group == 1:
        edges = _inverse_single(grid, term)
    else:
        edges = _inverse(grid, ratio, ends)
    other = (log_weights, -means) if term.two_sided else (np.zeros(1), np.zeros(1))
    pair = _pair(first, interval, np.maximum.accumulate(edges), (log_weights, means), other)
    return LossPair(pair.forward, pair.forward) if term.two_sided else pair


@dataclass(frozen=True)
class _LogRatio:
    """log P/Q of the group pair and its slope; increasing in x, because each factor is monotone."""

    log_weights: Array
    means: Array
    two_sided: bool

    def __call__(self, x: Array) -> tuple[Array, Array]:
        value, slope = self._log_sum(x)
        if self.two_sided:
            mirrored, back = self._log_sum(-x)
            value, slope = value - mirrored, slope + back
        return value, slope

    def _log_sum(self, x: Array) -> tuple[Array, Array]:
        """log sum w_k exp(mean_k x - mean_k^2/2), and its derivative."""
        there = self.log_weights > -np.inf
        parts = list(zip(self.log_weights[there], self.means[there], strict=True))
        largest = np.full(x.shape, -np.inf)
        for weight, mean in parts:
            largest = np.maximum(largest, weight + mean * (x - mean / 2))
        total, moment = np.zeros(x.shape), np.zeros(x.shape)
        for weight, mean in parts:
            part = np.exp(weight + mean * (x - mean / 2) - largest)
            total += part
            moment += mean * part
        return largest + np.log(total), moment / total


def _inverse_single(grid: Array, term: SampledTerm) -> Array:
    """Where the loss equals the grid, for one record (closed form)."""
    q, s = term.probability, term.sigma
    log_q, log_rest = math.log(q), math.log1p(-q)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not term.two_sided:
            # q exp(x/s - 1/(2 s^2)) = e^l - (1 - q); below log(1 - q) there is nothing
            gap = np.minimum(log_rest - grid, 0.0)
            return np.asarray(s * (grid + np.log(-np.expm1(gap)) - log_q) + 1 / (2 * s))
        # with z = exp(x/s), c = q exp(-1/(2 s^2)): c z^2 - (1 - q)(e^l - 1) z - e^l c = 0; odd in l
        size = np.abs(grid)
        log_c = log_q - 1 / (2 * s * s)
        half = log_rest - math.log(2) + size + np.log(-np.expm1(-size))
        root = np.logaddexp(half, np.logaddexp(2 * half, 2 * log_c + size) / 2)
    return np.asarray(np.sign(grid) * s * (root - log_c))


def _inverse(grid: Array, ratio: _LogRatio, ends: Array) -> Array:
    """Where the loss equals the grid, for a group: Newton's method, kept inside a bracket."""
    table = np.linspace(ends[0], ends[1], 4097)
    values = np.maximum.accumulate(ratio(table)[0])
    place = np.clip(np.searchsorted(values, grid) - 1, 0, table.size - 2)
    low, high = table[place], table[place + 1]
    found = np.interp(grid, values, table)
    # what lies outside the ends stays there; its mass is counted apart
    todo = np.flatnonzero((grid > values[0]) & (grid < values[-1]))
    for _ in range(200):
        x = found[todo]
        value, slope = ratio(x)
        error = value - grid[todo]
        low[todo] = np.where(error < 0, x, low[todo])
        high[todo] = np.where(error >= 0, x, high[todo])
        narrow = high[todo] - low[todo] <= 4e-16 * np.abs(x)
        open_still = ~(narrow | (np.abs(error) <= _ULP * (16 + np.abs(grid[todo]))))
        todo, x, error, slope = (
            todo[open_still],
            x[open_still],
            error[open_still],
            slope[open_still],
        )
        if todo.size == 0:
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moved = x - error / slope
        inside = (moved > low[todo]) & (moved < high[todo])
        found[todo] = np.where(inside, moved, (low[todo] + high[todo]) / 2)
    return found


def _pair(
    first: int,
    interval: float,
    edges: Array,
    above: tuple[Array, Array],
    below: tuple[Array, Array],
) -> LossPair:
    """Both orders of (mixture ``above``, mixture ``below``), whose loss is ``grid`` at ``edges``."""
    log_p, p_under, p_over = _cells(edges, *above)
    log_q, q_under, q_over = _cells(edges, *below)
    grid = _grid(first, edges.size, interval)
    with np.errstate(invalid="ignore"):
        share = _upper_share(grid[:-1] + log_q - log_p, interval)
        share_back = _upper_share(log_p - log_q - grid[1:], interval)
    p, q = np.exp(log_p), np.exp(log_q)
    forward = np.zeros(edges.size)
    forward[1:] += p * share
    forward[:-1] += p * (1 - share)
    # the outermost edges may lie inside their grid points, so what is beyond goes one point up
    forward[1] += p_under
    reverse = np.zeros(edges.size)
    reverse[:-1] += q * share_back
    reverse[1:] += q * (1 - share_back)
    reverse[-2] += q_over
    return LossPair(
        Losses(first, forward, p_over),
        Losses(-(first + edges.size - 1), reverse[::-1].copy(), q_under),
    )


def _upper_share(gap: Array, interval: float) -> Array:
    """The share of a cell's mass that goes to its upper end, from keeping both of its masses.

    ``gap`` is the cell's lower end minus its mean loss log p/q, between -interval and 0. A cell without
    mass has no loss; it counts as the larger one.
    """
    with np.errstate(over="ignore"):
        share = -np.expm1(gap) / -math.expm1(-interval)
    return np.asarray(np.clip(np.where(np.isnan(share), 1.0, share), 0.0, 1.0))


def _cells(edges: Array, log_weights: Array, means: Array) -> tuple[Array, float, float]:
    """Log-mass of a Gaussian mixture between the edges, and its mass below and above all of them."""
    total = np.full(edges.size - 1, -np.inf)
    under, over = [], []
    for log_weight, mean in zip(log_weights, means, strict=True):
        if log_weight == -np.inf:
            continue
        cell = _log_masses(edges, mean) + log_weight
        total = cell if means.size == 1 else np.logaddexp(total, cell)
        under.append(math.exp(log_weight + float(log_ndtr(edges[0] - mean))))
        over.append(math.exp(log_weight + float(log_ndtr(mean - edges[-1]))))
    return total, math.fsum(under), math.fsum(over)


def _log_masses(edges: Array, mean: float) -> Array:
    """log of N(mean, 1)'s mass between neighbouring edges, to full relative precision."""
    with np.errstate(invalid="ignore"):
        width = np.diff(edges)
        middle = edges[:-1] + width / 2 - mean
        narrow = width * (1 + np.abs(middle)) < 0.02
    result = np.empty(width.size)
    # narrow cells: the density at the middle and two corrections, as differences would cancel
    d, m2 = width[narrow] ** 2, middle[narrow] ** 2
    with np.errstate(divide="ignore"):
        log_width = np.log(width[narrow])
    corrections = d * ((m2 - 1) / 24 + d * (m2 * (m2 - 6) + 3) / 1920)
    result[narrow] = log_width - m2 / 2 - _HALF_LOG_TWO_PI + np.log1p(corrections)
    wide = ~narrow
    if wide.any():
        low, high = edges[:-1][wide] - mean, edges[1:][wide] - mean
        # on the right half, the mirror image: differences of small numbers, not of ones
        right = low > 0
        more = log_ndtr(np.where(right, -low, high))
        less = log_ndtr(np.where(right, -high, low))
        with np.errstate(divide="ignore", invalid="ignore"):
            cell = more + np.log(-np.expm1(less - more))
        result[wide] = np.where(np.isnan(cell), -np.inf, cell)
    return result


def _laplace(epsilon: float, interval: float) -> Losses:
    """Lap(0, 1) against Lap(epsilon, 1): atoms at both ends and e^{-|x|}/2 between them."""
    first, grid = _edges(-epsilon - interval, epsilon + interval, interval)
    masses = np.zeros(grid.size)
    for loss, mass in ((epsilon, 0.5), (-epsilon, math.exp(-epsilon) / 2)):
        _put_atom(masses, first, interval, loss, mass)
    # between two losses a < b lie e^{-(epsilon - b)/2} (1 - e^{-(b - a)/2})/2 of P, and e^{-(a + b)/2}
    # times as much of Q
    a, b = np.clip(grid[:-1], -epsilon, epsilon), np.clip(grid[1:], -epsilon, epsilon)
    p = np.exp((b - epsilon) / 2) * -np.expm1((a - b) / 2) / 2
    share = _upper_share(grid[:-1] - (a + b) / 2, interval)
    masses[1:] += p * share
    masses[:-1] += p * (1 - share)
    return Losses(first, masses, 0.0)


def _atomic(term: AtomicTerm, interval: float) -> Losses:
    """Losses +epsilon, 0, -epsilon; each atom is split over the two grid points around it."""
    down = term.up * math.exp(-term.epsilon)
    first, grid = _edges(-term.epsilon - interval, term.epsilon + interval, interval)
    masses = np.zeros(grid.size)
    for loss, mass in (
        (term.epsilon, term.up),
        (0.0, max(0.0, 1 - term.up - down)),
        (-term.epsilon, down),
    ):
        _put_atom(masses, first, interval, loss, (1 - term.delta) * mass)
    return Losses(first, masses, term.delta)


def _put_atom(masses: Array, first: int, interval: float, loss: float, mass: float) -> None:
    """Split an atom over the two grid points around it, keeping both of its masses."""
    cell = math.floor(loss / interval)
    upper = float(_upper_share(np.array(cell * interval - loss), interval))
    masses[cell - first] += mass * (1 - upper)
    masses[cell + 1 - first] += mass * upper


def _edges(low: float, high: float, interval: float, most: int = MOST_POINTS) -> tuple[int, Array]:
    """The first index and the points of the least grid that holds ``low`` and ``high``."""
    if not math.isfinite(high - low):
        raise AccountingError(
            "The privacy losses of this event are too large for double precision, so no epsilon is "
            "stated: use more noise."
        )
    first, last = math.floor(low / interval), math.ceil(high / interval)
    if last - first + 1 > most or max(abs(first), abs(last)) > _MOST_INDEX:
        raise GridTooFineError
    size = max(2, last - first + 1)
    return first, _grid(first, size, interval)


def _grid(first: int, size: int, interval: float) -> Array:
    return np.asarray(np.arange(first, first + size) * interval, dtype=np.float64)
