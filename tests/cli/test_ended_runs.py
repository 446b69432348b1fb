"""A run that is ended from outside leaves nothing; one that is killed leaves it to the next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.protect import app as protect
from sfumato.media import VideoWriter

_PATIENCE = 120.0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "a.mp4"
    path.parent.mkdir()
    with VideoWriter(path, rate=25, size=(32, 24)) as writer:
        for number in range(4):
            writer.write(np.full((24, 32, 3), 60 * number, np.uint8))
    return path


def command(source: Path, target: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "sfumato", "protect", str(source), str(target), *more]


def hear_hangups() -> None:
    """Take back what `nohup make test` hands down; a run keeps to a hangup that is ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def endless(tmp_path: Path, source: Path, target: Path) -> subprocess.Popen[str]:
    """A run in the middle of its work, in its temporary folder."""
    script = tmp_path / "tool.py"
    script.write_text(
        "import os, time\n"
        "parent, end = os.getppid(), time.monotonic() + 300\n"
        "while os.getppid() == parent and time.monotonic() < end:\n"
        "    time.sleep(0.1)\n"
    )
    tool = f"{sys.executable} {script} {{input}} {{output}}"
    run = subprocess.Popen(
        command(source, target, "--method", "external", "--set", f"command={tool}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_hangups,
    )
    folder = target.parent
    end = time.monotonic() + _PATIENCE
    while not any(path.is_dir() for path in folder.glob(".sfumato-*/work/*")):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return run


@pytest.mark.parametrize(("number", "folder"), [(signal.SIGTERM, False), (signal.SIGHUP, True)])
def test_a_run_that_is_asked_to_end_leaves_nothing(
    tmp_path: Path, source: Path, number: signal.Signals, folder: bool
) -> None:
    target = tmp_path / "out" / ("release" if folder else "a.mp4")
    target.parent.mkdir()
    run = endless(tmp_path, source.parent if folder else source, target)
    run.send_signal(number)
    _, said = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 128 + number
    assert "nothing unfinished was left behind" in said
    left = {path.name for path in target.parent.iterdir()}
    assert left == ({"release.job.jsonl"} if folder else set())


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "out" / "a.mp4"
    target.parent.mkdir()
    run = endless(tmp_path, source, target)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=_PATIENCE)
    assert list(target.parent.glob(".sfumato-*"))
    done = subprocess.run(
        command(source, target, "--method", "edges", "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["ok"] is True
    assert {path.name for path in target.parent.iterdir()} == {
        "a.mp4",
        "a.mp4.card.json",
        "a.mp4.card.md",
    }


def test_ok_is_false_beside_a_failure(tmp_path: Path, source: Path) -> None:
    (source.parent / "b.mp4").write_bytes(b"no video")
    arguments = [str(source.parent), str(tmp_path / "out"), "--method", "edges", "--json"]
    done = CliRunner().invoke(protect, [*arguments, "--workers", "1"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["ok"], told["failed"]) == (1, False, 1)
    assert [each["name"] for each in told["failures"]] == ["b.mp4"]
