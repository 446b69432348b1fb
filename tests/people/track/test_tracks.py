"""Nobody is left open between sightings, nobody is covered where nobody is, and it is said why."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.people import Box, MissedPersonError, People, Sighting
from sfumato.people._anatomy import no_joints
from sfumato.people.track._status import DetectorStatus, OnMiss
from sfumato.people.track._tracks import PersonTracker

WIDTH, HEIGHT = 320, 240
_NOISE = np.random.default_rng(7)
ROOM = cv2.GaussianBlur(_NOISE.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8), (0, 0), 3)
COAT = cv2.GaussianBlur(_NOISE.integers(0, 256, (80, 40), dtype=np.uint8), (0, 0), 2)


def body(x: float, y: float = 80, score: float = 0.9, solid: bool = True) -> Sighting:
    box = Box(x, y, x + 40, y + 80, score)
    head = Box(x + 12, y, x + 28, y + 20, score)
    return Sighting(box, no_joints(), head, ("one", "two") if solid else ("one",), True, solid)


def face(x: float, y: float = 80, both: bool = False) -> Sighting:
    box = Box(x + 12, y, x + 28, y + 20, 0.5)
    return Sighting(box, no_joints(), box, ("f", "g") if both else ("f",), False, both)


def picture(*people: tuple[float, float]) -> Any:
    """A room with somebody in a patterned coat at each place."""
    grey = ROOM.copy()
    for x, y in people:
        left, top = round(x), round(y)
        part = grey[max(top, 0) : top + 80, max(left, 0) : left + 40]
        part[:] = COAT[: part.shape[0], : part.shape[1]]
    return np.repeat(grey[..., None], 3, axis=2)


def follow(
    script: list[list[Sighting] | None], pictures: list[Any] | None = None, **changes: Any
) -> tuple[list[People], PersonTracker]:
    tracker = PersonTracker(DetectorStatus("scripted", "test"), **changes)
    answers: list[People] = []
    for number, found in enumerate(script):
        tracker.push(picture() if pictures is None else pictures[number], found)
        answers += tracker.answers()
    answers += tracker.answers(finished=True)
    tracker.review.close()
    return answers, tracker


def covered(truth: Box, answer: People) -> float:
    return max((person.box.covers(truth) for person in answer), default=0.0)


def walk(count: int, speed: float = 1.5) -> list[Sighting]:
    return [body(100 + speed * i, 80 + 6 * math.sin(i / 9)) for i in range(count)]


@given(st.sets(st.integers(1, 58), max_size=45), st.floats(-1.5, 1.5))
@settings(max_examples=30, deadline=None)
def test_every_frame_between_two_sightings_is_covered(missed: set[int], speed: float) -> None:
    truth = walk(60, speed)
    answers, _ = follow([[] if i in missed else [truth[i]] for i in range(60)])
    seen = [i for i in range(60) if i not in missed]
    for before, after in pairwise(seen):
        if after - before <= 12:
            for i in range(before, after + 1):
                assert covered(truth[i].box, answers[i]) > 0.9
                assert answers[i][0].state == ("seen" if i in (before, after) else "bridged")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_whatever_is_sighted_is_covered_on_its_own_frame(scores: list[float], every: int) -> None:
    """However doubtful, alone or far from everybody else."""
    script: list[list[Sighting] | None] = []
    for i, score in enumerate(scores):
        there = body(300 * score, 80 * score, score, score > 0.5)
        script.append(None if i % every else [there, face(20, 200)])
    answers, _ = follow(script, every=every)
    for found, answer in zip(script, answers, strict=True):
        for one in found or ():
            assert covered(one.box, answer) == pytest.approx(1)


def test_answers_come_in_order_after_the_lookahead_and_everybody_keeps_a_number() -> None:
    tracker = PersonTracker(DetectorStatus("scripted", "test"), lookahead=5)
    numbers: list[int] = []
    tracks: set[int] = set()
    for i, one in enumerate(walk(20)):
        tracker.push(picture(), [one, body(10)])
        for answer in tracker.answers():
            numbers.append(answer.number)
            tracks |= {person.track for person in answer}
        assert len(numbers) == max(0, i + 1 - 5)
    assert [a.number for a in tracker.answers(finished=True)] == list(range(15, 20))
    assert tracks == {0, 1}


def still(shown: range, count: int = 80) -> list[Any]:
    return [picture((100, 80)) if i in shown else picture() for i in range(count)]


def test_one_who_is_there_before_the_first_sighting_is_covered_before() -> None:
    """Nobody born late stays open: what is seen at 40 is followed back to where it appeared."""
    script: list[Any] = [[body(100)] if 40 <= i < 60 else [] for i in range(80)]
    answers, _ = follow(script, still(range(25, 60)))
    for i in range(25, 60):
        assert covered(body(100).box, answers[i]) > 0.99, i
    assert all(answers[i][0].state == "held" for i in range(25, 40))
    assert not any(answers[i] for i in range(22)), "where the coat is not seen nobody is covered"


def test_one_who_is_lost_is_held_while_the_picture_shows_them_and_no_longer() -> None:
    script: list[Any] = [[body(100)] if i < 20 else [] for i in range(80)]
    answers, tracker = follow(script, still(range(36)))
    for i in range(36):
        assert covered(body(100).box, answers[i]) > 0.99, i
    assert not any(answers[i] for i in range(40, 80))
    assert any(span.reason == "held" for span in tracker.review.spans)


def test_a_box_of_one_network_without_joints_is_held_for_eight_frames_at_most() -> None:
    one = replace(body(100), sources=("one",))
    script: list[Any] = [[one] if i < 20 else [] for i in range(60)]
    answers, _ = follow(script, still(range(60)))
    assert all(answers[i] for i in range(27))
    assert not any(answers[i] for i in range(28, 60)), "a doorway looks alike for ever"


def test_a_doubtful_sighting_ends_where_somebody_looked_again() -> None:
    script: list[Any] = [None] * 30
    for look in (8, 10, 12, 14, 16):
        script[look] = []
    script[12] = [body(100, score=0.2, solid=False)]
    answers, _ = follow(script, still(range(30)), every=4)
    assert [i for i, answer in enumerate(answers) if answer] == [11, 12, 13]


def test_a_bridged_head_has_room_for_the_way_it_may_have_taken() -> None:
    """A head that turns a quarter of a circle between two looks lies off the straight line."""
    script: list[Any] = [None] * 9
    start, end = body(100, 60), body(116, 76)
    script[0], script[4], script[8] = [start], [end], [end]
    answers, _ = follow(script, still(range(9), 9), every=4)
    (person,) = answers[2]
    middle = math.sqrt(0.5) * 16
    (x, y), head = start.head.centre, person.head
    assert head is not None
    assert covered_head(head, x + middle, y + 16 - middle, start.head.width / 2)
    still_there, _ = follow([[start], None, None, None, [start]], still(range(5), 5), every=4)
    assert still_there[2][0].head.width < head.width


def covered_head(head: Box, x: float, y: float, radius: float) -> bool:
    return bool(head.x0 <= x - radius and head.x1 >= x + radius and head.y0 <= y - radius)


def test_one_who_walks_on_unseen_is_followed() -> None:
    places = [(60 + 2.0 * i, 80.0) for i in range(40)]
    script: list[Any] = [[body(x)] if i < 15 else [] for i, (x, _) in enumerate(places)]
    answers, _ = follow(script, [picture(place) for place in places])
    for i in range(15, 36):
        assert covered(body(places[i][0]).box, answers[i]) > 0.85, i


def test_one_who_left_the_picture_is_not_held_at_its_edge() -> None:
    places = [(200 + 10.0 * i, 80.0) for i in range(40)]
    script: list[Any] = [[body(x)] if x < 300 else [] for x, _ in places]
    answers, _ = follow(script, [picture(place) for place in places])
    assert not any(answers[i] for i in range(16, 40))


@pytest.mark.parametrize("every", [1, 3])
def test_a_face_that_nothing_supports_covers_its_own_frame_alone(every: int) -> None:
    script: list[Any] = [None if i % every else [] for i in range(30)]
    script[12] = [face(100)]
    answers, _ = follow(script, still(range(30), 30), every=every)
    assert [i for i, answer in enumerate(answers) if answer] == [12]
    box = answers[12][0].head
    assert box is not None
    assert box.area == pytest.approx(face(100).head.area), "and it is not blown up"


@pytest.mark.parametrize("second", ["look", "detector"])
def test_a_face_with_a_second_sighting_is_somebody(second: str) -> None:
    script: list[Any] = [None if i % 3 else [] for i in range(30)]
    script[12] = [face(100, both=second == "detector")]
    if second == "look":
        script[15] = [face(101)]
    answers, _ = follow(script, still(range(30), 30), every=3)
    assert all(answers[i] for i in (11, 12, 13, 14))


def test_a_doubtful_body_reaches_to_the_neighbouring_looks_and_no_further() -> None:
    script: list[Any] = [None if i % 3 else [] for i in range(30)]
    script[12] = [body(100, score=0.2, solid=False)]
    answers, tracker = follow(script, still(range(30), 30), every=3)
    assert [i for i, answer in enumerate(answers) if answer] == [10, 11, 12, 13, 14]
    assert any(span.reason == "unsure" for span in tracker.review.spans)


@pytest.mark.parametrize(("solid", "wide"), [(False, 200), (True, 200), (False, 40)])
def test_somebody_large_and_doubtful_is_not_bridged_over_looks_that_did_not_see_them(
    solid: bool, wide: int
) -> None:
    """A street before a swinging camera; whoever is small, or was surely seen, is bridged."""
    shown = Box(40, 20, 40 + wide, 220, 0.2)
    one = Sighting(shown, no_joints(), Box(120, 20, 160, 60, 0.2), ("a", "b"), True, solid)
    script: list[Any] = [None if i % 2 else [] for i in range(40)]
    script[10] = script[30] = [one]
    answers, _ = follow(script, every=4)
    bridged = [i for i in range(11, 30) if any(each.evidence == "bridged" for each in answers[i])]
    if solid or wide < 100:
        assert bridged == list(range(11, 30))
    else:
        assert bridged == [11, 12, 13, 27, 28, 29], "the looks next to a sighting, and two frames"
        _, tracker = follow(script, every=4)
        assert any(span.reason == "unsure" for span in tracker.review.spans), "a person is to look"
        with pytest.raises(MissedPersonError):
            follow(script, every=4, on_miss=OnMiss.FAIL)


def test_faint_finds_continue_a_track_and_never_begin_one() -> None:
    from dataclasses import replace

    faint = replace(body(100, score=0.1, solid=False), faint=True)
    answers, _ = follow([[faint]] * 30)
    assert not any(answers)
    answers, _ = follow([[faint]] * 10 + [[body(100)]] + [[faint]] * 30)
    assert all(answers)
    assert {person.track for answer in answers for person in answer} == {0}
    assert all(answers[i][0].state == "seen" for i in range(41))


def test_a_face_goes_on_for_a_body_that_is_lost_and_carries_it_along() -> None:
    script: list[Any] = [[body(100 + i)] for i in range(10)]
    script += [[face(100 + i)] for i in range(10, 30)]
    answers, _ = follow(script)
    for i in range(30):
        assert covered(body(100 + i).box, answers[i]) > 0.9
    assert {person.track for answer in answers for person in answer} == {0}


def test_two_who_pass_each_other_keep_their_numbers() -> None:
    script: list[Any] = [[body(20 + 4 * i, 60), body(260 - 4 * i, 120)] for i in range(60)]
    answers, _ = follow(script)
    for answer in answers:
        assert {p.track: round(p.box.y0) for p in answer} == {0: 60, 1: 120}


def test_one_under_a_new_number_is_not_covered_twice() -> None:
    """Somebody who is held where another one is seen is that one."""
    from dataclasses import replace

    wide = replace(body(100), box=Box(60, 40, 180, 240, 0.9))
    answers, tracker = follow([[body(100)]] * 10 + [[wide]] * 20, still(range(30), 30))
    assert all(len(answer) == 1 for answer in answers[10:])
    late = [span for span in tracker.review.spans if span.last >= 10]
    assert not late, "whoever is seen under a new number is not in doubt under the old one"


@given(st.lists(st.floats(0.7, 1.4), min_size=20, max_size=40))
@settings(max_examples=30, deadline=None)
def test_the_size_of_a_head_does_not_pump(sizes: list[float]) -> None:
    from dataclasses import replace

    script: list[Any] = [
        [replace(one, head=one.head.scale(size))] for one, size in zip(walk(len(sizes)), sizes)
    ]
    answers, _ = follow(script)
    heads = [answer[0].head for answer in answers]
    for (one, two), (found,) in zip(pairwise(heads), script):
        assert one is not None
        assert two is not None
        assert one.covers(found.head) == pytest.approx(1)
        assert 0.94 < one.width / two.width < 1.07


def test_a_head_that_jumps_to_a_neighbour_for_one_look_stays_covered() -> None:
    from dataclasses import replace

    script: list[Any] = [None if i % 4 else [body(100)] for i in range(41)]
    wrong = body(100)
    script[20] = [replace(wrong, head=wrong.head.shift(-14, -6))]
    answers, _ = follow(script, every=4)
    for answer in answers[12:29]:
        head = answer[0].head
        assert head is not None
        assert head.covers(body(100).head) > 0.99
    seen = answers[20][0].head
    assert seen is not None
    assert seen.covers(wrong.head.shift(-14, -6)) == pytest.approx(1), (
        "what was seen is covered too"
    )


@pytest.mark.parametrize("gap", [1, 5, 20])
def test_policies_for_a_frame_on_which_somebody_was_missed(gap: int) -> None:
    script: list[Any] = [[] if 20 <= i < 20 + gap else [body(100)] for i in range(60)]
    answers, tracker = follow(script, on_miss=OnMiss.BLANK)
    assert {a.number for a in answers if a.blank} == set(range(20, 20 + gap))
    assert tracker.status.blanked == gap
    answers, tracker = follow(script)
    assert tracker.status.bridged == gap
    assert not any(a.blank for a in answers)
    with pytest.raises(MissedPersonError, match="frame 20"):
        follow(script, on_miss=OnMiss.FAIL)


def test_memory_does_not_grow_with_the_length() -> None:
    tracker = PersonTracker(DetectorStatus("scripted", "test"))
    sizes = []
    for i in range(600):
        tracker.push(picture(), [body(100), body(10 * (i // 40) % 300, 160, 0.3, False)])
        list(tracker.answers())
        sizes.append(sum(len(t.sightings) + len(t.followed) for t in tracker._tracks))
    assert max(sizes[300:]) <= max(sizes[:300])
    assert len(tracker._tracks) < 8


def test_a_head_that_was_seen_alone_had_its_body_already() -> None:
    answers, _ = follow([[face(50)], None, None, None, [body(50)], None, None, None, []], every=4)
    for everybody in answers[:4]:
        (person,) = everybody
        assert person.box.covers(Box(50, 80, 90, 160)) == pytest.approx(1, abs=0.01)


def test_a_faint_find_elsewhere_does_not_lead_a_track_away() -> None:
    """With a sure find the same step is somebody who went there."""
    script: list[list[Sighting] | None] = [
        [body(50)],
        None,
        None,
        None,
        [body(50)],
        None,
        None,
        None,
    ]
    there = body(80, 100, 0.1, solid=False)
    faint, _ = follow([*script, [replace(there, faint=True)], None], every=4)
    sure, _ = follow([*script, [body(80, 100)], None], every=4)
    assert all(person.box.x0 < 60 for person in faint[8])
    assert any(person.box.x0 == 80 for person in sure[8])
    assert {person.track for person in sure[8]} == {0}
