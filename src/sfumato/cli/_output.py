"""What every verb prints: words for people, or one JSON object for machines; and the progress bar."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from sfumato.devices import used_devices, used_words

if TYPE_CHECKING:
    from rich.progress import Progress

    from sfumato.privacy import Guarantee, NoGuarantee
    from sfumato.progress import ProgressStep

_NARROWEST, _USUAL_WIDTH = 20, 80
_NAMED_GAPS = 2  # of what a promise does not cover; all of it stands on the card


def shown_path(path: Path) -> str:
    """Where something was written, as seen from here."""
    return os.path.relpath(path)


def finite(value: float | None) -> float | None:
    """Options with a range let NaN pass: it is neither too small nor too large."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a finite number, got {value}")
    return value


def console(*, stderr: bool = False) -> Console:
    """Whole words on a terminal; whole lines for whoever reads them from a file or a pipe."""
    made = Console(highlight=False, stderr=stderr)
    made.soft_wrap = not made.is_terminal
    if made.width < _NARROWEST:
        # COLUMNS=0, as some schedulers set it, would print nothing at all
        made.width = _USUAL_WIDTH
    return made


def emit(
    as_json: bool, payload: Mapping[str, Any], *words: RenderableType, ok: bool = True
) -> None:
    """Print ``payload`` as JSON, or ``words`` for a person.

    Whatever is not ``ok`` ends the command with exit code 1.
    """
    used = used_devices()
    if as_json:
        ran_on = {"ran_on": used} if used else {}
        print(json.dumps({**ran_on, **payload, "ok": ok}, sort_keys=True, allow_nan=False))
    else:
        out = console()
        if used:
            out.print(f"Ran on {used_words(used)}.")
        for part in words:
            out.print(part)
    if not ok:
        raise typer.Exit(1)


def ending(done: str, not_safe: str, then: str) -> list[str]:
    """The last three lines of every run: done, what is not safe and why, the next command."""
    rows = (("green", "Done", done), ("yellow", "Not safe", not_safe), ("cyan", "Next", then))
    return [f"[{colour}]{title + ':':<9}[/] {escape(words)}" for colour, title, words in rows]


def not_safe(promise: Guarantee | NoGuarantee) -> str:
    """What a promise leaves open; what it assumes and allows an attacker stands on the card."""
    from sfumato.privacy import NoGuarantee, format_epsilon

    if isinstance(promise, NoGuarantee):
        return f"nothing is proven. {promise.reason}"
    seeded = "" if promise.is_private else "NOT PRIVATE, the noise came from a seed; "
    beyond = (
        f"{seeded}what goes beyond epsilon {format_epsilon(promise.epsilon)} for "
        f"{promise.unit.sentence} ({promise.terms}; {promise.mechanism})"
    )
    named, more = promise.not_covered[:_NAMED_GAPS], promise.not_covered[_NAMED_GAPS:]
    rest = (f"{len(more)} more on its card",) if more else ()
    return f"{'; '.join((beyond, *named, *rest))}."


def say(sentence: str) -> None:
    """Something to know while the work goes on: it never mixes with the result."""
    console(stderr=True).print(escape(sentence))


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Bar]:
    """A bar for whatever the work tells, on standard error, if that is a terminal."""
    from sfumato.progress import listening

    shown = console(stderr=True)
    bar = Bar(None if hidden or not shown.is_terminal else shown)
    try:
        with listening(bar):
            yield bar
    finally:
        bar.stop()


class Bar:
    """What is done, how much of it there is, the time left; nothing at all without a console."""

    def __init__(self, shown: Console | None) -> None:
        self._progress = None if shown is None else _progress(shown)
        if self._progress is not None:
            self._task = self._progress.add_task("working", total=None)
            self._progress.start()
        self._done = 0.0

    def __call__(self, step: ProgressStep) -> None:
        if self._progress is None:
            return
        if step.done < self._done:
            self._progress.reset(self._task)  # another part of the work has a speed of its own
        self._done = step.done
        self._progress.update(
            self._task, description=step.what, completed=step.done, total=step.total
        )

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _progress(shown: Console) -> Progress:
    from rich import progress as rich
    from rich.table import Column

    # in a narrow terminal the bar and the last words give way, never the time
    return rich.Progress(
        rich.BarColumn(bar_width=16),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(table_column=Column(min_width=7)),
        rich.TimeRemainingColumn(table_column=Column(min_width=7)),
        rich.TextColumn("left, {task.description}", table_column=Column(no_wrap=True, ratio=1)),
        console=shown,
        transient=True,
    )
