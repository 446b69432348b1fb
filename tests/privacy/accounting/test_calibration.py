"""Calibration never overshoots and wastes next to nothing; accounting behaves as privacy does."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy import (
    AccountingError,
    ApproximateRelease,
    Bounds,
    Composed,
    ExponentialChoice,
    Gaussian,
    Group,
    Laplace,
    NoAccess,
    RandomizedResponse,
    Relation,
    SelfComposed,
    SharedBatch,
    account_dpsgd,
    calibrate_dpsgd,
    calibrate_event,
    calibrate_gaussian,
    delta_of,
    dpsgd_event,
    dpsgd_schedule,
    epsilon_of,
    gdp_mu,
    true_positive_bound,
)
from sfumato.privacy.accounting._pld import compose
from sfumato.privacy.accounting._terms import terms_of

RELATIONS = ("add-remove", "replace", "zero-out")
few = settings(max_examples=6, deadline=None, derandomize=True)
rates = st.floats(0.001, 0.2)
steps = st.integers(1, 1000)
noises = st.floats(1.0, 8.0)
relations = st.sampled_from(RELATIONS)


@few
@given(st.floats(0.05, 4.0), st.sampled_from([1e-4, 1e-6, 1e-8]), rates, steps, relations)
def test_calibration_keeps_the_target_and_is_tight(epsilon, delta, rate, count, relation):
    noise = calibrate_dpsgd(epsilon, delta, rate, count, relation)
    assert account_dpsgd(noise, delta, rate, count, relation) <= epsilon
    assert account_dpsgd(noise * 0.998, delta, rate, count, relation) > epsilon * 0.9999


@few
@given(noises, rates, steps, relations, st.integers(2, 4))
def test_more_noise_fewer_steps_rarer_sampling_smaller_groups_are_never_worse(
    noise, rate, count, relation, size
):
    here = account_dpsgd(noise, 1e-5, rate, count, relation)
    close = 1 + 1e-6
    assert account_dpsgd(noise * 1.2, 1e-5, rate, count, relation) <= here * close
    assert account_dpsgd(noise, 1e-5, rate / 2, count, relation) <= here * close
    assert account_dpsgd(noise, 1e-5, rate, count + 50, relation) >= here / close
    person = epsilon_of(Group(dpsgd_event(noise, rate, count), size), 1e-5, relation)
    assert person >= here / close


@few
@given(noises, rates, steps, relations)
def test_renyi_is_never_below(noise, rate, count, relation):
    event = dpsgd_event(noise, rate, count)
    assert epsilon_of(event, 1e-6, relation, "rdp") >= epsilon_of(event, 1e-6, relation) * (
        1 - 1e-9
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("noise", "rate", "count"), [(1.1, 0.01, 500), (4.0, 0.05, 3000), (0.58, 0.001, 1000)]
)
def test_dp_accounting_agrees(noise, rate, count, relation):
    """An independent implementation, at the same interval."""
    kind = dp_accounting.NeighboringRelation
    peer = PLDAccountant(
        kind.REPLACE_ONE if relation == "replace" else kind.ADD_OR_REMOVE_ONE,
        value_discretization_interval=1e-4,
    )
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    peer.compose(dp_accounting.SelfComposedDpEvent(step, count))
    found = account_dpsgd(noise, 1e-5, rate, count, relation)
    assert found == pytest.approx(peer.get_epsilon(1e-5), rel=3e-3)
    assert found <= peer.get_epsilon(1e-5) * (1 + 1e-6)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_rare_large_losses_fit_a_small_window(relation):
    """Little noise, rarely sampled: the window ends where the losses do, so the grid stays fine."""
    terms = terms_of(dpsgd_event(0.58, 0.001, 1000), Relation.parse(relation))
    for curve in compose(terms, 1e-4, 1e-15):
        assert curve.losses.masses.size < 1 << 20
        assert curve.losses.masses.sum() + curve.losses.infinite == pytest.approx(1, abs=1e-9)


def test_different_releases_compose_as_dp_accounting_composes_them():
    event = Composed((dpsgd_event(1.3, 0.02, 300), Laplace(2.0), SelfComposed(Gaussian(4.0), 3)))
    peer = PLDAccountant(value_discretization_interval=1e-4)
    step = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.3))
    peer.compose(dp_accounting.SelfComposedDpEvent(step, 300))
    peer.compose(dp_accounting.LaplaceDpEvent(2.0))
    peer.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(4.0), 3))
    found = epsilon_of(event, 1e-5, "add-remove")
    assert found == pytest.approx(peer.get_epsilon(1e-5), rel=1e-3)
    parts = sum(epsilon_of(part, 1e-5 / 3, "add-remove") for part in event.events)
    assert found < parts


@pytest.mark.parametrize("rate", [1.0])
def test_full_batches_are_the_gaussian_mechanism(rate):
    noise = calibrate_dpsgd(1.0, 1e-5, rate, 100, "replace")
    assert noise == pytest.approx(2 * 10 * calibrate_gaussian(1.0, 1e-5), rel=1e-9)
    assert account_dpsgd(noise, 1e-5, rate, 100, "replace") <= 1.0


def test_epsilon_and_delta_are_inverse_to_each_other():
    event = dpsgd_event(1.5, 0.01, 400)
    for epsilon in (0.2, 0.7, 1.4):
        delta = delta_of(event, epsilon, "replace")
        assert epsilon_of(event, delta, "replace") == pytest.approx(epsilon, rel=2e-3)


def test_calibrating_any_event():
    noise = calibrate_event(lambda scale: Laplace(scale), 0.5, 0.0, "replace")
    assert 4.0 <= noise <= 4.0 * 1.001
    noise = calibrate_event(
        lambda scale: SharedBatch(0.0032, Gaussian(scale), 46_875), 0.5, 1e-6, "zero-out", guess=9.0
    )
    assert noise == pytest.approx(99.9, rel=2e-3)


def test_groups_of_other_releases():
    assert epsilon_of(Group(Laplace(1.0), 5), 0.0, "add-remove") == 5.0
    assert epsilon_of(Group(ExponentialChoice(0.5), 4), 0.0, "replace") == 2.0
    alone = epsilon_of(Gaussian(1.0, Bounds.DIFFERENCE), 1e-5, "replace")
    assert epsilon_of(Group(Gaussian(3.0, Bounds.DIFFERENCE), 3), 1e-5, "replace") == pytest.approx(
        alone
    )
    snow = Group(ApproximateRelease(0.0, 0.01, "snow"), 3)
    assert epsilon_of(snow, 0.0301, "replace") == 0.0
    assert epsilon_of(snow, 0.0299, "replace") == math.inf
    with pytest.raises(AccountingError, match="delta reaches 1"):
        epsilon_of(Group(ApproximateRelease(0.0, 0.4, "snow"), 3), 0.5, "replace")


def test_other_ways_to_say_it():
    event = Gaussian(2.0, Bounds.DIFFERENCE)
    assert gdp_mu(event, 1e-5, "replace") == pytest.approx(0.5)
    # Neyman-Pearson at 1 %: Phi(Phi^-1(0.01) + 0.5)
    assert true_positive_bound(event, 0.01, "replace") == pytest.approx(0.03388, abs=1e-4)
    sampled = dpsgd_event(1.0, 0.01, 1000)
    powers = [true_positive_bound(sampled, rate, "replace") for rate in (0.001, 0.01, 0.1, 1.0)]
    assert powers == sorted(powers)
    assert all(power >= rate for power, rate in zip(powers, (0.001, 0.01, 0.1, 1.0), strict=True))
    assert true_positive_bound(NoAccess(), 0.01, "replace") == 0.01
    pure = ExponentialChoice(1.0)
    assert true_positive_bound(pure, 0.01, "replace") == pytest.approx(math.e * 0.01)
    mu = gdp_mu(sampled, 1e-5, "replace")
    epsilon = epsilon_of(sampled, 1e-5, "replace")
    assert epsilon_of(Gaussian(1 / mu, Bounds.DIFFERENCE), 1e-5, "replace") >= epsilon * (1 - 1e-6)


@pytest.mark.parametrize("event", [RandomizedResponse(0.5, 2), ExponentialChoice(1.0)])
def test_local_releases_have_no_add_remove(event):
    with pytest.raises(AccountingError, match="replace or zero-out"):
        epsilon_of(event, 0.0, "add-remove")


def test_the_analytic_accountant_refuses_what_it_does_not_know():
    with pytest.raises(AccountingError, match="Gaussian releases only"):
        epsilon_of(Laplace(1.0), 1e-5, "replace", "analytic-gaussian")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon > 0"),
        ({"epsilon": math.nan}, "epsilon > 0"),
        ({"epsilon": math.inf}, "epsilon > 0"),
        ({"delta": 0.0}, "delta between 0 and 1"),
        ({"delta": 1.0}, "delta between 0 and 1"),
        ({"delta": math.nan}, "delta between 0 and 1"),
        ({"delta": 0.1, "steps": 1}, "ever drawn"),
        ({"delta": 0.7}, "ever drawn"),
        ({"sampling_rate": 0.0}, "sampling rate in"),
        ({"sampling_rate": 1.5}, "sampling rate in"),
        ({"steps": 0}, "whole number of steps"),
        ({"steps": 1.5}, "whole number of steps"),
        ({"relation": "swap"}, "add-remove, replace, zero-out"),
        ({"accountant": "moments"}, "pld or rdp"),
    ],
)
def test_bad_questions_get_one_sentence(change, sentence):
    question = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "sampling_rate": 0.1,
        "steps": 10,
        "relation": "replace",
    }
    with pytest.raises(Exception, match=sentence) as caught:
        calibrate_dpsgd(**(question | change))
    assert "\n" not in str(caught.value)


def test_schedules():
    assert dpsgd_schedule(batch=128, records=9537, epochs=150) == (128 / 9537, 11_177)
    assert dpsgd_schedule(batch=128, records=40_000, epochs=150) == (0.0032, 46_875)
    assert dpsgd_schedule(sampling_rate=0.5, steps=7) == (0.5, 7)
    for bad in (
        {},
        {"batch": 3, "steps": 2},
        {"batch": 9, "records": 3, "steps": 2},
        {"sampling_rate": 0.1},
        {"sampling_rate": 0.1, "steps": 3, "epochs": 4},
    ):
        with pytest.raises(AccountingError):
            dpsgd_schedule(**bad)


@pytest.mark.parametrize("delta", [0.01, 0.3, 0.5, 0.9375])
def test_what_is_mostly_lost_is_not_called_wholly_lost(delta: float) -> None:
    """Snow that shows half of the pixels: an attacker is right at most FPR + delta of the time."""
    event = ApproximateRelease(0.0, delta, "snow")
    assert delta_of(event, 0.0, "replace") == pytest.approx(delta, rel=1e-9)
    power = true_positive_bound(event, 0.01, "replace")
    assert 0.01 + delta <= power <= 0.01 + delta + 1e-9
