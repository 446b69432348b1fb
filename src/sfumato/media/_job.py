"""Folder jobs: many files, several processes, resumable, honest about what failed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.files import OutputExistsError, sha256
from sfumato.media._errors import MediaError
from sfumato.media._items import Item, JobReport, Outcome, collect_items
from sfumato.media._manifest import Manifest, Published
from sfumato.media._pool import Answer, run_tasks
from sfumato.media._progress import Bar, Standing
from sfumato.media._release import (
    INDEX,
    Names,
    beside,
    level_time,
    released_name,
    require_outside,
    write_index,
)
from sfumato.media._structure import readable_size

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
    suffix: str | None = None,
    manifest: str | os.PathLike[str] | None = None,
    index: bool = False,
    timeout: float | None = None,
    progress: Callable[[Standing], None] | None = None,
) -> JobReport:
    """Run ``work(source, target, settings)`` on every source, in processes, into ``out_dir``.

    ``work`` is a function of a module; it writes ``target`` and may write more files beside it (a
    card). All of them move into ``out_dir`` together once it returns; if it raises or its process
    dies, none does. What it returns must be JSON and is found again in the report. ``sources`` is a
    folder or a list of paths and ``Item``. An item finished before is skipped if source, settings
    and outputs are still the same; one that differs fails unless ``force``. ``index=True`` writes
    ``metadata.jsonl``. ``progress`` replaces the bar on the terminal.
    """
    release = Path(out_dir)
    record = Path(manifest) if manifest else beside(release, ".job.jsonl")
    require_outside(record, release, "manifest")
    items = collect_items(sources, release, keep_names=names == "keep")
    job = _Job(release, settings, names, suffix, force=force, resume=resume, work=work)
    with Manifest(record) as job.manifest, _staging(release) as job.staging:
        if progress is not None:
            outcomes = job.run(items, workers or _cores(), timeout, progress)
        else:
            with Bar() as bar:
                outcomes = job.run(items, workers or _cores(), timeout, bar)
        if index:
            job.write_index(items, outcomes)
    return JobReport(tuple(outcomes))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _staging(release: Path) -> Iterator[Path]:
    """A folder for the owner only beside the release; what a killed job left there goes first."""
    folder = beside(release, ".staging")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Job:
    manifest: Manifest
    staging: Path

    def __init__(
        self,
        release: Path,
        settings: dict[str, Any],
        names: Names,
        suffix: str | None,
        *,
        force: bool,
        resume: bool,
        work: Work,
    ) -> None:
        self.release = release
        self.settings = settings
        self.names = names
        self.suffix = suffix
        self.force = force
        self.resume = resume
        self.work = work
        self.settings_digest = _settings_digest(settings, work)

    def run(
        self,
        items: list[Item],
        workers: int,
        timeout: float | None,
        progress: Callable[[Standing], None],
    ) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        for number, item in enumerate(items):
            settled = self._settled(item)
            if settled is not None:
                outcomes[number] = settled
        todo = [number for number in range(len(items)) if number not in outcomes]
        weights = [_weight(items[number].source) for number in todo]
        standing = Standing(
            total=len(items),
            skipped=sum(outcome.state == "skipped" for outcome in outcomes.values()),
            failed=sum(outcome.state == "failed" for outcome in outcomes.values()),
            bytes_total=sum(weights),
        )
        progress(standing)
        targets = [self._target(items[number], number) for number in todo]
        tasks = [
            (self.work, items[number].source, target, self.settings)
            for number, target in zip(todo, targets)
        ]
        with closing(run_tasks(_perform, tasks, workers=workers, timeout=timeout)) as answers:
            for answer in answers:
                number = todo[answer.number]
                outcome = self._publish(items[number], targets[answer.number], answer)
                outcomes[number] = outcome
                standing = replace(
                    standing,
                    done=standing.done + (outcome.state == "done"),
                    failed=standing.failed + (outcome.state == "failed"),
                    bytes_finished=standing.bytes_finished + weights[answer.number],
                )
                progress(standing)
        return [outcomes[number] for number in range(len(items))]

    def _settled(self, item: Item) -> Outcome | None:
        """The outcome of an item that needs no work, or cannot have any."""
        before = self.manifest.items.get(item.key)
        if self.force:
            return None
        try:
            if before is None:
                self._require_free(self.release / item.folder / self._name(item), None)
                return None
            if not self.resume:
                raise _refusal("no output of an earlier job", "one", "resume")
            state = before.state(self.release)
            if state == "missing":
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
        suffix = item.source.suffix.lower() if self.suffix is None else self.suffix
        before = self.manifest.items.get(item.key)
        if before is not None and self.names == "random":
            return Path(before.main).stem + suffix  # one item has one name for good
        return released_name(item.source, self.names, suffix)

    def _target(self, item: Item, number: int) -> Path:
        return self.staging / str(number) / item.folder / self._name(item)

    def _publish(self, item: Item, target: Path, answer: Answer) -> Outcome:
        if answer.failure:
            return Outcome(item.source, "failed", answer.failure)
        digest, outputs, result = answer.value
        root = target.parents[len(Path(item.folder).parts)]
        before = self.manifest.items.get(item.key)
        main = target.relative_to(root).as_posix()
        try:
            entry = Published(item.key, digest, self.settings_digest, outputs, main, result)
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
    work: Work, source: Path, target: Path, settings: dict[str, Any]
) -> tuple[str, dict[str, str], Any]:
    """In a worker: do one item in its own staging folder and say what was written."""
    digest = _source_digest(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    result = work(source, target, settings)
    if not target.is_file():
        raise MediaError("Expected the method to write its output, found none: this is a bug.")
    staging = next(folder for folder in target.parents if folder.parent.name.endswith(".staging"))
    files = sorted(file for file in target.parent.rglob("*") if file.is_file())
    return digest, {file.relative_to(staging).as_posix(): sha256(file) for file in files}, result


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
