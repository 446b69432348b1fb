"""``train --ledger`` reserves before training, commits before the model can be seen, and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from sfumato.cli.train import app
from sfumato.errors import SfumatoError
from sfumato.learn import _job
from sfumato.ledger import Ledger

SETTINGS: dict[str, Any] = {
    "method": "dp-sgd",
    "data": {"kind": "synthetic", "clips": 16, "people": 8},
    "input": {"frames": 4, "height": 16, "width": 16},
    "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2},
    "privacy": {"epsilon": 2.0, "delta": 1e-3, "relation": "replace", "unit": "record"},
    "training": {"batch": 8, "steps": 3, "checkpoint_every": 1},
}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("gait", owner="lab", epsilon=3, delta=1e-3, unit="record", relation="replace")
    return ledger


def run(tmp_path: Path, name: str, *more: str) -> Any:
    config = tmp_path / f"{name}.yaml"
    config.write_text(yaml.safe_dump({**SETTINGS, "out": str(tmp_path / name)}))
    where = ["--ledger", str(tmp_path / "book.db"), "--dataset", "gait"]
    return CliRunner().invoke(app, [str(config), *where, *more])


def test_a_training_is_counted_and_a_second_one_refused(tmp_path: Path, book: Ledger) -> None:
    first = run(tmp_path, "one")
    assert first.exit_code == 0, first.output
    statement = book.show("gait")
    assert statement.spent_epsilon == pytest.approx(2.0, rel=0.01)
    assert not statement.pending
    second = run(tmp_path, "two")
    assert isinstance(second.exception, SfumatoError)
    assert "keeps the total within" in str(second.exception)
    assert not (tmp_path / "two" / "model.safetensors").exists()


def test_a_crash_leaves_the_budget_spent_and_resume_finds_it(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_job, "train", killed)
        run(tmp_path, "one")
    assert len(book.show("gait").pending) == 1
    again = run(tmp_path, "one", "--resume")
    assert again.exit_code == 0, again.output
    assert not book.show("gait").pending
    assert len(book.show("gait").releases) == 1


def test_the_budget_is_committed_before_the_model_can_be_seen(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    write = _job._write

    def watched(job: Any, finished: Any, seconds: float) -> Path:
        seen.append(len(book.show("gait").pending))
        return write(job, finished, seconds)

    monkeypatch.setattr(_job, "_write", watched)
    assert run(tmp_path, "one").exit_code == 0
    assert seen == [0]
