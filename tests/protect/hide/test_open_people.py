"""The check of the output for whole people: what looks as before is open, whatever covers it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from sfumato.media import VideoWriter, open_video
from sfumato.people import Box, Look
from sfumato.protect.hide import _residual_people
from sfumato.protect.hide._output_check import Faces, what_is_left
from sfumato.protect.hide._residual_people import (
    _changed,
    _covers,
    open_heads,
    open_people,
    still_shows,
)

BOX = Box(20, 10, 60, 70)


def room(seed: int = 3) -> Any:
    noise = np.random.default_rng(seed).integers(0, 256, (80, 96, 3)).astype(np.uint8)
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), 1.5), np.uint8)


def covered(how: str) -> Any:
    image = room()
    part = image[10:70, 20:60]
    if how == "flat":
        part[:] = 96
    elif how == "noise":
        part[:] = np.random.default_rng(1).integers(0, 256, part.shape)
    elif how == "blur":
        part[:] = cv2.GaussianBlur(part, (0, 0), 8)
    elif how == "other":
        part[:] = room(9)[10:70, 20:60]
    elif how == "codec":
        image = np.clip(image + np.random.default_rng(2).normal(0, 3, image.shape), 0, 255)
    return image.astype(np.uint8)


@pytest.mark.parametrize(
    ("how", "is_open"),
    [("flat", False), ("noise", False), ("blur", False), ("other", False), ("none", True), ("codec", True)],
)  # fmt: skip
def test_only_what_looks_as_before_is_open(how: str, is_open: bool) -> None:
    assert still_shows(room(), covered(how), BOX) == is_open


def test_a_plain_place_is_open_if_its_colour_is_the_same() -> None:
    plain = np.full((80, 96, 3), 90, np.uint8)
    assert still_shows(plain, plain.copy(), BOX)
    assert not still_shows(plain, np.full_like(plain, 130), BOX)
    assert not still_shows(plain, plain, Box(200, 200, 240, 260)), "nothing is seen outside"


class Always:
    """A checking network that sees somebody in the same place of every picture."""

    name, device = "always", "test"

    def __init__(self, score: float, box: Box = BOX) -> None:
        self.box = replace(box, score=score)

    def detect(self, image: Any) -> list[Box]:
        return [self.box]


class Body:
    name, device = "body", "test"

    def detect(self, image: Any) -> list[Box]:
        high, wide = image.shape[:2]
        return [Box(0.1 * wide, 0.1 * high, 0.9 * wide, 0.9 * high, 0.9)]


class Nobody(Body):
    def detect(self, image: Any) -> list[Box]:
        return []


def two_videos(folder: Path) -> tuple[Path, Path]:
    """Nine frames of a room, and the same with one place covered on the first five."""
    for name, hidden in (("in.mkv", ()), ("out.mkv", (0, 1, 2, 3, 4))):
        with VideoWriter(folder / name, rate=25, size=(96, 80), codec="ffv1") as writer:
            for number in range(9):
                writer.write(covered("flat") if number in hidden else room())
    return folder / "in.mkv", folder / "out.mkv"


@pytest.mark.parametrize(
    ("score", "search", "frames"),
    [(0.6, Nobody, [6, 8]), (0.35, Body, [6, 8]), (0.35, Nobody, [])],
)
def test_open_people_are_named_by_frame_if_the_check_is_sure_or_a_second_look_confirms_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    score: float,
    search: type[Body],
    frames: list[int],
) -> None:
    monkeypatch.setattr(_residual_people, "_search", lambda: Look([search()], []))
    source, made = two_videos(tmp_path)
    (left,) = what_is_left(source, made, [open_people(Always(score), 2)])
    assert [number for number, _ in left] == frames


@pytest.mark.parametrize(
    ("covers", "is_open"),
    [
        ([(10, 70, 36, 45)], False),  # a slim one's outline, a fifth of the box
        ([(10, 70, 20, 31)], True),  # as much, of a neighbour
        ([(10, 22, 30, 50), (56, 70, 30, 50)], True),  # head and feet
        ([(10, 38, 32, 48)], True),  # the upper half
    ],
)
@pytest.mark.parametrize("lying", [False, True])
def test_a_slim_outline_along_the_middle_of_a_box_hides_whoever_is_in_it(
    covers: list[tuple[int, int, int, int]], is_open: bool, lying: bool
) -> None:
    before = room()
    after = before.copy()
    for top, bottom, left, right in covers:
        after[top:bottom, left:right] = 255 - after[top:bottom, left:right].mean() // 2
    box = BOX
    if lying:
        before, after = (
            np.ascontiguousarray(image.transpose(1, 0, 2)) for image in (before, after)
        )
        box = Box(BOX.y0, BOX.x0, BOX.y1, BOX.x1)
    assert _covers(_changed(before, after, box)) != is_open


def test_a_shape_that_only_the_output_shows_is_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OnceCovered(Always):
        """Sees somebody on every second picture: the output is shown first, the original then."""

        def __init__(self) -> None:
            super().__init__(0.9)
            self.looks = 0

        def detect(self, image: Any) -> list[Box]:
            self.looks += 1
            return [self.box] if self.looks % 2 else []

    source, made = two_videos(tmp_path)
    for search, frames in ((Nobody, []), (Body, [6, 7, 8])):
        monkeypatch.setattr(_residual_people, "_search", lambda who=search: Look([who()], []))
        check = open_people(OnceCovered(), 1)
        found = [
            n for n, (a, b) in enumerate(pictures(source, made)) if n > 5 and check(n, a, b, ())
        ]
        assert found == frames


@pytest.mark.parametrize(("covers", "frames"), [((12, 68, 24, 50), []), ((12, 68, 24, 28), [0])])
def test_a_find_that_holds_somebody_who_is_covered_and_the_floor_beside_is_nobody(
    monkeypatch: pytest.MonkeyPatch, covers: tuple[int, int, int, int], frames: list[int]
) -> None:
    """What counts is whether the one who is in the original there is covered."""
    top, bottom, left, right = covers
    before, after = room(), room()
    after[top:bottom, left:right] = 96

    class Wider(Always):
        def detect(self, image: Any) -> list[Box]:
            return [Box(22, 10, 52, 70, 0.9) if image is before else Box(14, 6, 78, 74, 0.6)]

    monkeypatch.setattr(_residual_people, "_search", lambda: Look([Nobody()], []))
    monkeypatch.setattr(_residual_people, "_HALF", 0.4)
    assert bool(open_people(Wider(0.6), 1)(0, before, after, ())) == bool(frames)


def pictures(*paths: Path) -> list[tuple[Any, ...]]:
    videos = []
    for path in paths:
        with open_video(path) as video:
            videos.append([frame.image for frame in video])
    return list(zip(*videos, strict=True))


def heads_left(
    source: Path, made: Path, second: Always, covered: Sequence[Faces]
) -> list[tuple[int, list[Box]]]:
    check = open_heads(second, 1, lambda number: ())
    return what_is_left(source, made, [check], covered)[0]


def test_somebody_in_whose_box_no_head_was_covered_is_left(tmp_path: Path) -> None:
    source, made = two_videos(tmp_path)
    own, others = Box(34, 12, 44, 24), Box(80, 60, 90, 70)
    covers = [(own,), (others,), None, (), (own, others)]
    left = dict(heads_left(source, made, Always(0.6), covers))
    assert sorted(left) == [1, 3], "an unknown frame is not judged"
    legs = Always(0.6, Box(20, 40, 60, 70))
    assert not list(heads_left(source, made, legs, [(own,)] * 9))
    (head,) = left[1]
    assert BOX.scale(1.3).covers(head) == 1
    assert head.y1 < BOX.centre[1]


def test_of_somebody_cut_off_above_no_head_is_asked_for(tmp_path: Path) -> None:
    source, made = two_videos(tmp_path)
    second = Always(0.9, Box(20, 0, 60, 70))
    assert not list(heads_left(source, made, second, [()] * 9))
