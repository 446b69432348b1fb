"""What the search found is kept for the check and the next try; flicker is measured as defined."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.hiding.hidden_clips import flicker
from sfumato import people
from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.protect.hide._detection_log import DetectionLog
from sfumato.protect.hide._region import Place, heads_place
from sfumato.protect.hide._residual_faces import credible

BOX = people.Box(1.5, 2.25, 30.125, 40, 0.75)


def recording(seed: int, count: int = 5) -> list[Frame]:
    images = np.random.default_rng(seed).integers(0, 256, (count, 37, 50, 3)).astype(np.uint8)
    return [Frame(image, number, Fraction(number)) for number, image in enumerate(images)]


def places() -> list[Place]:
    mask = np.random.default_rng(5).integers(0, 2, (37, 50)).astype(bool)
    return [
        heads_place((BOX, BOX.shift(3, 0)), False, 50, 37),
        heads_place((BOX,), True, 50, 37, square=True),
        heads_place((), True, 50, 37),
        Place(mask, False, faces=(BOX,)),
        Place(~mask, True),
    ]


def followed() -> tuple[DetectionLog, list[Frame]]:
    log, frames = DetectionLog(), recording(0)
    for frame, place in zip(frames, places(), strict=True):
        log.add(frame.image, place)
    return log, frames


def test_places_come_back_frame_by_frame_as_often_as_asked() -> None:
    log, frames = followed()
    for _ in range(2):
        again = list(log.places(frames))
        for (frame, got), original, given in zip(again, frames, places(), strict=True):
            assert frame is original
            np.testing.assert_array_equal(got.mask, given.mask)
            assert (got.blank, got.boxes, got.faces) == (given.blank, given.boxes, given.faces)
            assert got.square == given.square
        assert list(log.faces()) == [place.faces for place in places()]


def test_a_trail_is_refused_on_another_recording() -> None:
    """The boxes of one recording on another one would leave its faces open."""
    log, frames = followed()
    assert log.begins_with(frames[0].image)
    assert not log.begins_with(recording(1)[0].image)
    with pytest.raises(SfumatoError, match=r"frame 2 .* of another"):
        list(log.places([*frames[:2], *recording(1)[2:]]))
    with pytest.raises(SfumatoError, match=r"frame 5 .* of another"):
        list(log.places([*frames, frames[0]]))


def test_a_box_around_faces_is_no_face() -> None:
    crowd, one, two = people.Box(0, 0, 90, 90), people.Box(5, 5, 25, 25), people.Box(40, 5, 70, 40)
    assert credible([crowd, one, two]) == [one, two]
    assert credible([crowd]) == [crowd]
    assert credible([crowd], known=[one]) == []
    assert credible([crowd], known=[one.shift(0, -9)]) == [], "most of a head is in it"
    assert credible([crowd], known=[one.shift(0, -14)]) == [crowd]


def test_a_face_as_large_as_the_room_is_none_where_others_are_known_elsewhere() -> None:
    floor, head = people.Box(60, 27, 150, 116), people.Box(20, 5, 34, 22)
    assert credible([floor], known=[head], side=126) == []
    assert credible([floor], side=126) == [floor], "where nobody is known it may be somebody near"
    assert credible([floor], known=[head.shift(50, 10)], side=126) == [floor], "a head partly in it"
    assert credible([floor.scale(0.5)], known=[head], side=126) == [floor.scale(0.5)]


def test_flicker_is_the_change_between_neighbours() -> None:
    assert flicker([0.1, 0.1, 0.2, 0.2, 0.19])["largest_change_of_area"] == pytest.approx(0.5)
    assert flicker([0.1, 0.1, 0.2, 0.2, 0.19])["share_of_changes_above_a_quarter"] == 0.25
    assert flicker([0.0, 0.0])["largest_change_of_area"] == 0.0
