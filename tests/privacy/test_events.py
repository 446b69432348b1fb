"""Events are a closed set of plain numbers: no type and no subclass changes what they cost."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.privacy import (
    AccountingError,
    ApproximateRelease,
    Bounds,
    Composed,
    Event,
    EventError,
    ExponentialChoice,
    Gaussian,
    Group,
    Guarantee,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    SelfComposed,
    SharedBatch,
    Unit,
    calibrate_dpsgd,
    calibrate_gaussian,
    epsilon_of,
    event_from_json,
    format_factor,
    gdp_mu,
    true_positive_bound,
)


def forget() -> None:
    """What the accountant remembers of events and terms that equal these."""
    for name, module in list(sys.modules.items()):
        for member in vars(module).values() if name.startswith("sfumato.privacy") else ():
            if hasattr(member, "cache_clear"):
                member.cache_clear()


TYPES = (np.float16, np.float32, np.longdouble, Fraction)


def events(kind: type) -> list[Event]:
    """Losses so large that their squares overflow in half precision."""
    return [
        Group(Gaussian(kind(0.0078125)), 7),
        Laplace(kind(0.001953125)),
        SelfComposed(PoissonSampled(kind(0.015625), Gaussian(kind(0.75))), 900),
        SharedBatch(kind(0.015625), Gaussian(kind(0.75)), 900),
        RandomizedResponse(kind(0.09375), 300),
        Group(ExponentialChoice(kind(9000)), 11),
        Group(ApproximateRelease(kind(0.25), kind(2.0**-20), "x"), 3),
    ]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("number", range(7))
def test_the_type_of_a_number_changes_nothing(kind, number):
    """Half precision once gave epsilon 0, and 0 for the plain event that equals it from then on."""
    forget()
    true = epsilon_of(events(float)[number], 1e-3, "replace")
    forget()
    with np.errstate(over="ignore"):
        assert epsilon_of(events(kind)[number], 1e-3, "replace") == true
    assert epsilon_of(events(float)[number], 1e-3, "replace") == true
    again = event_from_json(json.loads(json.dumps(events(kind)[number].to_json())))
    assert again == events(float)[number]


def test_whole_numbers_of_any_type_are_counted():
    assert epsilon_of(SelfComposed(Gaussian(3.0), np.int64(4)), 1e-6, "replace") == epsilon_of(
        SelfComposed(Gaussian(3.0), 4), 1e-6, "replace"
    )


class CheapNumber(float):
    """Divides into nothing."""

    def __rtruediv__(self, other: float) -> float:
        return 1e-9


class CheapCount(int):
    """Multiplies nothing."""

    def __rmul__(self, other: float) -> float:
        return other

    __mul__ = __rmul__


def test_numbers_that_count_otherwise_than_they_compare_are_made_plain():
    for odd, plain in (
        (Gaussian(CheapNumber(1.25)), Gaussian(1.25)),
        (SelfComposed(Gaussian(1.25), CheapCount(50)), SelfComposed(Gaussian(1.25), 50)),
        (Group(Gaussian(1.25), CheapCount(50)), Group(Gaussian(1.25), 50)),
    ):
        found = epsilon_of(odd, 1e-6, "replace")
        assert found > 7
        assert found == epsilon_of(plain, 1e-6, "replace")


class Quiet(Gaussian):
    """Says that it moves nothing, and equals whatever it is compared with."""

    def sensitivity(self, relation: object) -> float:
        return 1e-9

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = Gaussian.__hash__


def test_a_subclass_of_an_event_is_no_event():
    epsilon_of(Gaussian(1000.0), 1e-6, "replace")
    for ask in (
        lambda: epsilon_of(Quiet(1000.0), 1e-6, "replace"),
        lambda: gdp_mu(Quiet(1.0), 1e-6, "replace"),
        lambda: true_positive_bound(Quiet(1.0), 0.01, "replace"),
    ):
        with pytest.raises(AccountingError, match="an event the accountant knows"):
            ask()
    for make in (
        lambda: SelfComposed(Quiet(1.0), 2),
        lambda: Composed((Gaussian(1.0), Quiet(1.0))),
        lambda: Group(Quiet(1.0), 2),
        lambda: PoissonSampled(0.1, Quiet(1.0)),
        lambda: SharedBatch(0.1, Quiet(1.0), 3),
    ):
        with pytest.raises(EventError):
            make()


@pytest.mark.parametrize("value", [10**400, Fraction(10**400), "1", None, True, 1j, math.nan])
def test_what_is_no_number_gets_one_sentence(value):
    for make in (
        lambda: Gaussian(value),
        lambda: PoissonSampled(value, Gaussian(1.0)) if value is not True else Gaussian(True),
        lambda: ApproximateRelease(value, 0.0, "x"),
        lambda: Guarantee(
            mechanism="x", unit=Unit.record(), relation="replace", delta=value,
            event=Gaussian(1.0), accountant="pld",
        ),
        lambda: true_positive_bound(Gaussian(1.0), value if value is not True else 2, "replace"),
        lambda: gdp_mu(Gaussian(1.0), value, "replace"),
    ):  # fmt: skip
        with pytest.raises(SfumatoError, match="Expected"):
            make()


def promise(**changes: object) -> Guarantee:
    settings = {"mechanism": "x", "unit": Unit.record(), "relation": "replace", "delta": 1e-6,
                "event": Gaussian(1.0), "accountant": "pld"}  # fmt: skip
    return Guarantee(**(settings | changes))


def test_an_epsilon_cannot_be_put_into_a_guarantee():
    made = promise()
    with pytest.raises(AttributeError):
        object.__setattr__(made, "epsilon", 0.1)
    vars(made)["epsilon"] = 0.1
    assert made.epsilon > 4
    assert "epsilon 0.1" not in str(made)
    with pytest.raises(TypeError, match="no subclasses"):
        type("Kind", (Guarantee,), {"epsilon": 0.1})


def test_a_guarantee_holds_plain_numbers():
    odd = promise(delta=np.float32(1e-6), event=Gaussian(np.float16(1.0)))
    assert type(odd.delta) is float
    assert json.loads(json.dumps(odd.to_json()))["epsilon"] == odd.epsilon


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_calibration_compares_in_double_precision(kind):
    """In half precision 1.0004 is 1: an epsilon that is exceeded would look kept."""
    target = kind(1.0)
    noise = calibrate_dpsgd(target, kind(1e-5), kind(0.0625), 100, "replace")
    event = SelfComposed(PoissonSampled(0.0625, Gaussian(noise)), 100)
    assert epsilon_of(event, float(kind(1e-5)), "replace") <= 1.0
    single = Gaussian(calibrate_gaussian(target, kind(1e-5)), Bounds.DIFFERENCE)
    assert epsilon_of(single, float(kind(1e-5)), "replace") <= 1.0


def test_only_an_epsilon_of_zero_is_a_factor_of_one():
    assert format_factor(0.0) == "1"
    for epsilon in (1e-300, 1e-13, 1e-9, 1e-3):
        assert float(format_factor(epsilon)) >= math.exp(epsilon) > 0
        assert format_factor(epsilon) != "1"
