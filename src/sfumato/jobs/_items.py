"""What goes into a folder job, and what came of it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sfumato.files import refuse_replacing
from sfumato.jobs._engine import NodeTally
from sfumato.jobs._manifest import Manifest
from sfumato.jobs._release_folder import component
from sfumato.media import LeftOut, MediaError, list_media, survey_names

State = Literal["done", "skipped", "failed", "left out"]


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
    state: State
    reason: str = ""
    output: Path | None = None
    outputs: tuple[Path, ...] = ()
    result: Any = None


_STATES: tuple[State, ...] = ("done", "skipped", "failed", "left out")


class Outcomes(Sequence[Outcome]):
    """What came of each item, a byte each; what was published of one is read from the manifest.

    Behind the items stands ``beyond``: what of a folder was no item.
    """

    def __init__(self, items: Sequence[Item], release: Path, manifest: Manifest) -> None:
        self._items, self._release, self._manifest = items, release, manifest
        self._states = bytearray(len(items))
        self._reasons: dict[int, str] = {}
        self.beyond: list[Outcome] = []

    def settle(self, number: int, state: State, reason: str = "") -> None:
        assert not self._states[number], "an item ends in one state"
        self._states[number] = _STATES.index(state) + 1
        if reason:
            self._reasons[number] = reason

    def open(self) -> array[int]:
        """The numbers of items that have no outcome yet."""
        return array("q", (number for number, state in enumerate(self._states) if not state))

    def count(self, state: Any) -> int:
        return self._states.count(_STATES.index(state) + 1) + sum(
            1 for each in self.beyond if each.state == state
        )

    def __len__(self) -> int:
        return len(self._states) + len(self.beyond)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        if number >= len(self._states):
            return self.beyond[number - len(self._states)]
        state, item = _STATES[self._states[number] - 1], self._items[number]
        entry = self._manifest.get(item.key) if state in ("done", "skipped") else None
        if entry is None:
            return Outcome(item.source, state, self._reasons.get(number, ""))
        outputs = tuple(self._release / name for name in entry.outputs)
        main = self._release / entry.main
        return Outcome(item.source, state, "", main, outputs, entry.result)

    def of(self, state: State) -> Iterator[Outcome]:
        """The outcomes in this state; the others are not looked up."""
        code = _STATES.index(state) + 1
        yield from (self[n] for n, each in enumerate(self._states) if each == code)
        yield from (each for each in self.beyond if each.state == state)


@dataclass(frozen=True, slots=True)
class JobReport:
    """All outcomes, in the order of the sources; then what of a folder was no source.

    For the operator: it names the inputs, and the nodes of a cluster. ``repeated`` items were done
    again after their worker was lost.
    """

    outcomes: Outcomes
    nodes: tuple[NodeTally, ...] = ()
    repeated: int = 0

    def _of(self, state: State) -> tuple[Outcome, ...]:
        return tuple(self.outcomes.of(state))

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
        return not self.outcomes.count("failed")

    @property
    def exit_code(self) -> int:
        return 0 if self.ok else 1

    def summary(self) -> str:
        """Counts, then one line for each failure and each file left out, with the reason."""
        count = self.outcomes.count
        lines = [
            f"{len(self.outcomes)} files: {count('done')} done, {count('skipped')} skipped "
            f"(finished before), {count('failed')} failed, {count('left out')} left out."
        ]
        if self.repeated:
            lines.append(f"  {self.repeated} done again after their worker was lost.")
        lines += [f"  {node}" for node in self.nodes]
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


class _FolderItems(Sequence[Item]):
    """The files of a folder: their names alone are kept."""

    def __init__(self, root: Path, names: list[str], *, keep_folders: bool) -> None:
        self._root, self._names, self._keep_folders = root, names, keep_folders

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        name = Path(self._names[number])
        place = name.parent.as_posix() if self._keep_folders else "."
        return Item(self._root / name, "" if place == "." else place)


def collect_items(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Item],
    release: Path,
    *,
    keep_names: bool,
    kinds: tuple[str, ...] = ("video", "image"),
) -> tuple[Sequence[Item], list[LeftOut]]:
    """The items of a job, each source once, and what is none; release and originals lie apart."""
    left_out: list[LeftOut] = []
    items: Sequence[Item]
    if isinstance(sources, (str, os.PathLike)):
        root = Path(sources)
        names, left_out = survey_names(root, kinds=kinds)
        items = _FolderItems(root, names, keep_folders=keep_names)
        refuse_replacing(root, release)
    else:
        items = [source if isinstance(source, Item) else Item(Path(source)) for source in sources]
        for item in items:
            refuse_replacing(item.source, release)
        if len({item.key for item in items}) < len(items):
            raise MediaError("Expected every source once, got one twice: remove the repetition.")
    if not items:
        raise MediaError("Expected at least one media file, found none: check the folder.")
    for folder in {item.folder for item in items if item.folder}:
        for part in folder.split("/"):
            component(part)
    return items, left_out
