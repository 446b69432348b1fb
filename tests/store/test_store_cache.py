"""A model is in the cache whole and as pinned, or not at all, whoever pulls and whatever breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_index import CONTENT, Index, leftovers

from sfumato import store
from sfumato.store import _cache
from sfumato.store._download import download as real_download


@pytest.fixture
def entry(index: Index) -> store.ModelEntry:
    return index.entry(index.wheel("tiny", {"tiny/m.bin": CONTENT}), "tiny/m.bin")


def _local(index: Index, calls: list[str]):  # type: ignore[no-untyped-def]
    """A download without pip's start-up time, that counts."""

    def download(archive: store.Archive, folder: Path, progress: object = None) -> Path:
        calls.append(archive.package)
        return index.folder / f"{archive.package}-1.0-py3-none-any.whl"

    return download


def test_offline_says_what_is_missing_and_what_to_do(
    entry: store.ModelEntry, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(store.OfflineError, match="sfumato models pull tiny-model while online"):
        store.path("tiny-model", offline=True)
    monkeypatch.setenv("SFUMATO_OFFLINE", "1")
    with pytest.raises(store.OfflineError, match="'tiny-model'"):
        store.path("tiny-model")
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(
    entry: store.ModelEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "file"))
    with pytest.raises(store.CacheError, match="set SFUMATO_CACHE to a folder"):
        store.path("tiny-model")


def test_offline_serves_what_is_there(
    entry: store.ModelEntry, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cache, "download", _local(index, []))
    pulled = store.path("tiny-model")
    assert store.path("tiny-model", offline=True) == pulled


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError, SystemExit])
def test_interrupted_download_leaves_nothing(
    entry: store.ModelEntry, cache: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def broken(archive: store.Archive, folder: Path, progress: object = None) -> Path:
        (folder / "half.whl").write_bytes(b"half of the")
        raise stop

    monkeypatch.setattr(_cache, "download", broken)
    with pytest.raises((stop, store._errors.SfumatoError)):
        store.path("tiny-model")
    assert leftovers(cache) == []
    assert store.state("tiny-model") == store.CacheState.ABSENT


def test_next_pull_clears_what_a_killed_process_left(
    entry: store.ModelEntry,
    index: Index,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed = (
        "import os, signal, sys; from sfumato.store import _cache, _registry\n"
        "with _cache._exclusive(_registry.Archive('tiny', '1.0', 'wheel', 1, '0')) as folder:\n"
        "    (folder / 'half.whl').write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert len(leftovers(cache)) == 1
    monkeypatch.setattr(_cache, "download", _local(index, []))
    assert store.path("tiny-model").read_bytes() == CONTENT
    assert leftovers(cache) == [entry.file_name]


@pytest.mark.parametrize("damage", [b"", CONTENT[:-1], b"z" * len(CONTENT)])
def test_damaged_file_is_noticed_and_pulled_anew(
    entry: store.ModelEntry, index: Index, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(_cache, "download", _local(index, calls))
    file = store.path("tiny-model")
    file.write_bytes(damage)
    os.utime(file, ns=(1, 1))
    assert store.state("tiny-model") == store.CacheState.DAMAGED
    with pytest.raises(store.OfflineError, match="damaged"):
        store.path("tiny-model", offline=True)
    assert store.path("tiny-model").read_bytes() == CONTENT
    assert len(calls) == 2


def test_file_is_hashed_once_per_process(
    entry: store.ModelEntry, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cache, "download", _local(index, []))
    store.path("tiny-model")
    hashed: list[Path] = []
    monkeypatch.setattr(_cache, "sha256", lambda file: hashed.append(file) or entry.sha256)
    store.path("tiny-model")
    after_pull = len(hashed)
    store.path("tiny-model")
    assert after_pull <= 1
    assert len(hashed) == after_pull


def test_many_threads_download_once(
    entry: store.ModelEntry, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(_cache, "download", _local(index, calls))
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda _: store.path("tiny-model"), range(16)))
    assert {file.read_bytes() for file in files} == {CONTENT}
    assert calls == ["tiny"]


def test_processes_racing_for_a_model_all_get_it(
    entry: store.ModelEntry, index: Index, cache: Path
) -> None:
    racer = (
        "import sys; from sfumato.store import _cache, Archive, ModelEntry\n"
        f"archive = Archive('tiny', '1.0', 'wheel', {entry.archive.size}, {entry.archive.sha256!r})\n"
        f"entry = ModelEntry('tiny-model', archive, 'tiny/m.bin', {entry.size}, {entry.sha256!r}, '', '')\n"
        "_cache.MODELS = {'tiny-model': entry}\n"
        "print(_cache.path('tiny-model').stat().st_size)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", racer], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=600)[0].strip() for process in running] == [
        str(entry.size)
    ] * 3
    assert leftovers(cache) == [entry.file_name]


def test_models_of_one_archive_are_downloaded_together(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = index.wheel("tiny", {"a.bin": CONTENT, "b.bin": b"other"})
    index.entry(archive, "a.bin", name="a")
    index.entry(archive, "b.bin", b"other", name="b")
    calls: list[str] = []
    monkeypatch.setattr(_cache, "download", _local(index, calls))
    assert [file.read_bytes() for file in store.pull(["b", "a"])] == [b"other", CONTENT]
    assert calls == ["tiny"]


def test_unknown_name_lists_the_names_there_are(entry: store.ModelEntry) -> None:
    with pytest.raises(store.UnknownModelError, match="choose one of tiny-model"):
        store.path("nothing")


def test_cache_follows_the_platform_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFUMATO_CACHE", raising=False)
    assert "sfumato" in store.cache_folder().parts
    monkeypatch.setenv("SFUMATO_CACHE", "/somewhere")
    assert store.cache_folder() == Path("/somewhere/models")


def test_progress_is_reported_in_bytes(entry: store.ModelEntry, tmp_path: Path) -> None:
    folder = tmp_path / "workshop"
    folder.mkdir()
    seen: list[tuple[int, int]] = []
    file = real_download(entry.archive, folder, lambda done, total: seen.append((done, total)))
    assert file.stat().st_size == entry.archive.size
    # pip reports nothing for a local folder; what it reports must make sense
    assert all(0 <= done <= total for done, total in seen)
