"""How much noise a promise needs: never too little, and hardly ever more than two parts in 10 000.

The search starts at the central limit (Bu et al. 2020) and follows log epsilon against log noise, which
is nearly straight, by secants: three or four evaluations of the exact accountant instead of the
dozen of a bracketing search. The answer is a multiplier that was itself evaluated and met the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.privacy._events import (
    Bounds,
    Event,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    plain_number,
)
from sfumato.privacy._units import Relation
from sfumato.privacy.accounting._accountant import (
    ACCOUNTANTS,
    LEAST_DELTA,
    epsilon_of,
    epsilon_on_grid,
    wanted_interval,
)
from sfumato.privacy.accounting._gaussian import mu_of_gaussian
from sfumato.privacy.accounting._terms import AccountingError, terms_of

# The epsilon reached lies between target (1 - _ACCEPT) and target.
_ACCEPT = 2e-4
_AIM = 0.6e-4
_MOST_EVALUATIONS = 60
_MOST_NOISE = 1e9
_LEAST_NOISE = 1e-7
# Above this an epsilon promises nothing, and below the least one there is nothing to account for.
_MOST_EPSILON = 1e12
_LEAST_EPSILON = 1e-12


def dpsgd_event(noise_multiplier: float, sampling_rate: float, steps: int) -> Event:
    """DP-SGD with Poisson batches, clip norm 1 and a constant divisor: the event of one training."""
    rate, count = _checked_sampling(sampling_rate, steps)
    noise = _checked_positive("noise multiplier", noise_multiplier)
    return SelfComposed(PoissonSampled(rate, Gaussian(noise)), count)


def dpsgd_schedule(
    *,
    batch: int | None = None,
    records: int | None = None,
    sampling_rate: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
) -> tuple[float, int]:
    """Sampling rate and steps from whichever way a person counts; epochs are rounded up to steps."""
    if (sampling_rate is None) == (batch is None or records is None):
        raise AccountingError(
            "Expected either a sampling rate, or both the batch size and the number of records."
        )
    if batch is not None and records is not None:
        if batch < 1 or records < 1 or batch > records:
            raise AccountingError(
                f"Expected 1 <= batch <= records, got batch {batch} and records {records}."
            )
        sampling_rate = batch / records
    assert sampling_rate is not None
    rate, _ = _checked_sampling(sampling_rate, 1)
    if (steps is None) == (epochs is None):
        raise AccountingError("Expected either steps or epochs, and not both.")
    if steps is None:
        assert epochs is not None
        passes = _checked_positive("epochs", epochs) / rate
        _checked_positive("epochs over the sampling rate", passes)
        steps = math.ceil(passes - 1e-9)
    return _checked_sampling(rate, steps)


def account_dpsgd(
    noise_multiplier: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    relation: Relation | str,
    accountant: str = "pld",
) -> float:
    """The epsilon of DP-SGD; ``noise_multiplier`` is noise over clip norm."""
    event = dpsgd_event(noise_multiplier, sampling_rate, steps)
    return epsilon_of(event, _checked_delta(delta), relation, accountant)


def calibrate_dpsgd(
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    relation: Relation | str,
    accountant: str = "pld",
) -> float:
    """The noise multiplier for which DP-SGD keeps ``epsilon`` at ``delta``: never overshoots."""
    epsilon, delta = _checked_target(epsilon), _checked_delta(delta)
    sampling_rate, steps = _checked_sampling(sampling_rate, steps)
    kind = Relation.parse(relation)
    if accountant not in {"pld", "rdp"}:
        raise AccountingError(f"Expected accountant pld or rdp for DP-SGD, got {accountant!r}.")
    _check_participation(delta, sampling_rate, steps)
    double = 2.0 if kind is Relation.REPLACE else 1.0
    mu = mu_of_gaussian(epsilon, delta)
    if sampling_rate == 1 and accountant == "pld":
        noise = double * math.sqrt(steps) / mu
        return _nudged(noise, lambda value: account_dpsgd(value, delta, 1.0, steps, kind), epsilon)
    # mu = q sqrt(T (exp(1/sigma^2) - 1)) in the limit of many small steps
    per_step = max(1e-9, mu / (double * sampling_rate * math.sqrt(steps)))
    guess = max(_LEAST_NOISE * 1e2, min(1 / math.sqrt(math.log1p(per_step**2)), _MOST_NOISE / 1e2))
    interval = wanted_interval(epsilon)

    def account(noise: float) -> float:
        return account_dpsgd(noise, delta, sampling_rate, steps, kind, accountant)

    def on_one_grid(noise: float) -> float:
        return epsilon_on_grid(
            terms_of(dpsgd_event(noise, sampling_rate, steps), kind), delta, interval
        )

    quick = accountant == "pld" and delta >= LEAST_DELTA
    found = _search(on_one_grid if quick else account, epsilon, guess)
    # the accountant may have chosen other grids: what was found on one is not above, and it is checked
    return _nudged(found, account, epsilon)


def calibrate_gaussian(epsilon: float, delta: float) -> float:
    """Noise over sensitivity of a one-shot Gaussian release (Balle and Wang's exact calibration)."""
    epsilon, delta = _checked_target(epsilon), _checked_delta(delta)

    def evaluate(noise: float) -> float:
        event = Gaussian(noise, Bounds.DIFFERENCE)
        return epsilon_of(event, delta, Relation.REPLACE, "analytic-gaussian")

    return _nudged(1 / mu_of_gaussian(epsilon, delta), evaluate, epsilon)


def calibrate_event(
    make: Callable[[float], Event],
    epsilon: float,
    delta: float,
    relation: Relation | str,
    accountant: str = "pld",
    *,
    guess: float = 1.0,
) -> float:
    """The parameter of ``make`` at which its event keeps ``epsilon``; more of it must mean less epsilon."""
    epsilon, guess = _checked_target(epsilon), _checked_positive("guess", guess)
    if accountant not in ACCOUNTANTS:
        raise AccountingError(
            f"Expected an accountant out of {', '.join(ACCOUNTANTS)}, got {accountant!r}."
        )
    return _search(
        lambda noise: epsilon_of(make(noise), delta, relation, accountant), epsilon, guess
    )


def _nudged(noise: float, evaluate: Callable[[float], float], target: float) -> float:
    """A noise that is right but for rounding, moved up until the accountant agrees."""
    step = 1e-12
    while evaluate(noise) > target:
        noise *= 1 + step
        step *= 4
    return noise


def _search(evaluate: Callable[[float], float], target: float, guess: float) -> float:
    """Secants on the log-log curve inside a bracket; ``low`` violates the target, ``high`` keeps it."""
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    goal = math.log(target) - _AIM
    slope = -1.5
    x = math.log(guess)
    previous: tuple[float, float] | None = None
    for _ in range(_MOST_EVALUATIONS):
        value = evaluate(math.exp(x))
        if value <= target and value >= target * (1 - _ACCEPT):
            return math.exp(x)
        y = math.log(max(value, 1e-12)) if math.isfinite(value) else 700.0
        if value > target:
            low = (x, y) if low is None or x > low[0] else low
        else:
            high = (x, y) if high is None or x < high[0] else high
        if low and high and high[0] - low[0] < 1e-6:
            return math.exp(high[0])
        if previous is not None and x != previous[0]:
            measured = (y - previous[1]) / (x - previous[0])
            slope = measured if -60 < measured < -0.2 else slope
        previous = (x, y)
        x = _next(x + max(-1.5, min(1.5, (goal - y) / slope)), low, high)
        if not math.log(_LEAST_NOISE) < x < math.log(_MOST_NOISE):
            raise AccountingError(
                f"No noise between {_LEAST_NOISE:g} and {_MOST_NOISE:g} gives epsilon {target:g}: "
                "expected a larger epsilon or delta, or fewer steps."
            )
    if high is None:
        raise AccountingError(
            f"No noise was found that keeps epsilon {target:g}: expected a larger epsilon or delta."
        )
    return math.exp(high[0])


def _next(x: float, low: tuple[float, float] | None, high: tuple[float, float] | None) -> float:
    """Stay inside the bracket; a step that leaves it is replaced by the middle."""
    if low and high:
        inside = low[0] < x < high[0]
        return x if inside else (low[0] + high[0]) / 2
    if low and x <= low[0]:
        return low[0] + 0.1
    if high and x >= high[0]:
        return high[0] - 0.1
    return x


def _checked_positive(name: str, value: float) -> float:
    """As a plain float: compared in half precision, an epsilon would look kept that is not."""
    number = plain_number(value)
    if not 0 < number < math.inf:
        raise AccountingError(f"Expected {name} > 0 and finite, got {value!r}.")
    return number


def _checked_target(value: float) -> float:
    epsilon = _checked_positive("epsilon", value)
    if not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
        raise AccountingError(
            f"Expected epsilon from {_LEAST_EPSILON:g} to {_MOST_EPSILON:g}, got {epsilon:g}."
        )
    return epsilon


def _checked_delta(value: float) -> float:
    delta = plain_number(value)
    if not 0 < delta < 1:
        raise AccountingError(
            f"Expected delta between 0 and 1 (well below one over the number of units), got {value!r}."
        )
    return delta


def _check_participation(delta: float, sampling_rate: float, steps: int) -> None:
    """A delta above the chance of ever being drawn is kept without any noise: it promises nothing."""
    drawn = -math.expm1(steps * math.log1p(-sampling_rate)) if sampling_rate < 1 else 1.0
    if delta >= drawn * (1 - 1e-9):
        raise AccountingError(
            f"Expected delta below {drawn:.3g}, the probability that a unit is ever drawn, got "
            f"{delta:g}: that would allow everything drawn to be published as it is. Choose a delta "
            "well below one over the number of units."
        )


def _checked_sampling(sampling_rate: float, steps: int) -> tuple[float, int]:
    rate, count = plain_number(sampling_rate), plain_number(steps)
    if not 0 < rate <= 1:
        raise AccountingError(
            f"Expected a sampling rate in (0, 1] (batch over records), got {sampling_rate!r}."
        )
    if not 1 <= count < math.inf or int(steps) != steps:
        raise AccountingError(f"Expected a whole number of steps >= 1, got {steps!r}.")
    return rate, int(steps)
