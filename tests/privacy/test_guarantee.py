"""A guarantee cannot be stated halfway, mixed up, or talked down; events survive storage."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from sfumato.privacy import (
    ApproximateRelease,
    Bounds,
    Composed,
    Event,
    EventError,
    ExponentialChoice,
    Gaussian,
    Group,
    Guarantee,
    GuaranteeError,
    Laplace,
    NoAccess,
    NoGuarantee,
    PoissonSampled,
    RandomizedResponse,
    Randomness,
    Relation,
    SelfComposed,
    SharedBatch,
    Unit,
    UnitError,
    UnitMismatchError,
    event_from_json,
    format_epsilon,
    format_factor,
    promise_from_json,
)

EVENTS = [
    NoAccess(),
    Gaussian(1.5),
    Gaussian(1.5, Bounds.DIFFERENCE),
    Laplace(0.7),
    RandomizedResponse(0.3, 5),
    ExponentialChoice(2.0),
    ApproximateRelease(0.1, 1e-3, "snow"),
    PoissonSampled(0.1, Gaussian(2.0)),
    SharedBatch(0.1, Gaussian(2.0), 30),
    SelfComposed(PoissonSampled(0.1, Gaussian(2.0)), 7),
    Composed((Gaussian(2.0), Laplace(3.0))),
    Group(SelfComposed(Gaussian(3.0), 2), 4),
]
FIELDS = {
    "mechanism": "a test",
    "unit": Unit.record(),
    "relation": Relation.REPLACE,
    "delta": 1e-5,
    "event": Gaussian(4.0),
    "accountant": "pld",
}


def made(**change):
    return Guarantee(**(FIELDS | change))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_events_round_trip_through_json(event):
    stored = json.loads(json.dumps(event.to_json()))
    assert event_from_json(stored) == event
    assert hash(event_from_json(stored)) == hash(event)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_unknown_fields_and_kinds_are_refused(event):
    with pytest.raises(EventError):
        event_from_json(event.to_json() | {"extra": 1})
    with pytest.raises(EventError):
        event_from_json(event.to_json() | {"kind": "magic"})


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gaussian(0.0),
        lambda: Gaussian(float("nan")),
        lambda: Laplace(-1.0),
        lambda: PoissonSampled(0.0, Gaussian(1.0)),
        lambda: PoissonSampled(1.1, Gaussian(1.0)),
        lambda: PoissonSampled(0.1, Gaussian(1.0, Bounds.DIFFERENCE)),
        lambda: SelfComposed(Gaussian(1.0), 0),
        lambda: Composed(()),
        lambda: Group(Group(Gaussian(1.0), 2), 2),
        lambda: RandomizedResponse(0.5, 1),
    ],
)
def test_impossible_events_cannot_be_built(build):
    with pytest.raises(EventError):
        build()


def test_sensitivities():
    assert Gaussian(1.0).sensitivity(Relation.ADD_REMOVE) == 1
    assert Gaussian(1.0).sensitivity(Relation.ZERO_OUT) == 1
    assert Gaussian(1.0).sensitivity(Relation.REPLACE) == 2
    assert Gaussian(1.0, Bounds.DIFFERENCE).sensitivity(Relation.REPLACE) == 1
    assert Group(Gaussian(1.0), 3).sensitivity(Relation.REPLACE) == 6
    with pytest.raises(EventError):
        ExponentialChoice(1.0).sensitivity(Relation.REPLACE)


@pytest.mark.parametrize("missing", FIELDS)
def test_nothing_may_be_left_out(missing):
    with pytest.raises(TypeError, match=missing):
        Guarantee(**{name: value for name, value in FIELDS.items() if name != missing})


def test_epsilon_cannot_be_passed_in():
    with pytest.raises(TypeError):
        made(epsilon=0.1)


@pytest.mark.parametrize(
    "change",
    [{"delta": 1.0}, {"delta": -1e-9}, {"delta": 0.0}, {"accountant": "hope"}, {"mechanism": ""}],
)
def test_what_cannot_be_stated(change):
    with pytest.raises(GuaranteeError):
        made(**change)


@pytest.mark.parametrize("unit", [Unit.masked_tokens(), Unit.features("dct 8")])
def test_beside_a_public_view_add_remove_is_refused(unit):
    """R1, seeded bug 43."""
    with pytest.raises(UnitError, match="add-remove"):
        made(unit=unit, relation=Relation.ADD_REMOVE)
    assert made(unit=unit, relation=Relation.ZERO_OUT).public


def test_different_units_do_not_add_up():
    with pytest.raises(UnitMismatchError, match=r"record.*clip"):
        made().compose(made(unit=Unit.clip()))
    with pytest.raises(UnitMismatchError, match=r"replace.*zero-out"):
        made().compose(made(relation=Relation.ZERO_OUT))


def test_composition_and_groups():
    one = made()
    two = one.compose(made(event=Gaussian(3.0)))
    assert one.epsilon < two.epsilon < one.epsilon + made(event=Gaussian(3.0)).epsilon
    person = one.for_group(3, Unit.person(3))
    assert person.epsilon > 3 * one.epsilon
    assert person.unit == Unit.person(3)


def test_words():
    promise = made(assumptions=("clipping happens",), not_covered=("tuning",))
    text = str(promise)
    for part in ("one record", "1e-05", "replace", "clipping happens", "tuning", "wrongly accuses"):
        assert part in text
    assert format_epsilon(promise.epsilon) in text
    assert "\n" not in repr(promise)
    assert "record" in repr(promise)


def test_rounding_is_never_in_our_favour():
    assert format_epsilon(0.5) == "0.5"
    assert format_epsilon(0.50001) == "0.501"
    assert float(format_epsilon(1234.5)) >= 1234.5
    assert format_factor(8.0) == "2990", "e^8 is 2980.96, and 2.98e+03 would be too little"
    assert format_factor(50.01) == "e^50.1"


@pytest.mark.parametrize("promise", [made(), NoGuarantee(mechanism="a blur", reason="Invertible.")])
def test_json_round_trip(promise):
    stored = json.loads(json.dumps(promise.to_json()))
    assert promise_from_json(stored) == promise
    assert stored["version"] == 1
    with pytest.raises(GuaranteeError):
        promise_from_json(stored | {"version": 99})
    with pytest.raises(GuaranteeError):
        promise_from_json(stored | {"surprise": True})


def test_an_understated_epsilon_is_found_out():
    stored = made().to_json()
    with pytest.raises(GuaranteeError, match="below"):
        Guarantee.from_json(stored | {"epsilon": stored["epsilon"] * 0.99})
    assert (
        Guarantee.from_json(stored | {"epsilon": stored["epsilon"] * 1.5}).epsilon == made().epsilon
    )


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize(
    "stored", [float("nan"), float("inf"), -float("inf"), 10**400, True, None, "1e-5", [1]]
)
def test_a_stored_number_is_a_finite_number(name, stored):
    with pytest.raises(GuaranteeError, match=f"finite number as stored {name}"):
        Guarantee.from_json(made().to_json() | {name: stored})


@pytest.mark.parametrize("size", [0, -3, 1.5, True, "3", None])
def test_a_group_is_a_whole_number_of_at_least_one(size):
    """R23: `for_group(-3, ...)` once kept epsilon."""
    with pytest.raises(GuaranteeError, match="whole number >= 1"):
        made().for_group(size, Unit.person(3))


@pytest.mark.parametrize(
    ("unit", "size", "target"),
    [
        (Unit.record(), 1, Unit.person(50)),
        (Unit.record(), 49, Unit.person(50)),
        (Unit.frame(2), 2, Unit.frame(5)),
        (Unit.pixels(4, frames=1), 7, Unit.pixels(8, frames=4)),
    ],
)
def test_a_group_that_is_too_small_is_refused(unit, size, target):
    with pytest.raises(UnitMismatchError, match="group of at least"):
        made(unit=unit).for_group(size, target)
    needed = unit.needed_for(target)
    assert made(unit=unit).for_group(needed, target).epsilon > made(unit=unit).epsilon


@pytest.mark.parametrize(
    ("unit", "target"),
    [
        (Unit.masked_tokens(), Unit.record()),
        (Unit.features("dct 8"), Unit.record()),
        (Unit.record(), Unit.masked_tokens()),
        (Unit.record(), Unit.person()),
        (Unit.person(3), Unit.person(9)),
        (Unit.person(3), Unit.record()),
        (Unit.pixels(4, frames=1), Unit.frame()),
        (Unit.frame(), Unit.clip()),
        (Unit.clip(), Unit.video()),
        (Unit.clip(), Unit.record()),
        (Unit.pixels(4, frames=1, inside_public_mask=True), Unit.pixels(4, frames=1)),
    ],
    ids=str,
)
def test_other_units_cannot_be_restated_by_any_group(unit, target):
    with pytest.raises(UnitMismatchError, match="says nothing about"):
        made(unit=unit).for_group(1000, target)


def test_seeded_noise_is_labelled():
    source = Randomness(7)
    promise = made(randomness=source.label)
    assert not promise.is_private
    assert str(promise).startswith("NOT PRIVATE")
    assert not made().compose(promise).is_private
    assert made(randomness=Randomness().label).is_private


def test_no_access_is_not_a_bare_zero():
    promise = made(unit=Unit.masked_tokens(), event=NoAccess(), delta=0.0)
    assert promise.epsilon == 0
    assert "infinite" in str(promise)


def test_import_is_light():
    code = (
        "import sys, sfumato.privacy; "
        "print([name for name in ('torch', 'dp_accounting', 'opacus') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("event", "sampling"),
    [
        (Gaussian(2.0), "no sampling"),
        (SelfComposed(PoissonSampled(0.1, Gaussian(2.0)), 5), "Poisson sampling"),
        (SharedBatch(0.1, Gaussian(2.0), 5), "one Poisson batch for both streams"),
        (Composed((PoissonSampled(0.1, Gaussian(2.0)), Gaussian(3.0))), "Poisson sampling and no sampling"),
    ],
)  # fmt: skip
def test_the_terms_of_an_epsilon_name_all_it_depends_on(event: Event, sampling: str) -> None:
    made = Guarantee(
        mechanism="m", unit=Unit.record(), relation=Relation.REPLACE, delta=1e-6, event=event,
        accountant="pld",
    )  # fmt: skip
    assert made.terms == f"unit record, relation replace, delta 1e-06, {sampling}, accountant pld"
