"""Many processes at once, and processes that die: the budget holds on both engines."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.ledger import Ledger

RACERS, PLACES, KILLS = 32, 10, 52


def rough(job: str, address: str, *numbers: int) -> dict[str, int]:
    finished = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("rough_jobs.py")), job, address]
        + [str(number) for number in numbers],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return dict(json.loads(finished.stdout))


def test_of_32_processes_racing_for_a_budget_of_10_exactly_10_get_it(address: str) -> None:
    outcomes = rough("race", address, RACERS, PLACES)
    assert outcomes == {"granted": PLACES, "refused": RACERS - PLACES}
    statement = Ledger.open(address).show("gym")
    assert len(statement.releases) == PLACES
    assert statement.spent_epsilon == statement.budget.epsilon
    assert Ledger.open(address).verify().count == 1 + PLACES


def test_killing_a_job_at_random_loses_nothing_and_never_undercounts(
    address: str, request: pytest.FixtureRequest
) -> None:
    found = rough("kill", address, KILLS, 20261115)
    assert found["kills"] == KILLS
    # The kills did hit work in progress, and the work did get done in between.
    assert found["interrupted"] >= 5
    assert found["committed"] >= 20
    assert found["entries"] == 1 + found["reserved"] + found["committed"]
    if "sqlite" in request.node.name:
        with sqlite3.connect(address) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
