"""One look by several detectors: everybody once, nobody lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.people import Box, Look, Pose
from sfumato.people._anatomy import no_joints
from sfumato.people.detect._sightings import (
    Sighting,
    _below_head,
    _in_ellipse,
    near_people_once,
    sightings,
    thorough,
    with_loose_heads,
)
from sfumato.people.detect._turned import with_turned

BIRTH = {"movenet": 0.15, "centernet": 0.25}


def joined(box: Box) -> tuple[Box, Any]:
    points = no_joints()
    x, y = box.centre[0], box.y0 + 0.1 * box.height
    points[:5] = (x, y, 0.9)
    return box, points


BODY = Box(50, 20, 90, 140, 0.5, "movenet")


def test_two_networks_that_agree_are_one_solid_person() -> None:
    other = Box(52, 25, 94, 138, 0.3, "centernet")
    (one,) = sightings([joined(BODY)], [other], [], BIRTH)
    assert one.sources == ("movenet", "centernet")
    assert one.solid
    assert one.body
    assert one.box.covers(other) == one.box.covers(BODY) == pytest.approx(1)


@pytest.mark.parametrize(
    ("body", "other", "believed"), [(0.13, 0.12, False), (0.2, 0.27, True), (0.27, 0.12, True)]
)
def test_two_networks_that_both_hardly_see_somebody_are_not_believed_at_once(
    body: float, other: float, believed: bool
) -> None:
    """A parked van is two such finds."""
    box = replace(BODY, score=body)
    (one,) = sightings([joined(box)], [Box(52, 25, 94, 138, other, "centernet")], [], BIRTH)
    assert one.solid == believed
    assert not one.faint, "it is covered on its frame all the same"
    weak = sightings([joined(box)], [], [Box(62, 22, 80, 44, other, "centerface")], BIRTH)
    assert weak[0].solid == believed


@pytest.mark.parametrize(("aside", "same"), [(10.0, True), (12.0, True), (30.0, False)])
def test_a_head_half_on_that_of_a_body_makes_it_wider_and_is_nobody_else(
    aside: float, same: bool
) -> None:
    head = Box(62, 20, 78, 40, 0.5)
    somebody = Sighting(BODY, no_joints(), head, ("movenet",), True, True)
    x, y = head.centre[0] + aside, head.centre[1]
    found = with_loose_heads([(x, y, 0.5)], [somebody])
    assert len(found) == (1 if same else 2)
    assert any(_in_ellipse(one.head, x, y) for one in found)
    assert found[0].head.covers(head) == pytest.approx(1)
    assert (found[0].head == head) != same


def test_a_face_in_a_body_belongs_to_it_and_one_outside_is_somebody() -> None:
    own, stranger = Box(62, 22, 80, 44, 0.6, "centerface"), Box(200, 30, 230, 66, 0.6, "centerface")
    found = sightings([joined(BODY)], [], [own, stranger], BIRTH)
    assert [one.body for one in found] == [True, False]
    assert found[0].head.covers(own) == pytest.approx(1)
    assert found[0].sources == ("movenet", "centerface")
    assert found[1].head.covers(stranger) == pytest.approx(1)
    assert not found[1].solid
    twice = [stranger, Box(202, 31, 229, 66, 0.5, "blazeface")]
    assert sightings([], [], twice, BIRTH)[0].solid


def test_parts_of_a_person_are_not_others_but_somebody_sure_in_front_is() -> None:
    part, child = Box(55, 30, 75, 60, 0.28, "centernet"), Box(55, 80, 85, 138, 0.6, "centernet")
    assert len(sightings([joined(BODY)], [part], [], BIRTH)) == 1
    assert len(sightings([joined(BODY)], [child], [], BIRTH)) == 2


def test_low_scores_are_faint_unless_two_agree() -> None:
    low = Box(50, 20, 90, 140, 0.1, "movenet")
    assert sightings([joined(low)], [], [], BIRTH)[0].faint
    also = Box(52, 25, 94, 138, 0.14, "centernet")
    assert not sightings([joined(low)], [also], [], BIRTH)[0].faint
    assert sightings([], [also], [], BIRTH)[0].faint


def test_a_doubtful_box_around_several_people_is_nobody_but_a_sure_one_is() -> None:
    two = [joined(BODY), joined(Box(100, 25, 140, 145, 0.5, "movenet"))]
    around = Box(45, 15, 150, 150, 0.3, "centernet")
    assert len(sightings(two, [around], [], BIRTH)) == 2
    assert len(sightings(two[:1], [around], [], BIRTH)) == 2, "of one it may be a neighbour"
    assert len(sightings(two, [replace(around, score=0.6)], [], BIRTH)) == 3


def test_of_somebody_cut_off_on_both_sides_no_pose_is_invented() -> None:
    class Bodies:
        name, device = "bodies", "test"

        def __init__(self, box: Box) -> None:
            self.box = box

        def detect(self, image: Any) -> list[Box]:
            return [self.box]

    class Poses:
        name, device = "poses", "test"

        def estimate(self, image: Any, previous: Any, search: bool) -> tuple[Pose, ...]:
            points = np.zeros((33, 3), np.float32)
            points[:, :2] = np.linspace(60, 120, 66).reshape(33, 2)
            return (Pose(points, points, np.ones(33, np.float32), 1.0),)

    picture = np.zeros((200, 300, 3), np.uint8)
    for box, posed in ((Box(40, 40, 150, 190, 0.9), True), (Box(1, 40, 299, 190, 0.9), False)):
        (one,) = Look([Bodies(box)], [], Poses())(picture)
        assert one.joints[:, 2].any() == posed


@given(
    st.lists(
        st.tuples(
            *(st.floats(0, 200),) * 2, *(st.floats(5, 120),) * 2,
            st.sampled_from(["movenet", "centernet", "centerface", "blazeface"]),
        ),
        max_size=12,
    )
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_nothing_that_any_detector_finds_is_lost(finds: list[tuple[Any, ...]]) -> None:
    boxes = [Box(x, y, x + w, y + h, 0.5, name) for x, y, w, h, name in finds]
    by = {name: [box for box in boxes if box.source == name] for name in {b.source for b in boxes}}
    faces = [*by.get("centerface", []), *by.get("blazeface", [])]
    jointed = [joined(box) for box in by.get("movenet", [])]
    found = sightings(jointed, by.get("centernet", []), faces, BIRTH)
    for box in boxes:
        covers = max(max(one.box.covers(box), one.head.covers(box)) for one in found)
        assert covers > 0.6


class Fixed:
    device = "test"

    def __init__(self, name: str, *boxes: Box) -> None:
        self.name, self._boxes = name, boxes

    def detect(self, image: Any) -> list[Box]:
        return list(self._boxes)


def test_a_look_asks_everybody_and_names_who_found() -> None:
    look = Look([Fixed("p", Box(50, 20, 90, 140))], [Fixed("f", Box(60, 22, 80, 44))])
    (one,) = look(np.zeros((150, 150, 3), np.uint8))
    assert (look.name, look.at_once) == ("p+f", False)
    assert one.sources == ("p", "f")


def test_a_single_small_picture_is_looked_at_enlarged_too() -> None:
    seen: list[tuple[int, ...]] = []

    class OnlyLarge:
        """Finds somebody in the middle of a large picture, and somebody in the corner of a small one."""

        name, device = "only large", "test"

        def detect(self, image: Any) -> list[Box]:
            high, wide = image.shape[:2]
            seen.append((high, wide))
            if wide < 500:
                return [Box(0, 0, 0.2 * wide, 0.4 * high, 0.9)]
            return [Box(0.4 * wide, 0.3 * high, 0.6 * wide, 0.8 * high, 0.9)]

    found = thorough(Look([OnlyLarge()], []), np.full((126, 224, 3), 200, np.uint8))
    assert len(seen) == 2
    assert max(seen[1]) == 900
    places = sorted(
        tuple(round(v) for v in (b.x0, b.y0, b.x1, b.y1)) for b in (f.box for f in found)
    )
    assert places == [(0, 0, 45, 50), (90, 38, 134, 101)]
    seen.clear()
    thorough(Look([OnlyLarge()], []), np.full((600, 1000, 3), 200, np.uint8))
    assert seen == [(600, 1000)]


def test_a_faint_find_in_the_enlarged_picture_takes_nobodys_place() -> None:
    """It begins no track, so whoever the first look was sure of would be open."""

    class LessSureOfLargeOnes:
        name, device, birth = "less sure", "test", 0.25

        def detect(self, image: Any) -> list[Box]:
            high, wide = image.shape[:2]
            return [Box(0.2 * wide, 0.2 * high, 0.6 * wide, 0.9 * high, 0.9 if wide < 500 else 0.1)]

    found = thorough(Look([LessSureOfLargeOnes()], []), np.full((126, 224, 3), 200, np.uint8))
    assert any(one.solid and not one.faint for one in found)


class UprightOnly:
    """Finds a blue body that has its red head on top, and nobody else."""

    name, device, birth, turns = "upright only", "test", 0.25, True

    def detect(self, image: Any, tiles: bool = True) -> list[Box]:
        red, anything = (image[..., 0] > 100), image.max(axis=2) > 100
        rows, columns = np.nonzero(anything)
        (head, _), box = (
            np.nonzero(red),
            (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1),
        )
        tall = box[3] - box[1] > box[2] - box[0]
        found = tall and head.max() < box[1] + 0.3 * (box[3] - box[1])
        return [Box(*(float(side) for side in box), 0.9)] if found else []


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_whoever_is_turned_is_found_with_the_head_where_it_is(quarters: int) -> None:
    standing = np.zeros((200, 260, 3), np.uint8)
    standing[30:110, 50:80, 2], standing[30:50, 50:80, 0] = 200, 200
    image = np.ascontiguousarray(np.rot90(standing, -quarters))
    rows, columns = np.nonzero(image[..., 0])
    look = Look([UprightOnly()], [])
    assert look(image) == []
    (one,) = look(image, turns=(quarters,))
    seen = np.zeros(image.shape[:2], bool)
    seen[one.box.pixels(image.shape[1], image.shape[0])] = True
    assert (seen == (image.max(axis=2) > 0)).all()
    x, y = one.head.centre
    assert abs(x - columns.mean()) < 10
    assert abs(y - rows.mean()) < 10
    (single,) = thorough(look, image)
    assert single.box.covers(one.box) == pytest.approx(1)


def test_what_the_turned_picture_shows_around_people_is_nobody() -> None:
    def somebody(box: Box, solid: bool) -> Sighting:
        return Sighting(box, no_joints(), box, ("centernet",), True, solid)

    one, two = somebody(Box(20, 20, 50, 100, 0.8), True), somebody(Box(90, 20, 120, 100, 0.8), True)
    around, sure = Box(10, 5, 130, 110, 0.3), Box(10, 5, 130, 110, 0.9)
    assert with_turned([one, two], [somebody(around, False)]) == [one, two]
    assert with_turned([one, two], [somebody(sure, True)]) == [one, two]
    assert len(with_turned([one], [somebody(sure, True)])) == 2
    elsewhere = somebody(Box(200, 20, 230, 100, 0.3), False)
    assert with_turned([one], [elsewhere]) == [one, elsewhere]
    better = somebody(Box(21, 20, 50, 100, 0.9), True)
    (same,) = with_turned([one], [better])
    assert same.box.covers(one.box) == pytest.approx(1)
    assert same.score == 0.9


NEAR = Box(10, 10, 300, 230, 0.6, "a")


def near_one(*, face: bool, joints: bool = False) -> Sighting:
    """Somebody near the camera, in a picture of 320x240."""
    points = no_joints()
    points[:, 2] = 0.5 * joints
    names = ("a", "f") if face else ("a",)
    return Sighting(NEAR, points, Box(100, 20, 200, 140, 0.6), names, True, True)


def doubtful(*, face: bool, score: float = 0.2) -> Sighting:
    """A shoulder, or a face, which is found inside of NEAR."""
    head = Box(110, 30, 190, 130, score)
    names = ("b", "f") if face else ("b",)
    return Sighting(Box(90, 60, 280, 230, score), no_joints(), head, names, True, face)


def test_a_doubtful_find_on_somebody_near_is_a_shoulder_unless_it_has_a_face_of_its_own() -> None:
    near = near_one(face=True)
    assert near_people_once([near, doubtful(face=False)], 320, 240, {"f"}) == [near]
    for other in (doubtful(face=True), doubtful(face=False, score=0.5)):
        assert near_people_once([near, other], 320, 240, {"f"}) == [near, other]
    small = doubtful(face=False)
    assert near_people_once([near, small], 1000, 900, {"f"}) == [near, small], "nobody is near"


def test_the_face_of_a_doubtful_find_is_that_of_the_body_near_the_camera_that_has_none() -> None:
    (one,) = near_people_once([near_one(face=False), doubtful(face=True)], 320, 240, {"f"})
    assert one.box == NEAR
    assert one.head == doubtful(face=True).head, "and not anywhere in the box"
    both = [near_one(face=False), doubtful(face=False)]
    assert near_people_once(both, 320, 240, {"f"}) == both, "whose head is not known keeps all"


@pytest.mark.parametrize(
    ("y", "sure", "dropped"),
    [(200, 0.2, True), (200, 0.45, False), (100, 0.2, False), (235, 0.2, False)],
)
def test_a_doubtful_head_below_the_chin_of_somebody_near_is_none(
    y: float, sure: float, dropped: bool
) -> None:
    """One that is sure, beside the head, or outside of the box may be somebody else's."""
    assert _below_head(near_one(face=True), 250, y, sure) == dropped
