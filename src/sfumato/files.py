"""Writing files so that a reader sees all of a file or none of it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError

_CHUNK = 1 << 20


class OutputExistsError(SfumatoError):
    """An output is already there and nobody asked to replace it."""

    def __init__(self, target: Path) -> None:
        super().__init__(
            f"Expected no file at the output {str(target)!r}, but one is there: "
            "choose another name or pass --force (force=True) to replace it."
        )


def refuse_overwrite(target: Path, *, force: bool) -> None:
    """Raise unless ``target`` is free or ``force`` was given."""
    if not force and (target.exists() or target.is_symlink()):
        raise OutputExistsError(target)


@contextmanager
def atomic_output(target: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success it becomes ``target`` in one step.

    The temporary file keeps the target's suffix (writers choose a format by it), is readable by the
    owner only while it is being written, and is removed when the block raises.
    """
    final = Path(target)
    refuse_overwrite(final, force=force)
    final.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".sfumato-", suffix=final.suffix, dir=final.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        if force:
            os.replace(temporary, final)
        else:
            _publish_new(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


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


def write_text(target: str | os.PathLike[str], text: str, *, force: bool = False) -> None:
    """Write UTF-8 text atomically."""
    with atomic_output(target, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: str | os.PathLike[str], value: Any, *, force: bool = False) -> None:
    """Write JSON atomically: sorted keys, two spaces, a newline at the end, no NaN."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    write_text(target, text + "\n", force=force)


def sha256(path: str | os.PathLike[str]) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
