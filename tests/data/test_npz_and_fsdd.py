"""Arrays of one's own and FSDD: read as their pages say, and one sentence for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

from sfumato.data import DataRequest, RecordsError, fsdd, load_dataset, npz

RNG = np.random.default_rng(0)


def _stored(folder: Path, **arrays: Any) -> Path:
    file = folder / "records.npz"
    usual = {"x": RNG.standard_normal((4, 5, 2)).astype(np.float32), "y": np.array([0, 1, 1, 0])}
    np.savez(file, **{k: v for k, v in (usual | arrays).items() if v is not None})
    return file


def test_arrays_with_names_owners_masks_splits_and_attributes(tmp_path: Path) -> None:
    mask = RNG.random((4, 5)) < 0.5
    file = _stored(
        tmp_path, y=np.array(["walk", "run", "run", "sit"]), mask=mask, sex=np.array([0, 1, 1, 0]),
        owner=np.array(["anna", "ben;carl", "", "anna"]),
        split=np.array(["train", "train", "test", "train"]),
    )  # fmt: skip
    whole = npz(file)
    assert (whole.classes, whole.y.tolist()) == (("run", "sit", "walk"), [2, 0, 0, 1])
    assert whole.owners == [("anna",), ("ben", "carl"), (), ("anna",)]
    test = npz(file, "test")
    assert (len(test), test.classes, test[0].y) == (1, ("run", "sit", "walk"), 0)
    assert np.array_equal(test[0].mask, mask[2])  # type: ignore[arg-type]
    assert test[0].attributes == {"sex": 1}
    assert npz(file, label="sex").y.tolist() == [0, 1, 1, 0]
    assert npz(file, classes=["walk", "sit", "run"]).y.tolist() == [0, 2, 2, 1]
    assert load_dataset(DataRequest(kind="npz", file=file, split="train")).classes == whole.classes


@pytest.mark.parametrize(("arrays", "sentence"), [
    ({"y": None}, "arrays x and y"),
    ({"y": np.array([0, 1, 1])}, "Expected 4 rows in every array"),
    ({"names": np.array(["a", "b"])}, "Expected 4 rows in every array"),
    ({"rate": np.array(3)}, "Expected 4 rows in every array"),
    ({"y": np.array([0.5, 1, 1, 0])}, "one name or whole number a record"),
    ({"y": np.array([-1, 1, 1, 0])}, "labels from 0"),
    ({"x": np.zeros((4, 3), np.float32)}, "got row 0 again as row 1"),
])  # fmt: skip
def test_arrays_that_do_not_fit_are_one_sentence(
    tmp_path: Path, arrays: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RecordsError, match=sentence):
        npz(_stored(tmp_path, **arrays))


def test_what_would_run_code_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="arrays of records"):
        npz(_stored(tmp_path, y=np.array([{}, {}, {}, {}], dtype=object)))


def test_files_splits_and_labels_that_are_not_there(tmp_path: Path) -> None:
    file = _stored(tmp_path)
    for wrong, sentence in ((lambda: npz(tmp_path / "none.npz"), "there is no file none.npz"),
                            (lambda: npz(file, "test"), "records of the split 'test'"),
                            (lambda: npz(file, label="sex"), "arrays x and sex"),
                            (lambda: npz(file, classes=["a"]), "labels from 0 to 0"),
                            (lambda: load_dataset(DataRequest(kind="npz")), "file: records.npz")):  # fmt: skip
        with pytest.raises(RecordsError, match=sentence):
            wrong()


def test_fsdd_as_published_and_packed_are_the_same(tmp_path: Path) -> None:
    published, packed = tmp_path / "published", tmp_path / "packed"
    (published / "recordings").mkdir(parents=True)
    packed.mkdir()
    named = [(3, "anna", 0), (3, "anna", 7), (5, "ben", 7)]
    sounds = [RNG.integers(-9000, 9000, 3000).astype(np.int16) for _ in named]
    for (digit, who, take), sound in zip(named, sounds):
        wavfile.write(published / "recordings" / f"{digit}_{who}_{take}.wav", 8000, sound)
    digits, speakers, takes = (np.array(column) for column in zip(*named))
    np.savez(packed / "fsdd.npz", x=np.concatenate(sounds), offsets=np.arange(4) * 3000,
             digit=digits, speaker=speakers, take=takes, rate=8000)  # fmt: skip
    for part, expected in ((None, [3, 3, 5]), ("train", [3, 5]), ("test", [3])):
        one, other = fsdd(published, part), fsdd(packed, part)
        assert one.y.tolist() == other.y.tolist() == expected
        assert np.array_equal(one.x, other.x)
        assert one.owners == other.owners
    assert fsdd(packed).owners == [("speaker_anna",), ("speaker_anna",), ("speaker_ben",)]
    with pytest.raises(RecordsError, match="part train, test or None"):
        fsdd(packed, "valid")
    with pytest.raises(RecordsError, match="recordings of spoken digits"):
        fsdd(tmp_path)


@pytest.mark.real_data
@pytest.mark.parametrize(("asked", "count", "classes", "people"), [
    (DataRequest(kind="audio-mnist", split="train"), 24_000, 10, 60),
    (DataRequest(kind="audio-mnist", split="test", label="sex"), 6_000, 2, 60),
    (DataRequest(kind="sisfall", split="test"), None, 6, 9),
    (DataRequest(kind="sisfall", split="train"), None, 6, 29),
    (DataRequest(kind="utkface", split="test", label="age-group"), 1_600, 4, 0),
    (DataRequest(kind="utd-mhad", split="train", modality="depth"), 431, 27, 4),
    (DataRequest(kind="utd-mhad", split="test", modality="inertial"), 430, 27, 4),
])  # fmt: skip
def test_training_files_read_the_real_ones(
    real_data: Path, asked: DataRequest, count: int | None, classes: int, people: int
) -> None:
    from dataclasses import replace

    folder = real_data / asked.kind.replace("audio-mnist", "audiomnist").replace("-", "_")
    records = load_dataset(replace(asked, path=folder))
    assert count in (None, len(records))
    assert len(records.classes) == classes
    owners: Any = records.owners  # type: ignore[attr-defined]
    assert len({who for each in owners for who in each}) == people
    assert 0 <= records[0].y < classes


@pytest.mark.real_data
def test_sisfall_windows_share_no_sample_and_no_person(real_data: Path) -> None:
    """A sample in two records would move the sum twice as far as the promise counts with."""
    parts = [load_dataset(DataRequest(kind="sisfall", path=real_data / "sisfall", split=split))
             for split in ("train", "test")]  # fmt: skip
    people = [{who for each in part.owners for who in each} for part in parts]  # type: ignore[attr-defined]
    assert not people[0] & people[1]
    first, second = parts[0][0].x, parts[0][1].x
    assert first.shape == (128, 6)
    assert not np.array_equal(first[64:], second[:64])
    with pytest.raises(RecordsError, match="split train or test"):
        load_dataset(DataRequest(kind="sisfall", path=real_data / "sisfall", split="valid"))
    with pytest.raises(RecordsError, match="label out of activity, sex, person"):
        load_dataset(DataRequest(kind="sisfall", path=real_data / "sisfall", label="mood"))
