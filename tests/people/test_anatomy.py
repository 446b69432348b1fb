"""What joints say of a head and a body, and masks that are never smaller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.people import Box, Person, ellipse
from sfumato.people._anatomy import (
    head_by_face,
    head_by_joints,
    head_of,
    head_radius,
    no_joints,
    paint_body,
)
from sfumato.people._person import paint_ellipse
from sfumato.people.track._person_masks import masked, near_ones, without_doubtful_parts

# somebody 170 cm tall who faces the camera, one pixel a centimetre, the crown at (100, 20)
STANDING = np.array(
    [
        *[(100, 35), (103, 32), (97, 32), (107, 33), (93, 33)],
        *[(118, 52), (82, 52), (122, 80), (78, 80), (124, 105), (76, 105)],
        *[(110, 105), (90, 105), (111, 145), (89, 145), (112, 185), (88, 185)],
    ],
    np.float32,
)
BOX = Box(70, 20, 130, 192, 0.9)
SHAPE = (240, 240)
HEAD = [(100, 20), (100, 45), (90, 32), (110, 32)]  # crown, chin, and both sides


def joints(points: Any = STANDING, confidence: float = 0.8) -> Any:
    return np.concatenate([points, np.full((17, 1), confidence)], axis=1).astype(np.float32)


def turned(points: Any, angle: float) -> Any:
    cos, sin = np.cos(angle), np.sin(angle)
    return (np.asarray(points, np.float32) - 100) @ np.array([[cos, sin], [-sin, cos]]) + 100


def inside(head: Box, points: Any) -> bool:
    (x, y), a, b = head.centre, head.width / 2, head.height / 2
    return all(((u - x) / a) ** 2 + ((v - y) / b) ** 2 <= 1 for u, v in points)


def around(points: Any) -> Box:
    (x0, y0), (x1, y1) = np.min(points, axis=0), np.max(points, axis=0)
    return Box(float(x0) - 12, float(y0) - 12, float(x1) + 12, float(y1) + 12, 0.9)


@pytest.mark.parametrize("angle", np.linspace(0, 2 * np.pi, 9)[:-1])
def test_the_ellipse_holds_the_head_however_the_body_lies(angle: float) -> None:
    points = turned(STANDING, angle)
    head = head_by_joints(joints(points), around(points))
    assert head is not None
    assert inside(head, turned(HEAD, angle))
    assert head.area < 45 * 50, "and is not much larger than a head"


def test_a_head_from_behind_is_where_the_trunk_says() -> None:
    seen = joints()
    seen[:5, 2] = 0.02
    head = head_by_joints(seen, BOX)
    assert head is not None
    assert inside(head, [(100, 22), (100, 44), (92, 32), (108, 32)])


def test_a_face_and_joints_make_one_head_around_both() -> None:
    face = Box(88, 22, 116, 50)
    head = head_of(joints(), BOX, face)
    assert head.covers(face) == pytest.approx(1)
    assert inside(head, HEAD)
    far = Box(160, 160, 190, 190)
    assert head_of(joints(), BOX, far).covers(far) == pytest.approx(1)


@given(st.floats(0.3, 6), st.floats(-40, 40), st.floats(-40, 40))
@settings(max_examples=40, deadline=None)
def test_heads_scale_and_move_with_the_person(scale: float, x: float, y: float) -> None:
    points = STANDING * scale + np.array([x, y], np.float32)
    box = Box(70 * scale + x, 20 * scale + y, 130 * scale + x, 192 * scale + y)
    first, second = head_by_joints(joints(), BOX), head_by_joints(joints(points), box)
    assert first is not None
    assert second is not None
    assert second.width == pytest.approx(first.width * scale, rel=1e-3)
    assert second.x0 == pytest.approx(first.x0 * scale + x, abs=1e-2 * scale + 1e-2)


def person(points: Any, confidence: Any = 0.8, box: Box = BOX) -> Person:
    here = joints(points, confidence) if points is not None else no_joints()
    return Person(0, box, here, head_of(here, box, None), "test", SHAPE)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_a_mask_is_never_smaller_than_the_geometry(seed: int, sees: float) -> None:
    """Whatever the network says of a crop: nothing, noise, or everything."""
    generator = np.random.default_rng(seed)
    points = STANDING + generator.normal(0, 6, STANDING.shape)
    confidence = generator.random()

    def network(crop: Any) -> Any:
        return (generator.random(crop.shape[:2]) < sees).astype(np.float32)

    somebody = person(points, confidence)
    made = masked(somebody, np.zeros((*SHAPE, 3), np.uint8), network)
    radius, head = head_radius(somebody.joints, BOX), somebody.head
    assert head is not None
    blind = (
        sees == 0.0
    )  # then capsules and head are whole; where the body is seen, they are slimmer
    assert made.cut is not None
    assert made.window is not None
    floor = np.zeros(made.cut.shape, np.uint8)
    corner = made.window[1].start, made.window[0].start
    paint_body(floor, somebody.joints, head.scale(0.65), radius, corner, 1.0 if blind else 0.3)
    assert floor.any()
    assert not (floor.astype(bool) & ~made.cut).any()
    covered = np.zeros(made.cut.shape, np.uint8)  # drawn in the same window: rims round alike
    paint_ellipse(covered, head if blind else head.scale(0.65), corner)
    assert covered.any()
    assert made.cut[covered > 0].all()


@pytest.mark.parametrize(("sees_body", "whole_box"), [(True, False), (False, True)])
def test_a_mask_that_fills_little_of_a_wide_box_is_believed_if_it_holds_the_body(
    sees_body: bool, whole_box: bool
) -> None:
    """Arms that reach out make a box wide; a network that sees nothing of the body is no witness."""
    wide = Box(5, 20, 205, 192)
    somebody = person(STANDING, box=wide)
    body = np.zeros(SHAPE, np.uint8)
    paint_body(body, somebody.joints, None, 0.6 * head_radius(somebody.joints, wide), (0, 0))
    picture = np.repeat(
        body[..., None] if sees_body else np.zeros((*SHAPE, 1), np.uint8), 3, axis=2
    )
    made = masked(somebody, picture, lambda crop: crop[..., 0].astype(np.float32))
    filled = made.mask[wide.pixels(SHAPE[1], SHAPE[0])].mean()
    assert (filled > 0.9) == whole_box
    assert filled > 0.15


@pytest.mark.parametrize(
    "box", [Box(300, 10, 320, 60), Box(10, -80, 60, -20), Box(-90, -90, -50, -50)]
)
def test_nobody_has_pixels_outside_of_the_picture(box: Box) -> None:
    somebody = replace(person(None, box=box), head=None)
    made = masked(somebody, np.zeros((*SHAPE, 3), np.uint8), lambda crop: np.ones(crop.shape[:2]))
    assert not made.mask.any()


def test_capsules_hold_limbs_and_leave_the_floor() -> None:
    floor = np.zeros(SHAPE, np.uint8)
    paint_body(floor, joints(), Box(86, 17, 114, 49), head_radius(joints(), BOX), (0, 0))
    for a, b in ((5, 7), (7, 9), (6, 8), (8, 10), (11, 13), (13, 15), (12, 14), (14, 16), (5, 12)):
        for part in np.linspace(0, 1, 9):
            x, y = STANDING[a] + (STANDING[b] - STANDING[a]) * part
            assert floor[round(float(y)), round(float(x))]
    outside = np.ones(SHAPE, bool)
    outside[BOX.grow(12, 12).pixels(*SHAPE)] = False
    assert not floor[outside].any()
    assert 0.4 * BOX.area < floor.sum() < BOX.area


def test_a_box_that_no_network_fills_is_covered_by_its_ellipse() -> None:
    made = masked(
        person(None), np.zeros((*SHAPE, 3), np.uint8), lambda crop: np.zeros(crop.shape[:2])
    )
    assert made.mask[ellipse(BOX, SHAPE)].all()


def left_third(crop: Any) -> Any:
    seen = np.zeros(crop.shape[:2])
    seen[:, : crop.shape[1] // 3] = 1
    return seen


def test_a_third_of_a_mask_is_believed_of_a_body_with_joints_and_of_no_other() -> None:
    picture = np.zeros((*SHAPE, 3), np.uint8)
    right = ellipse(BOX, SHAPE)
    right[:, :125] = False
    assert masked(person(None), picture, left_third).mask[right].all()
    assert not masked(person(STANDING), picture, left_third).mask[right].all()


@pytest.mark.parametrize(
    ("score", "points", "share", "covered"),
    [(0.2, None, 0.05, False), (0.3, None, 0.05, True), (0.2, STANDING, 0.05, True),
     (0.2, None, 0.3, True)],
)  # fmt: skip
def test_a_large_box_that_all_who_looked_doubt_is_covered_where_the_network_masks_it_alone(
    score: float, points: Any, share: float, covered: bool
) -> None:
    """A parked van; but a score, joints or some of a mask are enough to cover all of somebody."""
    picture = np.zeros((*SHAPE, 3), np.uint8)
    one = person(points, box=replace(Box(20, 20, 180, 220), score=score))

    def segment(crop: Any) -> Any:
        seen = np.zeros(crop.shape[:2])
        seen[: round(share * len(seen)), len(seen[0]) // 4 :] = 1
        return seen

    made = masked(one, picture, segment)
    (again,) = near_ones([made], picture, segment)
    assert made.mask[100:150, 90:110].all() == again.mask[100:150, 90:110].all() == covered
    if not covered:
        assert made.mask.any(), "what the network masks is covered all the same"
        assert not made.mask[40:].any()


@pytest.mark.parametrize(("side", "covered"), [(8, True), (60, False)])
def test_what_a_mask_encloses_is_covered_if_it_is_small(side: int, covered: bool) -> None:
    def segment(crop: Any) -> Any:
        seen = np.zeros(crop.shape[:2])
        seen[5:-5, 5:-5] = 1
        y, x = (length // 2 for length in seen.shape)
        seen[y : y + side, x - 20 : x - 20 + side] = 0
        return seen

    one = person(None, box=Box(20, 20, 180, 220, 0.5))
    made = masked(one, np.zeros((*SHAPE, 3), np.uint8), segment)
    hole = made.mask[124:126, 96:98]
    assert hole.all() == covered
    assert made.mask[60:100, 40:70].all()


@pytest.mark.parametrize(("score", "outlined"), [(0.6, True), (0.45, False)])
def test_the_box_of_somebody_sure_may_be_wider_than_the_outline(
    score: float, outlined: bool
) -> None:
    box = Box(20, 20, 220, 220, score)

    def segment(crop: Any) -> Any:
        """A mask that ends 14 % before the box on its left."""
        seen = np.zeros(crop.shape[:2])
        seen[20:220, 48:220] = 1
        return seen

    one = replace(person(None, box=box), head=Box(80, 25, 160, 120, score))
    made = masked(one, np.zeros((*SHAPE, 3), np.uint8), segment)
    assert made.outlined == outlined


def test_somebody_cut_off_by_the_edge_is_covered_up_to_it() -> None:
    picture, corner = np.zeros((*SHAPE, 3), np.uint8), Box(150, 60, 240, 240, 0.5)
    made = masked(person(None, box=corner), picture, lambda crop: np.zeros(crop.shape[:2]))
    assert made.mask[230:, 230:].all(), "nobody ends in the corner of the picture"
    assert not made.mask[62, 152], "and the other corner is as round as ever"
    fills = Box(2, 60, 239, 200, 0.5)
    made = masked(person(None, box=fills), picture, left_third)
    assert made.mask[120:140, 235:].all(), "however much of it the network fills"


def test_what_a_network_sees_beside_the_box_is_not_covered() -> None:
    made = masked(
        person(STANDING), np.zeros((*SHAPE, 3), np.uint8), lambda crop: np.ones(crop.shape[:2])
    )
    outside = np.ones(SHAPE, bool)
    outside[BOX.scale(1.25).pixels(*SHAPE)] = False
    assert not made.mask[outside].any()
    assert made.mask[BOX.pixels(*SHAPE)].all()


@pytest.mark.parametrize("box", [Box(-50, -50, -10, -10), Box(230, 230, 300, 400), Box(5, 5, 9, 9)])
def test_people_at_and_beyond_the_edge_and_tiny_ones_are_covered_as_far_as_they_are_seen(
    box: Box,
) -> None:
    made = masked(
        person(None, box=box),
        np.zeros((*SHAPE, 3), np.uint8),
        lambda crop: np.zeros(crop.shape[:2]),
    )
    assert made.mask.shape == SHAPE
    if box.width < 10:
        assert made.mask[box.pixels(*SHAPE)].all()


def test_a_hand_is_covered_where_the_network_sees_the_body_and_not_the_arm() -> None:
    arm = STANDING.copy()
    arm[7], arm[9] = arm[5] + (26, 0), arm[5] + (50, 0)
    box = Box(70, 20, arm[9][0] + 12, 192, 0.9)
    somebody = person(arm, box=box)

    def network(crop: Any) -> Any:
        seen = np.zeros(crop.shape[:2], np.float32)
        seen[:, : round(0.5 * crop.shape[1])] = 1
        return seen

    made = masked(somebody, np.zeros((*SHAPE, 3), np.uint8), network)
    radius = head_radius(somebody.joints, box)
    for far in (0.0, 0.9):
        x, y = arm[9] + (far * radius, 0)
        assert made.mask[round(y), round(x)]


def test_whoever_is_near_gets_what_the_network_sees_in_the_whole_picture() -> None:
    image, shapes = np.zeros((*SHAPE, 3), np.uint8), []
    image[:, 200:, 0] = 255  # an arm that no box holds

    def network(crop: Any) -> Any:
        shapes.append(crop.shape[:2])
        return (crop[..., 0] > 0).astype(np.float32)

    small, large = person(None), person(None, box=Box(0, 0, 140, 240, 0.9))
    made = [masked(one, image, network) for one in (small, large)]
    shapes.clear()
    assert near_ones(made[:1], image, network) == made[:1]
    assert shapes == []
    first, second = near_ones(made, image, network)
    assert first is made[0]
    assert second.mask[:, 200:].all()
    assert (second.mask[:, :200] == made[1].mask[:, :200]).all()
    assert shapes == [SHAPE]
    short = masked(person(None, box=Box(100, 0, 232, 240, 0.9)), 0 * image, network)
    (reaching,) = near_ones([short], 0 * image, network)
    assert not short.mask[:, 236:].any()
    assert reaching.mask[:, 232:].all()


@pytest.mark.parametrize("score", [0.5, 0.1])
def test_a_head_alone_gets_the_body_that_the_network_sees_under_it(score: float) -> None:
    image = np.zeros((*SHAPE, 3), np.uint8)
    image[50:150, 90:120, 0] = 255  # a body under the head, and somebody else farther on
    image[50:150, 150:170, 0] = 255
    head = Box(90, 20, 120, 56, score)
    alone = Person(0, head, no_joints(), head, "test", SHAPE, body=False)
    made = masked(alone, image, lambda crop: (crop[..., 0] > 0).astype(np.float32))
    assert made.mask[60:150, 90:120].all() == (score >= 0.25)
    assert not made.mask[60:150, 150:].any()
    floor = masked(alone, image, lambda crop: np.ones(crop.shape[:2], np.float32))
    assert not floor.mask[80:].any()


def seen(mask: Any) -> Any:
    """A network that sees this mask of the whole picture, which is painted into it."""
    return np.repeat((mask * 255).astype(np.uint8)[..., None], 3, axis=2)


def network(crop: Any) -> Any:
    return (crop[..., 0] > 127).astype(np.float32)


NEAR = Box(4, 10, 238, 240, 0.6)  # somebody near the camera, who fills the picture


def bust() -> Any:
    """Head and shoulders."""
    shape = ellipse(Box(80, 12, 160, 120), SHAPE)
    return shape | ellipse(Box(10, 110, 234, 400), SHAPE)


def test_whoever_is_near_is_outlined_where_mask_and_box_end_alike() -> None:
    made = masked(person(None, box=NEAR), seen(bust()), network)
    assert made.outlined
    assert made.mask[bust()].all()
    assert float((made.mask & ~bust()).mean()) < 0.03, (
        "no block, no disc for a head that may be anywhere"
    )
    (kept,) = near_ones([made], seen(bust()), network)
    assert np.array_equal(kept.mask, made.mask), "nothing is filled up to the edges"


@pytest.mark.parametrize("hidden", [slice(0, 90), slice(150, 240)])
def test_a_mask_that_ends_elsewhere_than_the_box_is_no_outline(hidden: slice) -> None:
    part = bust()
    part[hidden] = False
    made = masked(person(None, box=NEAR), seen(part), network)
    assert not made.outlined
    assert made.mask[bust()].mean() > 0.95, "and all of the box's ellipse is covered"


def test_a_mask_without_the_middle_of_the_body_is_no_outline() -> None:
    """Its rim alone ends where the box does."""
    wide = Box(60, 15, 140, 195, 0.6)
    rim = ellipse(wide, SHAPE) & ~ellipse(wide.scale(0.8), SHAPE)
    made = masked(person(STANDING, box=wide), seen(rim), network)
    assert not made.outlined
    assert made.mask[ellipse(BOX.scale(0.7), SHAPE)].mean() > 0.9


def test_a_doubtful_find_on_an_outlined_body_covers_nothing_beside_it() -> None:
    whole = masked(person(None, box=NEAR), seen(bust()), network)
    shoulder = replace(person(None, box=Box(120, 110, 236, 238, 0.2)), track=1)
    shoulder = replace(shoulder, head=Box(150, 130, 200, 190, 0.2))
    block = np.ones(SHAPE, bool)
    doubtful = replace(shoulder, cut=block, window=(slice(0, 240), slice(0, 240)))
    _, clipped = without_doubtful_parts([whole, doubtful])
    assert not clipped.mask[:60, 200:].any()
    sure = replace(doubtful, box=replace(doubtful.box, score=0.5))
    assert without_doubtful_parts([whole, sure])[1].mask.all(), "who is sure is somebody else"
    beside = replace(doubtful, head=Box(180, 20, 230, 70, 0.2))
    assert without_doubtful_parts([whole, beside])[1].mask.all(), "and so is a head beside the body"


@pytest.mark.parametrize(("side", "larger"), [(20, 1.45), (60, 1.3)])
def test_a_large_face_says_how_large_the_head_is(side: int, larger: float) -> None:
    """Ears that are guessed far apart do not make a head near the camera fill the picture."""
    points = np.zeros((17, 2), np.float32)
    points[:5] = np.array([[0, 0], [-0.4, -0.2], [0.4, -0.2], [-0.9, 0], [0.9, 0]]) * side + 100
    seen_face = np.zeros(17, np.float32)
    seen_face[:5] = 0.8
    face = Box(100 - side / 2, 100 - side / 2, 100 + side / 2, 100 + side / 2, 0.9)
    here = np.concatenate([points, seen_face[:, None]], axis=1)
    head = head_of(here, Box(0, 0, 240, 240), face)
    around = head_by_face(face)
    assert head.covers(around) == pytest.approx(1)
    assert max(head.width, head.height) <= larger * max(around.width, around.height)
