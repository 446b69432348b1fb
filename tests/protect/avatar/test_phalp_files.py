"""Files of 4D-Humans (PHALP) and Mask DINO (detectron2), made in their real layout; read without running them."""

from __future__ import annotations

import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.body import INDEX
from sfumato.people._coco import _mask_fields
from sfumato.protect import ProtectError
from sfumato.protect.avatar._imported import read_poses
from sfumato.protect.avatar._phalp import detectron_masks, phalp_masks, phalp_poses
from sfumato.protect.avatar._tools import ToolSource, read_masks

HEIGHT, WIDTH = 24, 32


def compressed(runs: list[int]) -> str:
    """COCO's compressed run lengths, as pycocotools writes them."""
    out = []
    for i, run in enumerate(runs):
        value = run - runs[i - 2] if i > 2 else run
        more = True
        while more:
            piece = value & 0x1F
            value >>= 5
            more = value != (-1 if piece & 0x10 else 0)
            out.append(chr((piece | (0x20 if more else 0)) + 48))
    return "".join(out)


def rle(mask: np.ndarray) -> dict[str, Any]:
    runs = _mask_fields(mask)["segmentation"]["counts"]
    return {"size": [HEIGHT, WIDTH], "counts": compressed(runs)}


def person_mask(left: int) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[4:20, left : left + 5] = True
    return mask


def results(frames: int = 3) -> dict[str, Any]:
    """What PHALP's track() hands to joblib: a dictionary from frame name to lists, an entry a person."""
    rng = np.random.default_rng(0)
    out: dict[str, Any] = {}
    for t in reversed(range(frames)):  # the order of the names is not that of the frames
        people = [(7, 3 + t, 0)] + ([(9, 20, 1)] if t == 2 else [])  # 9 is carried, not seen
        out[f"/private/home/frames/{t:06d}.jpg"] = {
            "time": t, "shot": 0, "frame_path": f"/private/home/frames/{t:06d}.jpg",
            "tracked_ids": [7], "tid": [p[0] for p in people],
            "bbox": [np.array([p[1], 4.0, 5.0, 16.0]) for p in people],
            "tracked_time": [p[2] for p in people],
            "mask": [[rle(person_mask(p[1]))] for p in people],
            "size": [[HEIGHT, WIDTH] for _ in people],
            "conf": [np.float32(0.9) for _ in people],
            "smpl": [{"global_orient": rng.normal(size=(1, 3, 3)).astype(np.float32),
                      "body_pose": np.asfortranarray(rng.normal(size=(23, 3, 3))),
                      "betas": np.zeros(10, np.float32)} for _ in people],
            "camera": [np.array([0.1, 0.2, 30.0 + t], np.float32) for _ in people],
            "3d_joints": [rng.normal(0, 0.4, (45, 3)).astype(np.float32) for _ in people],
            "2d_joints": [np.zeros(90, np.float32) for _ in people],
            "annotations": [[] for _ in people], "class_name": [0 for _ in people],
        }  # fmt: skip
    return out


def dumped(path: Path, tree: Any) -> Path:
    joblib = pytest.importorskip(
        "joblib", reason="joblib, which PHALP writes with, is not installed"
    )
    joblib.dump(tree, path, compress=3)
    return path


def test_poses_of_4d_humans_are_placed_before_the_camera(tmp_path: Path) -> None:
    tree = results()
    rows = read_poses(ToolSource(dumped(tmp_path / "demo.pkl", tree)))
    assert rows["frame"].tolist() == [0, 1, 2]  # whoever is only carried on is not taken over
    assert rows["person"].tolist() == [7, 7, 7]
    assert float(rows["focal"]) == pytest.approx(5000 / 256 * WIDTH)
    for t in range(3):
        own = tree[f"/private/home/frames/{t:06d}.jpg"]
        assert np.allclose(
            rows["joints"][t], own["3d_joints"][0][:25] + own["camera"][0], atol=1e-6
        )


def test_joints_of_4d_humans_are_those_of_openpose() -> None:
    from sfumato.body import layout

    points = np.arange(75, dtype=float).reshape(1, 25, 3)
    ours = layout("body25").canonical(points)[0]
    assert np.array_equal(ours[INDEX["right_wrist"]], points[0, 4])
    assert np.array_equal(ours[INDEX["left_ankle"]], points[0, 14])


def test_a_plain_pickle_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "plain.pkl"
    path.write_bytes(pickle.dumps(results()))
    assert len(phalp_poses(path)["frame"]) == 3


def test_masks_of_4d_humans_are_everybodys(tmp_path: Path) -> None:
    masks = read_masks(dumped(tmp_path / "demo.pkl", results()))
    assert masks.shape == (3, HEIGHT, WIDTH)
    assert np.array_equal(masks[0], person_mask(3))
    assert np.array_equal(masks[2], person_mask(5) | person_mask(20))


class Runs:
    def __reduce__(self) -> Any:
        return (print, ("run",))


def test_nothing_in_a_file_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = results(1)
    tree["x"] = {"time": 5, "tid": [], "evil": Runs()}
    path = tmp_path / "evil.pkl"
    for content in (pickle.dumps(tree), zlib.compress(pickle.dumps(tree))):
        path.write_bytes(content)
        with pytest.raises(ProtectError, match=r"builtins\.print.*nothing was run"):
            phalp_poses(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"nothing", pickle.dumps([1]), pickle.dumps({})])
def test_another_file_is_refused_with_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.pkl"
    path.write_bytes(content)
    with pytest.raises(ProtectError, match="PHALP"):
        phalp_masks(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    whole = zlib.decompress(dumped(tmp_path / "demo.pkl", results()).read_bytes())
    path = tmp_path / "cut.pkl"
    for part in range(1, len(whole), len(whole) // 7):
        path.write_bytes(zlib.compress(whole[:part]))
        with pytest.raises(ProtectError):
            phalp_poses(path)


def instances() -> list[dict[str, Any]]:
    def one(image: int, left: int, category: int = 1, score: float = 0.9) -> dict[str, Any]:
        return {"image_id": image, "category_id": category, "bbox": [left, 4, 5, 16], "score": score,
                "segmentation": rle(person_mask(left))}  # fmt: skip

    return [
        one(0, 2),
        one(0, 12),
        one(1, 3),
        one(2, 4),
        one(2, 25, category=3),
        one(1, 22, score=0.1),
    ]


def test_masks_of_mask_dino_are_the_peoples(tmp_path: Path) -> None:
    path = tmp_path / "coco_instances_results.json"
    path.write_text(json.dumps(instances()))
    masks = detectron_masks(path)
    assert np.array_equal(read_masks(path), masks)
    assert np.array_equal(masks[0], person_mask(2) | person_mask(12))
    assert np.array_equal(masks[1], person_mask(3))
    assert np.array_equal(masks[2], person_mask(4))
    path.write_text(
        json.dumps([{**each, "image_id": each["image_id"] + 1} for each in instances()])
    )
    assert np.array_equal(detectron_masks(path), masks)


def test_instances_of_another_size_are_refused(tmp_path: Path) -> None:
    wrong = instances()
    wrong[1]["segmentation"] = {"size": [HEIGHT, WIDTH + 1], "counts": "0"}
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(ProtectError, match="run-length"):
        detectron_masks(path)
    path.write_text(json.dumps({"annotations": []}))
    with pytest.raises(ProtectError, match="coco_instances_results"):
        detectron_masks(path)
