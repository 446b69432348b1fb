"""The best of a random number of runs: never more private than stated, by exact computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sfumato.privacy import (
    AccountingError,
    ApproximateRelease,
    BestOf,
    Composed,
    Event,
    EventError,
    Gaussian,
    Group,
    RandomizedResponse,
    Relation,
    SelfComposed,
    delta_of,
    dpsgd_event,
    epsilon_of,
    event_from_json,
)
from sfumato.privacy.accounting._rdp import DENSE_ORDERS

REPLACE = Relation.REPLACE
SHAPES = [(0.0, 0.05), (0.0, 0.5), (1.0, 0.1), (3.0, 0.3)]


def generating(x: np.ndarray, shape: float, gamma: float) -> np.ndarray:
    """E[x^K]: Papernot and Steinke 2022, below Definition 1."""
    if shape == 0:
        return np.log1p(-(1 - gamma) * x) / math.log(gamma)
    return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


def best_of(masses: np.ndarray, shape: float, gamma: float) -> np.ndarray:
    """What the best of K draws is distributed like, outcomes in the order of their rank."""
    reached = generating(np.concatenate([[0.0], np.cumsum(masses)]), shape, gamma)
    return np.diff(reached)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(("shape", "gamma"), SHAPES)
def test_the_mean_number_of_runs_is_that_of_the_generating_function(
    shape: float, gamma: float
) -> None:
    x, step = np.array([1.0 - 1e-6, 1.0]), 1e-6
    slope = float(np.diff(generating(x, shape, gamma))[0] / step)
    assert BestOf(Gaussian(1.0), gamma, shape).expected_runs == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize(("shape", "gamma"), SHAPES)
@pytest.mark.parametrize("noise", [0.2, 0.6])
def test_no_pair_of_answers_is_told_apart_better_than_stated(
    shape: float, gamma: float, noise: float
) -> None:
    categories = 3
    event = BestOf(RandomizedResponse(noise, categories), gamma, shape)
    base = np.full((categories, categories), noise / categories) + np.eye(categories) * (1 - noise)
    shown = [best_of(row, shape, gamma) for row in base]
    np.testing.assert_allclose([row.sum() for row in shown], 1)
    for epsilon in (0.5, 1.0, 3.0, 6.0):
        exact = max(hockey_stick(p, q, epsilon) for p in shown for q in shown)
        assert exact <= delta_of(event, epsilon, REPLACE) + 1e-15


@pytest.mark.parametrize(("shape", "gamma"), SHAPES)
@pytest.mark.parametrize("mu", [0.2, 1.0])
def test_the_best_of_gaussian_runs_keeps_its_epsilon(shape: float, gamma: float, mu: float) -> None:
    """Worst when the unit moves the score up: the best run shows it. Both directions are tried."""
    edges = np.linspace(-12, 14, 40_001)
    event = BestOf(Gaussian(1 / mu, "difference"), gamma, shape)
    p, q = (best_of(np.diff(norm.cdf(edges, loc=mean)), shape, gamma) for mean in (mu, 0.0))
    for delta in (1e-3, 1e-6):
        epsilon = epsilon_of(event, delta, REPLACE)
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta
        # and it is a bound that can be used: a choice costs at most some times a single run
        assert epsilon < 6 * epsilon_of(Gaussian(1 / mu, "difference"), delta, REPLACE) + 6


def test_choosing_costs_more_than_one_run_and_more_runs_cost_more() -> None:
    run = dpsgd_event(2.0, 0.01, 200)
    once = epsilon_of(run, 1e-6, REPLACE, "rdp")
    few, many = (epsilon_of(BestOf(run, gamma, 0.0), 1e-6, REPLACE) for gamma in (0.3, 0.01))
    assert once < few < many
    assert many < 4 * once  # every one of a hundred runs shown would cost about ten times as much


def test_epsilon_and_delta_are_the_same_curve() -> None:
    event = BestOf(dpsgd_event(1.5, 0.02, 50), 0.1, 0.0)
    epsilon = epsilon_of(event, 1e-5, REPLACE)
    assert delta_of(event, epsilon, REPLACE) == pytest.approx(1e-5, rel=1e-6)


def test_choices_compose_and_are_read_back() -> None:
    run = dpsgd_event(2.0, 0.01, 100)
    event = BestOf(run, 0.1, 1.0)
    assert event_from_json(event.to_json()) == event
    both = Composed((event, Gaussian(5.0, "difference")))
    single, twice = (epsilon_of(each, 1e-6, REPLACE) for each in (event, SelfComposed(event, 2)))
    assert single < epsilon_of(both, 1e-6, REPLACE)
    assert single < twice < 2 * single + 1e-9


@pytest.mark.parametrize(
    "event",
    [
        BestOf(ApproximateRelease(1.0, 1e-9, "something"), 0.1, 0.0),
        BestOf(BestOf(Gaussian(1.0), 0.1, 0.0), 0.1, 0.0),
        Group(BestOf(dpsgd_event(1.0, 0.1, 5), 0.1, 0.0), 500),
    ],
)
def test_what_has_no_proof_has_no_epsilon(event: Event) -> None:
    with pytest.raises(AccountingError, match="choose the best"):
        epsilon_of(event, 1e-6, REPLACE)


@pytest.mark.parametrize("numbers", [(1.0, 0.0), (0.0, 0.0), (0.5, -0.5), (0.5, math.nan)])
def test_distributions_that_cannot_be_are_refused(numbers: tuple[float, float]) -> None:
    with pytest.raises(EventError):
        BestOf(Gaussian(1.0), *numbers)


@pytest.mark.parametrize(("shape", "gamma"), SHAPES)
def test_the_bound_is_theorem_2_order_by_order(shape: float, gamma: float) -> None:
    """Written out once more, slowly: for a Gaussian run the divergence of order a is a mu^2 / 2."""
    mu, delta = 0.5, 1e-6
    event = BestOf(Gaussian(1 / mu, "difference"), gamma, shape)
    mean = event.expected_runs
    best = math.inf
    paid = min(
        (1 - 1 / b) * b * mu**2 / 2 + math.log(1 / gamma) / b for b in map(float, DENSE_ORDERS)
    )
    for a in map(float, DENSE_ORDERS):
        divergence = a * mu**2 / 2 + (1 + shape) * paid + math.log(mean) / (a - 1)
        epsilon = divergence + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1)
        best = min(best, epsilon)
    assert epsilon_of(event, delta, REPLACE) == pytest.approx(best, rel=1e-9)
