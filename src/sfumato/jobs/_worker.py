"""One process that does what it is asked, tells how far it is, can be ended, and ends with its parent."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from sfumato.errors import SfumatoError, refusal
from sfumato.jobs._processes import follow_parent, how_it_ended
from sfumato.progress import ProgressStep, listening

_PATIENCE = 5.0
_PAUSE = 0.2  # seconds between two words about progress
# (what was done, of how many) or what the work reports of itself meanwhile
Hear = Callable[[ProgressStep | dict[str, Any]], None]


class WorkerEndedError(SfumatoError):
    """The process died before it answered."""


class Worker:
    """``run(target, arguments)`` calls ``package.module:function`` in the process, one at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve_calls, args=(theirs,))
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def run(self, target: str, arguments: dict[str, Any], hear: Hear = lambda said: None) -> Any:
        """What the function returns, as JSON; ``hear`` gets its progress and its reports."""
        try:
            self._pipe.send((target, arguments))
            while True:
                kind, value = self._pipe.recv()
                if kind == "done":
                    return value
                if kind == "failed":
                    raise SfumatoError(value)
                hear(ProgressStep(*value) if kind == "progress" else value)
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            raise WorkerEndedError(
                f"Expected the work to finish, its process {how_it_ended(self._process.exitcode)}: "
                "nothing of it was kept; start it again, with more memory or fewer at once."
            ) from None

    def end(self) -> None:
        """Ask the process to tidy up and end; it is killed if it does not."""
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()


def _serve_calls(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=follow_parent, daemon=True).start()
    while True:
        try:
            target, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_answer(target, arguments, pipe))


def _leave(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # tidying up is not to be cut short
    raise SystemExit(128 + number)


def _answer(target: str, arguments: dict[str, Any], pipe: Connection) -> tuple[str, Any]:
    said = 0.0

    def hear(step: ProgressStep) -> None:
        nonlocal said
        if time.monotonic() - said >= _PAUSE or step.done == step.total:
            said = time.monotonic()
            pipe.send(("progress", (step.what, step.done, step.total)))

    try:
        module, _, name = target.partition(":")
        work = getattr(import_module(module), name)
        with listening(hear):
            return "done", work(arguments, lambda report: pipe.send(("report", report)))
    except SfumatoError as error:
        return "failed", str(error)
    except (OSError, MemoryError) as error:
        return "failed", refusal(error)
    except Exception as error:  # noqa: BLE001 - a bug must not end the process without a word
        # The message may quote private content, so only the kind is passed on.
        return (
            "failed",
            f"Unexpected {type(error).__name__}: this is a bug, report it without data.",
        )
