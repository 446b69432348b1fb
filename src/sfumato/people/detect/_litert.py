"""One LiteRT model: an image in, named arrays out."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import store

DEVICE = "cpu (LiteRT)"
_MANY, _COPIES = 1 << 16, 2
_ERROR_STREAM = Lock()  # one thread at a time may turn it away


class LiteRtModel:
    """A model of the store by its name, or one built here.

    Threads may run it at the same time: each gets an interpreter of its own, made when it is needed, up to
    ``copies`` (None: any number); then it waits. ``cores`` is how many one run may use: one where frames
    are looked at side by side.
    """

    def __init__(
        self,
        model: str | bytes,
        *,
        cores: int = 1,
        copies: int | None = None,
        offline: bool = False,
    ) -> None:
        self._cores = min(cores, threads())
        self._free = Semaphore(copies or _MANY)
        self._content = (
            model if isinstance(model, bytes) else store.path(model, offline=offline).read_bytes()
        )
        first = self._interpreter()
        self._input = first.get_input_details()[0]
        self._outputs = first.get_output_details()
        self._idle: SimpleQueue[Any] = SimpleQueue()
        self._idle.put(first)

    def _interpreter(self) -> Any:
        from ai_edge_litert.interpreter import Interpreter

        with _quiet():
            made = Interpreter(model_content=self._content, num_threads=self._cores)
            made.allocate_tensors()
        return made

    @property
    def input_size(self) -> tuple[int, int]:
        """Height and width of the input picture."""
        return int(self._input["shape"][1]), int(self._input["shape"][2])

    def __call__(self, picture: npt.NDArray[np.float32]) -> list[npt.NDArray[Any]]:
        """Run on one (height, width, 3) float picture; the arrays of all outputs, in their order."""
        with self._free:
            try:
                interpreter = self._idle.get_nowait()
            except Empty:
                interpreter = self._interpreter()
            interpreter.set_tensor(self._input["index"], picture[None])
            interpreter.invoke()
            found = [interpreter.get_tensor(output["index"])[0] for output in self._outputs]
            self._idle.put(interpreter)
        return found


class LiteRtModels:
    """One network for pictures of any size: ``make`` gives the model for a width and a height.

    The last few sizes are kept: a video has one size and its windows or tiles another.
    """

    def __init__(self, make: Callable[[tuple[int, int]], bytes], kept: int = 3) -> None:
        self._make, self._kept = make, kept
        self._models: OrderedDict[tuple[int, int], LiteRtModel] = OrderedDict()
        self._choosing = Lock()

    def __call__(self, picture: npt.NDArray[np.float32]) -> list[npt.NDArray[Any]]:
        """Run on one (height, width, 3) float picture."""
        return self._model((picture.shape[1], picture.shape[0]))(picture)

    def _model(self, size: tuple[int, int]) -> LiteRtModel:
        with self._choosing:
            if size not in self._models:
                # a copy takes some hundred megabytes; while it runs other threads run other networks
                copies = min(_COPIES, max(1, threads() // 2))
                self._models[size] = LiteRtModel(self._make(size), copies=copies)
                if len(self._models) > self._kept:
                    self._models.popitem(last=False)
            self._models.move_to_end(size)
            return self._models[size]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the runtime's start-up notes off the error stream; its errors come as exceptions."""
    with _ERROR_STREAM:
        sys.stderr.flush()
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nowhere)


def threads() -> int:
    """Cores this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else available or 1
