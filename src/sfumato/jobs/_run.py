"""Folder jobs: many files, on any engine, resumable, honest about what failed.

This process is the driver: it alone writes the manifest, enters the guard and publishes
(``_publish.py``). Workers write into a place of their own and answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.files import OutputExistsError, sha256, staging_folder
from sfumato.jobs._engine import Answer, Engine, InThisProcess, Needs, Task
from sfumato.jobs._items import (
    Item,
    JobReport,
    Outcome,
    Outcomes,
    Standing,
    State,
    collect_items,
)
from sfumato.jobs._manifest import Manifest, name_list
from sfumato.jobs._processes import Processes
from sfumato.jobs._publish import AttemptFolder, Guard, Publisher, Start, move
from sfumato.jobs._release_folder import INDEX, Names, released_stem, require_outside, write_index
from sfumato.media import MediaError, readable_size
from sfumato.privacy import control_character
from sfumato.progress import tell

Work = Callable[[Path, Path, dict[str, Any]], Any]


def run_job(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Item],
    out_dir: str | os.PathLike[str],
    work: Work,
    *,
    settings: dict[str, Any],
    workers: int | None = None,
    force: bool = False,
    resume: bool = True,
    names: Names = "random",
    suffix: str | Callable[[Path], str] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    guard: Guard | None = None,
    index: bool = False,
    timeout: float | None = None,
    progress: Callable[[Standing], None] | None = None,
    aside: dict[str, Any] | None = None,
    engine: Engine | None = None,
    needs: Needs = Needs(),  # noqa: B008 - frozen
    warm: Callable[[], Any] | None = None,
    repeatable: bool = False,
    kinds: tuple[str, ...] | None = None,
    in_turn: Callable[[Path], bool] | None = None,
) -> JobReport:
    """Run ``work(source, target, settings)`` on every source, in processes, into ``out_dir``.

    ``work`` is a function of a module; it writes ``target`` and may write more files beside it (a
    card). All of them move into ``out_dir`` together once it returns; if it raises or its process
    dies, none does. What it returns must be JSON and is found again in the report. ``sources`` is a
    folder or a list of paths and ``Item``. An item finished before is skipped if source, settings
    and outputs are still the same; one that differs fails unless ``force``. ``suffix`` is the ending
    of the outputs, or tells it for each source. ``index=True`` writes ``metadata.jsonl``.
    ``kinds`` are the kinds of files that are taken of a folder, video and image if nothing is said.
    ``aside`` is given to the work beside its settings and does not decide what is finished.
    ``progress`` hears where the job stands instead of whoever listens to ``sfumato.progress``.

    Equal recordings are one: a second file with the same bytes, or the same ``content`` in a dict
    that the work returned, is left out. ``guard`` is entered before any work and left once nothing
    failed (a ledger's reservation). Under it an item is published once and for all: one whose output
    is gone fails, because making it again would be a second release (R20).

    ``engine`` does the work (else ``workers`` processes of this machine). A cluster gives each item
    what it ``needs`` and calls ``warm`` once a node beforehand. ``repeatable`` work, which draws no
    noise, is done again where a worker was lost; other work fails then, and the next run does it.
    Sources that ``in_turn`` names are worked on by this process, one after the other, when all others
    are done: for work that gives its own parts to an engine.
    """
    release = Path(out_dir)
    record = Path(manifest) if manifest else name_list(release)
    require_outside(record, release, "manifest")
    items, others = collect_items(
        sources, release, keep_names=names == "keep", kinds=kinds or ("video", "image")
    )
    job = _Job(
        release, settings, names, suffix, force, resume, work, guard, aside or {},
        engine or Processes(workers), needs, repeatable, in_turn or (lambda source: False),
    )  # fmt: skip
    job.require_names(items)
    with Manifest(record) as job.manifest:
        job.finish_interrupted()
        with staging_folder(release) as job.staging:
            job.engine.prepare(job.staging, warm, needs)
            refused = any(each.refused for each in others)
            outcomes = job.run(items, timeout, progress or _tell, unfinished=refused)
        outcomes.beyond += [
            Outcome(each.path, "failed" if each.refused else "left out", each.reason)
            for each in others
        ]
        if index:
            job.write_index(items, outcomes)
    return JobReport(outcomes, job.engine.nodes(), job.repeated)


def _tell(standing: Standing) -> None:
    # skipped files cost no time, and counting them would promise an end that does not come
    tell(str(standing), standing.bytes_finished, standing.bytes_total or None)


class _UnfinishedError(Exception):
    """Leaves the guard open, so that the next run finds it again."""


@dataclass
class _Job:
    release: Path
    settings: dict[str, Any]
    names: Names
    suffix: str | Callable[[Path], str] | None
    force: bool
    resume: bool
    work: Work
    guard: Guard | None
    aside: dict[str, Any]
    engine: Engine
    needs: Needs
    repeatable: bool
    in_turn: Callable[[Path], bool]
    repeated: int = 0
    manifest: Manifest = field(init=False)
    staging: Path = field(init=False)

    def __post_init__(self) -> None:
        if self.guard is not None and self.force:
            raise MediaError(
                "Expected a folder to be released once under one reservation, got --force: what "
                "was let go already would be released again uncounted. Choose another output folder."
            )
        self.settings_digest = _settings_digest(self.settings, self.work)

    def run(
        self,
        items: Sequence[Item],
        timeout: float | None,
        progress: Callable[[Standing], None],
        *,
        unfinished: bool,
    ) -> Outcomes:
        outcomes = Outcomes(items, self.release, self.manifest)
        for number, item in enumerate(items):
            if settled := self._settled(item):
                outcomes.settle(number, *settled)
        todo = outcomes.open()
        with suppress(_UnfinishedError):
            with self._guarded(items, todo) as more:
                self._work_on(items, todo, outcomes, timeout, progress, more)
                if unfinished or outcomes.count("failed"):
                    raise _UnfinishedError
            if self.guard is not None:
                self.manifest.close_run()
        return outcomes

    def _guarded(
        self, items: Sequence[Item], todo: Sequence[int]
    ) -> AbstractContextManager[Mapping[str, Any] | None]:
        """The guard of this run; a run that is closed and finds new work is another run."""
        if self.guard is None or (self.manifest.closed and not todo):
            return nullcontext()
        if self.manifest.closed:
            self.manifest.begin_run()
        sources = _Sources(items)
        return self.guard(Start(self.manifest.run, sources, self.manifest.kept, self.manifest.keep))

    def _work_on(
        self,
        items: Sequence[Item],
        todo: Sequence[int],
        outcomes: Outcomes,
        timeout: float | None,
        progress: Callable[[Standing], None],
        more: Mapping[str, Any] | None,
    ) -> None:
        weights = array("q", (_weight(items[number].source) for number in todo))
        standing = Standing(
            total=len(items),
            skipped=outcomes.count("skipped"),
            failed=outcomes.count("failed"),
            left_out=outcomes.count("left out"),
            bytes_total=sum(weights),
        )
        progress(standing)
        settings = {**self.settings, **self.aside, **(more or {})}
        places: dict[int, AttemptFolder] = {}

        def task(position: int, attempt: int) -> tuple[Any, ...]:
            """An attempt at an item, in a place of its own; an earlier one has lost its own."""
            if position in places:
                places[position].remove()
            item = items[todo[position]]
            root = self.staging / f"{todo[position]}-{attempt}-{secrets.token_hex(4)}"
            places[position] = place = AttemptFolder(root, root / item.folder / self._name(item))
            seen = _seen(item.source) if self.engine.remote else None
            return self.work, item.source, place.target, place.root, settings, seen

        publisher = Publisher(self)
        with closing(self._answers(items, todo, task, timeout)) as batches:
            for batch in batches:
                came = [
                    (answer, items[todo[answer.number]], places.pop(answer.number))
                    for answer in batch
                ]
                for (answer, _, place), (state, reason) in zip(came, publisher.publish(came)):
                    place.remove()
                    self.repeated += answer.attempt > 1 and state == "done"
                    outcomes.settle(todo[answer.number], state, reason)
                    standing = replace(
                        standing,
                        done=standing.done + (state == "done"),
                        failed=standing.failed + (state == "failed"),
                        left_out=standing.left_out + (state == "left out"),
                        bytes_finished=standing.bytes_finished + weights[answer.number],
                    )
                    progress(standing)

    def _answers(
        self, items: Sequence[Item], todo: Sequence[int], task: Task, timeout: float | None
    ) -> Generator[list[Answer], None, None]:
        """Of the engine, then of this process."""
        apart = bytearray(self.in_turn(items[number].source) for number in todo)
        engines: tuple[Engine, ...] = (self.engine, InThisProcess())
        for engine, here in zip(engines, (0, 1), strict=True):
            own = array("q", (n for n, each in enumerate(apart) if each == here))
            if not own:
                continue
            answers = engine.run(
                _perform,
                len(own),
                _numbered(task, own),
                timeout=timeout,
                repeatable=self.repeatable,
                needs=self.needs,
            )
            with closing(answers) as batches:
                for batch in batches:
                    yield [replace(answer, number=own[answer.number]) for answer in batch]

    def require_names(self, items: Sequence[Item]) -> None:
        """Raise if two kept names would become one, or one cannot stand on a card."""
        if self.names == "keep":
            taken = set()
            for item in items:
                name = f"{item.folder}/{self._ending(item, item.source.stem)}"
                if control_character(name):
                    raise MediaError(
                        "Expected kept names of plain characters, got one with a control character: "
                        "rename it, or let names be random."
                    )
                taken.add(name.casefold())
            if len(taken) < len(items):
                raise MediaError(
                    "Expected every kept name once, got two that differ in their ending or in case "
                    "alone: rename one, or let names be random."
                )

    def finish_interrupted(self) -> None:
        """Move what a killed run had recorded and not yet moved: it is drawn, so it is the output."""
        for entry in self.manifest.published():
            staged = self.release.absolute().parent / entry.staged
            for name in sorted(entry.outputs, key=lambda name: name == entry.main):
                place = self.release / name
                if not entry.staged or place.exists() or not (staged / name).is_file():
                    continue
                if sha256(staged / name) == entry.outputs[name]:
                    move(staged / name, place)

    def _settled(self, item: Item) -> tuple[State, str] | None:
        """What became of an item that needs no work, or cannot have any."""
        if self.force:
            return None
        before = self.manifest.get(item.key)
        try:
            if before is None:
                if self.names == "keep":
                    self.require_free(self.release / item.folder / self._name(item), None)
                if len(self.manifest) and item.source.is_file():
                    return self.twin(item, _source_digest(item.source), None)
                return None
            if not self.resume:
                raise _refusal("no output of an earlier job", "one", "resume")
            state = before.state(self.release)
            if state == "missing":
                if self.guard is not None:
                    raise MediaError(
                        "Expected the output that was released before under this reservation, "
                        "found it gone: making it again would be a second release. Put it back, "
                        "or choose another output folder, which is counted anew."
                    )
                return None
            if state == "changed":
                raise _refusal("the output as it was written", "a changed one", "force")
            if before.settings != self.settings_digest:
                raise _refusal("the settings of the earlier job", "others", "force")
            if before.digest != _source_digest(item.source):
                raise _refusal("the source as it was", "a changed one", "force")
        except SfumatoError as error:
            return "failed", str(error)
        return "skipped", ""

    def _name(self, item: Item) -> str:
        before = self.manifest.get(item.key) if self.names == "random" else None
        if before is not None:
            # one item has one name for good
            return self._ending(item, Path(before.main).stem)
        return self._ending(item, released_stem(item.source, self.names))

    def _ending(self, item: Item, stem: str) -> str:
        if callable(self.suffix):
            return stem + self.suffix(item.source)
        return stem + (item.source.suffix.lower() if self.suffix is None else self.suffix)

    def twin(self, item: Item, digest: str, content: str | None) -> tuple[State, str] | None:
        """What comes of an item that is the same recording as one published under another name."""
        other = self.manifest.twin(item.key, digest, content)
        if other is None:
            return None
        reason = f"the same recording as {Path(other.source).name}, which is released once"
        return "left out", reason

    def require_free(self, place: Path, ours: str | None) -> None:
        if self.force or not place.exists():
            return
        if ours is None or sha256(place) != ours:
            raise OutputExistsError(place)

    def write_index(self, items: Sequence[Item], outcomes: Outcomes) -> None:
        rows = {
            outcome.output.relative_to(self.release).as_posix(): item.row()
            for item, outcome in zip(items, outcomes)
            if outcome.output is not None
        }
        if rows:
            known = self.force or bool(len(self.manifest))
            write_index(self.release, rows, force=known and (self.release / INDEX).is_file())


def _perform(
    work: Work,
    source: Path,
    target: Path,
    root: Path,
    settings: dict[str, Any],
    seen: tuple[int, int] | None,
) -> tuple[str, dict[str, str], Any]:
    """In a worker: do one item in its own staging folder and say what was written."""
    try:
        root.mkdir(mode=0o700)
    except OSError:
        # the driver has ended, or another folder is mounted here
        raise MediaError(
            "Expected the staging folder of this job, found none: nothing was read."
        ) from None
    if seen is not None and _seen(source) != seen:
        raise MediaError(
            "Expected the source as the driver sees it, this node sees another one: mount the same "
            "folder at the same path on every node."
        )
    digest = _source_digest(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    result = work(source, target, settings)
    if not target.is_file():
        raise MediaError("Expected the method to write its output, found none: this is a bug.")
    files = sorted(file for file in target.parent.rglob("*") if file.is_file())
    return digest, {file.relative_to(root).as_posix(): sha256(file) for file in files}, result


def _source_digest(source: Path) -> str:
    readable_size(source)
    return sha256(source)


def _seen(source: Path) -> tuple[int, int]:
    """Size and time of a source: the same on every node that sees the same file."""
    try:
        found = source.stat()
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns


def _numbered(task: Task, numbers: Sequence[int]) -> Task:
    """The tasks with these numbers, counted from 0."""
    return lambda number, attempt: task(numbers[number], attempt)


class _Sources(Sequence[Path]):
    """The sources of items, made as they are asked for."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: Any) -> Any:
        return self._items[number].source


def _weight(source: Path) -> int:
    try:
        return max(1, source.stat().st_size)
    except OSError:
        return 1


def _settings_digest(settings: dict[str, Any], work: Work) -> str:
    name = f"{getattr(work, '__module__', '')}.{getattr(work, '__qualname__', type(work).__name__)}"
    if "<" in name:
        raise MediaError(
            f"Expected a work that another process can import, got {name!r}: define it in a module."
        )
    try:
        text = json.dumps([__version__, name, settings], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise MediaError(
            "Expected settings that can be written as JSON, got others: use numbers, text, lists."
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()


def _refusal(expected: str, got: str, option: str) -> MediaError:
    return MediaError(
        f"Expected {expected}, found {got}: pass --{option} ({option}=True) or choose another "
        "output folder."
    )
