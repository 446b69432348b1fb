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
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from sfumato.jobs._engine import Answer, Batch, Needs, NodeTally, Task, attempt, lost_sentence

_PATIENCE = 5.0


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Connection
    task: int = -1
    deadline: float = float("inf")


class Processes:
    """The engine of one machine: fresh processes (spawn), one task at a time each."""

    remote = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()

    def prepare(self, folder: Path, warm: Callable[[], Any] | None, needs: Needs) -> None:
        """Nothing: these processes see what this one sees."""

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
        """A process that dies here was killed by its own item, or for its memory: no second attempt."""
        waiting = iter(range(count))
        pool: list[_Worker] = []
        batch = Batch()
        try:
            for number in islice(waiting, self.workers):
                pool.append(_hire(work))
                _give(pool[-1], number, task)
            while pool or batch.answers:
                for worker in _ready(pool, batch) if pool else ():
                    answer, alive = _collect(worker)
                    if answer is None:  # it has begun: starting a process does not count as work
                        worker.deadline = time.monotonic() + (timeout or float("inf"))
                        continue
                    batch.add(answer)
                    following = next(waiting, None)
                    if not alive or following is None:
                        pool.remove(worker)
                        _dismiss(worker)
                    if following is not None:
                        if not alive:
                            worker = _hire(work)
                            pool.append(worker)
                        _give(worker, following, task)
                if batch.due or not pool:
                    yield batch.take()
        finally:
            for worker in pool:
                worker.process.kill()
                _dismiss(worker)


def cores() -> int:
    """How many processes this one may keep busy."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _hire(work: Callable[..., Any]) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work))
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _give(worker: _Worker, number: int, task: Task) -> None:
    worker.task, worker.deadline = number, float("inf")
    with suppress(BrokenPipeError, ConnectionResetError):
        # A worker that died before it was asked is seen by the loop that gave it the task.
        worker.pipe.send((number, task(number, 1)))


def _ready(pool: list[_Worker], batch: Batch) -> list[_Worker]:
    """Workers that answered, died, or ran out of time (these are killed here)."""
    soonest = min(worker.deadline for worker in pool) - time.monotonic()
    if batch.answers:
        soonest = min(soonest, batch.patience)
    patience = None if soonest == float("inf") else max(0.0, soonest)
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
    return Answer(worker.task, failure=lost_sentence(how)), False


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
        try:
            pipe.send(None)
            value, failure = attempt(work, task)
            pipe.send((number, value, failure))
        except (BrokenPipeError, ConnectionResetError):
            return
