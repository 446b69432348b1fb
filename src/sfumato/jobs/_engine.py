"""Where the tasks of a job are done: processes of this machine, or the nodes of a cluster.

Whatever the engine, it only answers. The job that called it, the driver, alone writes the manifest
and the ledger and moves outputs into place (R20). A task is asked for when it is about to be handed
out, once an attempt, so that every attempt has a place of its own and a million of them need no
memory; what a worker does that was given up is never heard of again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sfumato.errors import SfumatoError, refusal

LINGER = 0.02  # seconds in which answers are gathered, so that many small ones cost one write
MOST_TOGETHER = 256
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Needs:
    """What one task takes while it runs; a cluster gives it to a node that has that much free."""

    cpus: float = 1.0
    memory: int = 1 << 30
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one task: a value, or the reason why there is none."""

    number: int
    value: Any = None
    failure: str = ""
    attempt: int = 1


@dataclass(slots=True)
class NodeTally:
    """What one node did, for the operator: tasks answered, those that were lost on it, busy seconds."""

    name: str
    answered: int = 0
    lost: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        lost = f", {self.lost} lost" if self.lost else ""
        return f"{self.name}: {self.answered} items in {self.seconds:.1f} busy seconds{lost}"


# The arguments of an attempt (1, 2, ...) at a task, asked for when it is handed out.
Task = Callable[[int, int], tuple[Any, ...]]


class Engine(Protocol):
    """Runs tasks somewhere and gives their answers as they come."""

    # Whether tasks run where this process cannot see: places are probed, answers are checked.
    remote: bool

    def prepare(
        self, folder: Path, warm: Callable[[], Any] | None, needs: Needs
    ) -> None:  # pragma: no cover - protocol
        """Before anything private is read: does every node see ``folder``, and is it ready?"""

    def run(
        self,
        work: Callable[..., Any],
        count: int,
        task: Task,
        *,
        timeout: float | None = None,
        repeatable: bool = False,
        needs: Needs = Needs(),  # noqa: B008 - frozen
    ) -> Generator[list[Answer], None, None]:
        """Exactly one answer for each of the tasks 0 to ``count`` - 1, in the order they finish.

        ``work`` is a function of a module. Only a ``repeatable`` task, one that draws no noise, may
        be attempted again when its worker is lost.
        """

    def nodes(self) -> tuple[NodeTally, ...]:
        """What each node has done so far; empty where there is but this machine."""


def attempt(work: Callable[..., Any], task: tuple[Any, ...]) -> tuple[Any, str]:
    """In a worker: the value of a task, or one sentence about why there is none."""
    try:
        return work(*task), ""
    except SfumatoError as error:
        return None, str(error)
    except MemoryError:
        return None, "Expected enough memory for this item, ran out of it: use fewer workers."
    except OSError as error:
        return None, refusal(error)
    except Exception as error:  # noqa: BLE001 - one bad item must not end the job
        # The message may quote private content, so only the kind is passed on.
        kind = type(error).__name__
        return None, f"Unexpected {kind}: this is a bug, report it without data."


def lost_sentence(how: str) -> str:
    """Why a task has no answer though it raised nothing."""
    return (
        f"Expected the worker to finish this item, it {how}: nothing of it was kept; "
        "try it alone, with more memory or time."
    )


class InThisProcess:
    """The engine that is no other process: one task after the other, here."""

    remote = False

    def prepare(self, folder: Path, warm: Callable[[], Any] | None, needs: Needs) -> None:
        """Nothing: this process sees what it sees."""

    def nodes(self) -> tuple[NodeTally, ...]:
        return ()

    def run(
        self,
        work: Callable[..., Any],
        count: int,
        task: Task,
        *,
        timeout: float | None = None,
        repeatable: bool = False,
        needs: Needs = Needs(),  # noqa: B008 - frozen
    ) -> Generator[list[Answer], None, None]:
        for number in range(count):
            yield [Answer(number, *attempt(work, task(number, 1)))]


class Batch:
    """Answers that came within a moment of each other."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._due = float("inf")

    def add(self, answer: Answer) -> None:
        if not self.answers:
            self._due = time.monotonic() + LINGER
        self.answers.append(answer)

    @property
    def patience(self) -> float:
        """Seconds until it has to be handed on."""
        return max(0.0, self._due - time.monotonic())

    @property
    def due(self) -> bool:
        return bool(self.answers) and (not self.patience or len(self.answers) >= MOST_TOGETHER)

    def take(self) -> list[Answer]:
        taken, self.answers, self._due = self.answers, [], float("inf")
        return taken


def run_all(
    engine: Engine,
    work: Callable[..., Value],
    tasks: Sequence[tuple[Any, ...]],
    *,
    needs: Needs = Needs(),  # noqa: B008 - frozen
    answered: Callable[[int], None] = lambda count: None,
) -> list[Value | SfumatoError]:
    """The value of every task, in their order, or the error that says why there is none.

    For work that draws no noise and writes nothing: an attack, a measurement.
    """
    found: list[Value | SfumatoError | None] = [None] * len(tasks)
    done = 0
    answers = engine.run(
        work, len(tasks), lambda number, _: tasks[number], repeatable=True, needs=needs
    )
    for batch in answers:
        for answer in batch:
            failed = SfumatoError(answer.failure) if answer.failure else None
            found[answer.number] = failed or answer.value
            done += 1
        answered(done)
    return found  # type: ignore[return-value]
