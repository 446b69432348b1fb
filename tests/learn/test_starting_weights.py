"""Starting weights are data: their guarantee is added, or the plan refused, or the card assumes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file, save_file

from sfumato.errors import SfumatoError
from sfumato.learn import (
    CheckpointError,
    ConfigError,
    StartingWeights,
    StartingWeightsError,
    describe,
    make_job,
    parse_config,
    run_job,
)
from sfumato.learn.config._from_config import starting_weights
from sfumato.privacy import (
    Composed,
    Guarantee,
    NoGuarantee,
    Output,
    card_path,
    epsilon_of,
    read_card,
)

UNSEEN = "the starting weights saw none of these records"
SETTINGS: dict[str, Any] = {
    "method": "dp-sgd",
    "data": {"kind": "synthetic", "clips": 16},
    "input": {"frames": 4, "height": 16, "width": 16},
    "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2},
    "privacy": {"epsilon": 1.0, "delta": 1e-3},
    "training": {"batch": 8, "steps": 2, "checkpoint_every": 1},
}


class Runs:
    """Trainings in one folder, each from the weights of another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def config(self, name: str, start: str | Path | None = None, **changes: Any) -> dict[str, Any]:
        values = {**SETTINGS, **changes, "out": str(self.folder / name)}
        model = {**SETTINGS["model"], **changes.pop("model", {})}
        if start is not None:
            model["weights"] = str(self.weights(start) if isinstance(start, str) else start)
        return {**values, "model": model}

    def train(self, name: str, start: str | Path | None = None, **changes: Any) -> Any:
        run_job(make_job(parse_config(self.config(name, start, **changes))))
        return read_card(self.weights(name)).promise

    def weights(self, name: str) -> Path:
        return self.folder / name / "model.safetensors"


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


SGD: dict[str, Any] = {"method": "sgd", "privacy": {}}
OTHERS = {"model": {"weights_saw": "other-data"}}


def composed(*promises: Any, delta: float = 1e-3) -> float:
    """The slow way: the accountant on every training's event, written out."""
    return epsilon_of(Composed(tuple(each.event for each in promises)), delta, "replace")


def test_weights_without_a_guarantee_refuse_a_private_plan(runs: Runs) -> None:
    """Else rate 1e-9 makes a non-private model with epsilon 1 on its card."""
    runs.train("clear", **SGD)
    training = {**SETTINGS["training"], "rate": 1e-9}
    with pytest.raises(StartingWeightsError, match="trained without") as caught:
        runs.train("private", "clear", training=training)
    assert "\n" not in str(caught.value)
    assert "model.weights_saw=other-data" in str(caught.value)
    assert not (runs.folder / "private").exists(), "refused before anything was opened"
    with pytest.raises(StartingWeightsError):
        describe(make_job(parse_config(runs.config("private", "clear"))))


def test_a_copy_without_its_card_remembers(runs: Runs) -> None:
    runs.train("clear", **SGD)
    copy = runs.folder / "innocent.safetensors"
    shutil.copy(runs.weights("clear"), copy)
    with pytest.raises(StartingWeightsError, match="trained without"):
        runs.train("private", copy)


def test_a_declaration_stands_on_the_card(runs: Runs) -> None:
    runs.train("clear", **SGD)
    promise = runs.train("private", "clear", **OTHERS)
    assert isinstance(promise, Guarantee)
    assert promise.epsilon <= 1.0
    assert f"as declared, {UNSEEN} (sgd, no guarantee)" in promise.assumptions
    assert "as declared" in card_path(runs.weights("private")).with_suffix(".md").read_text()


def test_guarantees_about_the_same_records_are_composed(runs: Runs) -> None:
    first = runs.train("first")
    both = runs.train("both", "first", privacy={"epsilon": 2.0, "delta": 1e-3})
    own = parse_config(runs.config("alone", privacy={"epsilon": 2.0, "delta": 1e-3}))
    second = make_job(own).plan.guarantee
    assert both.epsilon == pytest.approx(composed(first, second), rel=1e-9)
    assert both.epsilon > max(first.epsilon, second.epsilon)
    assert both.delta == 1e-3
    assert both.mechanism == "dp-sgd + dp-sgd"
    assert any("looking at the starting weights" in each for each in both.assumptions)
    # and so is the epsilon that is shown meanwhile, from the first step on
    history = json.loads((runs.folder / "both" / "history.json").read_text())["history"]
    shown = [row["epsilon"] for row in history]
    assert shown == sorted(shown)
    assert first.epsilon < shown[0] < shown[-1] == pytest.approx(both.epsilon, rel=1e-6)
    third = runs.train("third", "both")
    assert third.epsilon == pytest.approx(composed(first, second, first), rel=1e-9)


def test_a_dry_run_says_the_composed_epsilon(runs: Runs) -> None:
    first = runs.train("first")
    said = describe(make_job(parse_config(runs.config("both", "first"))))
    assert said["promise"]["epsilon"] == pytest.approx(composed(first, first), rel=1e-9)


def test_fresh_weights_and_those_of_the_store_need_no_assumption(runs: Runs) -> None:
    promise = runs.train("fresh")
    assert not any("weights" in each for each in (*promise.assumptions, *promise.public))
    values = {
        "out": "x", "method": "dp-sgd", "data": {"kind": "staged-people", "clips": 4},
        "pose": {}, "model": {"name": "efficientnet-lite0", "pretrained": True},
        "privacy": {"epsilon": 1.0}, "training": {"batch": 2, "steps": 1},
    }  # fmt: skip
    told = starting_weights(parse_config(values)).together(promise)
    assert isinstance(told, Guarantee)
    assert told.epsilon == promise.epsilon
    assert told.assumptions == promise.assumptions
    (named,) = set(told.public) - set(promise.public)
    assert named == (
        "the starting weights, efficientnet-lite0 from the model store, trained on ImageNet"
    )


def test_weights_without_a_card_are_an_assumption(runs: Runs) -> None:
    runs.train("clear", **SGD)
    stripped = runs.folder / "stripped.safetensors"
    save_file(load_file(runs.weights("clear")), stripped)
    promise = runs.train("private", stripped)
    assert isinstance(promise, Guarantee)
    assert UNSEEN in promise.assumptions
    # and it goes with whatever is trained from them
    assert UNSEEN in runs.train("more", "private").assumptions


def test_a_card_alone_counts_where_the_file_says_nothing(runs: Runs) -> None:
    first = runs.train("first")
    old = runs.folder / "old.safetensors"
    save_file(load_file(runs.weights("first")), old)
    replace(read_card(runs.weights("first")), outputs=(Output.of(old),)).write(old)
    promise = runs.train("both", old)
    assert promise.epsilon == pytest.approx(composed(first, first), rel=1e-9)


def test_another_files_card_is_refused(runs: Runs) -> None:
    runs.train("first")
    runs.train("clear", **SGD)
    shutil.copy(card_path(runs.weights("first")), card_path(runs.weights("clear")))
    with pytest.raises(StartingWeightsError, match="card of another file"):
        runs.train("private", "clear")


def test_a_detour_over_other_records_launders_nothing(runs: Runs) -> None:
    """sgd on A, honestly declared on the way to B, and back to A: A's records are still inside."""
    runs.train("a", **SGD)
    other = {"data": {"kind": "synthetic", "clips": 16, "seed": 5}}
    runs.train("b", "a", **OTHERS, **other)
    with pytest.raises(StartingWeightsError, match="trained without"):
        runs.train("back", "b")
    first = runs.train("private-a")
    runs.train("private-b", "private-a", **OTHERS, **other)
    back = runs.train("private-back", "private-b")
    assert back.epsilon == pytest.approx(composed(first, first, first), rel=1e-9)


def test_seeded_weights_stay_not_private_for_ever(runs: Runs) -> None:
    assert not runs.train("seeded", seed=0).is_private
    same = runs.train("same", "seeded")
    assert isinstance(same, Guarantee)
    assert not same.is_private
    assert not runs.train("others", "seeded", **OTHERS).is_private
    assert not runs.train("later", "others", **OTHERS).is_private
    assert "NOT PRIVATE" in str(runs.train("latest", "later"))


def test_units_and_relations_that_differ_are_not_added(runs: Runs) -> None:
    runs.train("first")
    for privacy in ({"unit": "clip"}, {"relation": "add-remove"}):
        with pytest.raises(StartingWeightsError, match="other-data"):
            runs.train("second", "first", privacy={**SETTINGS["privacy"], **privacy})


def test_what_a_record_was_must_be_the_same(runs: Runs) -> None:
    promise = runs.train("first")
    start = StartingWeights.of_file(runs.weights("first"))
    start.together(promise)
    with pytest.raises(StartingWeightsError, match="one person box"):
        start.together(promise, "one person box")


def test_training_without_a_promise_may_start_anywhere(runs: Runs) -> None:
    runs.train("clear", **SGD)
    again = runs.train("again", "clear", **SGD)
    assert isinstance(again, NoGuarantee)
    assert "every record that the starting weights saw" in again.not_covered


def test_public_training_after_a_private_one_keeps_the_private_epsilon(runs: Runs) -> None:
    """At delta 0, which is all that public-only needs, the Gaussian before it would have none."""
    masked = {
        "view": {"kind": "masked-pixels"},
        "privacy": {"epsilon": 1.0, "delta": 1e-3, "unit": "masked-tokens"},
    }
    first = runs.train("first", method="maskdp", **masked)
    public = {**masked, "privacy": {"unit": "masked-tokens"}}
    both = runs.train("both", "first", method="public-only", **public)
    assert any("same mask" in each for each in both.assumptions)
    assert (both.epsilon, both.delta) == (pytest.approx(first.epsilon, rel=1e-9), 1e-3)


def test_a_declaration_needs_weights(runs: Runs) -> None:
    with pytest.raises(ConfigError, match=r"model\.weights with"):
        parse_config(runs.config("x", **OTHERS))


def test_a_checkpoint_is_no_starting_point(runs: Runs) -> None:
    runs.train("clear", **SGD)
    with pytest.raises(SfumatoError, match="Expected"):
        runs.train("private", runs.folder / "clear" / "checkpoint.safetensors")


def test_a_resumed_run_starts_where_it_started(runs: Runs) -> None:
    """Frozen layers come from the file again: other weights, or another word, are another run."""
    runs.train("first")
    runs.train("clear", **SGD)
    config = runs.config("both", "first", model={"trainable": "head"})
    run_job(make_job(parse_config(config)))
    for model in ({"weights": str(runs.weights("clear")), "weights_saw": "other-data"},
                  {"weights_saw": "other-data"}):  # fmt: skip
        changed = {**config, "model": {**config["model"], **model}}
        with pytest.raises(CheckpointError, match="starting weights"):
            run_job(make_job(parse_config(changed)), resume=True)


_KILL = """
import os, signal, sys
from sfumato.learn.engine._step import StepEngine
real = StepEngine.take
def take(self):
    released = real(self)
    os.kill(os.getpid(), signal.SIGKILL)
StepEngine.take = take
from sfumato.cli.train import app
app()
"""


def test_sigkill_and_resume_do_not_wash_off_a_seed(runs: Runs) -> None:
    path = runs.folder / "train.yaml"
    path.write_text(yaml.safe_dump(runs.config("run")))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(
        [sys.executable, "-c", _KILL, str(path), "seed=0"], env=environment, timeout=300,
        capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    run_job(make_job(parse_config(runs.config("run"))), resume=True)
    card = read_card(runs.weights("run"))
    assert card.promise.randomness == "seeded (not private)"
    assert (
        "NOT PRIVATE" in json.loads(card_path(runs.weights("run")).read_text())["promise_in_words"]
    )
