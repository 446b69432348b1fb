"""What a driver does with answers: into the manifest first, then into the release, by nobody else.

Answers that came together are recorded by one write to the disk; only then is the first of their
outputs moved. What workers say about files is checked here where they are on other machines.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import SfumatoError
from sfumato.files import sha256
from sfumato.jobs._engine import Answer
from sfumato.jobs._items import Item, State
from sfumato.jobs._manifest import Published
from sfumato.jobs._release_folder import level_time
from sfumato.media import MediaError

if TYPE_CHECKING:
    from sfumato.jobs._run import _Job

Verdict = tuple[State, str]


@dataclass(frozen=True, slots=True)
class Start:
    """What a guard hears before any work is done: the run's random id and all its sources.

    ``kept`` is the JSON that the guard gave to ``keep`` when this run began, None at its beginning.
    """

    run: str
    sources: Sequence[Path]
    kept: Any
    keep: Callable[[Any], None]


class Guard(Protocol):
    """Entered before any work of a run; ``check`` raises unless a result may be published.

    What it is entered as goes to the work beside the settings; it does not make them others.
    """

    def __call__(self, start: Start) -> AbstractContextManager[Mapping[str, Any] | None]: ...

    def check(self, result: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """Where one attempt writes: a folder of its own, whose name nothing else has had."""

    root: Path
    target: Path

    @property
    def main(self) -> str:
        return self.target.relative_to(self.root).as_posix()

    def remove(self) -> None:
        try:
            self.root.rmdir()  # most have been emptied by the release
        except OSError:
            shutil.rmtree(self.root, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Ready:
    """An item that may be published, and what of an earlier run it replaces."""

    position: int
    item: Item
    place: AttemptFolder
    entry: Published
    before: Published | None


class Publisher:
    """Publishes the answers of a job."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._beside = job.release.absolute().parent

    def publish(self, came: Sequence[tuple[Answer, Item, AttemptFolder]]) -> list[Verdict]:
        """What becomes of items that were answered together, in their order."""
        verdicts: dict[int, Verdict] = {}
        ready: list[_Ready] = []
        for position, (answer, item, place) in enumerate(came):
            if answer.failure:
                verdicts[position] = ("failed", answer.failure)
                continue
            digest, outputs, result = answer.value
            entry = Published(
                item.key, digest, self._job.settings_digest, outputs, place.main, result,
                os.path.relpath(place.root, self._beside),
            )  # fmt: skip
            if ready and _alike(entry, ready):  # equal recordings are compared once one is recorded
                verdicts |= self._record(ready)
                ready = []
            refused = self._refused(item, place, entry)
            if refused is not None:
                verdicts[position] = refused
            else:
                before = self._job.manifest.get(item.key)
                ready.append(_Ready(position, item, place, entry, before))
        verdicts |= self._record(ready)
        return [verdicts[position] for position in range(len(came))]

    def _refused(self, item: Item, place: AttemptFolder, entry: Published) -> Verdict | None:
        job = self._job
        if twin := job.twin(item, entry.digest, entry.content):
            if entry.content is not None:
                job.manifest.note_content(entry.digest, entry.content)
            return twin
        try:
            json.dumps(entry.result, allow_nan=False)
            require_plain_files(place.root, entry.outputs, read=job.engine.remote)
            if job.guard is not None:
                job.guard.check(entry.result)
            before = job.manifest.get(item.key)
            ours = before.outputs if before else {}
            for name in entry.outputs:
                job.require_free(job.release / name, ours.get(name))
        except SfumatoError as error:
            return "failed", str(error)
        except (TypeError, ValueError):
            return "failed", "Expected a JSON result of the work, got none."
        return None

    def _record(self, ready: Sequence[_Ready]) -> Iterator[tuple[int, Verdict]]:
        if not ready:
            return
        try:
            self._job.manifest.add([each.entry for each in ready])
        except OSError as error:
            yield from ((each.position, _no_room(error)) for each in ready)
            return
        for each in ready:
            yield each.position, self._moved(each)

    def _moved(self, ready: _Ready) -> Verdict:
        job, entry, root = self._job, ready.entry, ready.place.root
        try:
            # The main file moves last: a card without a recording harms nobody.
            for name in sorted(entry.outputs, key=lambda name: name == entry.main):
                move(root / name, job.release / name)
            for stale in set(ready.before.outputs if ready.before else ()) - set(entry.outputs):
                (job.release / stale).unlink(missing_ok=True)
        except OSError as error:
            if ready.place.target.exists():
                job.manifest.withdraw(ready.item.key)
            return _no_room(error)
        return "done", ""


def _alike(entry: Published, ready: Sequence[_Ready]) -> bool:
    known = {text for each in ready for text in (each.entry.digest, each.entry.content)}
    return bool(({entry.digest, entry.content} - {None}) & known)


def require_plain_files(root: Path, outputs: Mapping[str, str], *, read: bool) -> None:
    """What is published lies in the place of its attempt, plain files only, as the worker said."""
    for name, digest in outputs.items():
        inside = PurePosixPath(name)
        try:
            plain = stat.S_ISREG((root / name).lstat().st_mode)
        except OSError:
            plain = False
        if inside.is_absolute() or ".." in inside.parts or not plain:
            raise MediaError(
                "Expected plain files in the place of this attempt, got something else: nothing of it "
                "was released. Let nobody else write into the shared folder."
            )
        if read and sha256(root / name) != digest:
            raise MediaError(
                "Expected the output as its node wrote it, the driver reads another one: nothing of it "
                "was released. Check the shared folder, and run it again."
            )


def _no_room(error: OSError) -> Verdict:
    reason = error.strerror or type(error).__name__
    return "failed", f"Expected a folder that can be written, got {reason!r}: free some space."


def move(staged: Path, place: Path) -> None:
    """Into the release, under the one date that everything there has."""
    place.parent.mkdir(parents=True, exist_ok=True)
    level_time(staged)
    os.replace(staged, place)
