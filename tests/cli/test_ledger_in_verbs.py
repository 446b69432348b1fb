"""``train --ledger`` reserves before training, commits before the model can be seen, and resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from sfumato.cli import protect, train
from sfumato.cli.train import app
from sfumato.errors import SfumatoError
from sfumato.files import sha256
from sfumato.learn import make_job, parse_config
from sfumato.learn.config import _job
from sfumato.learn.engine._step import StepEngine
from sfumato.ledger import BudgetExceededError, KeyConflictError, Ledger
from sfumato.media import write_image
from sfumato.privacy import Composed, card_path, checked_card, epsilon_of

REAL_TAKE = StepEngine.take

SETTINGS: dict[str, Any] = {
    "method": "dp-sgd",
    "data": {"kind": "synthetic", "clips": 16, "people": 8},
    "input": {"frames": 4, "height": 16, "width": 16},
    "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2},
    "privacy": {"epsilon": 2.0, "delta": 1e-3, "relation": "replace", "unit": "record"},
    "training": {"batch": 8, "steps": 5, "checkpoint_every": 1},
}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("gait", owner="lab", epsilon=4, delta=1e-3, unit="record", relation="replace")
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
    second = run(tmp_path, "two", "privacy.epsilon=3.5")
    assert isinstance(second.exception, SfumatoError)
    assert "keeps the total within" in str(second.exception)
    assert not (tmp_path / "two" / "model.safetensors").exists()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs that die in their second step, after the first was drawn."""

    def take(self: Any) -> Any:
        if self.taken == 1:
            raise KeyboardInterrupt
        self.taken = 1
        return REAL_TAKE(self)

    def die(*arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(StepEngine, "taken", 0, raising=False)
            patch.setattr(StepEngine, "take", take)
            return run(*arguments)

    return die


def total(book: Ledger, releases: int) -> float:
    """The slow way: the accountant on every event written out."""
    plan = make_job(parse_config({**SETTINGS, "out": "x"})).plan
    return epsilon_of(Composed((plan.event,) * releases), 1e-3, "replace")


def test_a_crash_leaves_the_budget_spent_and_resume_finds_it(
    tmp_path: Path, book: Ledger, killed: Callable[..., Any]
) -> None:
    killed(tmp_path, "one")
    assert len(book.show("gait").pending) == 1
    again = run(tmp_path, "one", "--resume")
    assert again.exit_code == 0, again.output
    assert not book.show("gait").pending
    assert len(book.show("gait").releases) == 1


def test_every_fresh_start_is_counted_and_every_resume_once(
    tmp_path: Path, book: Ledger, killed: Callable[..., Any]
) -> None:
    """R20: the same plan at the same path, with other rates, drew noise four times."""
    for rate in (0.1, 0.2, 0.3):
        killed(tmp_path, "one", f"training.rate={rate}", "--force")
        killed(tmp_path, "one", f"training.rate={rate}", "--resume")
    # what three killed runs could have let out stays counted, and a fourth does not fit
    assert book.show("gait").spent_epsilon == pytest.approx(total(book, 3), rel=1e-9)
    assert len(book.show("gait").pending) == 3
    fourth = run(tmp_path, "one", "--force")
    assert isinstance(fourth.exception, BudgetExceededError)
    # the refusal took nothing away: the third goes on, and is the one release there is
    assert run(tmp_path, "one", "--resume").exit_code == 0
    assert len(book.show("gait").pending) == 2
    assert book.show("gait").spent_epsilon == pytest.approx(total(book, 3), rel=1e-9)


def test_two_machines_with_the_same_path_are_two_runs(tmp_path: Path, book: Ledger) -> None:
    assert run(tmp_path, "one").exit_code == 0
    (tmp_path / "one").rename(tmp_path / "another container")
    second = run(tmp_path, "one")
    assert second.exit_code == 0, second.output
    assert book.show("gait").spent_epsilon == pytest.approx(total(book, 2), rel=1e-9)


def test_a_key_does_not_make_two_runs_one(
    tmp_path: Path, book: Ledger, killed: Callable[..., Any]
) -> None:
    killed(tmp_path, "one", "--key", "spring")
    for more in (("--force",), ("out=" + str(tmp_path / "two"),)):
        fresh = run(tmp_path, "one", "--key", "spring", *more)
        assert isinstance(fresh.exception, KeyConflictError)
    assert len(book.show("gait").releases) == 1


def test_a_run_that_died_after_its_commit_still_writes_its_model(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_job, "write_run", full)
        run(tmp_path, "one")
    assert not book.show("gait").pending
    assert not (tmp_path / "one" / "model.safetensors").exists()
    again = run(tmp_path, "one", "--resume")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "one" / "model.safetensors").exists()
    assert len(book.show("gait").releases) == 1


@pytest.mark.parametrize("verb", [train, protect])
def test_a_ledger_without_a_data_set_is_refused_and_not_ignored(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch, verb: Any
) -> None:
    config = tmp_path / "one.yaml"
    config.write_text(yaml.safe_dump({**SETTINGS, "out": str(tmp_path / "one")}))
    given = [str(config)]
    if verb is protect:
        given += [str(tmp_path / "out.mp4"), "--method", "blur"]
    for more, environment in (([], str(tmp_path / "book.db")), (["--ledger", "book.db"], "")):
        monkeypatch.setenv("SFUMATO_LEDGER", environment)
        result = CliRunner().invoke(verb.app, [*given, *more])
        assert "Expected --dataset with the ledger" in str(result.exception)
    monkeypatch.delenv("SFUMATO_LEDGER")
    result = CliRunner().invoke(verb.app, [*given, "--dataset", "gait"])
    assert "Expected a ledger for --dataset" in str(result.exception)
    assert not (tmp_path / "one").exists()


def test_fine_tuning_counts_both_trainings_once(tmp_path: Path, book: Ledger) -> None:
    assert run(tmp_path, "first", "--key", "spring").exit_code == 0
    weights = f"model.weights={tmp_path / 'first' / 'model.safetensors'}"
    assert run(tmp_path, "second", weights).exit_code == 0
    assert book.show("gait").spent_epsilon == pytest.approx(total(book, 2), rel=1e-9)
    # where the first training was never counted, it is now: its records are in this model too
    book.create("other", owner="lab", epsilon=9, delta=1e-3, unit="record", relation="replace")
    assert run(tmp_path, "third", weights, "--dataset", "other").exit_code == 0
    assert len(book.show("other").releases) == 2
    assert book.show("other").spent_epsilon == pytest.approx(total(book, 2), rel=1e-9)


def test_weights_that_saw_other_records_cost_this_data_set_nothing(
    tmp_path: Path, book: Ledger
) -> None:
    assert run(tmp_path, "first").exit_code == 0
    book.create("other", owner="lab", epsilon=9, delta=1e-3, unit="record", relation="replace")
    weights = f"model.weights={tmp_path / 'first' / 'model.safetensors'}"
    more = (weights, "model.weights_saw=other-data", "--dataset", "other")
    assert run(tmp_path, "second", *more).exit_code == 0
    assert len(book.show("other").releases) == 1


def test_the_budget_is_committed_before_the_model_can_be_seen(
    tmp_path: Path, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    write = _job.write_run

    def watched(*finished: Any) -> Path:
        seen.append(len(book.show("gait").pending))
        return write(*finished)

    monkeypatch.setattr(_job, "write_run", watched)
    assert run(tmp_path, "one").exit_code == 0
    assert seen == [0]


def test_a_training_stands_in_the_history_with_its_model(tmp_path: Path, book: Ledger) -> None:
    done = run(tmp_path, "one", "--purpose", "falls at home", "--operator", "Olga K.")
    assert done.exit_code == 0, done.output
    (row,) = book.history("gait")
    model = tmp_path / "one" / "model.safetensors"
    assert [vars(each) for each in row.release.outputs] == [
        {"name": model.name, "sha256": sha256(model)}
    ]
    assert (row.release.purpose, row.release.operator) == ("falls at home", "Olga K.")
    card = card_path(model).read_text()
    assert checked_card(model).settings["ledger_key"] == row.release.key
    assert "Olga" not in card
    assert "falls at home" not in card


def picture(path: Path, shade: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_image(path, np.full((32, 32, 3), shade, np.uint8))
    return path


@pytest.mark.parametrize("folder", [False, True])
def test_a_protected_release_stands_in_the_history_with_its_files(
    tmp_path: Path, folder: bool
) -> None:
    unit = "pixels(1, frames=1)"
    book = Ledger.open(tmp_path / "book.db")
    book.create("gait", owner="lab", epsilon=9, delta=1e-3, unit=unit, relation="replace")
    sources = [picture(tmp_path / "in" / f"{n}.png", 40 * n) for n in (1, 2)]
    given = (tmp_path / "in", tmp_path / "out") if folder else (sources[0], tmp_path / "out.png")
    method = ["--method", "laplace", "--epsilon", "2", "--unit", unit]
    where = ["--ledger", str(tmp_path / "book.db"), "--dataset", "gait"]
    done = CliRunner().invoke(
        protect.app, [*map(str, given), *method, *where, "--purpose", "for Bern"]
    )
    assert done.exit_code == 0, done.output
    (row,) = book.history("gait")
    made = sorted((tmp_path / "out").glob("*.png")) if folder else [tmp_path / "out.png"]
    assert len(made) == 1 + folder
    assert {each.name: each.sha256 for each in row.release.outputs} == {
        path.name: sha256(path) for path in made
    }
    assert row.release.purpose == "for Bern"
    assert {checked_card(path).settings["ledger_key"] for path in made} == {row.release.key}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--purpose", "x"], "Expected a ledger for --purpose"),
        (["--operator", "x"], "Expected a ledger for --purpose"),
        (["--ledger", "b.db", "--dataset", "d", "--key", "a/b"], "without slashes"),
    ],
)
def test_what_the_history_or_the_card_could_not_hold_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], said: str
) -> None:
    monkeypatch.delenv("SFUMATO_LEDGER", raising=False)
    source = picture(tmp_path / "in" / "a.png", 90)
    done = CliRunner().invoke(
        protect.app, [str(source), str(tmp_path / "out.png"), "--method", "edges", *more]
    )
    assert said in str(done.exception)
    assert not (tmp_path / "out.png").exists()
