"""One's own recordings in a CSV: read as listed, and one sentence with the row for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.data import DataRequest, RecordsError, Sampling, load_dataset, manifest
from sfumato.media import VideoWriter, write_image

RNG = np.random.default_rng(0)


def _picture(path: Path, size: tuple[int, int] = (12, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, RNG.integers(0, 256, (*size, 3)).astype(np.uint8))
    return path


def _video(path: Path, frames: int = 6) -> Path:
    with VideoWriter(path, rate=5, size=(16, 16)) as writer:
        for _ in range(frames):
            writer.write(RNG.integers(0, 256, (16, 16, 3)).astype(np.uint8))
    return path


def _listed(folder: Path, *rows: str, header: str = "path,label,owner") -> Path:
    file = folder / "labels.csv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return file


def test_pictures_with_owners_masks_and_splits(tmp_path: Path) -> None:
    for name in ("a/one.png", "a/two.png", "three.png"):
        _picture(tmp_path / name)
    np.save(tmp_path / "one.npy", np.eye(12, 10, dtype=bool))
    white = np.zeros((12, 10, 3), np.uint8)
    white[:6] = 255
    write_image(tmp_path / "two.mask.png", white)
    file = _listed(
        tmp_path, "a/one.png,walk,anna,one.npy,train", "a/two.png,run,anna; ben,two.mask.png,train",
        "three.png,walk,,,test", header="path,label,owner,mask,split",
    )  # fmt: skip
    whole = manifest(file)
    assert whole.classes == ("run", "walk")
    assert whole.owners == [("anna",), ("anna", "ben"), ()]
    assert [record.y for record in whole] == [1, 0, 1]
    assert np.array_equal(whole[0].mask, np.eye(12, 10, dtype=bool))  # type: ignore[arg-type]
    assert np.array_equal(whole[1].mask, white[..., 0] > 127)  # type: ignore[arg-type]
    assert whole[2].mask is None
    test = manifest(file, "test")
    assert (len(test), test.classes) == (1, ("run", "walk")), "classes are those of the whole file"
    named = manifest(file, classes=["walk", "sit", "run"])
    assert [record.y for record in named] == [0, 2, 0]


@pytest.mark.parametrize("by", ["copy", "link"])
def test_one_recording_under_two_names_is_refused(tmp_path: Path, by: str) -> None:
    """A unit with two coins moves the sum twice as far as the promise counts with."""
    one = _picture(tmp_path / "one.png")
    _picture(tmp_path / "two.png")
    rows = ("one.png,walk,anna", "two.png,walk,ben", "again.png,run,carl")
    if by == "copy":
        (tmp_path / "again.png").write_bytes(one.read_bytes())
    else:
        (tmp_path / "again.png").hardlink_to(one)
    with pytest.raises(RecordsError, match=r"row 4 of labels\.csv, got a copy of the one of row 2"):
        manifest(_listed(tmp_path, *rows))
    assert len(manifest(_listed(tmp_path, *rows[:2]))) == 2


@pytest.mark.parametrize("again", ["Zoë", "zoe\u0308", "ZOË", "ben; zoË"])
def test_one_person_under_two_spellings_is_refused(tmp_path: Path, again: str) -> None:
    _picture(tmp_path / "one.png")
    _picture(tmp_path / "two.png")
    rows = ("one.png,walk,zoë", f"two.png,walk,{again}")
    with pytest.raises(
        RecordsError, match=r"row 3 of labels\.csv, got a name that was written otherwise"
    ):
        manifest(_listed(tmp_path, *rows))
    assert len(manifest(_listed(tmp_path, rows[0], "two.png,walk,zoë;ben"))) == 2


def test_videos_are_sampled(tmp_path: Path) -> None:
    _video(tmp_path / "clip.mkv")
    file = _listed(tmp_path, "clip.mkv,walk,anna")
    asked = DataRequest(kind="manifest", file=file, frames=3)
    records = load_dataset(asked)
    assert records[0].x.shape == (3, 16, 16, 3)
    assert manifest(file, sampling=Sampling(2))[0].x.shape[0] == 2


def test_a_table_that_a_spreadsheet_wrote_is_read(tmp_path: Path) -> None:
    _picture(tmp_path / "ü one.png")
    file = tmp_path / "labels.csv"
    file.write_bytes('\ufeffpath,label\r\n"ü one.png", walk \r\n'.encode())
    assert manifest(file)[0].y == 0
    assert manifest(file).classes == ("walk",)


@pytest.mark.parametrize(("rows", "header", "sentence"), [
    (["one.png,walk", "../secret.png,walk"], "path,label", "below the folder of labels.csv in row 3"),
    (["{folder}/../secret.png,walk"], "path,label", "below the folder"),
    (["link.png,walk"], "path,label", "below the folder"),
    (["none.png,walk"], "path,label", "a file that is there in row 2"),
    (["one.png,walk,none.npy"], "path,label,mask", "a file that is there in row 2"),
    (["one.png,walk", "one.png,run"], "path,label", "the one of row 2 again"),
    (["one.png,walk", "./one.png,run"], "path,label", "the one of row 2 again"),
    (["one.png"], "path,label", "more or fewer"),
    (["one.png,walk,anna"], "path,label", "more or fewer"),
    (["one.png,"], "path,label", "an empty cell"),
    (["notes.txt,walk"], "path,label", "a file of another kind"),
    (["one.png,walk", "clip.mkv,walk"], "path,label", "got video and picture"),
    (["one.png,walk"], "file,label", "the columns path and label"),
    (["one.png,walk,3"], "path,label,age", "the columns path and label"),
    ([], "path,label", "found none"),
    (['"one.png,walk'], "path,label", "a list of recordings"),
    (["on\0e.png,walk"], "path,label", "Expected"),
])  # fmt: skip
def test_a_row_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, rows: list[str], header: str, sentence: str
) -> None:
    folder = tmp_path / "data"
    _picture(tmp_path / "secret.png")
    _picture(folder / "one.png")
    _video(folder / "clip.mkv", 2)
    (folder / "notes.txt").write_text("x")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    file = _listed(folder, *(row.format(folder=folder) for row in rows), header=header)
    with pytest.raises(RecordsError, match=sentence) as caught:
        manifest(file)
    said = str(caught.value)
    assert "\n" not in said
    assert "secret" not in said
    assert "walk" not in said


@pytest.mark.parametrize(("more", "sentence"), [
    ({"split": "test"}, "split 'test'"), ({"classes": ["run"]}, "a label out of the classes"),
])  # fmt: skip
def test_a_split_or_class_that_is_not_there_is_one_sentence(
    tmp_path: Path, more: dict[str, Any], sentence: str
) -> None:
    _picture(tmp_path / "one.png")
    with pytest.raises(RecordsError, match=sentence):
        manifest(_listed(tmp_path, "one.png,walk,anna"), **more)


def test_a_mask_of_another_size_and_a_missing_file_are_one_sentence(tmp_path: Path) -> None:
    _picture(tmp_path / "one.png")
    np.save(tmp_path / "one.npy", np.ones((3, 3), bool))
    file = _listed(tmp_path, "one.png,walk,one.npy", header="path,label,mask")
    with pytest.raises(RecordsError, match="mask of shape"):
        manifest(file)[0]
    with pytest.raises(RecordsError, match=r"no file other\.csv"):
        manifest(tmp_path / "other.csv")
    with pytest.raises(RecordsError, match="file: labels"):
        load_dataset(DataRequest(kind="manifest"))


def test_an_exact_mask_needs_its_public_layer(tmp_path: Path) -> None:
    _video(tmp_path / "clip.mkv")
    _video(tmp_path / "clip.mask.mkv")
    file = _listed(tmp_path, "clip.mkv,walk,clip.mask.mkv", header="path,label,mask")
    with pytest.raises(RecordsError, match="public layer"):
        manifest(file)
    _video(tmp_path / "clip.public.mkv")
    records = manifest(file)
    assert records.items[0].layer == (tmp_path / "clip.public.mkv").resolve()


def test_json_lines_say_the_same_as_a_table(tmp_path: Path) -> None:
    """And both know attributes, which may be the label instead."""
    for name in ("one.png", "two.png"):
        _picture(tmp_path / name)
    table = _listed(
        tmp_path, "one.png,walk,anna; ben,train,f", "two.png,run,carl,test,m",
        header="path,label,owner,split,attribute:sex",
    )  # fmt: skip
    lines = tmp_path / "labels.jsonl"
    lines.write_text(
        '{"path": "one.png", "label": "walk", "owner": ["anna", "ben"], "split": "train",'
        ' "attributes": {"sex": "f"}}\n\n'
        '{"path": "two.png", "label": "run", "owner": "carl", "split": "test", "mask": null,'
        ' "attributes": {"sex": "m"}}\n'
    )
    for file in (table, lines):
        whole = manifest(file)
        assert whole.owners == [("anna", "ben"), ("carl",)]
        assert [dict(record.attributes) for record in whole] == [{"sex": "f"}, {"sex": "m"}]
        assert [record.y for record in whole] == [1, 0]
        assert len(manifest(file, "test")) == 1
        by_sex = manifest(file, "test", label="sex")
        assert (by_sex.classes, by_sex[0].y) == (("f", "m"), 1)
    with pytest.raises(RecordsError, match="the label 'age' as an attribute"):
        manifest(table, label="age")


@pytest.mark.parametrize(("line", "sentence"), [
    ("[1]", "an object with path and label in row 1"),
    ('{"path": "one.png"}', "the columns path and label"),
    ('{"path": "one.png", "label": "a", "ownr": "b"}', "the columns path and label"),
    ('{"path": "one.png", "label": "a", "owner": [1]}', "names as owners in row 1"),
    ('{"path": "one.png", "label": "a", "attributes": {"sex": ""}}', "as every attribute in row 1"),
    ('{"path": "one.png", "label": "a", "attributes": {"sex": [1]}}', "as every attribute in row 1"),
    ('{"path": "one.png", "label": "a", "attributes": 3}', "as every attribute in row 1"),
    ('{"path": "one.png", "label": "a"', "an object with path and label in row 1"),
])  # fmt: skip
def test_a_json_line_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, line: str, sentence: str
) -> None:
    _picture(tmp_path / "one.png")
    file = tmp_path / "labels.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(RecordsError, match=sentence):
        manifest(file)


def test_rows_with_other_attributes_are_refused(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        _picture(tmp_path / name)
    file = tmp_path / "labels.jsonl"
    file.write_text('{"path": "one.png", "label": "a", "attributes": {"sex": "f"}}\n'
                    '{"path": "two.png", "label": "a"}\n')  # fmt: skip
    with pytest.raises(RecordsError, match="the same attributes in every row"):
        manifest(file)


def test_sounds_become_log_mel_pictures_and_arrays_stay_as_they_are(tmp_path: Path) -> None:
    from scipy.io import wavfile

    tone = (8000 * np.sin(np.arange(8000) * 2 * np.pi * 440 / 16_000)).astype(np.int16)
    wavfile.write(tmp_path / "one.wav", 16_000, tone)
    heard = manifest(_listed(tmp_path, "one.wav,tone,anna"))[0].x
    assert (heard.shape, heard.dtype) == ((40, 32, 1), np.uint8)
    assert heard[:, 16, 0].argmax() < 10, "440 Hz is among the lowest bands"
    window = RNG.standard_normal((7, 3)).astype(np.float32)
    np.save(tmp_path / "one.npy", window)
    assert np.array_equal(manifest(_listed(tmp_path, "one.npy,walk,anna"))[0].x, window)
    np.save(tmp_path / "bad.npy", np.array(["no", "numbers"]))
    with pytest.raises(RecordsError, match="Expected numbers"):
        manifest(_listed(tmp_path, "bad.npy,walk,anna"))[0]
    with pytest.raises(RecordsError, match="got sound and array"):
        manifest(_listed(tmp_path, "one.npy,walk,anna", "one.wav,walk,ben"))
