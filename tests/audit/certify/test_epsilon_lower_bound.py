"""Certified lower limits: strong enough to find what is wrong, honest about what is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from sfumato.audit import AuditError
from sfumato.audit.certify import (
    delta_lower_bound,
    epsilon_lower_bound,
    gaussian_fit,
    one_run_lower_bound,
    simulated_scores,
)
from sfumato.audit.certify._one_run import one_run_p_value
from sfumato.audit.certify._worst_case_simulation import affordable_trials
from sfumato.privacy import (
    ApproximateRelease,
    Bounds,
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
    calibrate_gaussian,
    delta_of,
    dpsgd_event,
    epsilon_of,
)
from sfumato.privacy.clopper_pearson import at_least, at_most

DELTA = 1e-5


def gaussian(epsilon: float) -> Event:
    return Gaussian(calibrate_gaussian(epsilon, DELTA), Bounds.DIFFERENCE)


def test_clopper_pearson_limits_invert_the_binomial() -> None:
    """At the limit, what was seen or something more extreme has exactly the allowed probability."""
    for hits, trials in ((1, 10), (7, 40), (39, 40)):
        low, high = float(at_least(hits, trials, 0.03)), float(at_most(hits, trials, 0.03))
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.03, rel=1e-9)
        assert binom.cdf(hits, trials, high) == pytest.approx(0.03, rel=1e-9)
    assert float(at_least(0, 10, 0.03)) == 0
    assert float(at_most(10, 10, 0.03)) == 1


@pytest.mark.parametrize(
    ("trials", "fractions", "seeds"),
    [(2_000, (0.11, 0.20, 0.29, 0.33), 30), (20_000, (0.33, 0.45, 0.43, 0.43), 20),
     (200_000, (0.55, 0.67, 0.65, 0.55), 12)],
)  # fmt: skip
def test_gaussian_distinguisher_reaches_the_fractions(
    trials: int, fractions: tuple[float, ...], seeds: int
) -> None:
    """The table of the soundness notes, at its level (95 %) and number of trials."""
    generator = np.random.default_rng(1)
    for epsilon, fraction in zip((1, 2, 4, 8), fractions):
        found = [
            epsilon_lower_bound(
                *simulated_scores(gaussian(epsilon), "replace", trials, generator), delta=DELTA
            )
            for _ in range(seeds)
        ]
        assert np.mean([each.epsilon for each in found]) / epsilon >= fraction
        assert all(each.epsilon <= epsilon for each in found)
        strict = [each.beside[0] for each in found]
        assert {level for level, _ in strict} == {0.99}
        assert np.mean([value for _, value in strict]) < np.mean([each.epsilon for each in found])


@given(
    st.integers(0, 2**32), st.integers(100, 3_000), st.floats(0, 4), st.floats(0.55, 0.98),
    st.floats(0.001, 0.01), st.booleans(),
)  # fmt: skip
def test_more_confidence_never_says_more(
    seed: int, trials: int, apart: float, low: float, more: float, coarse: bool
) -> None:
    """Whatever the scores and however few: one set is tested at all confidences."""
    generator = np.random.default_rng(seed)
    first, second = generator.normal([[apart], [0.0]], 1.0, (2, trials))
    if coarse:
        first, second = np.rint(first), np.rint(second)
    found = epsilon_lower_bound(first, second, delta=DELTA, confidence=low)
    limits = [found.epsilon, *(limit for _, limit in found.beside)]
    assert limits == sorted(limits, reverse=True)
    surer = epsilon_lower_bound(first, second, delta=DELTA, confidence=low + more)
    assert surer.epsilon <= found.epsilon


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "fraction"),
    [(1.0, 5.0, 20, 0.46), (0.2, 1.2, 40, 0.46), (0.05, 0.8, 100, 0.40), (0.01, 0.7, 500, 0.34)],
)
def test_white_box_canary_reaches_the_fractions(
    rate: float, sigma: float, steps: int, fraction: float
) -> None:
    event = dpsgd_event(sigma, rate, steps)
    proven = epsilon_of(event, DELTA, "add-remove")
    generator = np.random.default_rng(2)
    found = [
        epsilon_lower_bound(
            *simulated_scores(event, "add-remove", 20_000, generator), delta=DELTA
        ).epsilon
        for _ in range(3 if steps > 100 else 10)
    ]
    assert np.mean(found) / proven >= fraction
    assert max(found) <= proven


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "canaries", "fraction"),
    [(1.0, 5.0, 20, 5_000, 0.41), (1.0, 5.0, 20, 20_000, 0.50), (0.2, 1.2, 40, 5_000, 0.35),
     (0.2, 1.2, 40, 20_000, 0.36)],
)  # fmt: skip
def test_one_run_reaches_the_fractions(
    rate: float, sigma: float, steps: int, canaries: int, fraction: float
) -> None:
    event = dpsgd_event(sigma, rate, steps)
    proven = epsilon_of(event, DELTA, "add-remove")
    generator = np.random.default_rng(3)
    found = []
    for _ in range(6):
        present, absent = simulated_scores(event, "add-remove", canaries, generator)
        included = generator.random(canaries) < 0.5
        scores = np.where(included, present, absent)
        found.append(one_run_lower_bound(included, scores, delta=DELTA).epsilon)
    assert np.mean(found) / proven >= fraction
    assert max(found) <= proven


@pytest.mark.parametrize(("trials", "fraction"), [(2_000, 0.60), (20_000, 0.89), (200_000, 0.97)])
def test_delta_curve_at_zero_reaches_the_fractions(trials: int, fraction: float) -> None:
    """At 99.9 %: the share of the true total variation distance that is certified."""
    generator = np.random.default_rng(4)
    mu = 1 / calibrate_gaussian(2, DELTA)
    truth = 2 * norm.cdf(mu / 2) - 1
    found = [
        delta_lower_bound(*simulated_scores(gaussian(2), "replace", trials, generator))
        for _ in range(4 if trials > 20_000 else 12)
    ]
    assert np.mean(found) / truth >= fraction


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_laplace_noise_is_nearly_all_certified(scale: float) -> None:
    """Half of its log-likelihood ratios are exactly epsilon: a threshold beyond them finds nothing."""
    event, generator = Laplace(0.25, Bounds.DIFFERENCE), np.random.default_rng(0)
    first, second = simulated_scores(event, "replace", 20_000, generator)
    found = epsilon_lower_bound(scale * first, scale * second, delta=0.0).epsilon
    assert 3.6 < found <= 4.0


def test_delta_curve_sees_noise_that_is_a_fifth_too_small() -> None:
    """Where epsilon at delta 1e-5 sees nothing yet, the curve near zero refutes the promise."""
    generator = np.random.default_rng(5)
    promised = gaussian(2)
    assert isinstance(promised, Gaussian)
    weak = Gaussian(0.8 * promised.noise_multiplier, Bounds.DIFFERENCE)
    scores = simulated_scores(weak, "replace", 20_000, generator)
    assert delta_lower_bound(*scores) > delta_of(promised, 0.0, "replace")
    assert delta_lower_bound(*scores, epsilon=0.1) > delta_of(promised, 0.1, "replace")
    assert not epsilon_lower_bound(*scores, delta=DELTA).exceeds(2)
    sound = simulated_scores(promised, "replace", 20_000, generator)
    for epsilon in (0.0, 0.1, 0.5):
        assert delta_lower_bound(*sound, epsilon=epsilon) <= delta_of(promised, epsilon, "replace")


def test_on_correct_mechanisms_the_limit_is_wrong_no_oftener_than_it_says() -> None:
    """400 seeds of mechanisms whose bound an attacker attains, so that errors do happen."""
    generator = np.random.default_rng(6)
    seeds, wrong, close, wrong_delta = 400, 0, 0, 0
    event = gaussian(2)
    for _ in range(seeds):
        scores = simulated_scores(ExponentialChoice(1.0), "replace", 1_000, generator)
        found = epsilon_lower_bound(*scores, delta=0.0)
        wrong += found.epsilon > 1.0
        close += found.epsilon > 0.5
        curve = delta_lower_bound(
            *simulated_scores(event, "replace", 1_000, generator), confidence=0.95
        )
        wrong_delta += curve > delta_of(event, 0.0, "replace")
    assert wrong / seeds <= 0.05
    assert close / seeds > 0.9, "a limit that is never close would pass without meaning anything"
    assert 0 < wrong_delta / seeds <= 0.05


def test_one_run_is_wrong_no_oftener_than_it_says() -> None:
    """Pure randomised response attains the theorem's worst case."""
    generator = np.random.default_rng(7)
    seeds, wrong, epsilon = 400, 0, 1.0
    for _ in range(seeds):
        included = generator.random(400) < 0.5
        right = generator.random(400) < 1 / (1 + math.exp(-epsilon))
        sure = generator.random(400)
        scores = np.where(included == right, sure, -sure)
        wrong += one_run_lower_bound(included, scores, delta=0.0, guessed=0.5).epsilon > epsilon
    assert 0 < wrong / seeds <= 0.05


def test_one_run_p_value_is_the_binomial_tail_plus_what_delta_allows() -> None:
    rate = 1 / (1 + math.exp(-1.0))
    assert one_run_p_value(100, 50, 40, 1.0, 0.0) == pytest.approx(binom.sf(39, 50, rate))
    slow = max(sum(binom.pmf(40 - j, 50, rate) for j in range(1, i + 1)) / i for i in range(1, 41))
    expected = binom.sf(39, 50, rate) + 2 * slow * 1e-3 * 100
    assert one_run_p_value(100, 50, 40, 1.0, 1e-3) == pytest.approx(expected)


EVENTS: list[tuple[Event, Relation]] = [
    (Gaussian(1.5), Relation.ADD_REMOVE),
    (Gaussian(3.0), Relation.REPLACE),
    (Laplace(1.2), Relation.REPLACE),
    (RandomizedResponse(0.4, 3), Relation.REPLACE),
    (ExponentialChoice(1.5), Relation.REPLACE),
    (ApproximateRelease(0.5, 0.05, "snow"), Relation.REPLACE),
    (SelfComposed(PoissonSampled(0.3, Gaussian(1.2)), 6), Relation.REPLACE),
    (SelfComposed(PoissonSampled(0.3, Gaussian(1.2)), 6), Relation.ZERO_OUT),
    (SharedBatch(0.1, Gaussian(1.5), 20), Relation.ZERO_OUT),
    (Group(SelfComposed(PoissonSampled(0.1, Gaussian(2.0)), 4), 3), Relation.ADD_REMOVE),
    (Composed((Laplace(3.0), Gaussian(2.0))), Relation.ADD_REMOVE),
    (SelfComposed(Laplace(4.0), 3), Relation.REPLACE),
    (NoAccess(), Relation.REPLACE),
]


@pytest.mark.parametrize(("event", "relation"), EVENTS, ids=[e.name for e, _ in EVENTS])
def test_the_accountant_agrees_with_what_was_done(event: Event, relation: Relation) -> None:
    """Each event simulated from its own words: the empirical curve lies at the accountant's."""
    generator = np.random.default_rng(8)
    first, second = simulated_scores(event, relation, 40_000, generator)
    for epsilon in (0.0, 0.3, 1.0):
        proven = delta_of(event, epsilon, relation)
        # both orders of the pair: P beyond epsilon against Q, and Q below -epsilon against P
        empirical = max(
            (first > epsilon).mean() - math.exp(epsilon) * (second > epsilon).mean(),
            (second < -epsilon).mean() - math.exp(epsilon) * (first < -epsilon).mean(),
        )
        assert empirical - proven < 0.02 * math.exp(epsilon)
        if not isinstance(event, ApproximateRelease):  # known only by one point of its curve
            assert proven - empirical < 0.02 * math.exp(epsilon)
        assert delta_lower_bound(first, second, epsilon=epsilon) <= proven + 1e-12


def test_the_shared_batch_is_refuted_and_the_sound_one_is_not() -> None:
    """F1: N = 2000, B = 20, 20 epochs, sigma 3.543, claimed 0.5; 4000 runs a side at 99.9 %."""
    generator = np.random.default_rng(9)
    shared = SharedBatch(0.01, Gaussian(3.543), 2_000)
    found = epsilon_lower_bound(
        *simulated_scores(shared, "replace", 4_000, generator), delta=DELTA, confidence=0.999
    )
    assert found.epsilon > 3.4, "the soundness notes certify 3.87 in one draw of this attack"
    assert found.gaussian_fit is not None
    assert 10 < found.gaussian_fit < 15.47
    sound = dpsgd_event(3.543, 0.01, 2_000)
    nothing = epsilon_lower_bound(
        *simulated_scores(sound, "add-remove", 4_000, generator), delta=DELTA, confidence=0.999
    )
    assert nothing.epsilon < 0.1


def test_infinite_scores_and_a_few_values_are_no_obstacle() -> None:
    generator = np.random.default_rng(10)
    scores = simulated_scores(ApproximateRelease(0.0, 0.3, "snow"), "replace", 5_000, generator)
    assert np.isinf(scores[0]).any()
    assert epsilon_lower_bound(*scores, delta=0.0).epsilon > 3
    assert epsilon_lower_bound(*scores, delta=0.3).epsilon == 0
    assert epsilon_lower_bound(np.zeros(500), np.zeros(500), delta=0.0).epsilon == 0


def test_bad_questions_get_one_sentence() -> None:
    with pytest.raises(AuditError, match="at least 100 scores for second"):
        epsilon_lower_bound(np.zeros(200), np.zeros(20), delta=0.0)
    with pytest.raises(AuditError, match="NaN"):
        epsilon_lower_bound(np.full(200, np.nan), np.zeros(200), delta=0.0)
    with pytest.raises(AuditError, match="delta"):
        epsilon_lower_bound(np.zeros(200), np.zeros(200), delta=1.0)
    with pytest.raises(AuditError, match="confidence"):
        epsilon_lower_bound(np.zeros(200), np.zeros(200), delta=0.0, confidence=1.0)
    with pytest.raises(AuditError, match="canaries"):
        one_run_lower_bound([True], [0.0], delta=0.0)


def test_the_gaussian_fit_is_near_the_truth_on_gaussians_only() -> None:
    generator = np.random.default_rng(11)
    scores = simulated_scores(gaussian(4), "replace", 20_000, generator)
    assert 3.5 < gaussian_fit(*scores, delta=DELTA) < 4.1
    found = epsilon_lower_bound(*scores, delta=DELTA)
    assert found.to_json()["gaussian_fit_diagnostic"] == found.gaussian_fit
    assert "95 %" in str(found)
    assert "99 %" in str(found)


def test_long_trainings_get_fewer_trials() -> None:
    assert affordable_trials(gaussian(1), 20_000) == 20_000
    assert affordable_trials(dpsgd_event(1.0, 0.01, 50_000), 20_000) == 2_000
