"""Folders that appear whole or not at all, and files for the owner only."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.files import OutputExistsError, refuse_overwrite


@contextmanager
def staging_folder(beside: Path) -> Iterator[Path]:
    """A folder for the owner only, on the file system of ``beside``, removed in the end."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".sfumato-", dir=beside.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_folder(target: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a folder to fill; it becomes ``target`` when the block ends well."""
    refuse_overwrite(target, force=force)
    with staging_folder(target) as staging:
        fresh = staging / "new"
        fresh.mkdir()
        yield fresh
        if force and target.exists():
            os.rename(target, staging / "old")
        try:
            os.rename(fresh, target)
        except OSError:
            if target.exists():
                raise OutputExistsError(target) from None
            raise


def write_private(target: Path, text: str, *, force: bool = False) -> None:
    """Write text that only the owner may read (mode 0600), atomically."""
    refuse_overwrite(target, force=force)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".sfumato-", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)
