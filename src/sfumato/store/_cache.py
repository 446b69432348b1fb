"""The cache: a model is there, whole and as pinned, or it is not there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from sfumato.files import sha256
from sfumato.store._download import download
from sfumato.store._errors import CacheError, OfflineError, UnknownModelError
from sfumato.store._extract import extract_member
from sfumato.store._progress import Progress, shown
from sfumato.store._registry import MODELS, Archive, Member, ModelEntry


class CacheState(StrEnum):
    """What the cache holds for a model."""

    READY = "ready"
    ABSENT = "not pulled"
    DAMAGED = "damaged"


# Files this process has hashed: (path, size, modification time). A file that changes is hashed anew.
_verified: set[tuple[str, int, int]] = set()


def cache_folder() -> Path:
    """``SFUMATO_CACHE`` if set, else the platform's cache folder; models lie below it."""
    named = os.environ.get("SFUMATO_CACHE")
    root = Path(named).expanduser() if named else user_cache_path("sfumato", appauthor=False)
    return root / "models"


def entry(name: str) -> ModelEntry:
    """The registry's entry, or an error that lists the names there are."""
    try:
        return MODELS[name]
    except KeyError:
        raise UnknownModelError(
            f"Expected the name of a model, got {name!r}: choose one of {', '.join(MODELS)}."
        ) from None


def path(name: str, offline: bool = False, progress: bool = True) -> Path:
    """The verified file of a model, pulled first if the cache lacks it.

    ``offline`` (or ``SFUMATO_OFFLINE=1``) forbids the download and raises instead. Size and SHA-256
    are checked once per process and again whenever the file has changed.
    """
    return paths(name, offline=offline, progress=progress)[0]


def paths(name: str, offline: bool = False, progress: bool = True) -> tuple[Path, ...]:
    """Every verified file of a model, as :func:`path` gives the first: a network and its weights."""
    wanted = entry(name)
    if not _is_whole(wanted):
        pull([name], offline=offline, progress=progress)
    return tuple(_location(wanted, member) for member in wanted.members)


def pull(names: Iterable[str], *, offline: bool = False, progress: bool = True) -> list[Path]:
    """Pull several models.

    An archive is downloaded once for all models it holds: what the registry names of it is kept,
    asked for or not, because the next one asked for would cost the same download again.
    """
    wanted = [entry(name) for name in names]
    by_archive: dict[Archive, list[ModelEntry]] = {}
    for one in wanted:
        by_archive.setdefault(one.archive, []).append(one)
    for archive, members in by_archive.items():
        missing = [one for one in members if not _is_whole(one)]
        if not missing:
            continue
        if offline or forbidden_by_environment():
            raise _offline(missing[0])
        with shown(archive, progress) as report:
            _pull_archive(archive, report)
    return [_location(one, one.members[0]) for one in wanted]


def state(name: str) -> CacheState:
    """What the cache holds; reads the file, downloads nothing."""
    wanted = entry(name)
    if not any(_location(wanted, member).exists() for member in wanted.members):
        return CacheState.ABSENT
    return CacheState.READY if _is_whole(wanted) else CacheState.DAMAGED


def forbidden_by_environment() -> bool:
    """Whether ``SFUMATO_OFFLINE`` forbids downloads."""
    return os.environ.get("SFUMATO_OFFLINE", "").strip().lower() not in {"", "0", "false", "no"}


def _location(wanted: ModelEntry, member: Member) -> Path:
    return cache_folder() / wanted.cached_name(member)


def _is_whole(wanted: ModelEntry) -> bool:
    return all(_is_pinned(_location(wanted, member), member) for member in wanted.members)


def _is_pinned(file: Path, member: Member) -> bool:
    try:
        facts = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    seal = (str(file), facts.st_size, facts.st_mtime_ns)
    if seal in _verified:
        return True
    if facts.st_size != member.size or sha256(file) != member.sha256:
        return False
    _verified.add(seal)
    return True


def _pull_archive(archive: Archive, report: Progress | None) -> None:
    """Download, check, extract, and move into place; whoever waited for the lock finds it done."""
    models = [one for one in MODELS.values() if one.archive == archive]
    try:
        with _exclusive(archive) as staging:
            missing = [one for one in models if not _is_whole(one)]
            if not missing:
                return
            source = download(archive, staging, report)
            for one in missing:
                for member in one.members:
                    extracted = staging / "member"
                    extract_member(source, one, member, extracted)
                    os.replace(extracted, _location(one, member))
    except OSError as error:
        raise CacheError(
            f"Expected to write the model cache, but the system refused ({error.strerror}): "
            "free some space, or set SFUMATO_CACHE to a folder that can be written."
        ) from error


@contextmanager
def _exclusive(archive: Archive) -> Iterator[Path]:
    """A private folder inside the cache, one process at a time for each archive.

    It is on the cache's file system, so that moving out of it is one step. What a killed process
    left behind is removed by the next one that holds the lock.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f".partial-{archive.file_stem}-"
    with FileLock(folder / f".{archive.file_stem}.lock"):
        for left_behind in folder.glob(f"{prefix}*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        staging = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _offline(wanted: ModelEntry) -> OfflineError:
    return OfflineError(
        f"Expected the model {wanted.name!r} in the cache, but it is not there (or is damaged) and "
        f"downloads are forbidden (--offline or SFUMATO_OFFLINE): run sfumato models pull "
        f"{wanted.name} while online, or set SFUMATO_CACHE to a folder that has it."
    )
