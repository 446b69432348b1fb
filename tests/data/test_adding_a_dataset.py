"""A data set of one's own: one loader and one registration, seen by train, protect and audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sfumato.attributes import read_dataset
from sfumato.audit import ProbeSettings
from sfumato.audit.attack import probe_dataset
from sfumato.data import (
    DATASETS,
    ArrayRecords,
    DataRequest,
    Dataset,
    DatasetEntry,
    load_dataset,
    register_dataset,
)
from sfumato.errors import SfumatoError
from sfumato.learn import make_job, parse_config, run_job


def clips_of_arrays(asked: DataRequest) -> ArrayRecords:
    """``clips.npz``: labelled clips."""
    with np.load(asked.folder / "clips.npz") as stored:
        return ArrayRecords(stored["x"], stored["y"], classes=("left", "right"))


def windows_of_arrays(folder: Path) -> Dataset:
    """``windows.npz``: one window a row, with an attribute to keep and one to hide."""
    with np.load(folder / "windows.npz") as stored:
        x, walk, sex = stored["x"], stored["walk"], stored["sex"]
    records = ArrayRecords(x, walk, attributes={"walk": walk, "sex": sex})
    cut = len(x) // 2
    return Dataset("toy windows", records, range(cut), range(cut, len(x)))


@pytest.fixture
def registered() -> Iterator[None]:
    register_dataset(
        "toy",
        DatasetEntry(
            records=f"{__name__}:clips_of_arrays",
            attributes=f"{__name__}:windows_of_arrays",
            recognise=lambda folder: (folder / "windows.npz").is_file(),
        ),
    )
    yield
    del DATASETS["toy"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    clips = rng.integers(0, 256, (8, 2, 16, 16, 3)).astype(np.uint8)
    np.savez(tmp_path / "clips.npz", x=clips, y=np.arange(8) % 2)
    walk, sex = np.arange(80) % 2, (np.arange(80) // 2) % 2
    x = np.stack([walk * 2.0 - 1, sex * 2.0 - 1], 1) + 0.1 * rng.standard_normal((80, 2))
    np.savez(tmp_path / "windows.npz", x=x.astype(np.float32), walk=walk, sex=sex)
    return tmp_path


def settings(folder: Path) -> dict[str, object]:
    return {
        "out": str(folder / "run"), "data": {"kind": "toy", "path": str(folder)}, "seed": 1,
        "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1},
        "input": {"frames": 2, "height": 16, "width": 16},
        "privacy": {"epsilon": 2.0, "records": 8}, "training": {"steps": 1, "batch": 4},
    }  # fmt: skip


def test_a_training_file_names_it(registered: None, folder: Path) -> None:
    _, card = run_job(make_job(parse_config(settings(folder))))
    assert card is not None
    assert card.is_file()


def test_protect_and_audit_recognise_its_folder(registered: None, folder: Path) -> None:
    assert read_dataset(folder).layout == "toy windows"
    quick = ProbeSettings(epochs=30, patience=30, width=16)
    found = probe_dataset(folder, method="adv", private=["sex"], useful=["walk"], settings=quick)
    assert {row.name: row.role for row in found.rows} == {"sex": "private", "walk": "useful"}
    assert found.records == 40
    assert all(row.clear.accuracy > 0.9 for row in found.rows)


def test_an_unknown_kind_is_answered_with_the_list(registered: None, folder: Path) -> None:
    values = settings(folder) | {"data": {"kind": "tory", "path": str(folder)}}
    with pytest.raises(SfumatoError, match=r"synthetic, stage, .*, toy, got 'tory'"):
        parse_config(values)
    (folder / "windows.npz").unlink()
    with pytest.raises(SfumatoError, match=r"AudioMNIST.*toy in its published layout"):
        read_dataset(folder)


def test_a_name_is_given_once_and_a_path_is_asked_for(registered: None) -> None:
    with pytest.raises(SfumatoError, match="taken"):
        register_dataset("toy", DatasetEntry())
    with pytest.raises(SfumatoError, match="path with data of kind toy, got none"):
        load_dataset(DataRequest(kind="toy"))


def test_protect_and_audit_read_a_list_of_ones_own(tmp_path: Path) -> None:
    """Splits and attributes of the list are those of the data set; a change of them is seen."""
    rng = np.random.default_rng(0)
    lines = ["path,label,split,owner,attribute:sex"]
    for i in range(80):
        walk, sex = i % 2, (i // 2) % 2
        x = np.array([walk * 2.0 - 1, sex * 2.0 - 1]) + 0.1 * rng.standard_normal(2)
        np.save(tmp_path / f"{i}.npy", x.astype(np.float32))
        split = "train" if i < 40 else "test"
        lines.append(f"{i}.npy,{'walk' if walk else 'sit'},{split},p{i % 8},{'m' if sex else 'f'}")
    (tmp_path / "manifest.csv").write_text("\n".join(lines) + "\n")
    found = read_dataset(tmp_path)
    assert (found.layout, list(found.test)) == ("manifest.csv", list(range(40, 80)))
    assert found.records.attributes["sex"].tolist() == [(i // 2) % 2 for i in range(80)]
    quick = ProbeSettings(epochs=30, patience=30, width=16)
    rows = probe_dataset(
        tmp_path, method="adv", private=["sex"], useful=["label"], settings=quick
    ).rows
    assert all(row.clear.accuracy > 0.9 for row in rows)
    np.save(tmp_path / "0.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(SfumatoError, match="recordings of one shape"):
        read_dataset(tmp_path)
