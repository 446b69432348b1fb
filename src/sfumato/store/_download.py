"""Bringing one pinned archive through the user's own client: pip for wheels and sdists, npm for the
packages of a JavaScript registry. Whatever came is compared with the pinned digest before it is read."""

from __future__ import annotations

from pathlib import Path

from sfumato.files import sha256
from sfumato.store._errors import wrong_digest
from sfumato.store._npm import npm_pack
from sfumato.store._pip import pip_download
from sfumato.store._progress import Progress
from sfumato.store._registry import Archive


def download(archive: Archive, folder: Path, progress: Progress | None = None) -> Path:
    """Download ``archive`` into the empty ``folder`` and return the file, digest checked."""
    bring = npm_pack if archive.kind == "npm" else pip_download
    arrived = bring(archive, folder, progress)
    if arrived.stat().st_size != archive.size or sha256(arrived) != archive.sha256:
        raise wrong_digest(archive)
    return arrived
