"""The bundled detectors on real pictures: what they find, and what may not change it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import people, store
from sfumato.media import Frame, Image, open_video

pytestmark = [pytest.mark.models, pytest.mark.real_data]


def _made(factory: Callable[..., Any], *names: str) -> Any:
    try:
        return factory(*names)
    except (store.CacheError, store.DownloadError, store.OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")


@pytest.fixture(scope="module")
def clip(real_data: Path) -> Callable[[str, int], list[Frame]]:
    def read(name: str, count: int) -> list[Frame]:
        file = real_data / "clips" / name
        if not file.exists():
            pytest.skip(f"no clip {name} in the real data")
        with open_video(file, tolerant=True) as video:
            return list(islice(video, count))

    return read


@pytest.fixture(scope="module")
def crowd(clip: Callable[[str, int], list[Frame]]) -> Image:
    """Six faces, one of them half hidden at the left edge."""
    return clip("wave_street.avi", 1)[0].image


@pytest.fixture(scope="module")
def couple(clip: Callable[[str, int], list[Frame]]) -> Image:
    """Two people side by side, head to foot, in a white room."""
    return np.ascontiguousarray(clip("skeleton_demo.mp4", 1)[0].image[::2, ::2])


@pytest.fixture(scope="module")
def centerface() -> Any:
    return _made(people.face_detector, "centerface")


def test_both_face_detectors_find_the_crowd(crowd: Image, centerface: Any) -> None:
    blazeface = _made(people.face_detector, "blazeface")
    strong, fast = centerface.detect(crowd), blazeface.detect(crowd)
    sure = [box for box in strong if box.score > 0.5]
    assert len(sure) >= 4
    assert len(fast) >= 4
    agreeing = [box for box in fast if any(people.iou(box, other) > 0.2 for other in strong)]
    assert len(agreeing) >= 4


def test_centerface_forgets_the_size_of_the_last_picture(
    crowd: Image, couple: Image, centerface: Any
) -> None:
    first = centerface.detect(crowd)
    small = centerface.detect(couple)
    assert 2 <= len(small) < 10
    assert centerface.detect(crowd) == first


@pytest.mark.parametrize("name", ["blazepose", "blazepose-heavy"])
def test_pose_finds_two_people_upright_and_in_metres(couple: Image, name: str) -> None:
    found = _made(people.pose_estimator, name).estimate(couple)
    assert len(found) == 2
    for pose in found:
        assert pose.points.shape == pose.world.shape == (33, 3)
        nose, hips, ankles = (pose.points[i, 1].mean() for i in ([0], [23, 24], [27, 28]))
        assert nose < hips < ankles
        height = pose.world[[27, 28], 1].mean() - pose.world[0, 1]
        assert 1.0 < height < 1.9, "nose to ankle of a grown-up in metres"
        torso = np.linalg.norm(pose.world[[11, 12]].mean(0) - pose.world[[23, 24]].mean(0))
        assert 0.35 < torso < 0.7
    left, right = sorted(pose.box.centre[0] for pose in found)
    assert right - left > 40


def test_masks_show_the_people_and_not_the_room(couple: Image) -> None:
    estimator = _made(people.pose_estimator)
    mask = _made(people.person_segmenter, "selfie+pose").segment(couple) > 0.5
    height, width = mask.shape
    assert mask.shape == couple.shape[:2]
    for pose in estimator.estimate(couple):
        joints = pose.points[[11, 12, 23, 24, 25, 26], :2].round().astype(int)
        assert np.mean([mask[y, x] for x, y in joints]) > 0.8
    boxes = [pose.box.scale(1.6) for pose in estimator.estimate(couple)]
    outside = mask & ~people.box_mask(boxes, width, height)
    assert outside.sum() < 0.1 * mask.sum()


def test_identity_is_near_for_one_person_and_far_for_two(
    clip: Callable[[str, int], list[Frame]], crowd: Image, centerface: Any
) -> None:
    embedder = _made(people.face_embedder)
    frames = clip("wave_street.avi", 6)

    def largest(image: Image) -> list[people.Box]:
        return sorted(centerface.detect(image), key=lambda box: -box.area * (box.score > 0.5))

    first, later = largest(frames[0].image)[:2], largest(frames[5].image)
    same = max(later, key=lambda box: people.iou(box, first[0]))
    here = embedder.embed(frames[0].image, first[0])
    assert here.shape == (128,)
    assert np.linalg.norm(here - embedder.embed(frames[5].image, same)) < embedder.same_person
    assert np.linalg.norm(here - embedder.embed(frames[0].image, first[1])) > embedder.same_person


def test_tracks_leave_no_face_open_that_any_detector_sees(
    clip: Callable[[str, int], list[Frame]], centerface: Any
) -> None:
    frames = clip("soccer_juggling.avi", 16)
    stream = people.find(frames, "movenet+centernet+centerface", every=3, lookahead=6, masks=False)
    found = [everybody for _, everybody in stream]
    checker = _made(people.face_detector, "blazeface")
    seen = 0
    for frame, everybody in list(zip(frames, found, strict=True))[::2]:
        for face in checker.detect(frame.image):
            if face.score > 0.55:
                seen += 1
                assert max((box.covers(face) for box in everybody.heads()), default=0) > 0.3
    assert seen >= 2
    assert stream.status.looked_at == 6


def test_threads_that_look_together_find_what_one_finds(crowd: Image, centerface: Any) -> None:
    """Each thread gets an interpreter of its own: no answer is mixed with another picture's."""
    pictures = [np.ascontiguousarray(np.roll(crowd, 40 * n, axis=1)) for n in range(4)]
    alone = [centerface.detect(picture) for picture in pictures]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(centerface.detect, pictures * 2))
    assert together == alone * 2
    assert len({len(boxes) for boxes in alone} | {alone[0][0].x0, alone[1][0].x0}) > 1
