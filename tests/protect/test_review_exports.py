"""Previews, exports, imports and reviews: what an operator sees, corrects and gives back."""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces

from sfumato import protect
from sfumato.body import Camera
from sfumato.errors import SfumatoError
from sfumato.media import open_video, read_image, write_image
from sfumato.privacy import says_private
from sfumato.protect._command import CommandResult, Request, dry_run
from sfumato.protect._review_exports import ReviewExports
from sfumato.protect.avatar import Known, Scene

NOTHING = ReviewExports()


def run(
    source: Path, target: Path, notes: ReviewExports = NOTHING, **changes: Any
) -> CommandResult:
    settings = {"detector": RedFaces(blind=(4,)), "check": None} | changes.pop("settings", {})
    order = Request(
        source=source,
        target=target,
        method=changes.pop("method", "blur"),
        settings=settings,
        codec="ffv1",
        exports=notes,
        **changes,
    )
    return protect.run(order, None, lambda sentence: None)


def pictures(path: Path) -> Any:
    with open_video(path) as video:
        return np.stack([frame.image for frame in video])


def test_what_was_found_is_exported_reviewed_and_shown(face_video: Path, tmp_path: Path) -> None:
    notes = ReviewExports(
        *(tmp_path / n for n in ("sheet.png", "boxes.json", "masks.mkv", "review.json"))
    )
    report = run(face_video, tmp_path / "out" / "out.mkv", notes)
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
    # a name can be changed: every file says inside what it is, and the release does not
    assert all(says_private(path) for path in notes.wanted)
    assert not any(
        says_private(tmp_path / "out" / f"out.mkv{ending}")
        for ending in ("", ".card.json", ".card.md")
    )
    with pytest.raises(SfumatoError, match="--force"):
        run(face_video, tmp_path / "out" / "again.mkv", notes)
    assert not (tmp_path / "out" / "again.mkv").exists()


@pytest.mark.parametrize("way", ["boxes", "masks"])
def test_corrections_come_back(face_video: Path, tmp_path: Path, way: str) -> None:
    notes = ReviewExports(export_boxes=tmp_path / "boxes.json", export_masks=tmp_path / "masks.mkv")
    run(face_video, tmp_path / "out" / "one.mkv", notes)
    settings = {"import_boxes": str(tmp_path / "boxes.json")}
    if way == "masks":
        settings = {"region": str(tmp_path / "masks.mkv")}
    nobody = {"detector": RedFaces(blind=range(100))}
    run(face_video, tmp_path / "out" / "two.mkv", settings=nobody | settings)
    two, before = pictures(tmp_path / "out" / "two.mkv"), pictures(face_video)
    changed = (two != before).any(axis=3)
    if way == "boxes":
        for one in json.loads((tmp_path / "boxes.json").read_text())["annotations"]:
            x, y, wide, high = (round(side) for side in one["bbox"])
            box = np.s_[y + 1 : y + high - 1, max(x + 1, 0) : x + wide - 1]
            assert changed[one["image_id"] - 1][box].mean() > 0.9, "a box by hand is covered whole"
        return
    masks = pictures(tmp_path / "masks.mkv")[..., 0] > 127
    assert changed[masks].mean() > 0.95


def test_masks_of_people_whom_avatars_replace_are_exported_and_shown(
    face_video: Path, tmp_path: Path
) -> None:
    masks = np.zeros((12, HEIGHT, WIDTH), dtype=bool)
    for number, mask in enumerate(masks):
        mask[12:40, 8 + number : 20 + number] = True
    camera = Camera(WIDTH, HEIGHT, 60.0, np.eye(3), np.zeros(3))
    settings = {"body": "procedural", "finder": Known(Scene(masks, (), camera))}
    notes = ReviewExports(tmp_path / "sheet.png", tmp_path / "boxes.json", tmp_path / "masks.mkv")
    order = Request(source=face_video, target=tmp_path / "out" / "a.mkv", method="avatar",
                  settings=settings, codec="ffv1", exports=notes)  # fmt: skip
    protect.run(order, None, lambda sentence: None)
    np.testing.assert_array_equal(pictures(tmp_path / "masks.mkv")[..., 0] > 127, masks)
    found = json.loads((tmp_path / "boxes.json").read_text())
    assert {each["image_id"] for each in found["annotations"]} == set(range(1, 13))
    assert read_image(tmp_path / "sheet.png").any()
    reviewed = replace(
        order, target=tmp_path / "out" / "b.mkv", exports=ReviewExports(review=tmp_path / "r.json")
    )
    with pytest.raises(SfumatoError, match="export its masks"):
        protect.run(reviewed, None, lambda sentence: None)


def test_notes_need_somebody_to_look_for_and_one_recording(
    face_video: Path, tmp_path: Path
) -> None:
    notes = ReviewExports(preview=tmp_path / "sheet.png")
    order = Request(
        source=face_video,
        target=tmp_path / "out" / "a.mkv",
        method="edges",
        settings={},
        exports=notes,
    )
    with pytest.raises(SfumatoError, match="which does not"):
        protect.run(order, None, lambda sentence: None)
    boxes = ReviewExports(export_boxes=tmp_path / "boxes.json")
    folder = Request(
        source=tmp_path, target=tmp_path / "out", method="blur", settings={}, exports=boxes
    )
    with pytest.raises(SfumatoError, match="got a folder"):
        protect.run(folder, None, lambda sentence: None)


def test_nothing_is_noted_when_nothing_is_released(face_video: Path, tmp_path: Path) -> None:
    notes = ReviewExports(preview=tmp_path / "sheet.png", export_masks=tmp_path / "masks.mkv")
    with pytest.raises(SfumatoError, match="frame 4"):
        run(face_video, tmp_path / "out" / "a.mkv", notes, settings={"on_miss": "fail"})
    assert {path.name for path in tmp_path.iterdir()} == {face_video.name, "out"}
    assert not list((tmp_path / "out").iterdir())


def test_defaults_and_dry_runs_know_chains(tmp_path: Path) -> None:
    order = Request(
        source=tmp_path / "none.mp4",
        target=tmp_path / "out.mp4",
        method="edges+laplace",
        settings={"epsilon": 1.0},
    )
    report = dry_run(order)
    assert report.payload["promise"]["unit"] == "video"
    assert any("strictest" in line for line in report.lines)
    assert list(tmp_path.iterdir()) == []


def test_dry_run_says_when_it_cannot_measure(tmp_path: Path) -> None:
    order = Request(
        source=tmp_path / "none.mp4",
        target=tmp_path / "out.mp4",
        method="external",
        settings={"command": "tool {input} {output}"},
    )
    assert any("could not be measured" in line for line in dry_run(order).lines)


@pytest.mark.parametrize("note", ["preview", "export_boxes", "export_masks", "review"])
def test_notes_are_private_and_lie_outside_the_release(
    face_video: Path, tmp_path: Path, note: str
) -> None:
    name = {"preview": "p.png", "export_masks": "m.mkv"}.get(note, "n.json")
    target = tmp_path / "release" / "clip.mkv"
    target.parent.mkdir()
    (tmp_path / "alias").symlink_to(target.parent)
    inside = [
        target.parent / name,
        target.parent / "deeper" / name,
        tmp_path / "alias" / name,
        tmp_path / "release" / ".." / "release" / name,
    ]
    for path in inside:
        with pytest.raises(SfumatoError, match="outside the folder of the release"):
            run(face_video, target, ReviewExports(**{note: path}))
    (tmp_path / "linked").symlink_to(face_video)
    for path in (face_video, tmp_path / "linked"):
        with pytest.raises(SfumatoError, match="apart from the originals"):
            run(face_video, target, ReviewExports(**{note: path}), force=True)
    assert list(target.parent.iterdir()) == []
    run(face_video, target, ReviewExports(**{note: tmp_path / "mine" / "deeper" / name}))
    assert stat.S_IMODE((tmp_path / "mine" / "deeper" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "mine" / "deeper").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~_umask()


def test_notes_may_lie_beside_the_original_as_the_docs_show(
    face_video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``protect in.mp4 out.mp4 --preview sheet.png``: a folder with the original is no release."""
    (tmp_path / "lab").mkdir()
    source = Path(shutil.copy(face_video, tmp_path / "lab" / "in.mkv"))
    monkeypatch.chdir(source.parent)
    for number, place in enumerate((Path("sheet.png"), Path("../mine.png"))):
        run(Path(source.name), Path(f"out{number}.mkv"), ReviewExports(preview=place))
        assert place.is_file()
    (tmp_path / "release").mkdir()
    monkeypatch.chdir(tmp_path / "release")
    with pytest.raises(SfumatoError, match="outside the folder of the release"):
        run(source, Path("out.mkv"), ReviewExports(preview=Path("sheet.png")))


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


@pytest.mark.parametrize(
    "notes",
    [
        {"preview": "sheet.gif"},
        {"export_masks": "masks.mp4"},
        {"preview": "a.png", "review": "a.png"},
    ],
)
def test_a_note_that_cannot_be_written_is_refused_before_anything_is_spent(
    face_video: Path, tmp_path: Path, notes: dict[str, str]
) -> None:
    def spend(promise: Any, run: str) -> Any:
        raise AssertionError("spent")

    places = ReviewExports(**{name: tmp_path / "mine" / path for name, path in notes.items()})
    order = Request(
        source=face_video,
        target=tmp_path / "out" / "a.mkv",
        method="blur",
        settings={"detector": RedFaces(), "check": None},
        codec="ffv1",
        exports=places,
    )
    with pytest.raises(SfumatoError, match="Expected a"):
        protect.run(order, spend, lambda sentence: None)
    assert not (tmp_path / "out").exists()


def test_every_recording_of_a_folder_has_its_private_sheet(
    face_video: Path, tmp_path: Path
) -> None:
    """Named as the output, where its source lies; a picture as the mask, so that no model is needed."""
    mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mask[8:20, 8:20] = 255
    write_image(tmp_path / "mask.png", mask)
    (tmp_path / "in" / "walk").mkdir(parents=True)
    face_video.rename(tmp_path / "in" / "walk" / "faces.mkv")
    order = Request(
        source=tmp_path / "in",
        target=tmp_path / "rel",
        method="blur",
        settings={"region": str(tmp_path / "mask.png")},
        codec="ffv1",
        workers=1,
        exports=ReviewExports(preview=tmp_path / "sheets"),
    )
    done = protect.run(order, None, lambda sentence: None)
    assert done.failed == 0
    (output,) = done.outputs
    sheet = tmp_path / "sheets" / "walk" / f"{output.stem}.png"
    assert [path for path in (tmp_path / "sheets").rglob("*") if path.is_file()] == [sheet]
    assert says_private(sheet)
    assert stat.S_IMODE(sheet.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "sheets").stat().st_mode) == 0o700
    assert read_image(sheet).shape[1] > 4 * 320
    # a preview is nothing that decides whether a recording is finished
    again = protect.run(replace(order, exports=NOTHING), None, lambda sentence: None)
    assert again.failed == 0
    assert again.outputs == done.outputs


@pytest.mark.parametrize("place", ["rel", "rel/sheets", "in/sheets", "sheet.png"])
def test_sheets_of_a_folder_need_a_folder_outside_of_release_and_originals(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "in").mkdir()
    order = Request(
        source=tmp_path / "in",
        target=tmp_path / "rel",
        method="blur",
        settings={},
        exports=ReviewExports(preview=tmp_path / place),
    )
    with pytest.raises(SfumatoError, match="previews"):
        protect.run(order, None, lambda sentence: None)
