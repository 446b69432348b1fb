"""Boxes and masks leave as files, can be corrected, and come back; gaps in them are errors."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import SfumatoError
from sfumato.media import Frame, VideoInfo
from sfumato.people import (
    Box,
    CocoWriter,
    MaskVideoWriter,
    People,
    Person,
    box_mask,
    everybody,
    read_coco,
    read_mask_video,
)
from sfumato.people._coco import _mask, _mask_fields

WIDTH, HEIGHT = 320, 240
INFO = VideoInfo(WIDTH, HEIGHT, Fraction(30), Fraction(1, 30))


def _person(head: Box, track: int, evidence: str) -> Person:
    nothing = np.zeros((17, 3), np.float32)
    return Person(track, head.scale(4), nothing, head, evidence, (HEIGHT, WIDTH))


def _boxes(index: int) -> People:
    a = _person(Box(10.25 + index, 20, 40, 60.5, 0.75), 3, "movenet+centernet")
    b = _person(Box(100, 50, 130, 90, 0.4), 7, "held")
    return People((a, b) if index != 2 else (), index, blank=index == 4)


def _export(path: Path, count: int = 6) -> dict:  # type: ignore[type-arg]
    writer = CocoWriter(WIDTH, HEIGHT)
    for i in range(count):
        writer.add(_boxes(i))
    writer.write(path)
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_boxes_come_back_as_they_left(tmp_path: Path, frames) -> None:  # type: ignore[no-untyped-def]
    _export(tmp_path / "boxes.json")
    back = [found for _, found in read_coco(tmp_path / "boxes.json").people(frames(6))]
    assert len(back) == 6
    for i, found in enumerate(back):
        expected = _boxes(i)
        assert found.blank == expected.blank
        assert [one.track for one in found] == [one.track for one in expected]
        for one, original in zip(found.heads(), expected.heads(), strict=True):
            corners = (original.x0, original.y0, original.x1, original.y1, original.score)
            assert (one.x0, one.y0, one.x1, one.y1, one.score) == pytest.approx(corners)


def test_file_has_the_fields_that_coco_asks_for_and_no_names(tmp_path: Path) -> None:
    document = _export(tmp_path / "boxes.json")
    assert [image["file_name"] for image in document["images"]] == [
        f"frame-{i:06d}" for i in range(6)
    ]
    categories = {category["id"] for category in document["categories"]}
    for one in document["annotations"]:
        assert {"id", "image_id", "category_id", "bbox", "area", "iscrowd"} <= set(one)
        assert one["category_id"] in categories
    assert str(tmp_path) not in json.dumps(document)


def test_correction_by_hand_is_taken_over(tmp_path: Path, frames) -> None:  # type: ignore[no-untyped-def]
    document = _export(tmp_path / "boxes.json")
    document["annotations"][0]["bbox"] = [0, 0, 5, 5]
    document["annotations"].append(
        {"id": 99, "image_id": 3, "category_id": 1, "bbox": [1, 2, 3, 4]}
    )
    (tmp_path / "corrected.json").write_text(json.dumps(document))
    back = [found for _, found in read_coco(tmp_path / "corrected.json").people(frames(6))]
    assert (back[0].heads()[0].x1, back[0].heads()[0].y1) == (5, 5)
    assert len(back[2]) == 1


def test_video_longer_than_its_annotations_is_refused(tmp_path: Path, frames) -> None:  # type: ignore[no-untyped-def]
    _export(tmp_path / "boxes.json", 5)
    with pytest.raises(SfumatoError, match="for frame 5"):
        list(read_coco(tmp_path / "boxes.json").people(frames(6)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"images": [], "annotations": []}',
        '{"images": [{"id": 1, "width": 9, "height": 9}], "annotations": [{"image_id": 2, "bbox": [0,0,1,1]}]}',
        '{"images": [{"id": 1, "width": 9, "height": 9}], "annotations": [{"image_id": 1, "bbox": [0,0,-1,1]}]}',
        '{"images": [{"id": 1, "width": 9, "height": 9}], "annotations": [{"image_id": 1, "bbox": [0,0,NaN,1]}]}',
        '{"images": [{"id": 1, "width": 9, "height": 9}], "annotations": [{"image_id": 1, '
        '"segmentation": {"size": [9, 9], "counts": [80]}}]}',
    ],
)
def test_files_that_are_not_annotations_are_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.json").write_text(text)
    with pytest.raises(SfumatoError, match=r"^Expected COCO JSON"):
        read_coco(tmp_path / "wrong.json")


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_run_lengths_are_exact(seed: int, height: int, width: int, part: float) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < part
    if mask.any():
        fields = _mask_fields(mask)
        np.testing.assert_array_equal(_mask(fields["segmentation"], width, height), mask)
        assert fields["area"] == mask.sum()


def test_compressed_run_lengths_and_polygons_of_other_tools_are_read() -> None:
    # both texts were written by pycocotools 2.0 (mask.encode)
    block = np.zeros((10, 12), dtype=bool)
    block[2:6, 3:8] = True
    text = {"size": [10, 12], "counts": "P1460000000V1"}
    np.testing.assert_array_equal(_mask(text, 12, 10), block)
    three = np.zeros((9, 40), dtype=bool)
    three[1:3, 2:5] = three[4:9, 6:38] = three[0, 39] = True
    text = {"size": [9, 40], "counts": "c027000<3A" + "0" * 61 + "5LO"}
    np.testing.assert_array_equal(_mask(text, 40, 9), three)
    polygon = [[3, 2, 7, 2, 7, 5, 3, 5]]
    np.testing.assert_array_equal(_mask(polygon, 12, 10), block)


def test_masks_come_back_through_coco(tmp_path: Path, frames) -> None:  # type: ignore[no-untyped-def]
    masks = [box_mask([Box(10 + i, 20, 60, 90)], WIDTH, HEIGHT) for i in range(4)]
    writer = CocoWriter(WIDTH, HEIGHT, "person")
    for i, mask in enumerate(masks):
        writer.add(everybody(mask, i))
    writer.write(tmp_path / "masks.json")
    for i, (_, found) in enumerate(read_coco(tmp_path / "masks.json").people(frames(4))):
        np.testing.assert_array_equal(found.mask(HEIGHT, WIDTH), masks[i])


def _mask_video(path: Path, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    masks = [rng.random((HEIGHT, WIDTH)) < 0.5 for _ in range(count)]
    with MaskVideoWriter(path, INFO) as writer:
        for i, mask in enumerate(masks):
            frame = Frame(np.zeros((HEIGHT, WIDTH, 3), np.uint8), i, Fraction(i, 30))
            writer.write(frame, mask, blank=i == 2)
    return masks


def test_mask_video_is_lossless_and_blank_frames_are_all_person(tmp_path: Path, frames) -> None:  # type: ignore[no-untyped-def]
    masks = _mask_video(tmp_path / "masks.mkv", 4)
    back = [
        found.mask(HEIGHT, WIDTH) for _, found in read_mask_video(frames(4), tmp_path / "masks.mkv")
    ]
    assert back[2].all()
    for i in (0, 1, 3):
        np.testing.assert_array_equal(back[i], masks[i])


@pytest.mark.parametrize(("count", "sentence"), [(3, "goes on"), (5, "a mask for frame 4")])
def test_mask_video_of_another_length_is_refused(tmp_path: Path, frames, count, sentence) -> None:  # type: ignore[no-untyped-def]
    _mask_video(tmp_path / "masks.mkv", 4)
    with pytest.raises(SfumatoError, match=sentence):
        list(read_mask_video(frames(count), tmp_path / "masks.mkv"))
