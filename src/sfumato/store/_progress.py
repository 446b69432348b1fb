"""A progress bar for a download, on the error stream, so that outputs stay clean for machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sfumato.store._registry import Archive

Progress = Callable[[int, int], None]
"""Called with bytes so far and bytes in all."""


@contextmanager
def shown(archive: Archive, wanted: bool) -> Iterator[Progress | None]:
    """Yield a callback that draws the bar, or None when nobody looks."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"pulling {archive}", total=archive.size)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
