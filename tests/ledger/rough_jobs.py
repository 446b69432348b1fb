"""Jobs that race for a budget, and jobs that are killed. Run as a program; prints one JSON object.

A process that has imported everything once forks all the others, so that many can run in little time
and none of them inherits a test runner's threads.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from typing import Any

import sqlalchemy as sa

from sfumato.ledger import BudgetExceededError, Ledger
from sfumato.privacy import Bounds, Gaussian, Guarantee, Relation, SelfComposed, Unit, epsilon_of

EVENT = Gaussian(8.0, Bounds.DIFFERENCE)
DELTA = 1e-5
PROMISE = Guarantee(
    mechanism="a noisy sum",
    unit=Unit.person(),
    relation=Relation.ADD_REMOVE,
    delta=DELTA,
    event=EVENT,
    accountant="pld",
)


def cost(count: int) -> float:
    return epsilon_of(SelfComposed(EVENT, count), DELTA, Relation.ADD_REMOVE) if count else 0.0


def create(address: str, epsilon: float) -> None:
    Ledger.open(address).create(
        "gym", owner="Ada", epsilon=epsilon, delta=DELTA, unit="person", relation="add-remove"
    )


def race(address: str, racers: int, places: int) -> dict[str, Any]:
    """All racers wait at a gate, then each asks for one release; ``places`` of them fit."""
    create(address, cost(places))
    gate, opener = os.pipe()
    results, results_in = os.pipe()
    children = []
    for racer in range(racers):
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)  # returns when the parent closes its end
            try:
                Ledger.open(address).reserve("gym", PROMISE, key=f"job-{racer}")
                outcome = b"granted\n"
            except BudgetExceededError:
                outcome = b"refused\n"
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
                outcome = f"{type(error).__name__}\n".encode()
            os.write(results_in, outcome)
            os._exit(0)
        children.append(child)
    os.close(results_in)
    os.close(opener)
    for child in children:
        os.waitpid(child, 0)
    with os.fdopen(results, encoding="ascii") as stream:
        outcomes = stream.read().split()
    return {name: outcomes.count(name) for name in sorted(set(outcomes))}


def kill(address: str, kills: int, seed: int) -> dict[str, Any]:
    """Kill a working job again and again, and look at what it left after every single time."""
    chance = random.Random(seed)
    # Large enough never to refuse, finite so that every reservation is composed and compared.
    create(address, 1000.0)
    ledger = Ledger.open(address)
    reserved: set[str] = set()
    committed: set[str] = set()
    noted = ledger.export()
    in_between = 0
    for turn in range(kills):
        acknowledged = _killed_job(address, turn, sorted(reserved - committed)[:1], chance)
        reserved |= {line[1:] for line in acknowledged if line[0] == "R"}
        committed |= {line[1:] for line in acknowledged if line[0] == "C"}
        with ledger._storage.writing():
            pass  # a server may still be finishing what the dead client asked for: wait for that
        statement = ledger.show("gym")
        held = {release.key: release for release in statement.releases}
        assert reserved <= held.keys(), "an acknowledged reservation was lost"
        assert all(held[key].committed for key in committed), "an acknowledged commit was lost"
        # At most the one operation that was under way may be there without an acknowledgement.
        assert len(held.keys() - reserved) <= 1
        assert statement.spent_epsilon == cost(len(held)) >= cost(len(reserved))
        noted = ledger.verify(count=noted.count, head=noted.head)
        in_between += len(statement.pending)
        reserved, committed = set(held), {key for key in held if held[key].committed}
    return {
        "kills": kills,
        "reserved": len(reserved),
        "committed": len(committed),
        "interrupted": in_between,
        "entries": noted.count,
    }


def _killed_job(address: str, turn: int, unfinished: list[str], chance: random.Random) -> list[str]:
    """Start a job, kill it at a random moment, and return what it had acknowledged by then.

    Even turns die at a random step of a random statement (before it, after it, or at the commit of
    the transaction), odd ones at a random time.
    """
    acks, acks_in = os.pipe()
    steps = chance.randrange(1, 150) if turn % 2 == 0 else None
    moment = chance.uniform(0.0, 0.12)
    child = os.fork()
    if child == 0:
        os.close(acks)
        _work(address, turn, unfinished, acks_in, steps)
    os.close(acks_in)
    text = b""
    deadline = None
    while True:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([acks], [], [], wait)[0]:
            os.kill(child, signal.SIGKILL)
            deadline = None
            continue
        piece = os.read(acks, 65536)
        if not piece:
            break
        if not text and steps is None:  # the clock runs from the child's first sign of life
            deadline = time.monotonic() + moment
        text += piece
    _, status = os.waitpid(child, 0)
    os.close(acks)
    assert os.WIFSIGNALED(status), f"the job ended by itself: {status}"
    assert os.WTERMSIG(status) == signal.SIGKILL
    return text.decode("ascii").split()


def _work(address: str, turn: int, unfinished: list[str], acks: int, steps: int | None) -> None:
    """Reserve and commit without end, acknowledging each; never returns."""
    if steps is not None:
        _die_after(steps)
    os.write(acks, b"Started\n")
    ledger = Ledger.open(address)
    number = 0
    try:
        for key in unfinished:
            found = ledger.find(key)
            again = ledger.reserve("gym", PROMISE, key=key)
            assert again == found, "the resumed job did not find its own reservation"
            ledger.commit(again)
            os.write(acks, f"C{key}\n".encode())
        while True:
            key = f"turn{turn}-job{number}"
            held = ledger.reserve("gym", PROMISE, key=key)
            os.write(acks, f"R{key}\n".encode())
            ledger.commit(held)
            os.write(acks, f"C{key}\n".encode())
            number += 1
    finally:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _die_after(steps: int) -> None:
    left = [steps]

    def step(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for moment in ("before_cursor_execute", "after_cursor_execute", "begin", "commit"):
        sa.event.listen(sa.Engine, moment, step)


if __name__ == "__main__":
    job, where, *numbers = sys.argv[1:]
    print(json.dumps({"race": race, "kill": kill}[job](where, *map(int, numbers))))
