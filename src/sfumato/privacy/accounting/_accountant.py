"""Epsilon, delta and an attacker's power of any event under a stated relation.

| accountant | what it is | when |
| --- | --- | --- |
| ``pld`` | privacy loss distributions, rounded pessimistically; exact closed forms where they exist; ``rdp`` where a best run was chosen | the default |
| ``rdp`` | Renyi divergences at dense orders to 1024 | cross-check; never below ``pld`` |
| ``analytic-gaussian`` | Balle and Wang's exact curve | Gaussian releases only |

No number is ever understated: grids, windows and truncations err towards a larger epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.privacy._events import Event, plain_number
from sfumato.privacy._units import Relation
from sfumato.privacy.accounting._gaussian import (
    delta_of_gaussian,
    deltas_of_gaussian,
    epsilon_of_gaussian,
    mu_of_gaussian,
    true_positive_of_gaussian,
)
from sfumato.privacy.accounting._losses import GridTooFineError
from sfumato.privacy.accounting._pld import LossCurve, chernoff_delta, compose
from sfumato.privacy.accounting._rdp import (
    DENSE_ORDERS,
    SPARSE_ORDERS,
    delta_by_rdp,
    epsilon_by_rdp,
)
from sfumato.privacy.accounting._terms import (
    AccountingError,
    AtomicTerm,
    BestOfTerm,
    GaussianTerm,
    LaplaceTerm,
    SampledTerm,
    SharedTerm,
    Terms,
    check_known,
    last_count,
    pure_epsilon,
    slack,
    terms_of,
)

ACCOUNTANTS = ("pld", "rdp", "analytic-gaussian")

# The grid of the soundness notes: fine where epsilon is small and the grid would show.
FINE_INTERVAL = 2e-5
INTERVAL = 1e-4
# From this epsilon on the interval grows with epsilon, which stays below it by a factor 1e6.
_LARGE = 100.0
# Below this one it shrinks with epsilon.
_SMALL = 0.05
_SMALLEST = 1e-6
# Below this delta masses would fall out of double precision; bounds in closed form still hold.
LEAST_DELTA = 1e-100
# Below this one a double has fewer digits, and closed forms would understate epsilon.
SMALLEST_DELTA = 1e-300
# The share of delta that may be spent on participation counts that are cut off.
_COUNT_SHARE = 1e-9
_MOST_WIDENINGS = 60
# A grid that adds more than this to the variance of the composed loss is tried again, finer.
_MOST_COARSENESS = 1e-3

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
    check_known(event)
    return _epsilon(event, _checked_delta(delta), Relation.parse(relation), accountant)


def delta_of(event: Event, epsilon: float, relation: Relation | str) -> float:
    """The delta that ``event`` has at ``epsilon``, an upper bound."""
    asked = plain_number(epsilon)
    if not 0 <= asked < math.inf:
        raise AccountingError(f"Expected a finite epsilon >= 0, got {epsilon!r}.")
    return _delta(terms_of(event, Relation.parse(relation)), asked)


def gdp_mu(event: Event, delta: float, relation: Relation | str) -> float:
    """The mu of a Gaussian release that protects no better at ``delta`` and at any larger one.

    For purely private events at delta 0: the mu that implies it, -2 Phi^-1(1/(1 + e^epsilon)).
    """
    delta = _checked_delta(delta)
    terms = terms_of(event, Relation.parse(relation))
    if not terms:
        return 0.0
    if _only_gaussian(terms):
        return _gaussian_mu(terms)
    pure = pure_epsilon(terms)
    implied = -2 * float(ndtri(1 / (1 + math.exp(pure)))) if pure < 700 else math.inf
    if delta == 0:
        return implied
    first = _epsilon(event, delta, Relation.parse(relation), "pld")
    largest = mu_of_gaussian(first, delta)
    on_grid = delta >= LEAST_DELTA and not (_is_known_participation(terms) or _has_choice(terms))
    for step in np.geomspace(delta, max(delta, 0.3), 8)[1:]:
        if on_grid:
            # one grid for all: coarser than an exact answer may need, hence never below it
            interval = interval_for(max(first, FINE_INTERVAL))
            epsilon = epsilon_on_grid(terms, float(step), interval)
        else:
            epsilon = epsilon_by_pld(terms, float(step))
        if epsilon > 0:
            largest = max(largest, mu_of_gaussian(epsilon, float(step)))
    return min(largest * (1 + 1e-9), implied)


def true_positive_bound(
    event: Event, false_positive_rate: float, relation: Relation | str
) -> float:
    """No attacker is right more often than this while wrongly accusing at the given rate.

    Every pair (epsilon, delta) of the curve gives TPR <= e^epsilon FPR + delta, and by symmetry
    TPR <= 1 - e^-epsilon (1 - delta - FPR); the least of them is taken, so it is an upper bound.
    """
    rate = plain_number(false_positive_rate)
    if not 0 <= rate <= 1:
        raise AccountingError(
            f"Expected a false-positive rate in [0, 1], got {false_positive_rate!r}."
        )
    terms = terms_of(event, Relation.parse(relation))
    if not terms:
        return rate
    if _only_gaussian(terms):
        return min(1.0, true_positive_of_gaussian(rate, _gaussian_mu(terms)) * (1 + 1e-12))
    best = 1.0
    most = -math.log(rate) if rate > 0 else 30.0
    pure = pure_epsilon(terms)
    # the bound is best where delta is a small part of the rate, or where epsilon is small
    sharp = _delta_curve(terms, max(LEAST_DELTA, 1e-3 * rate))
    plain = _delta_curve(terms, max(LEAST_DELTA, 1e-3 * rate), 0.0)
    for epsilon in np.append(np.linspace(0.0, most, 40), min(pure, most)):
        delta = 0.0 if epsilon >= pure else min(sharp(float(epsilon)), plain(float(epsilon)))
        best = min(
            best,
            math.exp(epsilon) * rate + delta,
            1 - math.exp(-epsilon) * max(0.0, 1 - delta - rate),
        )
    return min(1.0, best)


def _checked_delta(value: float) -> float:
    delta = plain_number(value)
    if not 0 <= delta < 1:
        raise AccountingError(f"Expected 0 <= delta < 1, got {value!r}.")
    if 0 < delta < SMALLEST_DELTA:
        raise AccountingError(
            f"Expected delta 0 or at least {SMALLEST_DELTA:g}, got {value!r}: smaller numbers lose their "
            "digits, and epsilon with them."
        )
    return delta


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
    if _has_choice(terms):
        return epsilon_by_rdp(terms, delta, DENSE_ORDERS)
    if _is_known_participation(terms):
        return _epsilon_of_known_participation(terms, delta)
    rough = _rough(terms, delta)
    if rough == 0 or delta < LEAST_DELTA:
        return min(rough, epsilon_by_rdp(terms, delta, DENSE_ORDERS))
    interval = wanted_interval(rough)
    found = epsilon_on_grid(terms, delta, interval)
    # The first guess chose too wide a grid. Grids are nested, so a finer one is hardly ever above.
    while 0 < found < math.inf and wanted_interval(found) < interval:
        interval = wanted_interval(found)
        found = min(found, epsilon_on_grid(terms, delta, interval))
    return min(found, rough)


@lru_cache(maxsize=256)
def _rough(terms: Terms, delta: float) -> float:
    """A quick upper bound, to choose the grid."""
    return min(epsilon_by_rdp(terms, delta, SPARSE_ORDERS), _epsilon_without_sampling(terms, delta))


def _epsilon_without_sampling(terms: Terms, delta: float) -> float:
    """As if everybody took part every time: convexity makes that an upper bound, in closed form.

    Gaussian parts are one Gaussian release; purely private parts add their epsilons to it.
    """
    square = pure = 0.0
    for term, count in terms:
        match term:
            case GaussianTerm():
                square += count * term.mu**2
            case SampledTerm():
                moved = (2 if term.two_sided else 1) * term.group / term.sigma
                square += count * moved**2
            case SharedTerm():
                square += count * (term.group * term.mu) ** 2
            case LaplaceTerm():
                pure += count * term.epsilon
            case AtomicTerm():
                pure += count * term.epsilon
                delta -= count * term.delta
    if square == 0:
        return pure if delta >= 0 else math.inf
    return (pure + epsilon_of_gaussian(max(delta, 0.0), math.sqrt(square))) * (1 + 1e-12)


def interval_for(epsilon: float) -> float:
    """The discretisation interval for answers around ``epsilon``."""
    if epsilon < _SMALL:
        return FINE_INTERVAL * 2.0 ** math.floor(math.log2(max(epsilon, _SMALLEST) / _SMALL))
    if epsilon < 1:
        return FINE_INTERVAL
    if epsilon <= _LARGE:
        return INTERVAL
    return INTERVAL * 2.0 ** math.ceil(math.log2(min(epsilon, 1e40) / _LARGE))


def wanted_interval(epsilon: float) -> float:
    """For an answer that was found to be ``epsilon``, or about to be: somewhat finer, for a smooth change."""
    return interval_for(epsilon / 1.5)


def epsilon_on_grid(terms: Terms, delta: float, interval: float) -> float:
    """The larger epsilon of both orders of the composed pair, on the grid of ``interval``.

    Infinite if no grid can hold the composition; other bounds may still be finite.
    """
    spare = slack(terms)
    found = math.inf
    for both in _curves(terms, interval, delta):
        found = min(found, max(curve.epsilon(delta - spare) for curve in both))
        if found == 0:
            break
    return found + spare


def _curves(
    terms: Terms, interval: float, delta: float, epsilon: float | None = None
) -> Iterator[tuple[LossCurve, ...]]:
    """Composed curves of both orders, and again on a finer grid if this one shows over so many steps.

    Each is an upper bound by itself (see ``compose`` for ``delta`` and ``epsilon``).
    """
    found = _composed(terms, interval, delta, epsilon)
    if found is None:
        return
    yield found
    excess = max(curve.coarseness for curve in found) / _MOST_COARSENESS
    if excess > 1:
        finer = found[0].interval * 2.0 ** -math.ceil(math.log2(excess) / 2)
        yield _composed(terms, finer, delta, epsilon) or found


@lru_cache(maxsize=8)
def _composed(
    terms: Terms, interval: float, delta: float, epsilon: float | None
) -> tuple[LossCurve, ...] | None:
    """Curves on a grid that can be afforded: too fine an interval is widened, nothing is truncated.

    None, if there is no such grid: so many steps that even a coarse one spreads beyond any window.
    """
    for _ in range(_MOST_WIDENINGS):
        try:
            return compose(terms, interval, delta, epsilon)
        except GridTooFineError:
            interval *= 2
    return None


def _delta(terms: Terms, epsilon: float) -> float:
    if not terms or epsilon >= pure_epsilon(terms):
        return 0.0
    if _only_gaussian(terms) or _is_known_participation(terms) or _has_choice(terms):
        # what is too small for a number is not nothing
        return max(math.ulp(0.0), _delta_curve(terms, LEAST_DELTA)(epsilon))
    interval = _usual_interval(terms)
    for _ in range(_MOST_WIDENINGS):
        try:
            level = chernoff_delta(terms, interval, epsilon, LEAST_DELTA)
        except GridTooFineError:
            interval *= 2
        else:
            # that bound is too large by some orders of magnitude
            return _delta_curve(terms, max(LEAST_DELTA, 1e-4 * level), epsilon)(epsilon)
    return 1.0


def _usual_interval(terms: Terms) -> float:
    """For a whole curve: that of its epsilon at 1e-6, or above all that is an infinite loss."""
    lost = math.fsum(n * term.delta for term, n in terms if isinstance(term, AtomicTerm))
    return interval_for(_rough(terms, max(1e-6, min(2 * lost, (1 + lost) / 2))))


def _delta_curve(terms: Terms, delta: float, at: float | None = None) -> Callable[[float], float]:
    """delta as a function of epsilon: an upper bound everywhere, sharpest at ``delta`` (see ``compose``)."""
    if _only_gaussian(terms):
        return lambda epsilon: delta_of_gaussian(epsilon, _gaussian_mu(terms))
    if _has_choice(terms):
        return lambda epsilon: delta_by_rdp(terms, epsilon)
    if _is_known_participation(terms):
        return lambda epsilon: _delta_of_known_participation(terms, epsilon, delta * _COUNT_SHARE)
    spare = slack(terms)
    curves = tuple(_curves(terms, _usual_interval(terms), delta, at))

    def curve_at(epsilon: float) -> float:
        there = max(0.0, epsilon - spare)
        found = (max(curve.delta(there) for curve in both) for both in curves)
        return min(1.0, spare + min(found, default=1.0))

    return curve_at


def _only_gaussian(terms: Terms) -> bool:
    return len(terms) == 1 and isinstance(terms[0][0], GaussianTerm)


def _gaussian_mu(terms: Terms) -> float:
    term = terms[0][0]
    assert isinstance(term, GaussianTerm)
    return term.mu


def _has_choice(terms: Terms) -> bool:
    """Whether the best of several runs was chosen: only Renyi divergences bound that."""
    return any(isinstance(term, BestOfTerm) for term, _ in terms)


def _is_known_participation(terms: Terms) -> bool:
    shared = [term for term, _ in terms if isinstance(term, SharedTerm)]
    others = [term for term, _ in terms if not isinstance(term, SharedTerm | GaussianTerm)]
    return len(shared) == 1 and shared[0].group == 1 and not others


def _epsilon_of_known_participation(terms: Terms, delta: float) -> float:
    """Bisect the exact curve of Lemma D; the upper end is returned."""
    tail = max(delta * _COUNT_SHARE, 1e-290)

    def exceeds(epsilon: float) -> bool:
        return _delta_of_known_participation(terms, epsilon, tail) > delta

    if not exceeds(0.0):
        return 0.0
    low, high = 0.0, _epsilon_without_sampling(terms, delta)
    if not math.isfinite(high) or exceeds(high):
        return high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


def _delta_of_known_participation(terms: Terms, epsilon: float, tail: float) -> float:
    """Lemma D: delta(epsilon) = E over m ~ Bin(T, q) of the Gaussian curve at mu = D sqrt(m)/s."""
    beside = 0.0
    for term, count in terms:
        if isinstance(term, SharedTerm):
            shared, steps = term, count
        elif isinstance(term, GaussianTerm):
            beside = term.mu**2
    counts, weights, above = _participations(shared.probability, steps, tail)
    curve = deltas_of_gaussian(epsilon, np.sqrt(counts * shared.mu**2 + beside))
    return min(1.0, above + float(np.dot(weights, curve)) * (1 + 1e-11))


@lru_cache(maxsize=64)
def _participations(probability: float, steps: int, tail: float) -> tuple[Array, Array, float]:
    """Counts of Bin(steps, probability) with weights; what lies above them is returned as a mass.

    What lies below is rounded up to the first count kept.
    """
    from scipy.stats import binom  # a second to import, and few events need it

    high = last_count(probability, steps, tail)
    low = steps - last_count(1 - probability, steps, tail)
    counts = np.arange(low, high + 1, dtype=np.float64)
    weights = binom.pmf(counts, steps, probability)
    weights[0] = binom.cdf(low, steps, probability)
    return counts, weights, float(binom.sf(high, steps, probability))
