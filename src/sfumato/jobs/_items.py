"""What goes into a folder job, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sfumato.files import refuse_replacing
from sfumato.jobs._release_folder import component
from sfumato.media import LeftOut, MediaError, list_media, survey


@dataclass(frozen=True, slots=True)
class Item:
    """One source and its place in the release: ``folder`` is like ``train/walk``."""

    source: Path
    folder: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return str(self.source.absolute())

    def row(self) -> dict[str, Any]:
        """Its line of ``metadata.jsonl``, but for the name."""
        parts = self.folder.split("/") if self.folder else []
        layout = {"split": parts[0], "label": parts[1]} if len(parts) == 2 else {}
        return {**self.metadata, **layout}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one item. ``reason`` says why one failed or was left out."""

    source: Path
    state: Literal["done", "skipped", "failed", "left out"]
    reason: str = ""
    output: Path | None = None
    outputs: tuple[Path, ...] = ()
    result: Any = None


@dataclass(frozen=True, slots=True)
class JobReport:
    """All outcomes, in the order of the sources; then what of a folder was no source.

    For the operator: it names the inputs.
    """

    outcomes: tuple[Outcome, ...]

    def _of(self, state: str) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.state == state)

    @property
    def done(self) -> tuple[Outcome, ...]:
        return self._of("done")

    @property
    def skipped(self) -> tuple[Outcome, ...]:
        return self._of("skipped")

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return self._of("failed")

    @property
    def left_out(self) -> tuple[Outcome, ...]:
        """Equal recordings beyond the first, and what of the folder is no recording."""
        return self._of("left out")

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def exit_code(self) -> int:
        return 0 if self.ok else 1

    def summary(self) -> str:
        """Counts, then one line for each failure and each file left out, with the reason."""
        lines = [
            f"{len(self.outcomes)} files: {len(self.done)} done, {len(self.skipped)} skipped "
            f"(finished before), {len(self.failed)} failed, {len(self.left_out)} left out."
        ]
        lines += [f"  {outcome.source.name}: {outcome.reason}" for outcome in self.failed]
        lines += [f"  left out: {each.source.name}: {each.reason}" for each in self.left_out]
        return "\n".join(lines)


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


def dataset_items(root: str | os.PathLike[str]) -> list[Item]:
    """Items of a data set laid out as ``split/class/file``, keeping splits and classes."""
    folder = Path(root)
    items = []
    for file in list_media(folder):
        parts = file.relative_to(folder).parts
        if len(parts) != 3:
            raise MediaError(
                f"Expected a data set laid out as split/class/file, got a file {len(parts)} levels "
                "deep: move it, or pass a list of files to release them without classes."
            )
        items.append(Item(file, f"{component(parts[0])}/{component(parts[1])}"))
    return items


def collect_items(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Item],
    release: Path,
    *,
    keep_names: bool,
    kinds: tuple[str, ...] = ("video", "image"),
) -> tuple[list[Item], list[LeftOut]]:
    """The items of a job, each source once, and what is none; release and originals lie apart."""
    left_out: list[LeftOut] = []
    if isinstance(sources, (str, os.PathLike)):
        root = Path(sources)
        files, left_out = survey(root, kinds=kinds)
        items = [Item(file, _subfolder(file, root) if keep_names else "") for file in files]
        refuse_replacing(root, release)
    else:
        items = [source if isinstance(source, Item) else Item(Path(source)) for source in sources]
        for item in items:
            refuse_replacing(item.source, release)
    if not items:
        raise MediaError("Expected at least one media file, found none: check the folder.")
    for item in items:
        for part in item.folder.split("/") if item.folder else ():
            component(part)
    if len({item.key for item in items}) < len(items):
        raise MediaError("Expected every source once, got one twice: remove the repetition.")
    return items, left_out


def _subfolder(file: Path, root: Path) -> str:
    place = file.relative_to(root).parent.as_posix()
    return "" if place == "." else place
