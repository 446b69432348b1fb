"""Covers of a steady size: never smaller than what was found, never far from their neighbours."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.people import Box, TrackedBox, TrackedBoxes
from sfumato.people.track._steady import REACH, STEP, steady

SIZES = st.lists(st.floats(10, 15), min_size=1, max_size=40)


def answers(sizes: list[float], track: int = 3) -> list[TrackedBoxes]:
    return [
        TrackedBoxes(
            i, (TrackedBox(Box(50 + i - s, 40 - s, 50 + i + s, 40 + s, 0.9), track, "seen"),)
        )
        for i, s in enumerate(sizes)
    ]


@given(SIZES)
@settings(max_examples=60, deadline=None)
def test_no_box_becomes_smaller_and_none_jumps(sizes: list[float]) -> None:
    given_, made = answers(sizes), list(steady(answers(sizes)))
    assert [each.index for each in made] == list(range(len(sizes)))
    for before, after in zip(given_, made, strict=True):
        (was,), (now,) = before.boxes, after.boxes
        assert min(was.x0 - now.x0, was.y0 - now.y0, now.x1 - was.x1, now.y1 - was.y1) >= 0
        assert now.width <= 2 * max(sizes) * (1 + 1e-9)
    # 15 / 10 is less than a window can take up, so every neighbour is within one step
    for one, other in pairwise(made):
        small, large = sorted(each.boxes[0].width for each in (one, other))
        assert small >= STEP * large * (1 - 1e-9)


def test_only_boxes_of_the_same_track_hold_each_other_up() -> None:
    frames = answers([10.0] * 9)
    other = TrackedBox(Box(200, 0, 300, 100, 0.9), 4, "seen")
    frames[4] = TrackedBoxes(4, (*frames[4].tracked, other))
    made = list(steady(frames))
    assert all(each.boxes[0].width == pytest.approx(20) for each in made)
    assert made[4].tracked[1] == other
    assert len(made[3].tracked) == 1


def test_an_answer_comes_as_late_as_declared_and_keeps_what_is_blank() -> None:
    taken = 0

    def counted() -> object:
        nonlocal taken
        for each in answers([10.0] * 20):
            taken += 1
            yield TrackedBoxes(each.index, each.tracked, each.index == 7)

    blank = []
    for given_, each in enumerate(steady(counted()), start=1):  # type: ignore[arg-type]
        assert taken - given_ <= REACH
        blank.append(each.blank)
    assert [i for i, one in enumerate(blank) if one] == [7]
