"""Put every seeded bug into a copy of the code, run the tests that must notice, print the table.

Heavy libraries are imported once; each mutant is a forked child that imports its own copy of sfumato.
The unmutated code runs through the same door first and must pass. A patch that no longer applies,
a test that is gone and a mutant that merely crashes are errors, not catches.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutants import (
    _accounting,
    _banded,
    _finding,
    _releases,
    _reviewing,
    _spans,
    _studio,
    _training,
    _voices,
)
from mutants._mutant import Mutant, PatchError

ROOT = Path(__file__).resolve().parents[1]
ALL: tuple[Mutant, ...] = tuple(
    sorted(
        (
            *_training.MUTANTS,
            *_releases.MUTANTS,
            *_voices.MUTANTS,
            *_accounting.MUTANTS,
            *_banded.MUTANTS,
            *_finding.MUTANTS,
            *_reviewing.MUTANTS,
            *_spans.MUTANTS,
            *_studio.MUTANTS,
        ),
        key=lambda mutant: (int(mutant.number.rstrip("abcde")), mutant.number),
    )
)
# A mutant that dies of these was badly made: nobody noticed a behaviour.
_CRASHES = {"NameError", "SyntaxError", "ImportError", "ModuleNotFoundError", "AttributeError",
            "UnboundLocalError", "IndentationError", "TypeError"}  # fmt: skip
_HEAVY = ("numpy", "scipy.stats", "scipy.optimize", "scipy.fft", "torch", "torch.func", "pytest",
          "hypothesis", "safetensors.torch", "cv2", "av", "pydantic", "typer")  # fmt: skip
_LONGEST = 240.0


@dataclass
class Job:
    """One run of some tests on the code, changed or not."""

    name: str
    tests: Sequence[str]
    mutant: Mutant | None = None
    process: int = 0
    started: float = 0.0
    seconds: float = 0.0
    folder: str = ""
    outcome: dict[str, Any] = field(default_factory=dict)


class _Recorder:
    """Notes which tests ran and of what they failed."""

    def __init__(self) -> None:
        self.passed = 0
        self.failures: list[tuple[str, str]] = []
        self.broken: list[str] = []

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.excinfo is None:
            self.passed += call.when == "call"
        elif call.excinfo.typename != "Skipped":
            self.failures.append((item.nodeid, call.excinfo.typename))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(str(report.nodeid))


def _child(job: Job) -> None:
    """In the fork: patch a copy of the package, run the tests on it, write down what happened."""
    import pytest

    folder = Path(job.folder)
    report = folder / "outcome.json"
    source = folder / "src"
    try:
        shutil.copytree(ROOT / "src" / "sfumato", source / "sfumato")
        for patch in job.mutant.patches if job.mutant else ():
            patch.apply(source / "sfumato")
    except (PatchError, SyntaxError, OSError) as error:
        report.write_text(json.dumps({"error": str(error)}))
        return
    os.chdir(ROOT)
    sys.path.insert(0, str(source))
    os.environ["PYTHONPATH"] = str(source)
    recorder = _Recorder()
    arguments = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *job.tests]
    code = int(pytest.main(arguments, plugins=[recorder]))
    where = str(sys.modules["sfumato"].__file__) if "sfumato" in sys.modules else ""
    outcome: dict[str, Any] = {
        "code": code, "passed": recorder.passed, "failures": recorder.failures,
    }  # fmt: skip
    if not where.startswith(str(source)):
        outcome["error"] = "the tests did not import the copy"
    elif recorder.broken or code not in {0, 1}:
        outcome["error"] = f"the tests could not be run (code {code})"
    report.write_text(json.dumps(outcome))


def _start(job: Job) -> None:
    job.folder = tempfile.mkdtemp(prefix="sfumato-mutant-")
    job.started = time.monotonic()
    job.process = os.fork()
    if job.process:
        return
    os.setsid()
    log = os.open(f"{job.folder}/log", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 0
    try:
        _child(job)
    except BaseException as error:  # noqa: BLE001 - the parent reads the reason; a fork must end here
        Path(job.folder, "outcome.json").write_text(
            json.dumps({"error": repr(error)}), encoding="utf-8"
        )
        code = 3
    finally:
        os._exit(code)


def _finish(job: Job, reason: str = "") -> None:
    job.seconds = time.monotonic() - job.started
    report = Path(job.folder, "outcome.json")
    if reason:
        job.outcome = {"error": reason}
    elif report.exists():
        job.outcome = json.loads(report.read_text(encoding="utf-8"))
    else:
        job.outcome = {"error": "the run ended without a report"}
    job.outcome["log"] = Path(job.folder, "log").read_text(encoding="utf-8", errors="replace")[
        -3000:
    ]
    shutil.rmtree(job.folder, ignore_errors=True)


def _run(jobs: Iterable[Job], at_once: int) -> Iterable[Job]:
    """Run all jobs, a few at a time; each is given back as it ends."""
    waiting, running = list(jobs), {}
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop(0)
            _start(job)
            running[job.process] = job
        process, _ = os.waitpid(-1, os.WNOHANG)
        if process in running:
            job = running.pop(process)
            _finish(job)
            yield job
            continue
        for late in [j for j in running.values() if time.monotonic() - j.started > _LONGEST]:
            os.killpg(late.process, signal.SIGKILL)
            os.waitpid(late.process, 0)
            del running[late.process]
            _finish(late, f"took more than {_LONGEST:g} seconds")
            yield late
        time.sleep(0.02)


def verdict(job: Job) -> tuple[str, str]:
    """Caught, missed or error, and by what."""
    outcome = job.outcome
    if "error" in outcome:
        return "ERROR", outcome["error"]
    if not outcome["failures"]:
        return "MISSED", f"{outcome['passed']} tests passed"
    test, kind = outcome["failures"][0]
    if kind in _CRASHES:
        return "ERROR", f"crashed with {kind} in {test}"
    return "caught", test.split("/")[-1]


def _baseline(chosen: Sequence[Mutant]) -> list[Job]:
    files: dict[str, list[str]] = {}
    for mutant in chosen:
        for test in mutant.tests:
            mine = files.setdefault(test.split("::")[0], [])
            if test not in mine:
                mine.append(test)
    return [Job(file, tests) for file, tests in files.items()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("numbers", nargs="*", help="only these (a number takes all its letters)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="show what the tests said")
    parser.add_argument("--json", type=Path, help="write the table here as well")
    wanted = parser.parse_args()
    chosen = [
        m
        for m in ALL
        if not wanted.numbers or {m.number, m.number.rstrip("abcde")} & set(wanted.numbers)
    ]
    os.environ["OMP_NUM_THREADS"] = "1"
    began = time.monotonic()
    for name in _HEAVY:
        importlib.import_module(name)
    assert "sfumato" not in sys.modules, "the parent must not hold the code that mutants change"
    broken = 0
    for job in _run(_baseline(chosen), wanted.jobs):
        if job.outcome.get("error") or job.outcome["failures"] or not job.outcome["passed"]:
            broken += 1
            print(
                f"unmutated code fails {job.name}: {job.outcome.get('error') or job.outcome['failures']}"
            )
            if wanted.verbose:
                print(job.outcome["log"])
    if broken:
        print("The suite says nothing while the unmutated code fails.")
        return 2
    print(f"The unmutated code passes ({time.monotonic() - began:.0f} s).\n", flush=True)
    found = {}
    # the slowest, which start processes of their own, go first
    order = sorted(chosen, key=lambda m: not any("processes" in test for test in m.tests))
    for job in _run([Job(m.number, m.tests, m) for m in order], wanted.jobs):
        state, by = verdict(job)
        found[job.name] = (state, by, job.seconds)
        if state != "caught":
            print(f"{job.name}: {state}: {by}", flush=True)
        if wanted.verbose:
            print(job.outcome["log"])
    return _print(chosen, found, time.monotonic() - began, wanted.json)


def _print(
    chosen: Sequence[Mutant],
    found: dict[str, tuple[str, str, float]],
    total: float,
    file: Path | None,
) -> int:
    print(f"| {'#':>3} | {'seeded bug':58} | verdict | {'s':>4} | by |")
    print("| --: | :-- | :-- | --: | :-- |")
    rows = []
    for mutant in chosen:
        state, by, seconds = found[mutant.number]
        title = mutant.title + (f" ({mutant.note})" if mutant.note else "")
        print(f"| {mutant.number:>3} | {title:58} | {state:7} | {seconds:4.1f} | {by} |")
        rows.append({"number": mutant.number, "title": mutant.title, "verdict": state, "by": by,
                     "seconds": round(seconds, 1)})  # fmt: skip
    caught = sum(row["verdict"] == "caught" for row in rows)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = used.ru_utime + used.ru_stime
    print(f"\n{caught} of {len(rows)} caught in {total:.0f} s ({work:.0f} s of processor time).")
    if file is not None:
        file.write_text(
            json.dumps({"caught": caught, "of": len(rows), "rows": rows}, indent=1) + "\n"
        )
    return 0 if caught == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
