"""A run survives SIGKILL at any point, and never takes one noisy step too many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import step_checks as checks
import torch
from safetensors import safe_open
from torch import nn

from sfumato.learn import Adam, CheckpointError, Plan, Sgd, StartingWeights, train
from sfumato.learn import _checkpoint as checkpoint_module
from sfumato.learn.engine._step import StepEngine
from sfumato.privacy import Randomness
from sfumato.privacy._randomness import KeyStream


def _plan(steps: int = 12) -> Plan:
    return checks.make_plan(
        epsilon=8.0, delta=1e-3, records=20, batch=10, steps=steps, relation="add-remove"
    )


class Stopped(Exception):
    pass


def _stop_at(step: int) -> Any:
    def progress(shown: Any) -> None:
        if shown.step == step:
            raise Stopped

    return progress


def _run(path: Path, *, resume: bool = False, stop: int | None = None, **more: Any) -> Any:
    return train(
        checks.make_model(), checks.wild_records(20), more.pop("plan", _plan()), checkpoint=path,
        resume=resume, checkpoint_every=more.pop("checkpoint_every", 5), evaluate_every=100,
        progress=None if stop is None else _stop_at(stop), **more,
    )  # fmt: skip


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts every noisy step that is really taken."""
    taken: list[int] = []
    real = StepEngine.take

    def take(self: Any) -> Any:
        taken.append(1)
        return real(self)

    monkeypatch.setattr(StepEngine, "take", take)
    return taken


@pytest.mark.parametrize("stop", [1, 5, 8, 12])
def test_all_starts_together_take_exactly_the_planned_steps(
    tmp_path: Path, stop: int, counted: list[int]
) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=stop)
    run = _run(path, resume=True)
    assert len(counted) == 12
    # the checkpoint is written before a step is shown, every 5 steps and at the end
    assert run.lost_steps == (0 if stop in {5, 12} else stop % 5)
    assert run.guarantee.epsilon <= 8.0
    finished = _run(path, resume=True)
    assert len(counted) == 12, "a finished run has nothing left to spend"
    for p, q in zip(run.model.parameters(), finished.model.parameters()):
        assert torch.equal(p, q)


@pytest.mark.parametrize("optimizer", [Sgd(0.1, momentum=0.9), Adam(0.01)])
def test_a_resumed_run_continues_parameters_and_momentum_exactly(
    tmp_path: Path, optimizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise and with everyone sampled, stopping and resuming changes nothing at all."""
    plan = checks.make_plan(epsilon=8.0, delta=1e-3, records=20, batch=20, steps=12)
    with checks.silent():
        whole = _run(tmp_path / "whole.safetensors", plan=plan, optimizer=optimizer)
        path = tmp_path / "parts.safetensors"
        with pytest.raises(Stopped):
            _run(path, stop=5, plan=plan, optimizer=optimizer)
        parts = _run(path, resume=True, plan=plan, optimizer=optimizer)
    assert parts.lost_steps == 0
    for p, q in zip(whole.model.parameters(), parts.model.parameters()):
        assert torch.equal(p, q)


def test_no_key_and_no_generator_state_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    _run(path)
    with safe_open(str(path), framework="pt") as stored:
        assert {name.split(".")[0] for name in stored.keys()} == {"model"}  # noqa: SIM118
        state = json.loads(stored.metadata()["sfumato"])
    assert set(state) == {
        *("version", "plan", "run", "seeded", "updates", "spent", "starts", "disclosed", "history")
    }
    assert state["disclosed"] == []


def test_only_the_owner_can_ever_read_checkpoint_and_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at whenever a checkpoint is half written, and at the end, under the laxest umask."""
    modes: list[int] = []

    def look() -> None:
        for each in tmp_path.iterdir():
            # a folder in which an output is made is the owner's alone, whatever lies in it
            mode = each.stat().st_mode & 0o777
            modes.append(mode & 0o677 if each.is_dir() else mode)

    real = checkpoint_module.save_file

    def watched(*arguments: Any, **settings: Any) -> None:
        look()
        real(*arguments, **settings)
        look()

    monkeypatch.setattr(checkpoint_module, "save_file", watched)
    before = os.umask(0)
    try:
        _run(tmp_path / "run.safetensors")
    finally:
        os.umask(before)
    look()
    assert {each.name for each in tmp_path.iterdir()} == {
        "run.safetensors",
        "run.safetensors.steps",
    }
    assert len(modes) > 10
    assert set(modes) == {0o600}


# -- what a run is, and stays (R20, R25) --------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 6])
def test_a_run_that_was_seeded_stays_not_private(tmp_path: Path, stop: int) -> None:
    """Killed before the first checkpoint or after it, resumed with or without a seed."""
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=stop, randomness=Randomness(0))
    with pytest.raises(Stopped):
        _run(path, resume=True, stop=8)
    run = _run(path, resume=True)
    assert not run.guarantee.is_private
    assert "NOT PRIVATE" in str(run.guarantee)
    assert not _run(path, resume=True).guarantee.is_private
    assert _run(path, force=True).guarantee.is_private, "a new run is another run"


def test_a_seed_at_any_start_marks_the_whole_run(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=2)
    with pytest.raises(Stopped):
        _run(path, resume=True, stop=3, randomness=Randomness(0))
    assert not _run(path, resume=True).guarantee.is_private


def test_a_refused_seed_leaves_no_mark(tmp_path: Path) -> None:
    """A ledger that holds a private reservation refuses the seeded start, and nothing was drawn."""
    path = tmp_path / "run.safetensors"

    def refuse_seeds(promise: Any, run: str, **_: Any) -> Any:
        if not promise.is_private:
            raise Stopped
        return nullcontext()

    with pytest.raises(Stopped):
        _run(path, stop=2, spend=refuse_seeds)
    with pytest.raises(Stopped):
        _run(path, resume=True, spend=refuse_seeds, randomness=Randomness(0))
    assert _run(path, resume=True, spend=refuse_seeds).guarantee.is_private


def _facts(path: Path) -> Any:
    with checkpoint_module.Journal(path) as journal:
        return journal.facts()


def test_a_resume_is_the_same_run_and_every_fresh_start_another(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    seen = []
    for _ in range(3):
        with pytest.raises(Stopped):
            _run(path, stop=6, force=True)
        seen.append(_facts(path).run)
        with pytest.raises(Stopped):
            _run(path, resume=True, stop=7)
        assert _facts(path).run == seen[-1]
    assert _run(path, resume=True).trainings[-1].run == seen[-1]
    assert len(set(seen)) == 3
    other = _run(tmp_path / "other.safetensors")
    assert other.trainings[-1].run not in seen
    assert _run_without_checkpoint().trainings != _run_without_checkpoint().trainings


def _run_without_checkpoint() -> Any:
    return train(checks.make_model(), checks.wild_records(20), _plan(1))


def test_nothing_was_drawn_so_a_plain_start_is_a_fresh_one(tmp_path: Path) -> None:
    """A refused reservation leaves a journal without a step: the next start needs no --resume."""
    path, runs = tmp_path / "run.safetensors", []

    def refused(promise: Any, run: str, **_: Any) -> Any:
        runs.append(run)
        raise Stopped

    for resume in (False, False, True):
        with pytest.raises(Stopped):
            _run(path, resume=resume, spend=refused)
    assert runs[0] != runs[1] == runs[2]
    assert _run(path).trainings[0].run not in runs


def test_force_leaves_a_run_alone_that_is_still_going(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=6)
    held = path.read_bytes()
    with checkpoint_module.Journal(path), pytest.raises(CheckpointError, match="locked"):
        _run(path, force=True)
    assert path.read_bytes() == held
    assert len(_run(path, resume=True).trainings) == 1


def test_what_a_run_is_cannot_change_before_its_first_checkpoint_either(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=2)
    assert not path.exists()
    with pytest.raises(CheckpointError, match="same plan"):
        _run(path, resume=True, plan=_plan(13))
    with pytest.raises(CheckpointError, match="starting weights"):
        _run(path, resume=True, start=StartingWeights.fresh())
    assert _run(path, resume=True).lost_steps == 2


def test_a_checkpoint_and_a_journal_of_two_runs_do_not_mix(tmp_path: Path) -> None:
    """Else the steps of a seeded run could go on under the journal of another."""
    mine, other = tmp_path / "mine.safetensors", tmp_path / "other.safetensors"
    for path, source in ((mine, Randomness()), (other, Randomness(0))):
        with pytest.raises(Stopped):
            _run(path, stop=6, randomness=source)
    mine.write_bytes(other.read_bytes())
    with pytest.raises(CheckpointError, match="another run's"):
        _run(mine, resume=True)


@pytest.mark.parametrize(
    "text",
    ["7", "x" * 20, f"{3:020d}", f"{3:020d}\n", f"{3:020d}\n{{}}\n", f"{3:020d}\n[]\n"],
)
def test_a_journal_that_is_not_ours_is_not_resumed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.safetensors"
    path.with_name(path.name + ".steps").write_text(text)
    for resume in (False, True):
        with pytest.raises(CheckpointError, match="journal"):
            _run(path, resume=resume)
    assert _run(path, force=True).lost_steps == 0


def test_a_resumed_run_draws_a_fresh_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two continuations of one checkpoint differ; a reused key would make them equal (mutant 44)."""
    real = checks.step_module.GaussianNoise.draw
    drawn: list[torch.Tensor] = []

    def record(self: Any, count: int) -> torch.Tensor:
        drawn.append(real(self, count))
        return drawn[-1]

    def noise_of_two() -> list[torch.Tensor]:
        found = []
        for name in ("a", "b"):
            path = tmp_path / f"{name}.safetensors"
            path.write_bytes(start.read_bytes())
            path.with_name(path.name + ".steps").write_bytes(journal.read_bytes())
            drawn.clear()
            _run(path, resume=True)
            found.append(torch.cat(drawn))
            path.unlink()
            path.with_name(path.name + ".steps").unlink()
        return found

    monkeypatch.setattr(checks.step_module.GaussianNoise, "draw", record)
    start = tmp_path / "start.safetensors"
    with pytest.raises(Stopped):
        _run(start, stop=10)
    journal = start.with_name(start.name + ".steps")
    first, second = noise_of_two()
    assert not torch.isclose(first, second).all()

    monkeypatch.setattr(Randomness, "keystream", lambda self: KeyStream(bytes(32)))
    first, second = noise_of_two()
    assert torch.equal(first, second), "the comparison would notice a reused key"


def test_even_a_seeded_run_does_not_repeat_noise_when_it_resumes(tmp_path: Path) -> None:
    draws: list[torch.Tensor] = []
    real = checks.step_module.GaussianNoise.draw

    def record(self: Any, count: int) -> torch.Tensor:
        draws.append(real(self, count))
        return draws[-1]

    path = tmp_path / "run.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks.step_module.GaussianNoise, "draw", record)
        with pytest.raises(Stopped):
            _run(path, stop=6, randomness=Randomness(1))
        _run(path, resume=True, randomness=Randomness(1))
    assert len(draws) == 12
    assert len({float(draw[0]) for draw in draws}) == 12


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=5)
    with pytest.raises(CheckpointError, match="resume"):
        _run(path)
    with pytest.raises(CheckpointError, match="same plan"):
        _run(path, resume=True, plan=_plan(13))
    with pytest.raises(CheckpointError, match="this model"):
        train(nn.Linear(checks.SIZE, checks.CLASSES), checks.wild_records(20), _plan(),
              checkpoint=path, resume=True)  # fmt: skip
    journal = path.with_name(path.name + ".steps")
    with checkpoint_module.Journal(path), pytest.raises(CheckpointError, match="locked"):
        _run(path, resume=True)
    journal.unlink()
    with pytest.raises(CheckpointError, match="journal"):
        _run(path, resume=True)


def test_a_journal_without_a_checkpoint_still_counts(tmp_path: Path, counted: list[int]) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        _run(path, stop=3)
    assert not path.exists()
    with pytest.raises(CheckpointError, match="journal"):
        _run(path)
    run = _run(path, resume=True)
    assert run.lost_steps == 3
    assert len(counted) == 12


_SCRIPT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import step_checks as checks
from sfumato.learn import train
from sfumato.learn import _checkpoint
plan = checks.make_plan(epsilon=8.0, delta=1e-3, records=20, batch=10, steps=12,
                        relation="add-remove")
seen = []
real = checks.step_module.StepEngine.take
def take(self):
    seen.append(1)
    with open({log!r}, "a") as log:
        log.write("x")
    if len(seen) == 4 and {where!r} == "in a step":
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self)
checks.step_module.StepEngine.take = take
save = _checkpoint.save_file
def slow(tensors, name, metadata):
    save(tensors, name, metadata=metadata)
    if len(seen) == 6 and {where!r} == "in a checkpoint":
        with open(name, "r+b") as half:
            half.truncate(100)
        os.kill(os.getpid(), signal.SIGKILL)
_checkpoint.save_file = slow
train(checks.make_model(), checks.wild_records(20), plan, checkpoint={path!r}, checkpoint_every=3,
      evaluate_every=100)
"""


@pytest.mark.parametrize("where", ["in a step", "in a checkpoint"])
def test_sigkill_leaves_a_run_that_resumes(tmp_path: Path, where: str, counted: list[int]) -> None:
    path, log = tmp_path / "run.safetensors", tmp_path / "log"
    script = _SCRIPT.format(
        tests=str(Path(__file__).parent), log=str(log), where=where, path=str(path)
    )
    killed = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600
    )
    assert killed.returncode == -signal.SIGKILL
    _run(path, resume=True, checkpoint_every=3)
    # the step that was killed was counted, and its noise perhaps never drawn: never one too many
    assert len(log.read_text()) + len(counted) == 12
    _, state = checkpoint_module.read(path)
    assert state.spent == 12
    assert state.updates == 12 - (1 if where == "in a step" else 3)
