"""A pool of processes in which the death of one costs one item, not the job.

``concurrent.futures`` gives up the whole pool when a worker is killed. A decoder that crashes or is
shot for its memory must fail its own file only, so each worker has a pipe of its own here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sfumato.errors import SfumatoError, refusal

_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one task: a value, or the reason why there is none."""

    number: int
    value: Any = None
    failure: str = ""


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Connection
    task: int = -1
    deadline: float = float("inf")


def run_tasks(
    work: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    workers: int,
    timeout: float | None = None,
) -> Generator[Answer, None, None]:
    """Yield an answer for every task, in the order they finish.

    ``work`` and the tasks cross to fresh processes (spawn), so ``work`` is a function of a module.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(range(len(tasks))))
    pool: list[_Worker] = []

    def hire() -> _Worker:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, work))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def give(worker: _Worker) -> bool:
        if not waiting:
            return False
        worker.task = waiting.pop()
        worker.deadline = float("inf")
        with suppress(BrokenPipeError, ConnectionResetError):
            # A worker that died before it was asked is seen by the loop below.
            worker.pipe.send((worker.task, tasks[worker.task]))
        return True

    try:
        for _ in range(min(workers, len(tasks))):
            pool.append(hire())
            give(pool[-1])
        while pool:
            for worker in _ready(pool):
                answer, alive = _collect(worker)
                if answer is None:  # it has begun: starting a process does not count as work
                    worker.deadline = time.monotonic() + (timeout or float("inf"))
                    continue
                if not alive:
                    pool.remove(worker)
                    if waiting:
                        pool.append(hire())
                        give(pool[-1])
                elif not give(worker):
                    pool.remove(worker)
                    _dismiss(worker)
                yield answer
    finally:
        for worker in pool:
            worker.process.kill()
            _dismiss(worker)


def _ready(pool: list[_Worker]) -> list[_Worker]:
    """Workers that answered, died, or ran out of time (these are killed here)."""
    soonest = min(worker.deadline for worker in pool)
    patience = None if soonest == float("inf") else max(0.0, soonest - time.monotonic())
    signals = wait([w.pipe for w in pool] + [w.process.sentinel for w in pool], patience)
    late = [w for w in pool if w.deadline <= time.monotonic() and w.pipe not in signals]
    for worker in late:
        worker.process.kill()
        worker.process.join()
    return [w for w in pool if w in late or w.pipe in signals or w.process.sentinel in signals]


def _collect(worker: _Worker) -> tuple[Answer | None, bool]:
    try:
        if worker.pipe.poll():
            message = worker.pipe.recv()
            return (None if message is None else Answer(*message)), True
    except (EOFError, OSError):
        pass
    _dismiss(worker)
    late = worker.deadline <= time.monotonic()
    code = worker.process.exitcode
    how = "took too long and was ended" if late else how_it_ended(code)
    return Answer(
        worker.task,
        failure=f"Expected the worker to finish this item, it {how}: nothing of it was kept; "
        "try it alone, with more memory or time.",
    ), False


def how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"was killed by {name}"
    return f"ended early with exit code {code}"


def _dismiss(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.join(_PATIENCE)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def follow_parent() -> None:
    """An orphan would go on reading private data for nobody: end with the parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _serve(pipe: Connection, work: Callable[..., Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=follow_parent, daemon=True).start()
    while True:
        try:
            number, task = pipe.recv()
        except (EOFError, OSError):
            return
        value, failure = None, ""
        try:
            pipe.send(None)
            value = work(*task)
        except SfumatoError as error:
            failure = str(error)
        except MemoryError:
            failure = "Expected enough memory for this item, ran out of it: use fewer workers."
        except OSError as error:
            failure = refusal(error)
        except Exception as error:  # noqa: BLE001 - one bad item must not end the job
            # The message may quote private content, so only the kind is passed on.
            failure = f"Unexpected {type(error).__name__}: this is a bug, report it without data."
        try:
            pipe.send((number, value, failure))
        except (BrokenPipeError, ConnectionResetError):
            return
