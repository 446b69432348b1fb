"""Settings chosen privately: the promise covers the choice, and nothing tells how many trials there were."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.tune import app
from sfumato.learn import (
    ConfigError,
    StartingWeights,
    make_job,
    make_tuning,
    parse_config,
    run_tuning,
)
from sfumato.learn.config import _tune_job
from sfumato.learn.config._tune_job import draw_runs
from sfumato.ledger import Ledger
from sfumato.privacy import BestOf, Gaussian, Guarantee, read_card

CHOICES = {"training.rate": [0.05, 0.5], "privacy.clip_norm": [0.1, 1.0]}


def config(out: Path, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "out": str(out),
        "method": "dp-sgd",
        "data": {"kind": "synthetic", "clips": 24, "people": 4},
        "held_out": {"kind": "synthetic", "clips": 8, "people": 4, "seed": 1},
        "model": {"name": "video-vit", "width": 12, "depth": 1, "heads": 1, "tubelet": [4, 16, 16]},
        "privacy": {"epsilon": 4.0, "delta": 1e-4, "relation": "replace", "unit": "record"},
        "training": {"batch": 8, "steps": 2},
        "tune": {"choices": CHOICES, "trials": 3},
    }
    return parse_config(values | changes)


class Fixed:
    """A generator whose next uniform number is known."""

    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


def mass(runs: int, gamma: float, shape: float) -> float:
    """Definition 1 of Papernot and Steinke, term by term."""
    if shape == 0:
        return (1 - gamma) ** runs / (runs * math.log(1 / gamma))
    product = math.prod((i + shape) / (i + 1) for i in range(runs))
    return (1 - gamma) ** runs * product / (gamma**-shape - 1)


@pytest.mark.parametrize(("gamma", "shape"), [(0.1, 0.0), (0.6, 0.0), (0.2, 1.0), (0.3, 2.5)])
def test_the_number_of_trials_has_the_stated_distribution(gamma: float, shape: float) -> None:
    event = BestOf(Gaussian(1.0), gamma, shape)
    reached = 0.0
    for runs in range(1, 12):
        after = reached + mass(runs, gamma, shape)
        middle: Any = Fixed((reached + after) / 2)
        assert draw_runs(event, middle) == runs
        reached = after
    total = math.fsum(mass(runs, gamma, shape) for runs in range(1, 2000))
    mean = math.fsum(runs * mass(runs, gamma, shape) for runs in range(1, 2000))
    assert total == pytest.approx(1)
    assert event.expected_runs == pytest.approx(mean)


@pytest.mark.parametrize("distribution", ["logarithmic", "geometric"])
def test_the_choice_is_paid_for_with_noise(tmp_path: Path, distribution: str) -> None:
    asked = config(tmp_path, tune={"choices": CHOICES, "trials": 3, "distribution": distribution})
    tuning = make_tuning(asked)
    promise = tuning.promise
    assert isinstance(promise, Guarantee)
    assert isinstance(promise.event, BestOf)
    assert 0.95 * 4 <= promise.epsilon <= 4
    assert tuning.runs.expected_runs == pytest.approx(3, rel=1e-6)
    single = make_job(asked.model_copy(update={"tune": None})).plan
    for job in tuning.jobs:
        assert job.plan.noise_multiplier > 1.2 * single.noise_multiplier
        assert job.plan.event == promise.event.event
    assert len(tuning.choices) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tune": None}, "section tune"),
        ({"held_out": None}, "held_out"),
        ({"method": "sgd", "privacy": {}}, "private method"),
        ({"tune": {"choices": {"training.batch": [4, 8]}}}, "leave the promise"),
        ({"tune": {"choices": {"training.steps": [1, 2]}}}, "leave the promise"),
        ({"tune": {"choices": {"training.speed": [1, 2]}}}, "training.speed"),
        ({"tune": {"choices": {"seed": [1, 2]}}}, "one for all trials"),
        ({"tune": {"choices": {"model.weights": ["a.safetensors"]}}}, "one for all trials"),
        ({"tune": {"choices": {"data.clips": [20, 24]}}}, "one for all trials"),
        ({"tune": {"choices": {"privacy.epsilon": [1, 8]}}}, "one for all trials"),
        ({"tune": {"choices": {"training.rate": [-1]}}}, "rate"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_a_sentence(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        make_tuning(config(tmp_path, **changes))


def test_one_training_refuses_a_file_that_is_to_be_tuned(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sfumato tune"):
        make_job(config(tmp_path))


def test_the_best_trial_is_written_with_a_promise_about_the_choice(tmp_path: Path) -> None:
    tuning = make_tuning(config(tmp_path / "out", seed=3))
    run, chosen, card_file = run_tuning(tuning)
    card = read_card(tmp_path / "out" / "model.safetensors")
    assert card_file.name == "model.safetensors.card.json"
    assert isinstance(card.promise, Guarantee)
    assert card.promise.event == tuning.runs
    assert card.promise.epsilon <= 4
    assert not card.promise.is_private  # it was seeded
    assert card.settings["tuned"] == chosen
    assert chosen in tuning.choices
    assert card.tuning.startswith("Covered")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "model.safetensors", "model.safetensors.card.json", "model.safetensors.card.md",
        "config.yaml", "history.json",
    }  # fmt: skip
    written = json.loads((tmp_path / "out" / "history.json").read_text())
    assert all("epsilon" not in row for row in written["history"])
    assert set(written) == {
        "history",
        "lost_steps",
    }  # the time taken tells how many trials there were
    # a copy without its card carries the promise of the choice, not that of one trial
    again = StartingWeights.of_file(tmp_path / "out" / "model.safetensors")
    assert again.trainings[-1].promise.event == tuning.runs
    assert "settings, classes or checkpoints chosen" not in " ".join(run.guarantee.not_covered)


def test_of_several_trials_the_one_with_the_best_score_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.2, math.nan, 0.7, 0.7, 0.1])
    real = _tune_job.run_job
    seen: list[tuple[float, Any]] = []

    def scripted(job: Any, **_: Any) -> Any:
        score = next(scores)
        run, card = real(job)
        rows = [row | {"held_out_accuracy": score} for row in run.history]
        seen.append((score, replace(run, history=rows)))
        return seen[-1][1], card

    monkeypatch.setattr(_tune_job, "run_job", scripted)
    monkeypatch.setattr(_tune_job, "draw_runs", lambda event, generator: 5)
    run, _, _ = run_tuning(make_tuning(config(tmp_path, seed=0)))
    assert len(seen) == 5
    kept = seen[2][1].model.state_dict()
    for name, tensor in run.model.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), kept[name].numpy())


def test_no_folder_of_a_trial_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, real = tmp_path / "out", _tune_job.run_job
    left = out / ".sfumato-tune-killed"
    left.mkdir(parents=True)
    lying: list[set[Path]] = []

    def looked_at(job: Any, **_: Any) -> Any:
        lying.append(set(out.iterdir()))
        assert job.config.out in lying[-1]
        return real(job)

    monkeypatch.setattr(_tune_job, "run_job", looked_at)
    monkeypatch.setattr(_tune_job, "draw_runs", lambda event, generator: 3)
    run_tuning(make_tuning(config(out, seed=0)))
    assert [len(each) for each in lying] == [1, 1, 1]
    assert not any(path.is_dir() for path in out.iterdir())


def test_the_command_counts_the_choice_once_and_never_says_how_many_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Ledger.open(tmp_path / "book.db")
    book.create("clips", owner="lab", epsilon=5.0, delta=1e-4, unit="record", relation="replace")
    file = tmp_path / "tune.yaml"
    file.write_text(config(tmp_path / "out").to_yaml())
    monkeypatch.setattr(_tune_job, "draw_runs", lambda event, generator: 2)
    shown = CliRunner().invoke(
        app, [str(file), "--ledger", str(tmp_path / "book.db"), "--dataset", "clips", "--json"]
    )
    assert shown.exit_code == 0, shown.output
    card = read_card(tmp_path / "out" / "model.safetensors")
    (row,) = book.history("clips")
    assert isinstance(card.promise, Guarantee)
    assert row.alone == pytest.approx(card.promise.epsilon)
    assert "trials" not in json.loads(shown.stdout)
    assert book.show("clips").spent_epsilon == pytest.approx(card.promise.epsilon)
