"""Held-out records are scored without noise, so none of them may be one that is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import yaml
from typer.testing import CliRunner

from sfumato.cli.train import app
from sfumato.data import ArrayRecords, Subset
from sfumato.learn import HeldOutError, Plan, train


def _data(count: int, seed: int, people: int = 0) -> ArrayRecords:
    rng = np.random.default_rng(seed)
    owners = [f"{seed}-{index % people}" for index in range(count)] if people else None
    return ArrayRecords(
        rng.standard_normal((count, checks.SIZE)).astype(np.float32),
        rng.integers(checks.CLASSES, size=count),
        owners=owners,
    )


def _plan(unit: str = "record") -> Plan:
    return checks.make_plan(epsilon=8.0, delta=1e-3, records=20, batch=10, steps=1, unit=unit)


def _train(private: Any, held_out: Any, unit: str = "record") -> None:
    train(checks.make_model(), private, _plan(unit), held_out=held_out)


def test_the_training_set_is_not_held_out() -> None:
    data = _data(20, 0)
    with pytest.raises(HeldOutError, match="got 20 that are on both sides"):
        _train(data, data)


@pytest.mark.parametrize("place", [0, 7, 19])
def test_one_shared_record_is_enough(place: int) -> None:
    private, others = _data(20, 0), _data(6, 1)
    others.x[3] = private.x[place]
    with pytest.raises(HeldOutError, match="got 1 that are on both sides"):
        _train(private, others)
    _train(private, Subset(others, [0, 1, 2, 4, 5]))


def test_another_type_or_axis_hides_nothing() -> None:
    private = _data(20, 0)
    private.x[0] = np.arange(checks.SIZE) - 4
    stored = ArrayRecords(private.x.astype(np.float64), private.y)
    with pytest.raises(HeldOutError):
        _train(private, stored)
    whole = ArrayRecords((np.arange(checks.SIZE) - 4).astype(np.int16)[None, None], [3])
    with pytest.raises(HeldOutError):
        _train(private, whole)


def test_with_unit_person_people_are_held_out() -> None:
    private, same, others = _data(20, 0, people=20), _data(6, 1, people=6), _data(6, 2, people=6)
    assert same.owners is not None
    same.owners[5] = ("0-11",)
    with pytest.raises(HeldOutError, match=r"other people, got 1 who"):
        _train(private, same, "person")
    _train(private, others, "person")
    _train(private, same)  # with unit record, other records of the same people are other records


def test_the_command_refuses_before_anything_is_drawn(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "out": str(tmp_path / "run"),
        "data": {"kind": "synthetic", "clips": 12},
        "held_out": {"kind": "synthetic", "clips": 12},
        "input": {"frames": 2, "height": 16, "width": 16},
        "model": {"width": 12, "depth": 1, "heads": 2},
        "privacy": {"epsilon": 8.0},
        "training": {"batch": 6, "steps": 1},
    }
    config = tmp_path / "train.yaml"
    config.write_text(yaml.safe_dump(settings))
    result = CliRunner().invoke(app, [str(config)])
    assert isinstance(result.exception, HeldOutError)
    assert not list((tmp_path / "run").glob("*.safetensors*"))
    assert CliRunner().invoke(app, [str(config), "held_out.seed=1"]).exit_code == 0
