"""Epsilon, delta and an attacker's power of any event under a stated relation.

| accountant | what it is | when |
| --- | --- | --- |
| ``pld`` | privacy loss distributions, rounded pessimistically; exact closed forms where they exist | the default |
| ``rdp`` | Renyi divergences at dense orders to 1024 | cross-check; never below ``pld`` |
| ``analytic-gaussian`` | Balle and Wang's exact curve | Gaussian releases only |

No number is ever understated: grids, windows and truncations err towards a larger epsilon.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binom

from sfumato.privacy._events import Event
from sfumato.privacy._gaussian import (
    delta_of_gaussian,
    deltas_of_gaussian,
    epsilon_of_gaussian,
    mu_of_gaussian,
    true_positive_of_gaussian,
)
from sfumato.privacy._losses import GridTooFineError
from sfumato.privacy._pld import LossCurve, compose
from sfumato.privacy._rdp import DENSE_ORDERS, SPARSE_ORDERS, epsilon_by_rdp
from sfumato.privacy._terms import (
    AccountingError,
    GaussianTerm,
    SharedTerm,
    Terms,
    last_count,
    pure_epsilon,
    slack,
    terms_of,
)
from sfumato.privacy._units import Relation

ACCOUNTANTS = ("pld", "rdp", "analytic-gaussian")

# The grid of the soundness notes: fine where epsilon is small and the grid would show.
FINE_INTERVAL = 2e-5
INTERVAL = 1e-4
# From this epsilon on the interval grows with epsilon, which stays below it by a factor 1e6.
_LARGE = 100.0
# Below this one it shrinks with epsilon.
_SMALL = 0.05
_TAIL = 1e-15
# Below this delta double precision has nothing left in a transform; Renyi bounds still hold.
_LEAST_DELTA = 1e-13
_COUNT_TAIL = 1e-22

Array = NDArray[np.float64]


def epsilon_of(
    event: Event, delta: float, relation: Relation | str, accountant: str = "pld"
) -> float:
    """The epsilon that ``event`` has at ``delta`` under ``relation``: an upper bound, rounded up.

    Infinite when none exists (a Gaussian release at delta 0, say).
    """
    if accountant not in ACCOUNTANTS:
        raise AccountingError(
            f"Expected an accountant out of {', '.join(ACCOUNTANTS)}, got {accountant!r}."
        )
    if isinstance(delta, bool) or not 0 <= delta < 1:
        raise AccountingError(f"Expected 0 <= delta < 1, got {delta!r}.")
    return _epsilon(event, float(delta), Relation.parse(relation), accountant)


def delta_of(event: Event, epsilon: float, relation: Relation | str) -> float:
    """The delta that ``event`` has at ``epsilon``, an upper bound."""
    if isinstance(epsilon, bool) or not (math.isfinite(epsilon) and epsilon >= 0):
        raise AccountingError(f"Expected a finite epsilon >= 0, got {epsilon!r}.")
    return _delta(terms_of(event, Relation.parse(relation)), float(epsilon))


def gdp_mu(event: Event, delta: float, relation: Relation | str) -> float:
    """The mu of a Gaussian release that protects no better at ``delta`` and at any larger one.

    For purely private events at delta 0: the mu that implies it, -2 Phi^-1(1/(1 + e^epsilon)).
    """
    terms = terms_of(event, Relation.parse(relation))
    if not terms:
        return 0.0
    if _only_gaussian(terms):
        return _gaussian_mu(terms)
    pure = pure_epsilon(terms)
    implied = -2 * float(ndtri(1 / (1 + math.exp(pure)))) if pure < 700 else math.inf
    if delta <= 0:
        return implied
    largest = 0.0
    first = _epsilon(event, float(delta), Relation.parse(relation), "pld")
    on_grid = delta > _LEAST_DELTA and not _is_known_participation(terms)
    for step in np.geomspace(delta, max(delta, 0.3), 8):
        epsilon = first
        if step > delta:
            # one grid for all: coarser than an exact answer may need, hence never below it
            interval = interval_for(max(first, FINE_INTERVAL))
            solve = epsilon_on_grid if on_grid else _epsilon_of_terms
            epsilon = solve(terms, float(step), interval)
        if epsilon > 0 or step == delta:
            largest = max(largest, mu_of_gaussian(epsilon, float(step)) * (1 + 1e-9))
    return min(largest, implied)


def true_positive_bound(
    event: Event, false_positive_rate: float, relation: Relation | str
) -> float:
    """No attacker is right more often than this while wrongly accusing at the given rate.

    Every pair (epsilon, delta) of the curve gives TPR <= e^epsilon FPR + delta, and by symmetry
    TPR <= 1 - e^-epsilon (1 - delta - FPR); the least of them is taken, so it is an upper bound.
    """
    rate = float(false_positive_rate)
    if not 0 <= rate <= 1:
        raise AccountingError(f"Expected a false-positive rate in [0, 1], got {rate!r}.")
    terms = terms_of(event, Relation.parse(relation))
    if not terms:
        return rate
    if _only_gaussian(terms):
        return min(1.0, true_positive_of_gaussian(rate, _gaussian_mu(terms)) * (1 + 1e-12))
    best = 1.0
    most = -math.log(rate) if rate > 0 else 30.0
    pure = pure_epsilon(terms)
    for epsilon in np.append(np.linspace(0.0, most, 40), min(pure, most)):
        delta = 0.0 if epsilon >= pure else _delta(terms, float(epsilon))
        best = min(
            best,
            math.exp(epsilon) * rate + delta,
            1 - math.exp(-epsilon) * max(0.0, 1 - delta - rate),
        )
    return min(1.0, best)


@lru_cache(maxsize=4096)
def _epsilon(event: Event, delta: float, relation: Relation, accountant: str) -> float:
    terms = terms_of(event, relation)
    if not terms:
        return 0.0
    pure = pure_epsilon(terms)
    if accountant == "analytic-gaussian":
        if not _only_gaussian(terms):
            raise AccountingError(
                "The analytic Gaussian accountant reads Gaussian releases only: "
                "expected such an event, got others; use pld."
            )
        return epsilon_of_gaussian(delta, _gaussian_mu(terms))
    if accountant == "rdp":
        return min(pure, epsilon_by_rdp(terms, delta, DENSE_ORDERS)) if delta > 0 else pure
    if delta == 0:
        return pure
    return min(pure, epsilon_by_pld(terms, delta))


def epsilon_by_pld(terms: Terms, delta: float) -> float:
    """The epsilon of composed terms, by a closed form if there is one and on a grid otherwise."""
    if _only_gaussian(terms):
        return epsilon_of_gaussian(delta, _gaussian_mu(terms))
    if _is_known_participation(terms):
        return _epsilon_of_known_participation(terms, delta)
    rough = _rough(terms, delta)
    if delta <= _LEAST_DELTA:
        return min(rough, epsilon_by_rdp(terms, delta, DENSE_ORDERS))
    interval = interval_for(rough)
    found = epsilon_on_grid(terms, delta, interval)
    # The first guess chose too wide a grid. Grids are nested, so a finer one is never above; the
    # margin makes sure that whoever calibrated to a target on its grid finds no more here.
    finer = interval_for(found / 1.5)
    if found > 0 and finer < interval:
        found = min(found, epsilon_on_grid(terms, delta, finer))
    return min(found, rough)


@lru_cache(maxsize=256)
def _rough(terms: Terms, delta: float) -> float:
    """A quick upper bound, to choose the grid."""
    return epsilon_by_rdp(terms, delta, SPARSE_ORDERS)


def _epsilon_of_terms(terms: Terms, delta: float, interval: float) -> float:
    return epsilon_by_pld(terms, delta)


def interval_for(epsilon: float) -> float:
    """The discretisation interval for answers around ``epsilon``."""
    if epsilon < _SMALL:
        return FINE_INTERVAL * 2.0 ** math.floor(math.log2(max(epsilon, 2e-3) / _SMALL))
    if epsilon < 1:
        return FINE_INTERVAL
    if epsilon <= _LARGE:
        return INTERVAL
    return INTERVAL * 2.0 ** math.ceil(math.log2(min(epsilon, 1e12) / _LARGE))


def epsilon_on_grid(terms: Terms, delta: float, interval: float) -> float:
    """The larger epsilon of both orders of the composed pair, on the grid of ``interval``."""
    spare = slack(terms)
    return max(curve.epsilon(delta - spare) for curve in _curves(terms, interval)) + spare


@lru_cache(maxsize=8)
def _curves(terms: Terms, interval: float) -> tuple[LossCurve, ...]:
    """Composed curves; an interval that needs too many points is widened, never truncated."""
    while True:
        try:
            return compose(terms, interval, _TAIL)
        except GridTooFineError:
            interval *= 2


@lru_cache(maxsize=4096)
def _delta(terms: Terms, epsilon: float) -> float:
    if not terms:
        return 0.0
    if _only_gaussian(terms):
        return delta_of_gaussian(epsilon, _gaussian_mu(terms))
    if epsilon >= pure_epsilon(terms):
        return 0.0
    if _is_known_participation(terms):
        return _delta_of_known_participation(terms, epsilon)
    rough = _rough(terms, 1e-6)
    spare = slack(terms)
    curves = _curves(terms, interval_for(rough))
    return min(1.0, max(curve.delta(max(0.0, epsilon - spare)) for curve in curves) + spare)


def _only_gaussian(terms: Terms) -> bool:
    return len(terms) == 1 and isinstance(terms[0][0], GaussianTerm)


def _gaussian_mu(terms: Terms) -> float:
    term = terms[0][0]
    assert isinstance(term, GaussianTerm)
    return term.mu


def _is_known_participation(terms: Terms) -> bool:
    shared = [term for term, _ in terms if isinstance(term, SharedTerm)]
    others = [term for term, _ in terms if not isinstance(term, SharedTerm | GaussianTerm)]
    return len(shared) == 1 and shared[0].group == 1 and not others


def _epsilon_of_known_participation(terms: Terms, delta: float) -> float:
    """Bisect the exact curve of Lemma D; the upper end is returned."""
    if _delta_of_known_participation(terms, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while _delta_of_known_participation(terms, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if _delta_of_known_participation(terms, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _delta_of_known_participation(terms: Terms, epsilon: float) -> float:
    """Lemma D: delta(epsilon) = E over m ~ Bin(T, q) of the Gaussian curve at mu = D sqrt(m)/s."""
    beside = 0.0
    for term, count in terms:
        if isinstance(term, SharedTerm):
            shared, steps = term, count
        elif isinstance(term, GaussianTerm):
            beside = term.mu**2
    counts, weights, above = _participations(shared.probability, steps)
    curve = deltas_of_gaussian(epsilon, np.sqrt(counts * shared.mu**2 + beside))
    return above + float(np.dot(weights, curve)) * (1 + 1e-12)


@lru_cache(maxsize=64)
def _participations(probability: float, steps: int) -> tuple[Array, Array, float]:
    """Counts of Bin(steps, probability) with weights; what lies above them is returned as a mass.

    What lies below is rounded up to the first count kept.
    """
    high = last_count(probability, steps, _COUNT_TAIL)
    low = steps - last_count(1 - probability, steps, _COUNT_TAIL)
    counts = np.arange(low, high + 1, dtype=np.float64)
    weights = binom.pmf(counts, steps, probability)
    weights[0] = binom.cdf(low, steps, probability)
    return counts, weights, float(binom.sf(high, steps, probability))
