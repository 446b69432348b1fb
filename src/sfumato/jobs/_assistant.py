"""A process kept at hand for short work that is too large for a server: it ends when nobody asks."""

from __future__ import annotations

import threading
from typing import Any

from sfumato.jobs._worker import Worker, WorkerEndedError

_IDLE = 300.0


class Assistant:
    """``ask`` calls a function in the process and waits for its answer; one question at a time."""

    def __init__(self, idle: float = _IDLE) -> None:
        self._idle, self._lock = idle, threading.Lock()
        self._worker: Worker | None = None
        self._timer: threading.Timer | None = None

    def ask(self, target: str, arguments: dict[str, Any]) -> Any:
        with self._lock:
            self._rest()
            if self._worker is None or not self._worker.alive:
                self._worker = Worker()
            try:
                return self._worker.run(target, arguments)
            except WorkerEndedError:
                self._worker = None
                raise
            finally:
                self._timer = threading.Timer(self._idle, self._leave)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        with self._lock:
            self._rest()
            self._end()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        with self._lock:
            if self._timer is not None and self._timer is threading.current_thread():
                self._end()

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None
