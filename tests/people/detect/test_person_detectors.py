"""MoveNet and CenterNet: decoding against slow versions, tiles, and real people."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from sfumato import people, store
from sfumato.media import Image, open_video
from sfumato.people import Box
from sfumato.people.detect._centernet import decode as decode_centernet
from sfumato.people.detect._movenet import JOINTS, JointedPerson, MoveNet
from sfumato.people.detect._movenet import decode as decode_movenet
from sfumato.people.detect._nanodet import decode as decode_nanodet
from sfumato.people.detect._tiles import brightened, one_each, whole_and_tiles


def _heads(seed: int, rows: int = 18, columns: int = 25) -> list[np.ndarray]:
    """What MoveNet's six last convolutions could say, with a few clear people."""
    random = np.random.default_rng(seed)
    centre = random.normal(-3, 1, (rows, columns, 1))
    for _ in range(5):
        centre[random.integers(rows), random.integers(columns)] = random.uniform(0, 4)
    extent = random.uniform(-1, 16, (rows, columns, 2))
    offset = random.uniform(0, 1, (rows, columns, 2))
    heat = random.normal(0, 2, (rows, columns, 17))
    regress = random.normal(0, 4, (rows, columns, 34))
    joint_offset = random.uniform(0, 1, (rows, columns, 34))
    made = (centre, extent, offset, heat, regress, joint_offset)
    return [head.astype(np.float32) for head in made]


def _slow_movenet(heads: list[np.ndarray], count: int) -> list[tuple[Any, ...]]:
    """Cell by cell and joint by joint, as the graph's operations read one after another."""
    centre, extent, offset, heat, regress, joint_offset = (head.astype(float) for head in heads)
    rows, columns = centre.shape[:2]
    middle = 1 / (1 + np.exp(-centre[..., 0]))
    peaks = []
    for y in range(rows):
        for x in range(columns):
            near = middle[max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3]
            if near.max() - middle[y, x] < 1.0132789611816406e-06:
                peaks.append((-middle[y, x], y, x))
    chosen = sorted(peaks)[:count]
    value = np.zeros((len(chosen), rows, columns, 17))
    boxes = []
    for i, (_, y, x) in enumerate(chosen):
        half = np.maximum(extent[y, x], 0) / 2
        low = np.clip(np.array([y, x]) + offset[y, x] - half, 0, (rows, columns))
        high = np.clip(np.array([y, x]) + offset[y, x] + half, 0, (rows, columns))
        boxes.append((low, high))
        for j in range(17):
            expected = np.array([y, x]) + regress[y, x, 2 * j : 2 * j + 2]
            for r in range(rows):
                for c in range(columns):
                    inside = low[0] <= r < high[0] and low[1] <= c < high[1]
                    far = (r - expected[0]) ** 2 + (c - expected[1]) ** 2
                    near_by = np.exp(-far / (0.300048828125 * min(rows, columns)))
                    value[i, r, c, j] = near_by * inside / (1 + np.exp(-heat[r, c, j]))
    found = []
    for i, (negative, _, _) in enumerate(chosen):
        joints, sure = [], []
        for j in range(17):
            r, c = np.unravel_index(value[i, :, :, j].argmax(), (rows, columns))
            at = np.array([r, c]) + joint_offset[r, c, 2 * j : 2 * j + 2]
            joints.append(at[::-1] * 4)
            sure.append(value[:, r, c, j].max())
        seen = [each for each in sure if each > 0.126953125]
        score = -negative * sum(seen) / max(len(seen), 1)
        (top, left), (bottom, right) = boxes[i]
        found.append((np.array([left, top, right, bottom]) * 4, np.array(joints), sure, score))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_movenet_is_decoded_as_cell_by_cell(seed: int) -> None:
    heads = _heads(seed)
    fast, slow = decode_movenet(heads, 0.0, 6), _slow_movenet(heads, 6)
    assert len(fast.scores) == len(slow) == 6
    assert len({round(float(score), 6) for score in fast.scores}) > 1
    for i, (corners, joints, sure, score) in enumerate(slow):
        np.testing.assert_allclose(fast.corners[i], corners, atol=1e-3)
        np.testing.assert_allclose(fast.joints[i], joints, atol=1e-3)
        np.testing.assert_allclose(fast.confidence[i], sure, atol=1e-5)
        assert fast.scores[i] == pytest.approx(score, abs=1e-5)


def test_movenet_finds_more_than_the_six_of_its_graph_and_nobody_in_nothing() -> None:
    heads = _heads(1)
    heads[0] = np.full_like(heads[0], -4)
    heads[0][2::6, 2::6] = 3
    assert len(decode_movenet(heads, 0.5, 30).scores) == 12
    assert len(decode_movenet(heads, 0.5, 4).scores) == 4
    nothing = decode_movenet(heads, 0.99, 30)
    assert nothing.corners.shape == (0, 4)
    assert nothing.joints.shape == (0, 17, 2)


def test_nanodet_is_decoded_as_cell_by_cell() -> None:
    random = np.random.default_rng(4)
    heads = [random.normal(-1, 2, (n, n + 3, 124)).astype(np.float32) for n in (8, 4, 2)]
    expected = []
    for head, stride in zip(heads, (8, 16, 32), strict=True):
        rows, columns = head.shape[:2]
        for y in range(rows):
            for x in range(columns):
                score = 1 / (1 + np.exp(-float(head[y, x, 0])))
                near = head[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2, 0]
                if score < 0.4 or near.max() > head[y, x, 0]:
                    continue
                away = []
                for side in range(4):
                    bins = np.exp(head[y, x, 80 + 11 * side : 91 + 11 * side].astype(float))
                    away.append(stride * sum(i * b for i, b in enumerate(bins)) / bins.sum())
                cx, cy = (x + 0.5) * stride, (y + 0.5) * stride
                corners = [cx - away[0], cy - away[1], cx + away[2], cy + away[3]]
                expected.append((score, corners))
    corners, scores = decode_nanodet(heads, 0.4)
    expected.sort(key=lambda each: -each[0])
    assert len(expected) > 5
    np.testing.assert_allclose(scores, [score for score, _ in expected], rtol=1e-5)
    np.testing.assert_allclose(corners, [each for _, each in expected], atol=1e-3)


def test_centernet_is_decoded_as_cell_by_cell() -> None:
    random = np.random.default_rng(2)
    kinds = random.normal(-2, 2, (14, 19, 1)).astype(np.float32)
    sides = random.uniform(0, 3, (14, 19, 4)).astype(np.float32)
    expected = []
    for y in range(14):
        for x in range(19):
            score = 1 / (1 + np.exp(-float(kinds[y, x, 0])))
            if kinds[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].max() > kinds[y, x, 0]:
                continue
            left, top, right, bottom = 16 * sides[y, x].astype(float)
            corners = [4 * x - left, 4 * y - top, 4 * x + right, 4 * y + bottom]
            expected += [(score, corners)] if score >= 0.2 else []
    corners, scores = decode_centernet([kinds, sides], 0.2)
    expected.sort(key=lambda each: -each[0])
    assert len(expected) > 5
    np.testing.assert_allclose(scores, [score for score, _ in expected], rtol=1e-5)
    np.testing.assert_allclose(corners, [each for _, each in expected], atol=1e-4)


@pytest.mark.parametrize("shape", [(126, 224), (240, 320), (1080, 1920), (900, 300), (512, 512)])
def test_points_of_a_tile_come_back_to_where_they_were(shape: tuple[int, int]) -> None:
    height, width = shape
    image = np.zeros((height, width, 3), np.uint8)
    size = max(shape) // 60 + 1
    x, y = round(0.4 * width), round(0.6 * height)
    image[y - size : y + size, x - size : x + size] = 255
    seen = 0
    for tile in whole_and_tiles(image, (384, 512), 384, tiles=True):
        high, wide = tile.pixels.shape[:2]
        assert high % 32 == wide % 32 == 0
        light = tile.pixels.sum(axis=2)
        if light.max() < 700:
            continue
        seen += 1
        rows, columns = np.nonzero(light > 0.5 * light.max())
        middle = np.array([columns.mean() + 0.5, rows.mean() + 0.5], np.float32)
        np.testing.assert_allclose(tile.to_picture(middle), (x, y), atol=1 + max(shape) / 400)
    assert seen >= 1


def test_only_reduced_pictures_are_tiled_and_no_tile_is_enlarged() -> None:
    def tiles(height: int, width: int) -> list[Any]:
        image = np.zeros((height, width, 3), np.uint8)
        return list(whole_and_tiles(image, (384, 512), 384, tiles=True))

    assert len(tiles(126, 224)) == len(tiles(256, 340)) == len(tiles(360, 640)) == 1
    assert len(tiles(1000, 1000)) == 1, "a square picture has no squares along a longer side"
    wide = tiles(1080, 1920)
    assert [tile.whole for tile in wide] == [True, False, False, False]
    assert wide[0].pixels.shape[:2] == (288, 512)
    long = tiles(200, 900)
    assert len(long) > 3
    assert all(tile.wider >= 0.85 for tile in long[1:])
    covered = np.zeros(1920, bool)
    for tile in wide[1:]:
        covered[round(tile.x) : round(tile.x + tile.pixels.shape[1] * tile.wider)] = True
    assert covered.all()


def test_a_cut_box_counts_only_where_nothing_covers_it() -> None:
    whole = Box(100, 0, 200, 300, 0.4)
    part, alone = Box(150, 10, 200, 290, 0.9), Box(400, 0, 450, 300, 0.3)
    kept = one_each([part, whole, alone], [True, False, True])
    assert kept == [1, 2], "the whole box stays though the part is surer; a part alone stays"
    child = Box(120, 150, 180, 300, 0.3)
    assert one_each([whole, child], [False, False]) == [0, 1], "somebody in front is somebody"


def test_everything_dropped_is_seen_in_something_kept() -> None:
    random = np.random.default_rng(4)
    low = random.uniform(0, 80, (60, 2))
    high = low + random.uniform(10, 60, (60, 2))
    boxes = [
        Box(*a, *b, float(s)) for a, b, s in zip(low, high, random.uniform(size=60), strict=True)
    ]
    cut = [bool(each) for each in random.integers(0, 2, 60)]
    kept = one_each(boxes, cut)
    assert 0 < len(kept) < 60
    for i in set(range(60)) - set(kept):
        same = max(people.iou(boxes[i], boxes[k]) for k in kept)
        inside = max(boxes[k].covers(boxes[i]) for k in kept)
        assert same >= 0.5 or (cut[i] and inside >= 0.6)


def test_edges_inside_the_picture_cut_and_the_picture_s_own_do_not() -> None:
    image = np.zeros((1080, 1920, 3), np.uint8)
    whole, left, *_, right = whole_and_tiles(image, (384, 512), 384, tiles=True)
    at_the_border, at_the_seam = Box(0, 100, 300, 1080), Box(700, 100, 1079, 900)
    assert not left.cuts(at_the_border, 1920, 1080)
    assert left.cuts(at_the_seam, 1920, 1080)
    assert not whole.cuts(at_the_seam, 1920, 1080)
    assert right.cuts(Box(840, 0, 1000, 500), 1920, 1080)
    assert not right.cuts(Box(1500, 0, 1920, 1080), 1920, 1080)


def test_both_are_known_by_name() -> None:
    assert {"movenet", "centernet", "pose"} <= set(people.detectors()["people"])
    assert len(JOINTS) == 17


def _made(name: str) -> Any:
    try:
        return people.person_detector(name)
    except (store.DownloadError, store.OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")


@pytest.fixture(scope="module")
def frame(real_data: Path) -> Callable[[str, int], Image]:
    def read(name: str, index: int) -> Image:
        file = real_data / "clips" / name
        if not file.exists():
            pytest.skip(f"no clip {name} in the real data")
        with open_video(file, tolerant=True) as video:
            return next(islice(video, index, None)).image

    return read


@pytest.mark.models
@pytest.mark.real_data
def test_real_people_are_found_whole_with_their_joints(frame: Callable[[str, int], Image]) -> None:
    couple = frame("skeleton_demo.mp4", 21)
    detector = _made("movenet")
    assert isinstance(detector, MoveNet)
    found: list[JointedPerson] = detector.people(couple)
    assert len(found) == 2
    for person in found:
        assert person.box.source == "movenet"
        assert 600 < person.box.height < 800
        sure = person.joints[person.confidence > 0.3]
        assert len(sure) >= 12
        room = person.box.scale(1.1)
        assert all(room.x0 < x < room.x1 and room.y0 < y < room.y1 for x, y in sure)
        nose, hips, ankles = (person.joints[i, 1].mean() for i in ([0], [11, 12], [15, 16]))
        assert nose < hips < ankles
    boxes = [person.box for person in found]
    others = _made("centernet").detect(couple)
    assert all(max(people.iou(box, other) for other in others) > 0.6 for box in boxes)


@pytest.mark.models
@pytest.mark.real_data
def test_the_girl_in_green_is_found_by_both(frame: Callable[[str, int], Image]) -> None:
    """Some 20 pixels of the far end of the gymnasium, missed by every earlier detector."""
    gymnasium = frame("cartwheel_bad_metadata.avi", 24)
    girl = Box(208, 98, 226, 112)
    old = people.pose_estimator().estimate(gymnasium)
    assert all(pose.box.covers(girl) < 0.5 for pose in old)
    for name in ("movenet", "centernet"):
        found = _made(name).detect(gymnasium)
        assert any(box.covers(girl) > 0.8 and box.area < 40 * girl.area for box in found)


@pytest.mark.models
def test_status_and_device_are_said() -> None:
    united = _made("movenet+centernet")
    assert united.name == "movenet+centernet"
    assert united.device == "cpu (LiteRT)"
    assert united.detect(np.zeros((120, 160, 3), np.uint8)) == []


def test_a_dark_picture_is_brightened_unless_that_would_show_its_noise() -> None:
    random = np.random.default_rng(5)
    coarse = random.integers(0, 90, (20, 30, 3)).astype(np.uint8)
    dark = cv2.resize(coarse, (240, 160), interpolation=cv2.INTER_CUBIC)
    bright = brightened(dark)
    assert bright.astype(int).sum() > 1.8 * dark.sum()
    assert np.percentile(bright, 99) <= 255
    noisy = np.clip(dark + random.normal(0, 20, dark.shape), 0, 110).astype(np.uint8)
    assert brightened(noisy) is noisy
    light = np.clip(dark.astype(int) * 3, 0, 255).astype(np.uint8)
    assert brightened(light) is light
    black = np.zeros_like(dark)
    assert not brightened(black).any()
