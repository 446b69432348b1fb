"""Staged people as pose records, and skeletons drawn over pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.data import COCO, LSP, MPII, PersonCrops, draw_skeletons, limbs, staged_people
from sfumato.stage import JOINTS, posed_people


def test_joints_are_the_stages_own_under_lsps_names(tmp_path: Path) -> None:
    people = staged_people(3, seed=6, keep=tmp_path / "people.npz")
    drawn = list(posed_people(3, seed=6))
    for record, (picture, pixels) in zip(people, drawn):
        assert np.array_equal(record.x, picture)
        for name in ("left_knee", "right_wrist"):
            found = record.y[0, LSP.index(name), :2]
            assert np.allclose(found, pixels[JOINTS.index(name)] - 0.5, atol=1e-4)
        assert np.allclose(record.y[0, -1, :2], pixels[JOINTS.index("crown")] - 0.5, atol=1e-4)
    kept = staged_people(3, seed=6, joints="coco", keep=tmp_path / "people.npz")
    assert np.array_equal(kept.x, people.x)
    knee = kept.y[:, 0, COCO.index("left_knee")]
    assert np.array_equal(knee, people.y[:, 0, LSP.index("left_knee")])
    assert (kept.y[:, 0, COCO.index("nose"), 2] == 0).all()  # the stage has no nose


def test_staged_people_crop_like_any_pose_data() -> None:
    crops = PersonCrops(staged_people(2, seed=6), (64, 48))
    record = crops[1]
    assert record.x.shape == (64, 48, 3)
    assert record.y.shape == (14, 3)
    assert (record.y[:, 2] == 1).all()  # the box is around the joints, so none is cut off
    inside = (record.y[:, 0] <= 47) & (record.y[:, 1] <= 63) & (record.y[:, :2] >= 0).all(1)
    assert inside.all()


def test_every_vocabulary_has_connected_limbs() -> None:
    for names in (LSP, MPII, COCO):
        pairs = limbs(names)
        reached = {names.index("left_hip")}
        for _ in names:
            reached |= {b for a, b in pairs if a in reached} | {a for a, b in pairs if b in reached}
        body = {i for i, name in enumerate(names) if not name.endswith(("nose", "eye", "ear"))}
        assert body <= reached


def test_absent_joints_are_not_drawn_and_the_picture_is_left_alone() -> None:
    picture = np.full((60, 60, 3), 90, np.uint8)
    person = np.zeros((1, 14, 3))
    knee, ankle = LSP.index("left_knee"), LSP.index("left_ankle")
    person[0, knee] = (10, 30, 1)
    person[0, ankle] = (50, 30, 1)
    drawn = draw_skeletons(picture, person, LSP)
    assert (picture == 90).all()
    assert not (drawn[30, 20:40] == 90).all(1).any()
    assert (drawn[:20] == 90).all()
    assert (drawn[40:] == 90).all()
    person[0, ankle, 2] = 0
    lone = draw_skeletons(picture, person, LSP)
    assert (lone[:, 20:] == 90).all()
    assert (draw_skeletons(picture, np.zeros((1, 14, 3)), LSP) == 90).all()
