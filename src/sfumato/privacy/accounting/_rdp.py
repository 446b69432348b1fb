"""Renyi accounting: the cross-check of the loss distributions, and the fallback where grids end.

For one record under Poisson sampling and add-remove this is Theorem 1 of the MaskDP paper as it
should read (Mironov, Talwar, Zhang 2019), for integer alpha >= 2:

    eps(alpha) = 1/(alpha-1) log sum_l C(alpha, l) (1-q)^(alpha-l) q^l exp(l (l-1) / (2 sigma^2)).

All other sampled pairs, and fractional orders, are integrated numerically: the integrand is analytic
and decays like a Gaussian, so the trapezoidal rule converges geometrically.
Conversion to (epsilon, delta): Balle et al. 2020 (Theorem 2 of the paper).

The best of a random number of runs: Papernot and Steinke 2022, Theorem 2. If a run has divergence
eps(alpha) at every order, the best of K ~ D(eta, gamma) runs has at most

    eps(alpha) + (1 + eta) min_b ((1 - 1/b) eps(b) + log(1/gamma) / b) + log E[K] / (alpha - 1).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from sfumato.privacy.accounting._terms import (
    AtomicTerm,
    BestOfTerm,
    GaussianTerm,
    LaplaceTerm,
    SampledTerm,
    SharedTerm,
    Term,
    Terms,
    participation,
    slack,
)

Array = NDArray[np.float64]

_NEAR_ONE = 1 + np.geomspace(1e-4, 0.1, 16)
_FRACTIONAL = np.array([1 + step / 10 for step in range(2, 90) if step % 10])
_INTEGERS = np.arange(2.0, 1025.0)
DENSE_ORDERS: Array = np.concatenate([_NEAR_ONE, _FRACTIONAL, _INTEGERS])
# A few orders for a first guess, and for pairs whose every order must be integrated.
SPARSE_ORDERS: Array = np.concatenate(
    [_NEAR_ONE[::3], 1 + np.array([0.15, 0.25, 0.5, 0.75]), np.round(np.geomspace(2, 1024, 40))]
)
# dp-accounting's default set, kept to reproduce figures that were published with it
GOOGLE_ORDERS: Array = np.concatenate(
    [[1 + x / 10 for x in range(1, 100)], np.arange(11.0, 64.0), [128.0, 256.0, 512.0, 1024.0]]
)

_REACH = 13.0
_UNIT = 2.0**-53
# An order that needs more points than this is far above the best one; it is left out.
_MOST_POINTS = 20_000


def epsilon_by_rdp(terms: Terms, delta: float, orders: Array = DENSE_ORDERS) -> float:
    """The best epsilon over ``orders``; infinite when delta is 0 or nothing helps."""
    spare = slack(terms)
    delta -= spare + math.fsum(
        count * term.delta for term, count in terms if isinstance(term, AtomicTerm)
    )
    if delta <= 0:
        return math.inf
    return best_epsilon(_total(terms, orders), orders, delta) + spare


def delta_by_rdp(terms: Terms, epsilon: float, orders: Array = DENSE_ORDERS) -> float:
    """The best delta over ``orders``: the same conversion, solved for delta."""
    spare = slack(terms)
    lost = math.fsum(count * term.delta for term, count in terms if isinstance(term, AtomicTerm))
    divergence = _total(terms, orders)
    with np.errstate(over="ignore", invalid="ignore"):
        logs = (orders - 1) * (divergence - epsilon + spare + np.log1p(-1 / orders)) - np.log(
            orders
        )
    logs = logs[np.isfinite(logs)]
    found = math.exp(min(0.0, float(logs.min()))) if logs.size else 1.0
    return min(1.0, found * (1 + 1e-12) + spare + lost)


def _total(terms: Terms, orders: Array) -> Array:
    total = np.zeros(orders.size)
    for term, count in terms:
        total += count * _divergence(term, orders)
    return total


def best_epsilon(divergence: Array, orders: Array, delta: float) -> float:
    """Balle et al. 2020: eps + log((a-1)/a) - (log delta + log a)/(a-1), at the best order."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = (
            divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
        )
    values = values[np.isfinite(values)]
    return max(0.0, float(values.min())) if values.size else math.inf


def _divergence(term: Term, orders: Array) -> Array:
    match term:
        case GaussianTerm():
            return np.asarray(orders * term.mu**2 / 2)
        case LaplaceTerm():
            return _pure_laplace(term.epsilon, orders)
        case AtomicTerm():
            return _atoms(term, orders)
        case SharedTerm():
            return _known_participants(term, orders)
        case SampledTerm():
            return _sampled(term, orders)
        case BestOfTerm():
            return _best_of(term, orders)


def _best_of(term: BestOfTerm, orders: Array) -> Array:
    run = _total(term.runs, orders)
    with np.errstate(invalid="ignore"):
        choice = (1 - 1 / orders) * run + math.log(1 / term.gamma) / orders
    paid = (1 + term.shape) * float(np.nanmin(choice))
    # roundings are repaid, so that the value stays an upper bound
    return np.asarray((run + paid + math.log(term.expected_runs) / (orders - 1)) * (1 + 1e-12))


def _pure_laplace(epsilon: float, orders: Array) -> Array:
    first = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
    second = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
    return _repaid(np.logaddexp(first, second), orders)


def _atoms(term: AtomicTerm, orders: Array) -> Array:
    rest = max(0.0, 1 - term.up * (1 + math.exp(-term.epsilon)))
    value = math.log(term.up) + np.logaddexp((orders - 1) * term.epsilon, -orders * term.epsilon)
    if rest > 0:
        value = np.logaddexp(value, math.log(rest))
    return _repaid(value, orders)


def _known_participants(term: SharedTerm, orders: Array) -> Array:
    """Lemma D: (1/(alpha-1)) log E exp(alpha (alpha-1) (k D)^2 / (2 s^2))."""
    weights, _ = participation(term.probability, term.group)
    value = np.full(orders.size, -np.inf)
    for count, weight in enumerate(weights):
        if weight > 0:
            level = orders * (orders - 1) * (count * term.mu) ** 2 / 2
            value = np.logaddexp(value, math.log(weight) + level)
    return _repaid(value, orders)


def _repaid(log_moment: Array, orders: Array) -> Array:
    """The divergence of a log-moment, with the rounding of the latter added back."""
    return np.asarray(np.maximum(log_moment + 16 * _UNIT * (1 + np.abs(log_moment)), 0.0)) / (
        orders - 1
    )


def _sampled(term: SampledTerm, orders: Array) -> Array:
    plain = term.group == 1 and not term.two_sided
    if not plain and orders.size > 200:
        # integrating a thousand orders buys nothing: leave out the ones between
        keep = np.isin(orders, SPARSE_ORDERS) | (orders <= 64)
        value = np.full(orders.size, np.inf)
        value[keep] = _sampled(term, orders[keep])
        return value
    key = tuple(float(order) for order in orders)
    return np.array(_sampled_orders(term, key))


@lru_cache(maxsize=64)
def _sampled_orders(term: SampledTerm, orders: tuple[float, ...]) -> tuple[float, ...]:
    plain = term.group == 1 and not term.two_sided
    found = []
    for order in orders:
        if plain and order == round(order):
            found.append(theorem_one(term.probability, term.sigma, int(order)))
        else:
            found.append(_integrated(term, order))
    return tuple(found)


def theorem_one(probability: float, sigma: float, order: int) -> float:
    """The corrected Theorem 1: the Renyi divergence of one Poisson step at an integer order."""
    count = np.arange(order + 1.0)
    log_terms = (
        gammaln(order + 1)
        - gammaln(count + 1)
        - gammaln(order - count + 1)
        + (order - count) * math.log1p(-probability)
        + count * math.log(probability)
        + count * (count - 1) / (2 * sigma**2)
    )
    largest = float(log_terms.max())
    value = largest + math.log(float(np.exp(log_terms - largest).sum()))
    # the roundings of gammaln and of the exponents are repaid, so that this stays an upper bound
    scale = gammaln(order + 1) + order * (order / sigma**2 - math.log(probability) + 1)
    return max(0.0, value + 4 * _UNIT * float(scale)) / (order - 1)


def _integrated(term: SampledTerm, order: float) -> float:
    """The Renyi divergence of the group pair, the larger of both orders of the pair."""
    weights, _ = participation(term.probability, term.group)
    means = np.arange(weights.size) / term.sigma
    far = float(means[-1])
    left = -(2 * order if term.two_sided else order) * far - _REACH
    right = (2 * order if term.two_sided else order) * far + _REACH
    # the integrand is a Gaussian sharpened by at most the variance of the participation count
    step = 0.2 / math.sqrt(1 + order * far**2 / 4)
    if (right - left) / step > _MOST_POINTS:
        return math.inf
    x = np.arange(left, right + step, step)
    log_p = _log_mixture(x, weights, means)
    log_q = _log_mixture(x, weights, -means) if term.two_sided else -x * x / 2
    norm = math.log(step) - math.log(2 * math.pi) / 2
    largest = -math.inf
    for above, below in ((log_p, log_q), (log_q, log_p)):
        level = order * above + (1 - order) * below
        top = float(level.max())
        # the rounding of the exponents is repaid, so that the value stays an upper bound
        seen = level > top - 40
        size = float((order * np.abs(above[seen]) + (order - 1) * np.abs(below[seen])).max())
        value = top + math.log(float(np.exp(level - top).sum())) + norm + 4 * _UNIT * (64 + size)
        largest = max(largest, value / (order - 1))
        if term.two_sided:
            break
    return max(0.0, largest)


def _log_mixture(x: Array, weights: Array, means: Array) -> Array:
    total = np.full(x.shape, -np.inf)
    for weight, mean in zip(weights, means, strict=True):
        if weight > 0:
            total = np.logaddexp(total, math.log(weight) - (x - mean) ** 2 / 2)
    return total
