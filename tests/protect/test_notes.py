"""Previews, exports, imports and reviews: what an operator sees, corrects and gives back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces

from sfumato.body import Camera
from sfumato.errors import SfumatoError
from sfumato.media import open_video, read_image
from sfumato.protect._command import Order, Report, carry_out, dry_run_report
from sfumato.protect._notes import Notes
from sfumato.protect.video.avatar import Found, Known

NOTHING = Notes()


def run(source: Path, target: Path, notes: Notes = NOTHING, **changes: Any) -> Report:
    settings = {"detector": RedFaces(blind=(4,)), "check": None} | changes.pop("settings", {})
    order = Order(
        source=source,
        target=target,
        method=changes.pop("method", "blur"),
        settings=settings,
        codec="ffv1",
        notes=notes,
        **changes,
    )
    return carry_out(order, None, lambda sentence: None)


def pictures(path: Path) -> Any:
    with open_video(path) as video:
        return np.stack([frame.image for frame in video])


def test_what_was_found_is_exported_reviewed_and_shown(face_video: Path, tmp_path: Path) -> None:
    notes = Notes(*(tmp_path / n for n in ("sheet.png", "boxes.json", "masks.mkv", "review.json")))
    report = run(face_video, tmp_path / "out.mkv", notes)
    assert read_image(tmp_path / "sheet.png").shape[1] > 4 * 320
    found = json.loads((tmp_path / "boxes.json").read_text())
    assert len(found["images"]) == 12
    assert {each["image_id"] for each in found["annotations"]} == set(range(1, 13))
    masks = pictures(tmp_path / "masks.mkv")
    assert len(masks) == 12
    assert all((mask[12:20, 8 + n : 14 + n] == 255).all() for n, mask in enumerate(masks))
    doubtful = json.loads((tmp_path / "review.json").read_text())["doubtful"]
    assert [(span["first"], span["reason"]) for span in doubtful] == [(4, "bridged")]
    assert any("found nothing on 1" in line for line in report.lines)
    assert any("do not share" in line for line in report.lines)
    with pytest.raises(SfumatoError, match="--force"):
        run(face_video, tmp_path / "again.mkv", notes)
    assert not (tmp_path / "again.mkv").exists()


@pytest.mark.parametrize("way", ["boxes", "masks"])
def test_corrections_come_back_exactly(face_video: Path, tmp_path: Path, way: str) -> None:
    notes = Notes(export_boxes=tmp_path / "boxes.json", export_masks=tmp_path / "masks.mkv")
    run(face_video, tmp_path / "one.mkv", notes)
    settings = {"import_boxes": str(tmp_path / "boxes.json")}
    if way == "masks":
        settings = {"region": str(tmp_path / "masks.mkv")}
    nobody = {"detector": RedFaces(blind=range(100))}
    run(face_video, tmp_path / "two.mkv", settings=nobody | settings)
    one, two = pictures(tmp_path / "one.mkv"), pictures(tmp_path / "two.mkv")
    if way == "boxes":
        np.testing.assert_array_equal(one, two)
    before = pictures(face_video)
    np.testing.assert_array_equal(
        (one != before).any(axis=(0, 3)), (two != before).any(axis=(0, 3))
    )


def test_masks_of_people_whom_avatars_replace_are_exported_and_shown(
    face_video: Path, tmp_path: Path
) -> None:
    masks = np.zeros((12, HEIGHT, WIDTH), dtype=bool)
    for number, mask in enumerate(masks):
        mask[12:40, 8 + number : 20 + number] = True
    camera = Camera(WIDTH, HEIGHT, 60.0, np.eye(3), np.zeros(3))
    settings = {"body": "procedural", "finder": Known(Found(masks, (), camera))}
    notes = Notes(tmp_path / "sheet.png", tmp_path / "boxes.json", tmp_path / "masks.mkv")
    order = Order(source=face_video, target=tmp_path / "a.mkv", method="avatar",
                  settings=settings, codec="ffv1", notes=notes)  # fmt: skip
    carry_out(order, None, lambda sentence: None)
    np.testing.assert_array_equal(pictures(tmp_path / "masks.mkv")[..., 0] > 127, masks)
    found = json.loads((tmp_path / "boxes.json").read_text())
    assert {each["image_id"] for each in found["annotations"]} == set(range(1, 13))
    assert read_image(tmp_path / "sheet.png").any()
    reviewed = replace(order, target=tmp_path / "b.mkv", notes=Notes(review=tmp_path / "r.json"))
    with pytest.raises(SfumatoError, match="export its masks"):
        carry_out(reviewed, None, lambda sentence: None)


def test_notes_need_somebody_to_look_for_and_one_recording(
    face_video: Path, tmp_path: Path
) -> None:
    notes = Notes(preview=tmp_path / "sheet.png")
    order = Order(
        source=face_video, target=tmp_path / "a.mkv", method="edges", settings={}, notes=notes
    )
    with pytest.raises(SfumatoError, match="which does not"):
        carry_out(order, None, lambda sentence: None)
    folder = Order(
        source=tmp_path, target=tmp_path / "out", method="blur", settings={}, notes=notes
    )
    with pytest.raises(SfumatoError, match="got a folder"):
        carry_out(folder, None, lambda sentence: None)


def test_nothing_is_noted_when_nothing_is_released(face_video: Path, tmp_path: Path) -> None:
    notes = Notes(preview=tmp_path / "sheet.png", export_masks=tmp_path / "masks.mkv")
    with pytest.raises(SfumatoError, match="frame 4"):
        run(face_video, tmp_path / "a.mkv", notes, settings={"on_miss": "fail"})
    assert [path.name for path in tmp_path.iterdir()] == [face_video.name]


def test_defaults_and_dry_runs_know_chains(tmp_path: Path) -> None:
    order = Order(
        source=tmp_path / "none.mp4",
        target=tmp_path / "out.mp4",
        method="edges+laplace",
        settings={"epsilon": 1.0},
    )
    report = dry_run_report(order)
    assert report.payload["promise"]["unit"] == "video"
    assert any("strictest" in line for line in report.lines)
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_when_it_cannot_measure(tmp_path: Path) -> None:
    order = Order(
        source=tmp_path / "none.mp4",
        target=tmp_path / "out.mp4",
        method="external",
        settings={"command": "tool {input} {output}"},
    )
    assert any("could not be measured" in line for line in dry_run_report(order).lines)
