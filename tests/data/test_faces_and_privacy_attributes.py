"""CelebA, UTKFace, PA-HMDB51 and VISPR: published layouts in miniature, bad rows counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato import data
from sfumato.data import RecordsError


def test_celeba_reads_parts_attributes_and_identities(tmp_path, write_picture):
    for i in range(1, 4):
        write_picture(tmp_path / "img_align_celeba" / f"00000{i}.jpg", level=60 * i)
    (tmp_path / "list_attr_celeba.txt").write_text(
        "5\nMale Smiling\n000001.jpg -1  1\n000002.jpg  1 -1\n000003.jpg  1  1\n"
        "000004.jpg  1  1\n000005.jpg  1  0\n"
    )
    parts = "000001.jpg 0\n000002.jpg 2\n000003.jpg 0\n000004.jpg 0\n000005.jpg 0\n"
    (tmp_path / "list_eval_partition.txt").write_text(parts)
    (tmp_path / "identity_CelebA.txt").write_text("000001.jpg 2880\n000002.jpg 2937\n")
    train = data.celeba(tmp_path)
    assert [(r.y, r.attributes["Male"]) for r in train] == [(1, 0), (1, 1)]
    assert [r.owners for r in train] == [("id2880",), ()]
    assert abs(int(train[1].x[0, 0, 0]) - 180) < 5
    assert len(train.problems) == 2  # a missing file and a value 0
    test = data.celeba(tmp_path, "test", label="Male")
    assert [(r.y, r.owners) for r in test] == [(1, ("id2937",))]
    with pytest.raises(RecordsError, match="Male, Smiling"):
        data.celeba(tmp_path, label="Bald")
    with pytest.raises(RecordsError, match="train, validation, test"):
        data.celeba(tmp_path, "all")


def test_utkface_reads_names_and_counts_the_broken_ones(tmp_path, write_picture):
    for name in ("26_0_1_2017", "61_1__2017", "30_1_9_2017", "notes_2017"):
        write_picture(tmp_path / f"{name}.jpg")
    write_picture(tmp_path / "part2" / "40_1_4_2016.jpg")
    records = data.utkface(tmp_path, label="race")
    assert [(r.y, r.attributes["age"], r.attributes["gender"]) for r in records] == [
        (1, 26, 0),
        (4, 40, 1),
    ]
    assert records.classes[4] == "Other"
    assert len(records.problems) == 3


@pytest.mark.real_data
def test_the_real_utkface_reads_from_its_archive(real_data):
    records = data.utkface(real_data / "utkface")
    assert len(records) == 8_000
    record = records[4321]
    assert record.x.shape == (96, 96, 3)
    assert record.x.std() > 10
    assert record.y in (0, 1)
    assert min(records.attributes["age"]) >= 18


def _annotations(folder):
    folder.mkdir()
    note = {
        "face": [[0, 2, 1], [3, 5, 2]],
        "gender": [[0, 5, [1, 2]]],
        "skin_color": [[0, 5, [0, 3]]],
        "nudity": [[0, 3, 1]],
        "relationship": [[0, 5, 9]],
        "note": "",
    }
    content = {"a.avi": note, "empty.avi": {"note": "nothing"}}
    (folder / "kick.json").write_text(json.dumps(content))


def test_pa_hmdb51_spans_become_frames_and_bad_ones_are_counted(tmp_path, write_video):
    _annotations(tmp_path / "notes")
    notes = data.pa_hmdb51(tmp_path / "notes")
    assert set(notes) == {"a.avi"}
    assert notes["a.avi"]["face"].tolist() == [1, 1, 1, 2, 2, 2]
    assert notes["a.avi"]["nudity"].tolist() == [1, 1, 1, 1, 0, 0]
    visible = notes.visible("a.avi")
    assert visible["gender"] == 3  # men and women: coexisting
    assert visible["skin_color"] == 3  # one of the two cannot be told
    assert visible["relationship"] == 0
    text = str(notes.problems)
    assert "relationship from 0 to 1" in text
    assert "spans of frames for every video" in text
    write_video(tmp_path / "videos" / "kick" / "a.avi")
    records = data.pa_hmdb51_videos(tmp_path / "videos", tmp_path / "notes")
    assert records[0].attributes == visible
    assert records.classes == ("kick",)
    (tmp_path / "notes" / "bad.json").write_text("{")
    with pytest.raises(RecordsError, match=r"bad\.json"):
        data.pa_hmdb51(tmp_path / "notes")


@pytest.mark.real_data
def test_the_real_pa_hmdb51_has_515_videos_of_51_actions(real_data):
    notes = data.pa_hmdb51(real_data / "pa_hmdb51")
    assert len(notes) == 515
    assert len(set(notes.actions.values())) == 51
    assert all(len(set(map(len, notes[name].values()))) == 1 for name in notes)


def test_vispr_gives_a_vector_of_attributes(tmp_path, write_picture):
    (tmp_path / "attributes.tsv").write_text(
        "attribute_id\tidx\tdescription\na0_safe\t0\tSafe\na3_height\t\tHeight\n"
        "a9_face\t2\tFace\na4_gender\t1\tGender\n"
    )
    notes = tmp_path / "train2017"
    notes.mkdir()
    for i, labels in enumerate((["a4_gender", "a9_face"], ["a0_safe", "a99_new"], ["a0_safe"])):
        content = {
            "id": f"2017_{i}",
            "image_path": f"images/train2017/2017_{i}.jpg",
            "labels": labels,
        }
        (notes / f"2017_{i}.json").write_text(json.dumps(content))
    for i in range(2):
        write_picture(tmp_path / "images" / "train2017" / f"2017_{i}.jpg")
    records = data.vispr(tmp_path)
    assert records.classes == ("a0_safe", "a4_gender", "a9_face")
    assert np.array_equal([r.y for r in records], [[0, 1, 1], [1, 0, 0]])
    assert records[0].attributes["a9_face"] == 1
    assert len(records.problems) == 2  # an unknown attribute and a missing picture
    (tmp_path / "attributes.tsv").write_text("attribute_id\ndescription\na0_safe\tSafe\n")
    with pytest.raises(RecordsError, match="idx and attribute_id"):
        data.vispr(tmp_path)
    (tmp_path / "attributes.tsv").write_text("attribute_id\tidx\na0_safe\tfirst\n")
    with pytest.raises(RecordsError, match="published"):
        data.vispr(tmp_path)
    (tmp_path / "attributes.tsv").write_text("attribute_id\tidx\na0_safe\t0\n")
    with pytest.raises(RecordsError, match="val2017"):
        data.vispr(tmp_path, "val")
