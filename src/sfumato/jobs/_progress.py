"""A progress bar that is right: it counts what is finished, weighs by bytes, and never guesses."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands. ``finished`` counts done, skipped, failed and left out items."""

    total: int
    done: int = 0
    skipped: int = 0
    failed: int = 0
    left_out: int = 0
    bytes_total: int = 0
    bytes_finished: int = 0

    @property
    def finished(self) -> int:
        return self.done + self.skipped + self.failed + self.left_out

    def __str__(self) -> str:
        words = [f"{self.finished}/{self.total} files"]
        words += [f"{self.skipped} skipped"] if self.skipped else []
        words += [f"{self.failed} failed"] if self.failed else []
        words += [f"{self.left_out} left out"] if self.left_out else []
        return ", ".join(words)


class Bar:
    """Shows a ``Standing`` on standard error, if that is a terminal.

    The bar covers the bytes of what is still to be done: skipped files cost no time, and counting
    them would promise an end that does not come.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[standing]}"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            disable=not (console or Console(stderr=True)).is_terminal,
        )
        self._task = self._progress.add_task("protecting", total=None, standing="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, standing: Standing) -> None:
        self._progress.update(
            self._task,
            total=max(1, standing.bytes_total),
            completed=standing.bytes_finished if standing.bytes_total else 1,
            standing=str(standing),
        )
