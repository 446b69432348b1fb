"""Pose data: published layouts in miniature, joint translations, crops, metrics by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.io import savemat

from sfumato import data
from sfumato.data import COCO, LSP, MPII, RecordsError


def test_translations_keep_names_and_derive_only_middles():
    joints = np.zeros((1, 17, 3), np.float32)
    joints[0, :, 0] = np.arange(17)
    joints[0, :, 2] = 1
    joints[0, COCO.index("left_shoulder"), 2] = 0
    as_mpii = data.translate(joints, "coco", "mpii")[0]
    for i, name in enumerate(MPII):
        if name in COCO:
            assert as_mpii[i, 0] == COCO.index(name)
    pelvis, thorax = as_mpii[MPII.index("pelvis")], as_mpii[MPII.index("thorax")]
    assert pelvis.tolist() == [(COCO.index("left_hip") + COCO.index("right_hip")) / 2, 0, 1]
    assert thorax[2] == 0  # one of its ends is missing
    assert as_mpii[MPII.index("head_top"), 2] == 0  # COCO has no top of the head
    as_lsp = data.translate(as_mpii, "mpii", "lsp")
    assert np.array_equal(as_lsp, data.translate(joints, "coco", "lsp")[0])
    # MPII to LSP is the published reordering
    order = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 8, 9]
    assert tuple(MPII[i] for i in order) == LSP


def test_unknown_joints_are_named():
    with pytest.raises(RecordsError, match="left_wing"):
        data.vocabulary(["nose", "left_wing"])
    with pytest.raises(RecordsError, match="coco, mpii, lsp"):
        data.vocabulary("dog")
    with pytest.raises(RecordsError, match="17, 3"):
        data.translate(np.zeros((2, 16, 3), np.float32), "coco", "mpii")


def _note(image, identity, *, keypoints=None, box=(5, 5, 20, 30), **more):
    points = np.zeros((17, 3)) if keypoints is None else keypoints
    return {
        "id": identity,
        "image_id": image,
        "keypoints": points.ravel().tolist(),
        "bbox": list(box),
        "category_id": 1,
        **more,
    }


@pytest.fixture
def coco(tmp_path, write_picture):
    good = np.tile([[10.0, 12.0, 2.0]], (17, 1))
    outside = good.copy()
    outside[3] = [80, 12, 1]  # the picture is 60 wide
    content = {
        "categories": [{"id": 1, "name": "person", "keypoints": list(COCO)}],
        "images": [
            {"id": 7, "file_name": "b.jpg", "width": 60, "height": 40},
            {"id": 8, "file_name": "a.jpg", "width": 60, "height": 40},
            {"id": 9, "file_name": "gone.jpg", "width": 60, "height": 40},
        ],
        "annotations": [
            _note(7, 1, keypoints=good),
            _note(7, 2, keypoints=outside, area=300),
            _note(7, 3, keypoints=good, box=(5, 5, 0, 30)),
            _note(7, 4, keypoints=good, iscrowd=1),
            _note(8, 5, keypoints=good),
            _note(8, 6),
            _note(9, 7, keypoints=good),
            {**_note(8, 8), "keypoints": [1, 2, 3]},
        ],
    }
    (tmp_path / "annotations").mkdir()
    listing = tmp_path / "annotations" / "person_keypoints_val2017.json"
    listing.write_text(json.dumps(content))
    for name in ("a.jpg", "b.jpg"):
        write_picture(tmp_path / "val2017" / name)
    return tmp_path


def test_people_of_one_picture_form_one_record_and_bad_ones_are_counted(coco):
    records = data.coco_keypoints(coco)
    assert records.unit == "picture"
    assert [len(r.y) for r in records] == [1, 2]  # a.jpg, b.jpg
    two = records[1]
    assert two.y.shape == (2, 17, 3)
    assert two.y[1, 3, 2] == 0
    assert two.y[..., 2].sum() == 33
    assert two.attributes["area"].tolist() == [600, 300]
    counts = records.problems.counts
    assert sum(counts.values()) == 6
    for words in ("outside", "empty ones", "crowds", "without any", "17 joints", "not there"):
        assert any(words in sentence for sentence in counts), words
    single = data.coco_keypoints(coco, per_person=True, joints="lsp")
    assert (len(single), single.unit) == (3, "person box")
    assert single[0].y.shape == (1, 14, 3)


def test_other_joint_names_in_a_coco_file_are_refused(coco):
    listing = coco / "annotations" / "person_keypoints_val2017.json"
    content = json.loads(listing.read_text())
    content["categories"][0]["keypoints"] = ["tail", *COCO[1:]]
    listing.write_text(json.dumps(content))
    with pytest.raises(RecordsError, match="tail"):
        data.coco_keypoints(coco)


@pytest.mark.parametrize("folder", ["HumanArt", "human-art-v1"])
def test_human_art_finds_pictures_by_their_own_names(tmp_path, write_picture, folder):
    root = tmp_path / folder
    (root / "annotations").mkdir(parents=True)
    write_picture(root / "images" / "2D" / "x.jpg")
    content = {
        "images": [{"id": 1, "file_name": "HumanArt/images/2D/x.jpg", "width": 60, "height": 40}],
        "annotations": [_note(1, 1, keypoints=np.tile([[10.0, 12.0, 2.0]], (17, 1)))],
    }
    (root / "annotations" / "validation_humanart.json").write_text(json.dumps(content))
    records = data.human_art(root, "validation", joints="mpii")
    assert records[0].y.shape == (1, 16, 3)
    assert records[0].x.shape == (40, 60, 3)


def test_mpii_reads_the_published_structure(tmp_path, write_picture):
    def points(ids):
        point = np.zeros(len(ids), dtype=[("id", "O"), ("x", "O"), ("y", "O"), ("is_visible", "O")])
        for i, number in enumerate(ids):
            point[i] = (number, 10.0 + number, 20.0 + number, 1)
        return {"point": point}

    head = {"x1": 10.0, "y1": 10.0, "x2": 13.0, "y2": 14.0}
    people = np.zeros(3, dtype=[(n, "O") for n in ("annopoints", "x1", "y1", "x2", "y2")])
    people[0] = (points([0, 9, 16]), *head.values())  # joint 16 does not exist
    people[1] = (points([5, 6]), 0.0, 0.0, 0.0, 0.0)  # an empty head box
    people[2] = (np.zeros((0, 0)), *head.values())  # no joints
    annolist = np.zeros(2, dtype=[("image", "O"), ("annorect", "O")])
    annolist[0] = ({"name": "a.jpg"}, people)
    annolist[1] = ({"name": "test.jpg"}, people[:1])
    release = {"annolist": annolist, "img_train": np.array([1, 0])}
    savemat(tmp_path / "mpii_human_pose_v1_u12_1.mat", {"RELEASE": release})
    write_picture(tmp_path / "images" / "a.jpg")
    records = data.mpii(tmp_path)
    assert len(records) == 1
    record = records[0]
    assert record.y.shape == (2, 16, 3)
    assert record.y[0, 9].tolist() == [19, 29, 1]
    assert record.y[0, :, 2].sum() == 2
    assert record.attributes["head_size"][0] == pytest.approx(0.6 * 5)
    assert np.isnan(record.attributes["head_size"][1])
    assert sorted(records.problems.counts.values()) == [1, 1, 1]
    with pytest.raises(RecordsError, match="no joints for others"):
        data.mpii(tmp_path, "test")


def _mpii_entry(image, shift):
    joints = [[11.0 + shift + k, 21.0 + k] for k in range(16)]
    visible = [0, *[1] * 15]
    return {"image": image, "joints": joints, "joints_vis": visible, "center": [31.0, 41.0],
            "scale": 0.2}  # fmt: skip


def test_mpii_follows_the_lists_of_the_field_and_their_head_boxes(tmp_path, write_picture):
    (tmp_path / "annot").mkdir()
    for name in ("a.jpg", "b.jpg"):
        write_picture(tmp_path / "images" / name)
    lists = {"train": [_mpii_entry("a.jpg", 0)],
             "valid": [_mpii_entry("b.jpg", 0), _mpii_entry("b.jpg", 5)]}  # fmt: skip
    for part, entries in lists.items():
        (tmp_path / "annot" / f"{part}.json").write_text(json.dumps(entries))
    boxes = np.zeros((2, 2, 2))
    boxes[1, :, 0], boxes[1, :, 1] = (3, 4), (6, 8)
    savemat(tmp_path / "annot" / "gt_valid.mat", {"headboxes_src": boxes})
    train, valid = data.mpii(tmp_path), data.mpii(tmp_path, "valid")
    assert (len(train), len(valid)) == (1, 1)  # two people of one picture are one record
    record = valid[0]
    assert record.y.shape == (2, 16, 3)
    assert record.y[1, 1].tolist() == [16, 21, 1]  # the lists count from 1
    assert record.y[:, 0, 2].tolist() == [0, 0]
    assert record.attributes["head_size"].tolist() == pytest.approx([0.6 * 5, 0.6 * 10])
    assert record.attributes["boxes"][0].tolist() == [10, 23, 40, 40]
    assert np.isnan(train[0].attributes["head_size"]).all()
    with pytest.raises(RecordsError, match=r"annot/trainval.json"):
        data.mpii(tmp_path, "trainval")


def test_mpii_lists_take_head_boxes_from_the_matrix_where_they_lack_them(tmp_path, write_picture):
    entry = _mpii_entry("a.jpg", 0)
    point = np.zeros(15, dtype=[("id", "O"), ("x", "O"), ("y", "O")])
    for k in range(1, 16):
        point[k - 1] = (k, *entry["joints"][k])
    person = np.zeros(1, dtype=[(n, "O") for n in ("annopoints", "x1", "y1", "x2", "y2")])
    person[0] = ({"point": point}, 10.0, 10.0, 13.0, 14.0)
    annolist = np.zeros(1, dtype=[("image", "O"), ("annorect", "O")])
    annolist[0] = ({"name": "a.jpg"}, person)
    release = {"annolist": annolist, "img_train": np.array([1])}
    savemat(tmp_path / "mpii_human_pose_v1_u12_1.mat", {"RELEASE": release})
    write_picture(tmp_path / "images" / "a.jpg")
    (tmp_path / "annot").mkdir()
    other = _mpii_entry("a.jpg", 7)  # nobody of the matrix
    (tmp_path / "annot" / "valid.json").write_text(json.dumps([other, entry]))
    sizes = data.mpii(tmp_path, "valid")[0].attributes["head_size"]
    assert np.isnan(sizes[0])
    assert sizes[1] == pytest.approx(3.0)


def test_measures_are_those_of_the_data_set():
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 100, (6, 16, 3)).astype(np.float32)
    truth[..., 2] = rng.random((6, 16)) < 0.8
    predicted = truth[..., :2] + rng.normal(0, 4, (6, 16, 2))
    head = np.array([10.0, 12, 9, np.nan, 11, 8])
    found = data.pose_measures(predicted, truth, MPII, head_size=head)
    assert found.name == "PCKh@0.5"
    assert {"PCKh@0.1", "PCK@0.2 by torso", "PCK@0.1 by torso"} <= set(found.others)
    right = total = 0  # slow and obvious: every annotated joint of a person with a head, but two
    for i, size in enumerate(head):
        for j, name in enumerate(MPII):
            if np.isfinite(size) and truth[i, j, 2] > 0 and name not in ("pelvis", "thorax"):
                total += 1
                right += np.hypot(*(predicted[i, j] - truth[i, j, :2])) <= 0.5 * size
    assert found.value == pytest.approx(right / total)
    coco = np.ones((2, 17, 3), np.float32) * 50
    coco[..., 2] = 1
    said = data.pose_measures(coco[..., :2], coco, COCO, np.ones(2), area=np.array([400.0, np.nan]))
    assert said.name == "OKS average precision"
    assert said.value == pytest.approx(1.0)


def test_lsp_reads_the_published_matrix_and_finds_the_polarity_of_its_flag(tmp_path, write_picture):
    joints = np.random.default_rng(0).uniform(5, 35, (3, 14, 4))
    joints[2] = 0
    joints[2, 3, :] = 1  # rare: so it means hidden
    savemat(tmp_path / "joints.mat", {"joints": joints})
    for i in range(1, 5):
        if i != 2:
            write_picture(tmp_path / "images" / f"im{i:04d}.jpg")
    train, test = data.lsp(tmp_path), data.lsp(tmp_path, "test")
    assert (len(train), len(test)) == (1, 2)
    assert len(train.problems) == 1
    assert np.allclose(test[0].y[0, :, :2], joints[:2, :, 2].T, atol=1e-4)
    assert (test[0].y[0, :, 2] == 1).all()  # hidden joints are annotated too
    visible = data.lsp_visibility(tmp_path)
    assert not visible[:, 3].any()
    assert visible.mean() == pytest.approx(13 / 14)
    assert data.lsp_visibility(tmp_path, visible=1).mean() == pytest.approx(1 / 14)


@pytest.mark.real_data
def test_the_real_lsp_crops_show_their_joints(real_data):
    records = data.lsp(real_data / "lsp", "test")
    assert len(records) == 1_000
    assert 0.9 < data.lsp_visibility(real_data / "lsp").mean() < 0.95
    crops = data.PersonCrops(records, (128, 96))
    for index in (0, 500, 999):
        crop, source = crops[index], records[index]
        assert crop.x.shape == (128, 96, 3)
        assert crop.y[:, 2].sum() == 14  # the box holds every joint
        matrix = data.CropTransform(crop.attributes["crop"][0], (128, 96))
        assert np.allclose(matrix.back(crop.y[:, :2]), source.y[0, :, :2], atol=0.01)


def test_a_crop_carries_pixels_and_joints_together():
    picture = np.zeros((100, 200, 3), np.uint8)
    places = [(60.0, 30.0), (140.0, 70.0), (100.0, 50.0)]
    for x, y in places:
        picture[int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3] = 255
    crop = data.CropTransform.around((50, 20, 100, 60), (64, 96))
    joints = np.array([[*place, 1.0] for place in places] + [[199.0, 99.0, 1.0]], np.float32)
    pixels, moved = crop.picture(picture), crop.joints(joints)
    for x, y, weight in moved[:3]:
        assert weight == 1
        assert pixels[round(float(y)), round(float(x)), 0] > 100
    assert moved[3, 2] == 0  # outside the crop
    seen, mirrored = data.mirrored(pixels, moved[None, :2].repeat(7, 1), "lsp")
    assert seen[round(float(mirrored[0, 0, 1])), round(float(mirrored[0, 0, 0])), 0] > 100
    with pytest.raises(RecordsError, match="box with a size"):
        data.CropTransform.around((0, 0, 0, 5), (64, 96))


def test_mirroring_swaps_left_and_right():
    order = data.mirror_order("mpii")
    assert [MPII[i] for i in order][:3] == ["left_ankle", "left_knee", "left_hip"]
    assert order[MPII.index("pelvis")] == MPII.index("pelvis")
    assert [order[i] for i in order] == list(range(16))


def test_person_crops_pad_missing_people_with_weight_zero(coco):
    crops = data.PersonCrops(data.coco_keypoints(coco), (64, 48), people=2)
    one, two = crops[0], crops[1]
    assert one.x.shape == two.x.shape == (2, 64, 48, 3)
    assert one.y[1, :, 2].sum() == 0
    assert two.y[1, :, 2].sum() > 0


def test_metrics_by_hand():
    truth = np.array(
        [[[0, 0, 1], [10, 0, 1]], [[0, 0, 1], [10, 0, 0]], [[0, 0, 1], [10, 0, 1]]], float
    )
    predicted = np.array([[[3, 4], [10, 0]], [[0, 5.1], [0, 0]], [[0, 0], [0, 0]]], float)
    head = np.array([10.0, 10.0, np.nan])
    # joint 0: 5 <= 5 right, 5.1 wrong, third person has no head size; joint 1: right, absent, -
    assert data.pckh(predicted, truth, head).tolist() == [0.5, 1.0]
    assert data.pckh(predicted, truth, head, 0.1).tolist() == [0.0, 1.0]
    assert np.isnan(data.pck(predicted, truth, np.zeros(3), 0.5)).all()
    person = np.zeros((1, 14, 3))
    person[0, LSP.index("left_shoulder")] = [3, 4, 1]
    person[0, LSP.index("right_hip")] = [0, 0, 1]
    assert data.torso_size(person, "lsp").tolist() == [5.0]
    joints = np.zeros((1, 17, 3))
    joints[0, 0, 2] = 1
    guess = np.zeros((1, 17, 2))
    guess[0, 0] = [3, 4]
    expected = np.exp(-25 / (2 * 10_000 * (2 * 0.026) ** 2))
    assert 0.1 < expected < 0.9
    assert data.oks(guess, joints, np.array([1e4]))[0] == pytest.approx(expected)
    assert data.oks(joints[..., :2], joints, np.array([100.0]))[0] == 1.0
    assert np.isnan(data.oks(guess, np.zeros((1, 17, 3)), np.array([100.0]))[0])


def test_average_precision_by_hand():
    assert data.oks_average_precision(np.ones(3), np.arange(3)) == 1.0
    assert data.oks_average_precision(np.zeros(3), np.arange(3)) == 0.0
    # right at thresholds 0.50 to 0.70 only: five of ten
    assert data.oks_average_precision(np.full(4, 0.71), np.ones(4)) == pytest.approx(0.5)
    # the sure one is right, the unsure one wrong: recall up to one half at precision 1
    first = data.oks_average_precision(np.array([1.0, 0.0]), np.array([0.9, 0.1]))
    assert first == pytest.approx(51 / 101)
    # the other way round the right one comes second: precision one half
    second = data.oks_average_precision(np.array([1.0, 0.0]), np.array([0.1, 0.9]))
    assert second == pytest.approx(51 / 101 / 2)
    assert np.isnan(data.oks_average_precision(np.array([np.nan]), np.array([1.0])))
