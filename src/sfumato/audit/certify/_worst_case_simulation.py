"""The mechanism of an event, simulated on its worst pair of neighbours, scored by log-likelihood ratio.

Written from what the event says was *done* (sampling, contributions, noise), not from the accountant's
terms: so that an accountant who reads an event wrongly is found out by the simulation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from sfumato.audit.certify._epsilon import AuditError
from sfumato.privacy import (
    ApproximateRelease,
    BandedGaussian,
    Composed,
    Event,
    ExponentialChoice,
    Gaussian,
    Group,
    Laplace,
    NoAccess,
    PoissonSampled,
    RandomizedResponse,
    Relation,
    SelfComposed,
    SharedBatch,
)

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]

# Numbers drawn at a time, and in all: an audit of long trainings takes fewer trials.
_CHUNK = 1 << 22
DRAWS = 400_000_000


def simulated_scores(
    event: Event, relation: Relation | str, trials: int, generator: np.random.Generator
) -> Pair:
    """Log-likelihood ratios of ``trials`` runs on each of the two worst neighbours.

    Under ``replace`` the unit contributes +1 on one side and -1 on the other, else +1 and 0.
    """
    return _scores(event, Relation.parse(relation), 1, trials, generator)


def affordable_trials(event: Event, wanted: int) -> int:
    """As many trials as the budget of draws allows, at least a thousand."""
    return max(1000, min(wanted, DRAWS // (2 * draws_of(event))))


def draws_of(event: Event) -> int:
    """Random numbers that one simulated run needs."""
    match event:
        case SelfComposed() if isinstance(event.event, Gaussian | Laplace | SharedBatch):
            return 4
        case SelfComposed():
            return event.count * draws_of(event.event)
        case Composed():
            return sum(draws_of(part) for part in event.events)
        case Group():
            return draws_of(event.event)
        case _:
            return 2


def _scores(
    event: Event, relation: Relation, group: int, trials: int, generator: np.random.Generator
) -> Pair:
    def nested(inner: Event, size: int = group) -> Pair:
        return _scores(inner, relation, size, trials, generator)

    match event:
        case NoAccess():
            return np.zeros(trials), np.zeros(trials)
        case Group():
            return nested(event.event, group * event.size)
        case Composed():
            return _added([nested(part) for part in event.events])
        case SelfComposed():
            return _repeated(event, relation, group, trials, generator)
        case Gaussian() | BandedGaussian():
            mu = group * event.sensitivity(relation) / event.noise_multiplier
            return _gaussian(np.full(trials, mu), generator)
        case Laplace():
            moved = group * event.sensitivity(relation) / event.noise_multiplier
            noise = generator.laplace(size=(2, trials))
            seen = noise + np.array([[moved], [0.0]])
            ratio = np.abs(seen) - np.abs(seen - moved)
            return ratio[0], ratio[1]
        case PoissonSampled():
            return _sampled(event, 1, relation, group, trials, generator)
        case SharedBatch():
            # the batch is seen, so only the number of participations matters
            taken = generator.binomial(event.steps * group, event.probability, (2, trials))
            if group > 1:
                raise AuditError("A shared batch is simulated for single units only.")
            mu = event.sensitivity(relation) / event.event.noise_multiplier
            first, _ = _gaussian(mu * np.sqrt(taken[0]), generator)
            _, second = _gaussian(mu * np.sqrt(taken[1]), generator)
            return first, second
        case RandomizedResponse():
            keep = 1 - event.noise + event.noise / event.categories
            return _response(group * event.epsilon, keep if group == 1 else None, trials, generator)
        case ExponentialChoice():
            return _response(group * event.epsilon, None, trials, generator)
        case ApproximateRelease():
            first, second = _response(group * event.epsilon, None, trials, generator)
            open_ = generator.random((2, trials)) < event.delta
            return np.where(open_[0], np.inf, first), np.where(open_[1], -np.inf, second)
    raise AuditError(
        f"Expected an event that can be simulated, got {type(event).__name__}: audit it with scores "
        "of your own (audit.epsilon_lower_bound)."
    )


def _repeated(
    event: SelfComposed, relation: Relation, group: int, trials: int, generator: np.random.Generator
) -> Pair:
    inner = event.event
    if isinstance(inner, Gaussian):
        mu = group * inner.sensitivity(relation) / inner.noise_multiplier * math.sqrt(event.count)
        return _gaussian(np.full(trials, mu), generator)
    if isinstance(inner, PoissonSampled):
        return _sampled(inner, event.count, relation, group, trials, generator)
    if isinstance(inner, SharedBatch):
        longer = SharedBatch(inner.probability, inner.event, inner.steps * event.count)
        return _scores(longer, relation, group, trials, generator)
    total: Pair | None = None
    for _ in range(event.count):
        once = _scores(inner, relation, group, trials, generator)
        total = once if total is None else _added([total, once])
    assert total is not None
    return total


def _gaussian(mu: Array, generator: np.random.Generator) -> Pair:
    noise = generator.standard_normal((2, len(mu)))
    return mu * noise[0] + mu**2 / 2, mu * noise[1] - mu**2 / 2


def _sampled(
    event: PoissonSampled,
    steps: int,
    relation: Relation,
    group: int,
    trials: int,
    generator: np.random.Generator,
) -> Pair:
    sigma, away = event.event.noise_multiplier, -1.0 if relation is Relation.REPLACE else 0.0
    out = []
    for side in (1.0, away):
        total = np.zeros(trials)
        rows = max(1, _CHUNK // trials)
        for start in range(0, steps, rows):
            shape = (min(rows, steps - start), trials)
            joined = generator.binomial(group, event.probability, shape)
            seen = side * joined + sigma * generator.standard_normal(shape)
            total += step_ratio(seen, event.probability, sigma, group, away).sum(0)
        out.append(total)
    return out[0], out[1]


def step_ratio(seen: Any, rate: float, sigma: float, group: int = 1, away: float = 0.0) -> Any:
    """Log-likelihood ratio of one noised sum in which each of ``group`` units was sampled."""
    if rate == 1 and group == 1:
        return ((seen - away) ** 2 - (seen - 1) ** 2) / (2 * sigma**2)
    most = int(binom.isf(1e-15, group, rate)) if group > 1 else 1
    weights = binom.pmf(np.arange(most + 1), group, rate)

    def mixture(side: float) -> Any:
        value = np.full(np.shape(seen), weights[0])
        for count in range(1, most + 1):
            moved = side * count
            value = value + weights[count] * np.exp((moved * seen - moved**2 / 2) / sigma**2)
        return np.log(value)

    return mixture(1.0) - (mixture(away) if away else 0.0)


def _response(
    epsilon: float, keep: float | None, trials: int, generator: np.random.Generator
) -> Pair:
    """Losses +epsilon, -epsilon and 0; without ``keep`` two outcomes, the worst of its kind."""
    up = 1 / (1 + math.exp(-epsilon)) if keep is None else keep
    down = up * math.exp(-epsilon)
    coins = generator.random((2, trials))
    first = np.where(coins[0] < up, epsilon, np.where(coins[0] < up + down, -epsilon, 0.0))
    second = np.where(coins[1] < up, -epsilon, np.where(coins[1] < up + down, epsilon, 0.0))
    return first, second


def _added(pairs: list[Pair]) -> Pair:
    return sum(p for p, _ in pairs), sum(q for _, q in pairs)  # type: ignore[return-value]
