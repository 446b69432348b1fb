"""Writing files so that a reader sees all of a file or none of it.

What is being written lies in a folder ``.sfumato-...`` beside its target, for the owner only. A run
that was killed leaves it behind; the next run on the same target removes it. Only a folder that holds
our marker, whose lock nobody holds, is ever removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError, temporary_name

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_CHUNK = 1 << 20
_MARKER = ".made-by-sfumato"
_MARKED = b"sfumato makes an output here; the next run on the same output removes what is left.\n"
_SLOTS = 16  # places beside one target that runs at the same time take in turn
_WORK = "work"
_FAR = 1 << 30
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class OutputExistsError(SfumatoError):
    """An output is already there and nobody asked to replace it."""

    def __init__(self, target: Path) -> None:
        super().__init__(
            f"Expected no file at the output {str(target)!r}, but one is there: "
            "choose another name or pass --force (force=True) to replace it."
        )


def refuse_overwrite(target: Path, *, force: bool) -> None:
    """Raise unless ``target`` is free or ``force`` was given; a device or a pipe is never replaced."""
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise SfumatoError(
            f"Expected a file or a free name as the output, got {str(target)!r}, which is a device or a "
            "pipe: choose another name."
        )
    if not force and (target.exists() or target.is_symlink()):
        raise OutputExistsError(target)


def refuse_replacing(
    source: str | os.PathLike[str], *targets: str | os.PathLike[str], what: str = "output"
) -> None:
    """Raise if a target is the original, holds it or lies within it; no ``force`` allows that.

    Judged by the files themselves: a link, a hard link or another spelling is the same file.
    """
    for target in targets:
        if is_within(source, target) or is_within(target, source):
            raise SfumatoError(
                f"Expected the {what} apart from the originals, got one that is, holds or lies "
                "within them: choose another place. Nothing was written."
            )


def is_within(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Is ``path`` the same as ``folder`` or below it, as it is written or where it leads?"""
    whole, place = Path(os.path.abspath(path)), Path(folder).resolve()
    led = whole.resolve()
    above = {whole, *whole.parents, led, *led.parents}
    if place in above:
        return True
    identity = _identity(place)
    return identity is not None and any(_identity(each) == identity for each in above)


def _identity(path: Path) -> tuple[int, int] | None:
    """What two names of one file share; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def lock_file(handle: int) -> None:
    """Hold an open file until it is closed; ``BlockingIOError`` where somebody else does."""
    if sys.platform == "win32":
        before = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(
            handle, _FAR, os.SEEK_SET
        )  # such a lock forbids reading: it lies beyond the content
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            raise BlockingIOError(errno.EAGAIN, "locked by another process") from None
        finally:
            os.lseek(handle, before, os.SEEK_SET)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def for_owner_only(handle: int) -> None:
    """Let nobody else read an open file, where the system has such rights."""
    if hasattr(os, "fchmod"):
        os.fchmod(handle, 0o600)


@contextmanager
def staging_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder for the owner only, on the file system of ``target``, removed in the end.

    Also removes what earlier runs on the same target left when they were killed.
    """
    final = Path(target)
    final.parent.mkdir(parents=True, exist_ok=True)
    folder, lock = _claim(final)
    try:
        work = folder / _WORK
        work.mkdir(mode=0o700)
        yield work
    finally:
        _remove(folder, lock)


def _claim(target: Path) -> tuple[Path, int]:
    """A marked and locked folder beside ``target``; leftovers of dead runs are removed."""
    name = temporary_name(target.name)
    places = [target.parent / f"{name}{slot}" for slot in range(_SLOTS)]
    for folder in places:
        lock = _lock_of_dead(folder)
        if lock is not None:
            _remove(folder, lock)
    for folder in places:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder, _mark(folder)
    folder = Path(tempfile.mkdtemp(prefix=name, dir=target.parent))
    return folder, _mark(folder)


def _mark(folder: Path) -> int:
    """Put a locked marker into ``folder``; it bears its name only once the lock is held."""
    # Windows renames no open file: there the marker bears its name a moment too early
    unnamed = folder / (_MARKER if sys.platform == "win32" else f"{_MARKER}.new")
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):  # a file system without locks: nobody will ever take this for dead
        lock_file(lock)
    os.write(lock, _MARKED)
    if unnamed.name != _MARKER:
        os.rename(unnamed, folder / _MARKER)
    return lock


def _lock_of_dead(folder: Path) -> int | None:
    """The lock of a folder that a dead run of ours left, or None for anything else."""
    marker = folder / _MARKER
    if folder.is_symlink():
        return None
    try:
        lock = os.open(marker, os.O_RDWR | NO_FOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        lock_file(lock)
        still_there = os.path.samestat(os.fstat(lock), os.stat(marker, follow_symlinks=False))
        if still_there and os.read(lock, len(_MARKED)) == _MARKED:
            return lock
    os.close(lock)
    return None


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder / _WORK, ignore_errors=True)
    if sys.platform == "win32":  # which removes no open file
        os.close(lock)
    with suppress(OSError):
        (folder / _MARKER).unlink()
        folder.rmdir()
    if sys.platform != "win32":
        os.close(lock)


@contextmanager
def atomic_output(
    target: str | os.PathLike[str], *, force: bool = False, private: bool = False
) -> Iterator[Path]:
    """Yield a temporary path beside the target; on success it becomes ``target`` in one step.

    The temporary file keeps the target's suffix (writers choose a format by it), is readable by the
    owner only while it is being written, and is removed when the block raises. With ``private`` the
    target, and every folder made for it, stay readable by the owner only.
    """
    final = Path(target)
    refuse_overwrite(final, force=force)
    if private:
        make_private_folder(final.parent)
    with staging_folder(final) as staging:
        temporary = staging / f"new{final.suffix}"
        temporary.touch(mode=0o600)
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o600 if private else 0o666 & ~_umask())
        if force:
            os.replace(temporary, final)
        else:
            _publish_new(temporary, final)


def make_private_folder(folder: Path) -> None:
    """Make ``folder`` and what is missing above it, for the owner only; one that is there stays."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _publish_new(temporary: Path, final: Path) -> None:
    """Rename without ever replacing a file that appeared while we were writing."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        raise OutputExistsError(final) from None
    except OSError:  # a file system without hard links
        refuse_overwrite(final, force=False)
        os.replace(temporary, final)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def write_text(
    target: str | os.PathLike[str], text: str, *, force: bool = False, private: bool = False
) -> None:
    """Write UTF-8 text atomically; ``private``: for the owner only (mode 0600)."""
    with atomic_output(target, force=force, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(
    target: str | os.PathLike[str], value: Any, *, force: bool = False, private: bool = False
) -> None:
    """Write JSON atomically: sorted keys, two spaces, a newline at the end, no NaN."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    write_text(target, text + "\n", force=force, private=private)


def sha256(path: str | os.PathLike[str]) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def parse_json(text: str | bytes) -> Any:
    """JSON as the standard has it; anything else is a ``ValueError``.

    Python's own reader also takes NaN and Infinity, turns 1e999 into infinity and keeps the last of
    two equal keys, so that two readers of one file could see two different numbers.
    """
    try:
        return json.loads(
            text, parse_constant=_not_a_number, parse_float=_finite, object_pairs_hook=_once
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _not_a_number(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits} is too large for a number")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found
