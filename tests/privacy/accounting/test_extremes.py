"""Little noise, much noise, tiny delta, many steps: the accountant against truths without a grid (R17)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_oracles import Pair, many_steps, one_step, orders, two_steps
from scipy.special import ndtri

from sfumato.errors import SfumatoError
from sfumato.privacy import (
    AccountingError,
    Composed,
    ExponentialChoice,
    Gaussian,
    Group,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    SelfComposed,
    SharedBatch,
    account_dpsgd,
    calibrate_dpsgd,
    calibrate_gaussian,
    delta_of,
    epsilon_of,
    gdp_mu,
    true_positive_bound,
)
from sfumato.privacy.accounting._gaussian import epsilon_of_gaussian
from sfumato.privacy.accounting._losses import Losses, losses_of
from sfumato.privacy.accounting._pld import _compose, compose
from sfumato.privacy.accounting._terms import GaussianTerm, SampledTerm

RELATIONS = ("add-remove", "replace")
few = settings(max_examples=20, deadline=None, derandomize=True)


def logs(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: 10.0**power)


def steps_of(sigma: float, rate: float, steps: int, group: int = 1) -> Group:
    return Group(SelfComposed(PoissonSampled(rate, Gaussian(sigma)), steps), group)


# -- one step, exactly -----------------------------------------------------------------------------


def check_one_step(sigma: float, rate: float, delta: float, group: int, relation: str) -> float:
    """The epsilon, after making sure that the true delta there is not above ``delta``."""
    found = epsilon_of(steps_of(sigma, rate, 1, group), delta, relation)
    assert math.isfinite(found)
    assert max(one_step(pair, found) for pair in orders(sigma, rate, group, relation)) <= delta
    return found


@few
@given(
    logs(0.005, 1000), logs(1e-6, 0.9999), logs(1e-15, 0.5), st.integers(1, 3),
    st.sampled_from(RELATIONS),
)  # fmt: skip
def test_one_step_is_never_understated(sigma, rate, delta, group, relation):
    check_one_step(sigma, rate, delta, group, relation)


@few
@given(logs(0.3, 20), logs(1e-3, 0.5), logs(1e-12, 1e-3), st.integers(1, 3),
       st.sampled_from(RELATIONS))  # fmt: skip
def test_one_step_is_tight(sigma, rate, delta, group, relation):
    found = check_one_step(sigma, rate, delta, group, relation)
    below = max(0.0, found * (1 - 1e-4) - 1e-6)
    pairs = orders(sigma, rate, group, relation)
    assert found == 0 or max(one_step(pair, below) for pair in pairs) > delta


@pytest.mark.parametrize(
    ("group", "relation", "true", "close"),
    [
        (1, "replace", 1430.39, 1e-4),
        (1, "add-remove", 1430.39, 1e-4),
        # all three join with probability 1e-6, so delta hardly changes from 10043 to 10300
        (3, "replace", 10043.0, 0.03),
        (3, "add-remove", 10043.0, 0.03),
    ],
)
def test_little_noise_gives_a_huge_epsilon(group, relation, true, close):
    """The reported cases: 0 under replace, a cap at 709.8 under add-remove, 5843 for three."""
    found = check_one_step(0.02, 0.01, 1e-6, group, relation)
    assert true * (1 - 1e-4) <= found <= true * (1 + close)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sigma", [0.024, 0.036])
def test_more_steps_are_never_cheaper_than_one(sigma, relation):
    """The reported cases: 0 from 0.025 to 0.036, a division by zero below."""
    one = epsilon_of(steps_of(sigma, 0.01, 1), 1e-6, relation)
    assert one > 300
    assert epsilon_of(steps_of(sigma, 0.01, 2), 1e-6, relation) >= one
    if relation == "replace" or sigma > 0.03:
        assert epsilon_of(steps_of(sigma, 0.01, 100), 1e-6, relation) > 3 * one


# -- two steps, by quadrature ----------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("sigma", "rate", "delta", "group"),
    [
        (0.1, 0.04, 1e-5, 1),
        (0.3, 1e-3, 1e-9, 2),
        (0.47, 2e-4, 2.5e-12, 1),
        (1.2, 0.1, 1e-14, 3),
        (1.2, 0.1, 0.3, 1),
        (40.0, 0.2, 1e-13, 2),
        (900.0, 0.9, 1e-6, 3),
    ],
)
def test_two_steps(sigma, rate, delta, group, relation):
    found = epsilon_of(steps_of(sigma, rate, 2, group), delta, relation)
    pairs = orders(sigma, rate, group, relation)
    close = 1e-5  # of the quadrature
    assert max(two_steps(pair, found) for pair in pairs) <= delta * (1 + close)
    below = found * (1 - 2e-4)
    assert found == 0 or max(two_steps(pair, below) for pair in pairs) >= delta * (1 - close)


# -- many steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta", "relation", "tilt", "left_out"),
    [
        (300.0, 0.01, 100_000, 1e-11, "replace", 300.0, 1e-4),
        (300.0, 0.01, 100_000, 2e-13, "replace", 300.0, 1e-4),
        (300.0, 0.1, 100_000, 2e-13, "replace", 30.0, 1e-4),
        (1.0, 1e-4, 100_000, 1e-12, "add-remove", 45.0, 0.1),
        (1.0, 1e-4, 100_000, 1e-6, "add-remove", 50.0, 1e-4),
        (5.6, 0.0032, 46_875, 1e-6, "replace", 20.0, 1e-4),
        (5.6, 0.0032, 46_875, 1e-13, "add-remove", 60.0, 1e-4),
        (0.977, 0.0032, 46_875, 1e-9, "add-remove", 6.0, 1e-4),
    ],
)
def test_many_steps_and_a_tiny_delta(sigma, rate, steps, delta, relation, tilt, left_out):
    """The reported cases: understated by up to 1.9 % under replace, 0.711 for 0.269 under add-remove.

    The oracle leaves out a share ``left_out`` of delta at most, so that it stays below the truth.
    """
    found = epsilon_of(steps_of(sigma, rate, steps), delta, relation)
    reach = -float(ndtri(left_out * delta / steps))
    pairs = orders(sigma, rate, 1, relation)
    truth = max(many_steps(pair, steps, found, tilt, reach) for pair in pairs)
    assert truth <= delta * (1 + 1e-6)
    below = max(many_steps(pair, steps, found * (1 - 3e-3), tilt, reach) for pair in pairs)
    assert below >= delta * (1 - 2 * left_out)


@pytest.mark.parametrize(("mu", "steps"), [(0.001, 100_000), (0.01, 100), (0.3, 1000), (3.0, 50)])
@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-6, 1e-11, 1e-13, 1e-20, 1e-50, 1e-90])
def test_composed_gaussians_meet_their_closed_form(mu, steps, delta):
    """Through the transform, which the accountant itself would not use here."""
    true = epsilon_of_gaussian(delta, mu * math.sqrt(steps))
    interval = max(1e-6, 1e-5 * true)
    (curve,) = compose(((GaussianTerm(mu), steps),), interval, delta)
    found = curve.epsilon(delta)
    assert true * (1 - 1e-10) <= found <= true * (1 + 1e-3) + 1e-6
    assert curve.delta(found) <= delta * (1 + 1e-9)


@lru_cache
def exactly_composed(masses: tuple[int, ...], bits: int, steps: int) -> list[int]:
    """Numerators over 2^(bits * steps) of the composed masses, by one power of one long integer."""
    width = bits * steps + 8
    packed = sum(mass << (width * index) for index, mass in enumerate(masses)) ** steps
    mask = (1 << width) - 1
    size = (len(masses) - 1) * steps + 1
    return [(packed >> (width * index)) & mask for index in range(size)]


@pytest.mark.parametrize("steps", [2, 60])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-13, 1e-40])
def test_no_composed_curve_is_below_exact_integer_arithmetic(steps, delta):
    """A rough lattice with rare large losses; every point of the curve, not only the one it is for."""
    bits, interval, first = 40, 0.05, -5
    bulk = [2**bits // 40 >> abs(index) for index in range(-5, 8)]
    rare = [0, 90, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1]
    masses = [*bulk, *rare]
    masses[5] += 2**bits - sum(masses)
    exact = exactly_composed(tuple(masses), bits, steps)
    part = Losses(first, np.array([mass / 2**bits for mass in masses]), 0.0)
    curve = _compose([(part, steps)], interval, delta, None)
    points = (first * steps + np.arange(len(exact))) * interval
    logs_of = np.array([math.log2(m) - bits * steps if m else -np.inf for m in exact])
    tail = np.exp2(logs_of)

    def truth(epsilon: float) -> float:
        above = points > epsilon
        return float(np.sum(tail[above] * -np.expm1(epsilon - points[above])))

    for epsilon in np.linspace(0.0, points[-1] * 1.01, 60):
        assert curve.delta(float(epsilon)) >= truth(float(epsilon)) * (1 - 1e-12)
    found = curve.epsilon(delta)
    assert truth(found) <= delta * (1 + 1e-12)
    assert found == 0 or truth(found * (1 - 1e-3)) > delta


# -- what is checked, and what is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    ("masses", "infinite"),
    [
        ([0.5, math.nan], 0.5),
        ([0.5, 0.4], 0.0),
        ([0.5, 0.5], 1e-9),
        ([1.5, -0.5], 0.0),
        ([math.inf, 0.0], 0.0),
        ([0.0, 0.0], 0.0),
        ([1.0, 0.0], math.nan),
        ([1.5, 0.0], -0.5),
    ],
)
def test_masses_that_are_no_probabilities_are_refused(masses, infinite):
    with pytest.raises(AccountingError, match="sum to 1"):
        Losses(0, np.array(masses), infinite)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_both_orders_of_a_pair_are_composed(rate):
    """Neither order may be dropped: at any epsilon each curve is that of its own order."""
    term = SampledTerm(rate, 1.0, 1, False)
    for steps, truth in ((1, one_step), (2, two_steps)):
        for epsilon in (0.02, 0.05):
            curves = compose(((term, steps),), 1e-4, 1e-6, epsilon)
            assert len(curves) == 2
            for curve, pair in zip(curves, orders(1.0, rate, 1, "add-remove"), strict=True):
                true = float(truth(pair, epsilon))
                assert true * (1 - 1e-5) <= curve.delta(epsilon) <= true * (1 + 1e-3)
    forward, reverse = orders(1.0, rate, 1, "add-remove")
    assert float(one_step(reverse, 0.05)) < 0.99 * float(one_step(forward, 0.05))


def test_each_order_of_a_step_has_its_own_loss():
    pair = losses_of(SampledTerm(0.3, 0.8, 2, False), 1e-3, 1e-12)
    mean = {
        name: float(np.dot(one.masses, (one.first + np.arange(one.masses.size)) * 1e-3))
        for name, one in (("forward", pair.forward), ("reverse", pair.reverse))
    }
    x = np.linspace(-12, 15, 200_001)
    for name, reverse in (("forward", False), ("reverse", True)):
        truth = Pair(0.8, 0.3, 2, reverse=reverse)
        above, _ = truth.components()
        divergence = np.sum(np.exp(truth.log_density(above, x)) * truth.loss(x)) * (x[1] - x[0])
        assert mean[name] == pytest.approx(float(divergence), rel=1e-3)


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1e-30),
        PoissonSampled(0.1, Gaussian(1e-9)),
        SharedBatch(0.1, Gaussian(1e-9), 5),
        Laplace(1e-20),
        ExponentialChoice(1e20),
        Group(Gaussian(1e-3), 10**9),
    ],
)
def test_next_to_no_noise_is_refused(event):
    with pytest.raises(AccountingError, match="not negligible"):
        epsilon_of(event, 1e-6, "replace")


@few
@given(
    logs(1e-8, 1e6), logs(1e-9, 1.0), st.integers(0, 13), logs(1e-300, 0.999),
    st.sampled_from([1, 2, 30]), st.sampled_from(("add-remove", "replace", "zero-out")),
)  # fmt: skip
def test_any_question_gets_a_number_or_one_sentence(sigma, rate, power, delta, group, relation):
    """Not below what one record in one step costs; never NaN, never another exception."""
    event = steps_of(sigma, rate, 10**power, group)
    try:
        found = epsilon_of(event, delta, relation)
    except SfumatoError as refusal:
        assert "\n" not in str(refusal)  # noqa: PT017
        return
    assert found >= 0
    if math.isfinite(found) and rate < 1:
        kind = "replace" if relation == "replace" else "add-remove"
        assert max(one_step(pair, found) for pair in orders(sigma, rate, 1, kind)) <= delta


@pytest.mark.parametrize(
    "event",
    [
        RandomizedResponse(1e-12, 256),
        ExponentialChoice(5e4),
        SelfComposed(ExponentialChoice(800.0), 3),
        Composed((Laplace(1e-3), PoissonSampled(0.01, Gaussian(0.02)))),
        SharedBatch(0.01, Gaussian(0.02), 100),
        Group(SharedBatch(0.01, Gaussian(0.02), 100), 2),
    ],
    ids=lambda event: event.name,
)
@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-150])
def test_large_losses_of_other_events(event, delta):
    found = epsilon_of(event, delta, "replace")
    assert found > 10
    assert epsilon_of(SelfComposed(event, 2), delta, "replace") >= found * (1 - 1e-6)
    assert epsilon_of(event, delta, "replace", "rdp") >= found * (1 - 1e-6)
    assert 0.01 <= true_positive_bound(event, 0.01, "replace") <= 1
    if delta > 1e-6:
        assert 0 <= delta_of(event, found * (1 + 1e-6), "replace") <= delta * 1.01
    if delta > 1e-6 and not isinstance(event, Group):  # eight grids of a group take their time
        assert gdp_mu(event, delta, "replace") > 1


# -- calibration -----------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [
        (2000.0, 1e-6, 0.01, 1),
        (1e6, 1e-9, 1e-3, 2),
        (1e-4, 1e-5, 1e-3, 100),
        (0.3, 1e-13, 1e-3, 10_000),
        (5.0, 1e-40, 0.1, 30),
        (5.0, 0.4, 0.5, 30),
        (1e-9, 1e-12, 1.0, 1),
    ],
)
def test_calibration_never_overshoots(epsilon, delta, rate, steps, relation):
    noise = calibrate_dpsgd(epsilon, delta, rate, steps, relation)
    assert 0 < account_dpsgd(noise, delta, rate, steps, relation) <= epsilon
    assert account_dpsgd(noise * 0.995, delta, rate, steps, relation) > epsilon * 0.999


@pytest.mark.parametrize("epsilon", [1e-320, 1e-13, 1e13, 1e300, math.inf, -1.0, "1", None, True])
def test_targets_that_mean_nothing_get_one_sentence(epsilon):
    for calibrate in (
        lambda: calibrate_dpsgd(epsilon, 1e-6, 0.1, 10, "replace"),
        lambda: calibrate_gaussian(epsilon, 1e-6),
    ):
        with pytest.raises(AccountingError, match="Expected epsilon") as caught:
            calibrate()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-3, 0.05, 0.2, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-8, 1e-15, 1e-100])
def test_the_closed_form_is_right_for_every_noise(mu, delta):
    """In 80 digits: one order of an unsampled pair."""
    found = epsilon_of_gaussian(delta, mu)
    pair = Pair(1 / mu, 1.0)
    assert one_step(pair, found) <= delta
    assert found == 0 or one_step(pair, found * (1 - 1e-8)) > delta


@pytest.mark.parametrize("mu", [1 / 30, 1.0, 20.0])
@pytest.mark.parametrize("accountant", ["pld", "rdp", "analytic-gaussian"])
def test_a_delta_without_digits_is_refused_and_the_least_one_is_right(mu, accountant):
    """At 5e-324 the closed form said 38.68 for one standard deviation, where 38.86 is true."""
    event = Gaussian(1 / mu, "difference")
    for delta in (5e-324, 1e-310, 0.9e-300):
        with pytest.raises(AccountingError, match="at least 1e-300"):
            epsilon_of(event, delta, "replace", accountant)
    assert one_step(Pair(1 / mu, 1.0), epsilon_of(event, 1e-300, "replace", accountant)) <= 1e-300


def test_a_delta_too_small_for_a_number_is_not_nothing():
    assert delta_of(Gaussian(1.0, "difference"), 60.0, "replace") > 0
    assert delta_of(Laplace(1.0), 60.0, "replace") == 0
