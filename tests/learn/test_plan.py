"""A plan says only what is true: it refuses what R1-R3 forbid, and the noise is its own."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest
import step_checks as checks

from sfumato.data import ArrayRecords
from sfumato.learn import (
    METHODS,
    BlurFeatures,
    LowFrequency,
    MaskedPixels,
    MethodError,
    OwnersError,
    PixelateFeatures,
    Plan,
    PlanError,
    Subspace,
    plan_for,
    train,
)
from sfumato.learn.engine._sampling import records_by_owner
from sfumato.privacy import (
    Guarantee,
    NoAccess,
    NoGuarantee,
    Randomness,
    Relation,
    SharedBatch,
    Unit,
    UnitError,
    account_dpsgd,
)

BASE: dict[str, Any] = {
    "epsilon": 1.0, "delta": 1e-5, "records": 200, "batch": 20, "steps": 5, "clip_norm": 1.0,
    "relation": "replace",
}  # fmt: skip
PSI = LowFrequency(size=4)


def test_the_plan_has_no_place_for_a_noise_multiplier() -> None:
    names = set(inspect.signature(Plan).parameters)
    assert not any("noise" in name or "sigma" in name for name in names)
    with pytest.raises(TypeError):
        Plan(**BASE, unit="record", noise_multiplier=0.1)
    plan = Plan(**BASE, unit="record")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.epsilon = 0.5  # type: ignore[misc]


class Quiet(Plan):
    """No noise, and the epsilon of a plan that has some."""

    @property
    def noise_deviation(self) -> float:
        return 0.0


def _quiet_fields(plan: Plan) -> Plan:
    for name in ("noise_multiplier", "noise_deviation", "is_private"):
        vars(plan)[name] = 0.0
    return plan


def _quiet_cache(plan: Plan) -> Plan:
    assert plan.noise_multiplier > 0
    object.__setattr__(plan, "noise_multiplier", 1e-9)
    return plan


def _other_epsilon(plan: Plan) -> Plan:
    assert plan.noise_multiplier > 0
    vars(plan)["epsilon"] = 1e-3  # the noise in the cache is that of the old one
    return plan


def _other_guarantee(plan: Plan) -> Plan:
    vars(plan)["guarantee"] = dataclasses.replace(plan.guarantee, delta=1e-9)
    return plan


@pytest.mark.parametrize("change", [_quiet_fields, _quiet_cache, _other_epsilon, _other_guarantee])
def test_a_plan_that_was_changed_trains_nothing(change: Any) -> None:
    plan = change(Plan(**BASE, unit="record"))
    with pytest.raises(PlanError, match="was changed afterwards"):
        train(checks.make_model(), checks.separable(20), plan)
    with pytest.raises(PlanError, match="was changed afterwards"):
        checks.make_step(plan, checks.separable(20))


def test_a_subclass_of_a_plan_trains_nothing() -> None:
    with pytest.raises(PlanError, match="Expected a Plan itself, got Quiet"):
        train(checks.make_model(), checks.separable(20), Quiet(**BASE, unit="record"))


def test_a_source_of_noise_of_ones_own_trains_nothing() -> None:
    class Zeros(Randomness):
        def keystream(self) -> Any:
            return Randomness(0).keystream()

    with pytest.raises(PlanError, match="Expected a Randomness itself, got Zeros"):
        train(checks.make_model(), checks.separable(20), Plan(**BASE, unit="record"),
              randomness=Zeros())  # fmt: skip


def test_training_derives_its_noise_from_the_fields_alone() -> None:
    """Fields changed before anything was derived are the plan that is trained and promised."""
    plan = Plan(**BASE, unit="record")
    vars(plan)["epsilon"] = 30.0
    run = train(checks.make_model(), checks.separable(20), plan)
    honest = Plan(**{**BASE, "epsilon": 30.0}, unit="record")
    assert isinstance(run.guarantee, Guarantee)
    assert run.guarantee.epsilon == honest.guarantee.epsilon  # type: ignore[union-attr]
    step = checks.make_step(plan, checks.separable(20))
    assert step._plan.noise_deviation == honest.noise_deviation > 0


def test_numbers_that_compare_otherwise_than_they_count_are_made_plain() -> None:
    class Sly(float):
        def __lt__(self, other: object) -> bool:
            return False

        def __mul__(self, other: object) -> float:
            return 0.0

        __rmul__ = __mul__

    plan = Plan(**{**BASE, "clip_norm": Sly(1.0), "epsilon": Sly(1.0)}, unit="record")
    assert type(plan.clip_norm) is type(plan.epsilon) is float
    assert plan.is_private
    assert plan.noise_deviation == Plan(**BASE, unit="record").noise_deviation > 0


@pytest.mark.parametrize("clip_norm", [1e-25, 1e-10, 1e12])
def test_a_clip_norm_that_float32_cannot_hold_is_refused(clip_norm: float) -> None:
    with pytest.raises(PlanError, match="between 1e-09 and 1e\\+09"):
        Plan(**{**BASE, "clip_norm": clip_norm}, unit="record")


@pytest.mark.parametrize("relation", list(Relation))
def test_the_noise_keeps_the_epsilon_and_no_more(relation: Relation) -> None:
    plan = Plan(**{**BASE, "relation": relation}, unit="record")
    reached = account_dpsgd(plan.noise_multiplier, 1e-5, 0.1, 5, relation)
    assert 0.99 < reached <= 1.0
    assert isinstance(plan.guarantee, Guarantee)
    assert plan.guarantee.epsilon == pytest.approx(reached, rel=1e-3)
    assert plan.guarantee.epsilon <= 1.0
    assert plan.guarantee.relation is relation


def test_replace_needs_more_noise_than_add_remove() -> None:
    replace = Plan(**BASE, unit="record")
    add = Plan(**{**BASE, "relation": "add-remove"}, unit="record")
    assert replace.noise_multiplier > 1.1 * add.noise_multiplier


@pytest.mark.parametrize(
    ("view", "unit", "relation"),
    [
        (MaskedPixels(), "masked-tokens", "add-remove"),
        (PSI, f"features({PSI.name})", "add-remove"),
        (MaskedPixels(), "record", "replace"),
        (MaskedPixels(), "record", "add-remove"),
        (MaskedPixels(), "clip", "replace"),
        (MaskedPixels(), "person", "replace"),
        (PSI, "record", "replace"),
        (PSI, "masked-tokens", "replace"),
        (PSI, "features(another map)", "replace"),
        (MaskedPixels(), f"features({PSI.name})", "replace"),
        (None, "masked-tokens", "replace"),
        (None, f"features({PSI.name})", "replace"),
        (None, "pixels(4, frames=1)", "replace"),
    ],
)
def test_units_that_a_view_does_not_protect_are_refused(
    view: Any, unit: str, relation: str
) -> None:
    """R1; the first two are mutant 43."""
    with pytest.raises((PlanError, UnitError)):
        Plan(**{**BASE, "relation": relation}, unit=unit, public_view=view)


@pytest.mark.parametrize("relation", ["replace", "zero-out"])
@pytest.mark.parametrize("view", [MaskedPixels(), PSI, PixelateFeatures(4)])
def test_a_view_with_its_own_unit_is_accepted(view: Any, relation: str) -> None:
    method = "maskdp" if isinstance(view, MaskedPixels) else "feature"
    plan = plan_for(method, **{**BASE, "relation": relation}, public_view=view)
    assert isinstance(plan.guarantee, Guarantee)
    assert any("label" in each for each in plan.guarantee.public)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.0},
        {"batch": 201}, {"batch": 0}, {"steps": 0}, {"clip_norm": 0.0}, {"clip_norm": math.inf},
        {"clips": 0}, {"records": 10.5}, {"as_published": True}, {"relation": "sideways"},
    ],
)  # fmt: skip
def test_settings_without_meaning_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises((PlanError, UnitError)):
        Plan(**{**BASE, "unit": "record", **change})


def test_the_published_shared_batch_shows_its_true_epsilon() -> None:
    plan = plan_for("maskdp", **BASE, public_view=MaskedPixels(), as_published=True)
    assert isinstance(plan.event, SharedBatch)
    assert isinstance(plan.guarantee, Guarantee)
    assert plan.guarantee.epsilon > 2 * plan.epsilon
    assert "as published" in plan.guarantee.mechanism
    sound = plan_for("maskdp", **BASE, public_view=MaskedPixels())
    assert sound.guarantee.epsilon <= 1.0  # type: ignore[union-attr]
    assert plan.noise_multiplier < sound.noise_multiplier


def test_public_only_is_zero_at_its_unit_and_infinite_for_the_record() -> None:
    settings = {k: v for k, v in BASE.items() if k not in {"epsilon", "delta", "clip_norm"}}
    plan = plan_for("public-only", **settings, public_view=MaskedPixels())
    assert isinstance(plan.event, NoAccess)
    assert isinstance(plan.guarantee, Guarantee)
    assert plan.guarantee.epsilon == 0
    assert "epsilon is infinite" in str(plan.guarantee)
    assert plan.noise_multiplier == 0


def test_plain_training_promises_nothing() -> None:
    plan = plan_for("sgd", records=200, batch=20, steps=5)
    assert isinstance(plan.guarantee, NoGuarantee)
    assert "infinite" in str(plan.guarantee)


def test_blur_carries_its_warning() -> None:
    plan = plan_for("feature", **BASE, public_view=BlurFeatures())
    assert "guarantee is empty" in str(plan.guarantee)
    assert "guarantee is empty" not in str(plan_for("feature", **BASE, public_view=PSI).guarantee)


def test_methods_insist_on_their_switches() -> None:
    assert set(METHODS) == {
        "dp-sgd", "multiclip", "maskdp", "projected", "feature", "feature-projective",
        "person-dp-sgd", "sgd", "public-only",
    }  # fmt: skip
    for method, extra in {
        "multiclip": {"unit": "record"},
        "maskdp": {"unit": "record"},
        "projected": {"unit": "record"},
        "feature": {"public_view": MaskedPixels()},
        "feature-projective": {"public_view": PSI},
        "person-dp-sgd": {"unit": "record"},
        "public-only": {"public_view": MaskedPixels()},
        "nonsense": {},
    }.items():
        with pytest.raises(MethodError):
            plan_for(method, **BASE, **extra)


def test_two_views_of_one_plan_have_one_digest() -> None:
    public = ArrayRecords(np.zeros((3, 2)), np.zeros(3))
    plan = Plan(**BASE, unit="record", projector=Subspace(public, rank=2))
    same = Plan(**BASE, unit="record", projector=Subspace(public, rank=2))
    other = Plan(**{**BASE, "steps": 6}, unit="record", projector=Subspace(public, rank=2))
    assert plan.digest == same.digest != other.digest


# -- persons ---------------------------------------------------------------------------------------


def _owned(*owners: Any) -> ArrayRecords:
    count = len(owners)
    x = np.zeros((count, 2), dtype=np.float32)
    return ArrayRecords(x, np.zeros(count, dtype=int), owners=owners)


def test_records_are_grouped_and_truncated_by_owner() -> None:
    data = _owned("a", "b", "a", "a", "c")
    assert records_by_owner(data, most=None) == [(0, 2, 3), (1,), (4,)]
    assert records_by_owner(data, most=2) == [(0, 2), (1,), (4,)]


def test_records_of_several_people_are_refused_or_left_out() -> None:
    data = _owned("a", ("a", "b"), "b")
    with pytest.raises(OwnersError, match="several"):
        records_by_owner(data, most=None)
    assert records_by_owner(data, most=None, shared="drop") == [(0,), (2,)]
    with pytest.raises(OwnersError, match="without one"):
        records_by_owner(_owned("a", ()), most=None)


def test_a_person_plan_without_owners_does_not_train() -> None:
    plan = checks.make_plan(unit="person")
    assert plan.unit == Unit.person()
    with pytest.raises(OwnersError):
        train(checks.make_model(), checks.wild_records(10), plan)
