"""A film has cuts: nobody goes on into another shot, and nobody is open at either side of one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import pytest

from sfumato.media import Frame, Image
from sfumato.people import Box, Sighting, find
from sfumato.people._anatomy import no_joints
from sfumato.people.track._motion import ShotBounds, is_cut, thumbnail
from sfumato.people.track._status import DetectorStatus
from sfumato.people.track._tracks import PersonTracker

LENGTH, CUT = 40, 21


def place(seed: int, width: int = 240) -> Image:
    """A room, like no other."""
    rough = np.random.default_rng(seed).integers(0, 256, (9, width // 20, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(rough, (width, 120), interpolation=cv2.INTER_CUBIC), np.uint8)


def shots() -> list[Image]:
    rooms = place(1), place(2)
    return [rooms[i >= CUT].copy() for i in range(LENGTH)]


def test_another_place_is_a_cut() -> None:
    assert is_cut(thumbnail(place(1)), thumbnail(place(2)))
    assert is_cut(thumbnail(np.zeros((120, 240, 3), np.uint8)), thumbnail(place(2)))


def test_what_lies_around_a_frame_ends_with_its_shot() -> None:
    known = ShotBounds()
    for image in shots():
        known.add(image)
    assert known.around(CUT - 2, 6) == range(CUT - 8, CUT)
    assert known.around(CUT, 6) == range(CUT, CUT + 7)
    assert known.around(2, 6) == range(0, 9)
    assert ShotBounds().around(50, 6) == range(44, 57), "nothing is known: nothing ends"


@pytest.mark.parametrize("swing", [2, 12, 24])
def test_a_camera_that_swings_and_a_lamp_are_no_cuts(swing: int) -> None:
    wide = place(3, 480)
    assert not is_cut(thumbnail(wide[:, :240]), thumbnail(wide[:, swing : swing + 240]))
    dark = (place(3) // 3).astype(np.uint8)
    assert not is_cut(thumbnail(place(3)), thumbnail(dark))
    assert not is_cut(thumbnail(dark), thumbnail((dark + 140).astype(np.uint8)))


def test_lamps_from_one_side_and_the_other_are_no_cuts() -> None:
    room = place(4).astype(np.float32)
    side = np.linspace(0.1, 1.6, room.shape[1], dtype=np.float32)[None, :, None]
    lit = [np.clip(room * lamp, 0, 255).astype(np.uint8) for lamp in (side, side[:, ::-1])]
    assert not is_cut(*map(thumbnail, lit))
    assert not is_cut(*map(thumbnail, lit[::-1]))


def somebody(x: float) -> Sighting:
    box = Box(x, 20, x + 40, 100, 0.9)
    return Sighting(box, no_joints(), Box(x + 12, 20, x + 28, 40, 0.9), ("a", "b"), True, True)


def test_nobody_is_held_or_bridged_across_a_cut() -> None:
    tracker = PersonTracker(DetectorStatus("scripted", "test"))
    answers = []
    for i, image in enumerate(shots()):
        # somebody stands in each room, at the same place; looked at on every fifth frame
        found = [somebody(60)] if i % 5 == 0 else None
        tracker.push(image, found, cut=i == CUT)
        answers += tracker.answers()
    answers += tracker.answers(finished=True)
    assert all(answers), "who is in view is covered up to the cut, and from it on"
    before, after = (
        {one.track for each in part for one in each} for part in (answers[:CUT], answers[CUT:])
    )
    assert not before & after


class OneRoom:
    """Sees somebody in the first room alone, and keeps which frames it was shown."""

    name, device = "one room", "test"

    def __init__(self, pictures: list[Image]) -> None:
        self.pictures, self.looked = pictures, set[int]()

    def detect(self, image: Image) -> list[Box]:
        index = next(i for i, each in enumerate(self.pictures) if each is image)
        self.looked.add(index)
        return [Box(60, 20, 100, 100, 0.9)] if index < CUT else []


def covered(detector: Any, pictures: list[Image]) -> list[bool]:
    frames = (Frame(each, i, Fraction(i, 25)) for i, each in enumerate(pictures))
    return [bool(people) for _, people in find(frames, detector, masks=False)]


def test_the_next_shot_is_left_as_it_is_and_both_sides_of_a_cut_are_looked_at() -> None:
    pictures = shots()
    detector = OneRoom(pictures)
    assert covered(detector, pictures) == [True] * CUT + [False] * (LENGTH - CUT)
    assert {0, CUT - 1, CUT, LENGTH - 1} <= detector.looked
    assert len(detector.looked) < LENGTH / 2, "and frames between are not"
