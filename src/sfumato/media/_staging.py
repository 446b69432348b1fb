"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.files import OutputExistsError, refuse_overwrite, staging_folder


@contextmanager
def atomic_folder(target: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a folder to fill; it becomes ``target`` when the block ends well."""
    refuse_overwrite(target, force=force)
    with staging_folder(target) as staging:
        fresh = staging / "new"
        fresh.mkdir()
        yield fresh
        replaced = staging / "old"
        if force and target.exists():
            os.rename(target, replaced)
        try:
            os.rename(fresh, target)
        except BaseException as error:
            if replaced.exists():
                os.rename(replaced, target)
            elif isinstance(error, OSError) and target.exists():
                raise OutputExistsError(target) from None
            raise
