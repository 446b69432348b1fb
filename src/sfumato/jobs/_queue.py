"""A queue of long work that outlives whoever asked: kept in a folder, done in processes, resumable.

One private file a job. Whatever was waiting or running when the server ended waits again when it starts:
each kind of work finds what it had finished.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sfumato.errors import SfumatoError
from sfumato.files import parse_json, write_json
from sfumato.jobs._worker import Worker
from sfumato.progress import ProgressStep

State = Literal["waiting", "running", "done", "failed", "cancelled"]
_FILE = re.compile(r"[0-9a-f]{24}\.json")
_FINISHED = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """One job; ``done`` of ``total`` and ``result`` change while it runs."""

    id: str
    number: int
    kind: str
    title: str
    arguments: dict[str, Any]
    state: State = "waiting"
    done: float = 0.0
    total: float | None = None
    what: str = ""
    seconds_left: float | None = None
    error: str | None = None
    result: Any = None

    @property
    def finished(self) -> bool:
        return self.state in _FINISHED


class JobQueue:
    """``kinds`` says what function does each kind of work, ``package.module:function``, and in which lane.

    Jobs of one lane run one after the other. ``folder`` is private to the owner. ``common`` goes to every job
    beside its own arguments, and is not kept. Without ``resumes`` whatever was waiting is stopped instead.
    """

    def __init__(
        self,
        folder: Path,
        kinds: Mapping[str, tuple[str, str]],
        *,
        start: bool = True,
        common: Mapping[str, Any] | None = None,
        resumes: bool = True,
    ) -> None:
        self._folder, self._kinds, self._common = folder, dict(kinds), dict(common or {})
        self._changed = threading.Condition()
        self._jobs: dict[str, QueuedJob] = {}
        self._workers: dict[str, Worker] = {}
        self._listeners: list[Callable[[QueuedJob], None]] = []
        self._closing = False
        self._load("waiting" if resumes else "cancelled")
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), daemon=True)
            for lane in sorted({lane for _, lane in self._kinds.values()})
        ]
        if start:
            for thread in self._threads:
                thread.start()

    def add(self, kind: str, title: str, arguments: dict[str, Any]) -> QueuedJob:
        assert kind in self._kinds, kind
        with self._changed:
            number = 1 + max((job.number for job in self._jobs.values()), default=0)
            job = QueuedJob(
                id=secrets.token_hex(12), number=number, kind=kind, title=title, arguments=arguments
            )
            self._keep(job)
            self._changed.notify_all()
        return job

    def get(self, id: str) -> QueuedJob | None:
        with self._changed:
            return self._jobs.get(id)

    def all(self) -> list[QueuedJob]:
        """Every job, the newest first."""
        with self._changed:
            return sorted(self._jobs.values(), key=lambda job: -job.number)

    def listen(self, hear: Callable[[QueuedJob], None]) -> Callable[[], None]:
        """``hear`` gets every change, from any thread, until what is returned is called."""
        with self._changed:
            self._listeners.append(hear)

        def stop() -> None:
            with self._changed:
                self._listeners.remove(hear)

        return stop

    def cancel(self, id: str) -> None:
        """End a job; what it had not finished is removed, what it had published stays."""
        with self._changed:
            job = self._jobs[id]
            if job.finished:
                return
            self._keep(replace(job, state="cancelled", seconds_left=None))
            worker = self._workers.get(id)
        if worker is not None:
            worker.end()

    def resume(self, id: str) -> None:
        """Let a job that failed or was cancelled wait for its turn again."""
        with self._changed:
            job = self._jobs[id]
            if job.state in ("failed", "cancelled") and id not in self._workers:
                self._keep(replace(job, state="waiting", error=None, done=0.0, total=None))
                self._changed.notify_all()

    def close(self) -> None:
        """End the processes; what was running waits for the next start."""
        with self._changed:
            self._closing = True
            workers = list(self._workers.values())
            self._changed.notify_all()
        for worker in workers:
            worker.end()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _load(self, begun: State) -> None:
        if not self._folder.is_dir():
            return
        for path in sorted(self._folder.iterdir()):
            if not _FILE.fullmatch(path.name) or path.is_symlink():
                continue
            with suppress(ValueError, TypeError, OSError):
                job = QueuedJob(**parse_json(path.read_bytes()))
                if job.id == path.stem and job.kind in self._kinds:
                    if not job.finished:
                        job = replace(job, state=begun)
                        if begun == "cancelled":
                            self._keep(job)
                    self._show(job)

    def _work(self, lane: str) -> None:
        while True:
            with self._changed:
                job = self._next(lane)
                while job is None and not self._closing:
                    self._changed.wait()
                    job = self._next(lane)
                if self._closing or job is None:
                    return
                job = replace(job, state="running", error=None, result=None)
                self._keep(job)
                worker = self._workers[job.id] = Worker()
            self._run(job, worker)

    def _next(self, lane: str) -> QueuedJob | None:
        waiting = [
            job
            for job in self._jobs.values()
            if job.state == "waiting" and self._kinds[job.kind][1] == lane
        ]
        return min(waiting, key=lambda job: job.number, default=None)

    def _run(self, job: QueuedJob, worker: Worker) -> None:
        began = time.monotonic()

        def hear(said: ProgressStep | dict[str, Any]) -> None:
            with self._changed:
                now = self._jobs[job.id]
                if now.state != "running":
                    return
                if isinstance(said, dict):
                    self._show(replace(now, result=said))
                    return
                left = None
                if said.total and said.done > 0:
                    left = (time.monotonic() - began) * (said.total - said.done) / said.done
                self._show(
                    replace(
                        now, done=said.done, total=said.total, what=said.what, seconds_left=left
                    )
                )

        ended: dict[str, Any]
        try:
            arguments = {**job.arguments, **self._common}
            result = worker.run(self._kinds[job.kind][0], arguments, hear)
            ended = {"state": "done", "result": result}
        except SfumatoError as error:
            ended = {"state": "failed", "error": str(error)}
        worker.end()
        with self._changed:
            del self._workers[job.id]
            now = self._jobs[job.id]
            if now.state == "running" and not (self._closing and ended["state"] == "failed"):
                self._keep(replace(now, seconds_left=None, **ended))

    def _keep(self, job: QueuedJob) -> None:
        write_json(self._folder / f"{job.id}.json", asdict(job), force=True, private=True)
        self._show(job)

    def _show(self, job: QueuedJob) -> None:
        self._jobs[job.id] = job
        for hear in self._listeners:
            hear(job)
