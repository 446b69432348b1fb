"""Folder jobs: many files, several processes, resumable, honest about what failed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.files import OutputExistsError, sha256, staging_folder
from sfumato.jobs._items import Item, JobReport, Outcome, Standing, collect_items
from sfumato.jobs._manifest import Manifest, Published, name_list
from sfumato.jobs._pool import Answer, run_tasks
from sfumato.jobs._release_folder import (
    INDEX,
    Names,
    level_time,
    released_stem,
    require_outside,
    write_index,
)
from sfumato.media import MediaError, readable_size
from sfumato.privacy import control_character
from sfumato.progress import tell

Work = Callable[[Path, Path, dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Start:
    """What a guard hears before any work is done: the run's random id and all its sources.

    ``kept`` is the JSON that the guard gave to ``keep`` when this run began, None at its beginning.
    """

    run: str
    sources: tuple[Path, ...]
    kept: Any
    keep: Callable[[Any], None]


class Guard(Protocol):
    """Entered before any work of a run; ``check`` raises unless a result may be published.

    What it is entered as goes to the work beside the settings; it does not make them others.
    """

    def __call__(self, start: Start) -> AbstractContextManager[Mapping[str, Any] | None]: ...

    def check(self, result: Any) -> None: ...


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
    kinds: tuple[str, ...] | None = None,
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
    """
    release = Path(out_dir)
    record = Path(manifest) if manifest else name_list(release)
    require_outside(record, release, "manifest")
    items, others = collect_items(
        sources, release, keep_names=names == "keep", kinds=kinds or ("video", "image")
    )
    job = _Job(release, settings, names, suffix, force=force, resume=resume, work=work, guard=guard)
    job.aside = aside or {}
    job.require_names(items)
    with Manifest(record) as job.manifest:
        job.finish_interrupted()
        with staging_folder(release) as job.staging:
            refused = any(each.refused for each in others)
            shown = progress or _tell
            outcomes = job.run(items, workers or _cores(), timeout, shown, unfinished=refused)
        if index:
            job.write_index(items, outcomes)
    outcomes += [
        Outcome(each.path, "failed" if each.refused else "left out", each.reason) for each in others
    ]
    return JobReport(tuple(outcomes))


def _tell(standing: Standing) -> None:
    # skipped files cost no time, and counting them would promise an end that does not come
    tell(str(standing), standing.bytes_finished, standing.bytes_total or None)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _UnfinishedError(Exception):
    """Leaves the guard open, so that the next run finds it again."""


class _Job:
    manifest: Manifest
    staging: Path
    aside: dict[str, Any]

    def __init__(
        self,
        release: Path,
        settings: dict[str, Any],
        names: Names,
        suffix: str | Callable[[Path], str] | None,
        *,
        force: bool,
        resume: bool,
        work: Work,
        guard: Guard | None,
    ) -> None:
        if guard is not None and force:
            raise MediaError(
                "Expected a folder to be released once under one reservation, got --force: what "
                "was let go already would be released again uncounted. Choose another output folder."
            )
        self.release = release
        self.settings = settings
        self.names = names
        self.suffix = suffix
        self.force = force
        self.resume = resume
        self.work = work
        self.guard = guard
        self.settings_digest = _settings_digest(settings, work)

    def run(
        self,
        items: list[Item],
        workers: int,
        timeout: float | None,
        progress: Callable[[Standing], None],
        *,
        unfinished: bool,
    ) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        for number, item in enumerate(items):
            settled = self._settled(item)
            if settled is not None:
                outcomes[number] = settled
        todo = [number for number in range(len(items)) if number not in outcomes]
        with suppress(_UnfinishedError):
            with self._guarded(items, todo) as more:
                self._work_on(items, todo, outcomes, workers, timeout, progress, more)
                failed = any(outcome.state == "failed" for outcome in outcomes.values())
                if failed or unfinished:
                    raise _UnfinishedError
            if self.guard is not None:
                self.manifest.close_run()
        return [outcomes[number] for number in range(len(items))]

    def _guarded(
        self, items: list[Item], todo: list[int]
    ) -> AbstractContextManager[Mapping[str, Any] | None]:
        """The guard of this run; a run that is closed and finds new work is another run."""
        if self.guard is None or (self.manifest.closed and not todo):
            return nullcontext()
        if self.manifest.closed:
            self.manifest.begin_run()
        sources = tuple(item.source for item in items)
        return self.guard(Start(self.manifest.run, sources, self.manifest.kept, self.manifest.keep))

    def _work_on(
        self,
        items: list[Item],
        todo: list[int],
        outcomes: dict[int, Outcome],
        workers: int,
        timeout: float | None,
        progress: Callable[[Standing], None],
        more: Mapping[str, Any] | None,
    ) -> None:
        weights = [_weight(items[number].source) for number in todo]
        standing = Standing(
            total=len(items),
            skipped=sum(outcome.state == "skipped" for outcome in outcomes.values()),
            failed=sum(outcome.state == "failed" for outcome in outcomes.values()),
            left_out=sum(outcome.state == "left out" for outcome in outcomes.values()),
            bytes_total=sum(weights),
        )
        progress(standing)
        targets = [self._target(items[number], number) for number in todo]
        settings = {**self.settings, **self.aside, **(more or {})}
        tasks = [
            (self.work, items[number].source, target, self._root(number), settings)
            for number, target in zip(todo, targets)
        ]
        with closing(run_tasks(_perform, tasks, workers=workers, timeout=timeout)) as answers:
            for answer in answers:
                number = todo[answer.number]
                outcome = self._publish(
                    items[number], targets[answer.number], self._root(number), answer
                )
                outcomes[number] = outcome
                standing = replace(
                    standing,
                    done=standing.done + (outcome.state == "done"),
                    failed=standing.failed + (outcome.state == "failed"),
                    left_out=standing.left_out + (outcome.state == "left out"),
                    bytes_finished=standing.bytes_finished + weights[answer.number],
                )
                progress(standing)

    def require_names(self, items: list[Item]) -> None:
        """Raise if two kept names would become one, or one cannot stand on a card."""
        if self.names == "keep":
            names = [f"{item.folder}/{self._ending(item, item.source.stem)}" for item in items]
            if any(control_character(name) for name in names):
                raise MediaError(
                    "Expected kept names of plain characters, got one with a control character: "
                    "rename it, or let names be random."
                )
            if len({name.casefold() for name in names}) < len(names):
                raise MediaError(
                    "Expected every kept name once, got two that differ in their ending or in case "
                    "alone: rename one, or let names be random."
                )

    def finish_interrupted(self) -> None:
        """Move what a killed run had recorded and not yet moved: it is drawn, so it is the output."""
        for entry in self.manifest.items.values():
            staged = self.release.absolute().parent / entry.staged
            for name in sorted(entry.outputs, key=lambda name: name == entry.main):
                place = self.release / name
                if not entry.staged or place.exists() or not (staged / name).is_file():
                    continue
                if sha256(staged / name) == entry.outputs[name]:
                    _move(staged / name, place)

    def _settled(self, item: Item) -> Outcome | None:
        """The outcome of an item that needs no work, or cannot have any."""
        before = self.manifest.items.get(item.key)
        if self.force:
            return None
        try:
            if before is None:
                self._require_free(self.release / item.folder / self._name(item), None)
                if self.manifest.items and item.source.is_file():
                    return self._twin(item, _source_digest(item.source), None)
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
            return Outcome(item.source, "failed", str(error))
        outputs = tuple(self.release / name for name in before.outputs)
        main = self.release / before.main
        return Outcome(item.source, "skipped", "", main, outputs, before.result)

    def _name(self, item: Item) -> str:
        before = self.manifest.items.get(item.key)
        if before is not None and self.names == "random":
            # one item has one name for good
            return self._ending(item, Path(before.main).stem)
        return self._ending(item, released_stem(item.source, self.names))

    def _ending(self, item: Item, stem: str) -> str:
        if callable(self.suffix):
            return stem + self.suffix(item.source)
        return stem + (item.source.suffix.lower() if self.suffix is None else self.suffix)

    def _root(self, number: int) -> Path:
        return self.staging / str(number)

    def _target(self, item: Item, number: int) -> Path:
        return self._root(number) / item.folder / self._name(item)

    def _twin(self, item: Item, digest: str, content: str | None) -> Outcome | None:
        """What comes of an item that is the same recording as one published under another name."""
        other = self.manifest.twin(item.key, digest, content)
        if other is None:
            return None
        reason = f"the same recording as {Path(other.source).name}, which is released once"
        return Outcome(item.source, "left out", reason)

    def _publish(self, item: Item, target: Path, root: Path, answer: Answer) -> Outcome:
        if answer.failure:
            return Outcome(item.source, "failed", answer.failure)
        digest, outputs, result = answer.value
        before = self.manifest.items.get(item.key)
        main = target.relative_to(root).as_posix()
        staged = os.path.relpath(root, self.release.absolute().parent)
        entry = Published(item.key, digest, self.settings_digest, outputs, main, result, staged)
        if twin := self._twin(item, digest, entry.content):
            if entry.content is not None:
                self.manifest.note_content(digest, entry.content)
            return twin
        try:
            if self.guard is not None:
                self.guard.check(result)
            ours = before.outputs if before else {}
            for name in outputs:
                self._require_free(self.release / name, ours.get(name))
            self.manifest.add(entry)
            # The main file moves last: a card without a recording harms nobody.
            for name in sorted(outputs, key=lambda name: name == main):
                _move(root / name, self.release / name)
            for stale in set(ours) - set(outputs):
                (self.release / stale).unlink(missing_ok=True)
        except SfumatoError as error:
            return Outcome(item.source, "failed", str(error))
        except (TypeError, ValueError):
            return Outcome(item.source, "failed", "Expected a JSON result of the work, got none.")
        except OSError as error:
            if target.exists():
                self.manifest.withdraw(item.key)
            reason = error.strerror or type(error).__name__
            sentence = f"Expected a folder that can be written, got {reason!r}: free some space."
            return Outcome(item.source, "failed", sentence)
        places = tuple(self.release / name for name in outputs)
        return Outcome(item.source, "done", "", self.release / main, places, result)

    def _require_free(self, place: Path, ours: str | None) -> None:
        if self.force or not place.exists():
            return
        if ours is None or sha256(place) != ours:
            raise OutputExistsError(place)

    def write_index(self, items: list[Item], outcomes: list[Outcome]) -> None:
        rows = {
            outcome.output.relative_to(self.release).as_posix(): item.row()
            for item, outcome in zip(items, outcomes)
            if outcome.output is not None
        }
        if rows:
            known = self.force or bool(self.manifest.items)
            write_index(self.release, rows, force=known and (self.release / INDEX).is_file())


def _perform(
    work: Work, source: Path, target: Path, root: Path, settings: dict[str, Any]
) -> tuple[str, dict[str, str], Any]:
    """In a worker: do one item in its own staging folder and say what was written."""
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


def _move(staged: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    level_time(staged)
    os.replace(staged, place)


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
