"""An event, read under a relation, as the pairs of distributions an attacker must tell apart.

Every event becomes a list of *terms* with multiplicities; a term is a dominating pair, and dominating
pairs compose (Zhu, Dong, Wang 2022). Two facts carry this module.

**Group lemma.** ``m`` records each join a Poisson batch with probability q and contribute vectors of
norm at most 1; noise N(0, s^2 I). Let w_k = Bin(m, q)(k). Whatever the contributions, exchanging
all m records is dominated by (sum w_k N(k, s^2), sum w_k N(-k, s^2)), blanking or removing them by
(sum w_k N(k, s^2), N(0, s^2)) and its reverse.
*Proof.* Condition on the other records and translate. For a set S of joining records the sums
satisfy |g_S|, |g'_S| <= |S|. For any event A let N_0(A) = Phi(c), and let A* be the half line with
N_0(A*) = Phi(c). Neyman-Pearson gives N_{g_S}(A) <= Phi(c + |S|/s) = N_{|S|}(A*) and
N_{g'_S}(A) >= Phi(c - |S|/s) = N_{-|S|}(A*). Averaging over S, P(A) <= P*(A*) and Q(A) >= Q*(A*), so
P(A) - alpha Q(A) <= P*(A*) - alpha Q*(A*) for every alpha >= 0. With g' = 0 the second measure is
N_0 itself; its reverse follows from N_{g_S}(A) >= Phi(c - |S|/s) and a mirror image. QED
(m = 1 is Lemma A and Lemma B of the soundness notes.)

**Truncation.** w_k below a first and beyond a last k have mass t <= 2e-30. Writing P = (1 - t) P' + t R: in the order (P, Q)
the rest costs at most t of delta, in the order (Q, P) at most -log(1 - t) of epsilon; when both sides
are mixtures, both. ``slack`` carries t per step, and the accountants pay it on both accounts.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError
from sfumato.privacy._events import (
    ApproximateRelease,
    BandedGaussian,
    BestOf,
    Composed,
    Event,
    ExponentialChoice,
    Gaussian,
    Group,
    Laplace,
    NoAccess,
    PoissonSampled,
    RandomizedResponse,
    SelfComposed,
    SharedBatch,
    is_event,
)
from sfumato.privacy._units import Relation

_BINOMIAL_TAIL = 1e-30
# Losses beyond this have lost any meaning, and their squares would soon overflow.
_MOST_EPSILON = 1e15
_MOST_TIMES = 10**15


class AccountingError(SfumatoError):
    """A question that the accountant cannot answer soundly, so it does not answer."""


@dataclass(frozen=True)
class GaussianTerm:
    """N(mu, 1) against N(0, 1)."""

    mu: float


@dataclass(frozen=True)
class LaplaceTerm:
    """Lap(epsilon, 1) against Lap(0, 1): purely epsilon-private."""

    epsilon: float


@dataclass(frozen=True)
class AtomicTerm:
    """Losses +epsilon, -epsilon and 0 with P-mass ``up``, up e^-epsilon, and the rest; delta apart."""

    epsilon: float
    up: float
    delta: float = 0.0


@dataclass(frozen=True)
class SampledTerm:
    """Poisson-sampled Gaussian sum; ``two_sided`` when records are exchanged (see the lemma)."""

    probability: float
    sigma: float
    group: int
    two_sided: bool


@dataclass(frozen=True)
class SharedTerm:
    """As above, but the participants are known: each participation moves the mean by ``mu``."""

    probability: float
    mu: float
    group: int


@dataclass(frozen=True)
class BestOfTerm:
    """The best of a random number of runs of these terms, known by its Renyi divergences only."""

    runs: Terms
    gamma: float
    shape: float
    expected_runs: float


Term = GaussianTerm | LaplaceTerm | AtomicTerm | SampledTerm | SharedTerm | BestOfTerm
Terms = tuple[tuple[Term, int], ...]


def terms_of(event: Event, relation: Relation) -> Terms:
    """The terms of ``event`` with their multiplicities, all Gaussian releases merged into one."""
    check_known(event)
    return _terms_of(event, Relation.parse(relation), 1)


def _terms_of(event: Event, relation: Relation, group: int) -> Terms:
    found: Counter[Term] = Counter()
    _collect(event, relation, 1, group, found)
    for term, times in found.items():
        _check_size(term, times)
    square = math.fsum(
        count * term.mu**2 for term, count in found.items() if isinstance(term, GaussianTerm)
    )
    kept: list[tuple[Term, int]] = [
        (term, count) for term, count in found.items() if not isinstance(term, GaussianTerm)
    ]
    if square > 0:
        kept.append((GaussianTerm(math.sqrt(square)), 1))
    return tuple(kept)


def check_known(event: object) -> None:
    """Raise unless ``event`` is one of the closed set itself, also before a remembered answer is given."""
    if not is_event(event):
        raise AccountingError(
            f"Expected an event the accountant knows, got {type(event).__name__}: "
            "state NoGuarantee instead."
        )


def _collect(
    event: Event, relation: Relation, times: int, group: int, found: Counter[Term]
) -> None:
    match event:
        case NoAccess():
            return
        case Composed():
            for part in event.events:
                _collect(part, relation, times, group, found)
        case SelfComposed():
            _collect(event.event, relation, times * event.count, group, found)
        case Group():
            # Each step is dominated by its own group pair, so groups pass through composition.
            _collect(event.event, relation, times, group * event.size, found)
        case Gaussian():
            moved = group * event.sensitivity(relation)
            found[GaussianTerm(moved / event.noise_multiplier)] += times
        case Laplace():
            moved = group * event.sensitivity(relation)
            found[LaplaceTerm(moved / event.noise_multiplier)] += times
        case PoissonSampled():
            sigma = event.event.noise_multiplier
            replaced = relation is Relation.REPLACE
            if event.probability == 1:
                _collect(event.event, relation, times, group, found)
            else:
                found[SampledTerm(event.probability, sigma, group, replaced)] += times
        case SharedBatch():
            mu = event.sensitivity(relation) / event.event.noise_multiplier
            found[SharedTerm(event.probability, mu, group)] += times * event.steps
        case BandedGaussian():
            if relation is Relation.ADD_REMOVE:
                raise AccountingError(
                    "A unit's steps follow from its place among the others, so one that is missing moves "
                    "theirs: expected relation replace or zero-out with banded noise, got add-remove."
                )
            # one change of the whole sequence of sums, of this length (R28); a group moves as often as far
            moved = group * event.sensitivity(relation)
            found[GaussianTerm(moved / event.noise_multiplier)] += times
        case RandomizedResponse():
            _local_only(event, relation)
            if event.noise == 1:
                return
            if group == 1:
                up = 1 - event.noise + event.noise / event.categories
                found[AtomicTerm(event.epsilon, up)] += times
            else:
                found[_pure(group * event.epsilon)] += times
        case ExponentialChoice():
            _local_only(event, relation)
            found[_pure(group * event.epsilon)] += times
        case ApproximateRelease():
            found[_approximate(event, group)] += times
        case BestOf():
            found[_best_of(event, relation, group)] += times


def _best_of(event: BestOf, relation: Relation, group: int) -> BestOfTerm:
    runs = _terms_of(event.event, relation, group)
    approximate = any(isinstance(term, AtomicTerm) and term.delta > 0 for term, _ in runs)
    nested = any(isinstance(term, BestOfTerm) for term, _ in runs)
    if approximate or nested or slack(runs) > 0:
        raise AccountingError(
            "Expected runs whose Renyi divergences are known, to choose the best of them, got a release "
            "known by (epsilon, delta) only, a choice among choices, or a large group: no bound is "
            "proven for it."
        )
    return BestOfTerm(runs, event.gamma, event.shape, event.expected_runs)


def _check_size(term: Term, times: int) -> None:
    """Refuse noise that is next to nothing beside what a unit moves, and endless repetition."""
    match term:
        case BestOfTerm():
            epsilon = 0.0  # its runs were looked at when they were collected
        case SampledTerm():
            epsilon = (term.group / term.sigma) ** 2
        case SharedTerm():
            epsilon = (term.group * term.mu) ** 2
        case GaussianTerm():
            epsilon = term.mu**2
        case _:
            epsilon = term.epsilon
    if not epsilon <= _MOST_EPSILON:
        raise AccountingError(
            f"Expected noise that is not negligible beside what a unit moves, got so little that "
            f"epsilon is beyond {_MOST_EPSILON:g}: use more noise, or state NoGuarantee."
        )
    if times > _MOST_TIMES:
        raise AccountingError(f"Expected at most {_MOST_TIMES:g} repetitions, got {times:g}.")


def _local_only(event: Event, relation: Relation) -> None:
    if relation is Relation.ADD_REMOVE:
        raise AccountingError(
            f"A {event.name} release answers for every unit, so its absence shows: expected "
            "relation replace or zero-out, got add-remove."
        )


def _pure(epsilon: float) -> AtomicTerm:
    """Any purely epsilon-private release is dominated by binary randomised response."""
    return AtomicTerm(epsilon, 1 / (1 + math.exp(-epsilon)))


def _approximate(event: ApproximateRelease, group: int) -> AtomicTerm:
    """Group privacy of an (epsilon, delta) pair: delta (e^{m epsilon} - 1)/(e^epsilon - 1)."""
    epsilon, delta = event.epsilon, event.delta
    if group > 1 and delta > 0:
        if epsilon == 0:
            delta *= group
        elif group * epsilon > 600:
            delta = 1.0
        else:
            delta *= math.expm1(group * epsilon) / math.expm1(epsilon)
    if delta >= 1:
        raise AccountingError(
            f"A group of {group} leaves no guarantee of {event.mechanism} (delta reaches 1): "
            "expected a smaller group."
        )
    return AtomicTerm(group * epsilon, 1 / (1 + math.exp(-group * epsilon)), delta)


def last_count(probability: float, trials: int, tail: float) -> int:
    """The least count above which a binomial has at most ``tail`` (scipy's isf fails so far out)."""
    from scipy.stats import binom  # a second to import, and few events need it

    low, high = 0, trials
    while low < high:
        middle = (low + high) // 2
        if binom.sf(middle, trials, probability) > tail:
            low = middle + 1
        else:
            high = middle
    return low


@lru_cache(maxsize=256)
def participation(probability: float, group: int) -> tuple[NDArray[np.float64], float]:
    """Weights w_0.. of the number of a group's records in one batch, and the mass cut off.

    What is cut off at either end is zero here, and the rest is scaled to sum to one: the P' of the
    module's truncation note.
    """
    if group == 1:
        return np.array([1 - probability, probability]), 0.0
    from scipy.stats import binom

    last = last_count(probability, group, _BINOMIAL_TAIL)
    least = group - last_count(1 - probability, group, _BINOMIAL_TAIL)
    weights = binom.pmf(np.arange(last + 1), group, probability)
    weights[:least] = 0.0
    cut = float(binom.sf(last, group, probability)) if last < group else 0.0
    cut += float(binom.cdf(least - 1, group, probability)) if least > 0 else 0.0
    return weights / weights.sum(), cut


def slack(terms: Terms) -> float:
    """What the truncation of participation counts costs in all, in delta and in epsilon."""
    return math.fsum(
        2 * count * participation(term.probability, term.group)[1]
        for term, count in terms
        if isinstance(term, SampledTerm | SharedTerm)
    )


def pure_epsilon(terms: Terms) -> float:
    """The sum of pure epsilons, infinite when a term has none."""
    total = 0.0
    for term, count in terms:
        if isinstance(term, LaplaceTerm | AtomicTerm) and getattr(term, "delta", 0.0) == 0:
            total += count * term.epsilon
        else:
            return math.inf
    return total
