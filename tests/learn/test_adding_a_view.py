"""A public view of one's own: one class and one registration, seen by plans, training and audits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from pydantic import Field
from torch import nn

from sfumato.audit import audit_guarantee
from sfumato.audit.certify import canary_run, check_training
from sfumato.data import ArrayRecords, Record
from sfumato.errors import SfumatoError
from sfumato.learn import PublicView, Sgd, make_job, parse_config, plan_for, save_model, train
from sfumato.learn.views import VIEWS, Canaries, make_view, register_view, view_of_unit
from sfumato.privacy import Randomness

SETTINGS = {"delta": 1e-5, "records": 40, "batch": 10, "steps": 3, "clip_norm": 1.0}


@dataclass(frozen=True)
class FirstValues(PublicView):
    """The first ``keep`` values of a record are public, the others black."""

    keep: Annotated[int, Field(ge=1, le=100)] = 4
    kind: ClassVar[str] = "first-values"

    @property
    def name(self) -> str:
        return f"first-values keep={self.keep}"

    def public_input(self, record: Record, prepare: Any, model: nn.Module, clips: int) -> Any:
        shown = record.x.copy()
        shown[..., self.keep :] = 0
        return prepare(shown, clips)

    def canary(self, count: int) -> Canaries:
        return Canaries(np.eye(count + self.keep, dtype=np.float32)[self.keep :])


@dataclass(frozen=True)
class Leaky(FirstValues):
    """Says that it shows the first values, and shows all."""

    def public_input(self, record: Record, prepare: Any, model: nn.Module, clips: int) -> Any:
        return prepare(record.x, clips)


@pytest.fixture
def registered() -> Iterator[None]:
    register_view("first-values", f"{__name__}:FirstValues")
    yield
    del VIEWS["first-values"]


def plan(view: PublicView) -> Any:
    return plan_for("feature", epsilon=4.0, relation="replace", public_view=view, **SETTINGS)


def test_a_plan_promises_what_the_view_does_not_determine() -> None:
    made = plan(FirstValues(4))
    assert str(made.unit) == "features(first-values keep=4)"
    assert made.mechanism == "feature dp-sgd"
    assert made.guarantee.epsilon == pytest.approx(4.0, rel=1e-2)
    with pytest.raises(SfumatoError, match="nothing larger is protected"):
        plan_for("feature", epsilon=4.0, relation="replace", public_view=FirstValues(),
                 unit="record", **SETTINGS)  # fmt: skip


def test_training_sees_the_view() -> None:
    rng = np.random.default_rng(0)
    records = ArrayRecords(rng.normal(size=(40, 8)).astype(np.float32), rng.integers(2, size=40))
    run = train(nn.Linear(8, 2), records, plan(FirstValues(4)), optimizer=Sgd(0.1))
    assert "first-values keep=4" in str(run.guarantee.unit)


def test_a_training_file_names_it(registered: None, tmp_path: Path) -> None:
    values = {
        "out": str(tmp_path), "method": "feature", "view": {"kind": "first-values", "keep": 3},
        "privacy": {"epsilon": 2.0, "relation": "replace"}, "training": {"steps": 2},
    }  # fmt: skip
    assert make_job(parse_config(values)).plan.public_view == FirstValues(3)
    with pytest.raises(SfumatoError, match="keep of view first-values as a whole number from 1"):
        parse_config(values | {"view": {"kind": "first-values", "keep": 0}})


def test_a_name_that_nobody_registered_is_answered_with_the_list(registered: None) -> None:
    with pytest.raises(SfumatoError, match=r"masked-pixels, .*, first-values, got 'last-values'"):
        make_view("last-values", {})
    with pytest.raises(SfumatoError, match="taken"):
        register_view("blur", f"{__name__}:FirstValues")


def test_an_audit_finds_the_view_by_the_unit_of_a_card(registered: None, tmp_path: Path) -> None:
    made = plan(FirstValues(4))
    assert view_of_unit(made.unit) == FirstValues(4)
    records = ArrayRecords(np.ones((40, 8), np.float32), np.zeros(40, np.int64))
    run = train(nn.Linear(8, 2), records, made, optimizer=Sgd(0.1))
    save_model(run, made, tmp_path / "model.safetensors")
    verdict = audit_guarantee(tmp_path / "model.safetensors")
    assert not verdict.refuted
    assert any("non-interference" in found.check for found in verdict.findings)
    assert all(found.conforms for found in verdict.findings)


def test_canaries_hide_where_the_view_does_not_see() -> None:
    found = canary_run(plan(FirstValues(4)), canaries=200, randomness=Randomness(1))
    assert found.lower_bound().epsilon <= 4.0


def test_a_view_that_shows_more_than_it_says_does_not_conform() -> None:
    findings = check_training(plan(Leaky(4)), randomness=Randomness(2))
    assert [f.check for f in findings if not f.conforms] == ["non-interference of the public view"]
