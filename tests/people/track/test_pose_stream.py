"""Poses keep their person's number, and short gaps are filled on the straight line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.people import Pose, poses
from sfumato.people.track._pose_stream import between


def standing(x: float, person: int = -1) -> Pose:
    points = np.zeros((33, 3), dtype=np.float32)
    points[:, 0] = x + np.linspace(0, 40, 33)
    points[:, 1] = np.linspace(20, 200, 33)
    return Pose(points, points / 100, np.ones(33, np.float32), 0.9, None, person)


class ScriptedEstimator:
    """Follows whoever was there before, as a real one does, and finds new ones when it searches."""

    name, device = "scripted", "test"

    def __init__(self, script: list[list[float]]) -> None:
        self.script, self.index = script, -1

    def estimate(self, image, previous=(), search=True):  # type: ignore[no-untyped-def]
        self.index += 1
        found = []
        for x in self.script[self.index]:
            near = [p for p in previous if abs(p.points[0, 0] - x) < 15]
            if near:
                found.append(replace(standing(x), person=near[0].person))
            elif search:
                found.append(standing(x))
        return tuple(found)


def _run(frames, script, **settings):  # type: ignore[no-untyped-def]
    stream = poses(frames(len(script)), ScriptedEstimator(script), **settings)
    return [found for _, found in stream], stream


def test_person_keeps_the_number_and_the_gap_is_filled(frames) -> None:  # type: ignore[no-untyped-def]
    script = [[50 + 2 * i] if i not in (10, 11, 12) else [] for i in range(30)]
    answers, stream = _run(frames, script, search_every=1)
    assert all([pose.person for pose in a.poses] == [0] for a in answers)
    for i in (10, 11, 12):
        assert answers[i].filled == {0}
        assert answers[i].poses[0].points[0, 0] == pytest.approx(50 + 2 * i, abs=1e-3)
    assert stream.status.empty == stream.status.bridged == 3


def test_gap_longer_than_the_lookahead_starts_a_new_person(frames) -> None:  # type: ignore[no-untyped-def]
    script = [[50] if i < 5 or i > 15 else [] for i in range(25)]
    answers, _ = _run(frames, script, search_every=1, lookahead=4)
    assert not any(a.poses for a in answers[5:16])
    assert answers[20].poses[0].person == 1


def test_new_people_are_found_on_the_next_search(frames) -> None:  # type: ignore[no-untyped-def]
    script = [[50] if i < 7 else [50, 200] for i in range(20)]
    answers, _ = _run(frames, script, search_every=5)
    assert [len(a.poses) for a in answers] == [1] * 10 + [2] * 10
    assert {pose.person for a in answers for pose in a.poses} == {0, 1}


def test_between_is_a_straight_line() -> None:
    middle = between(standing(0, 3), standing(10, 3), 0.5)
    np.testing.assert_allclose(middle.points, standing(5).points, atol=1e-5)
    assert middle.person == 3


def test_head_is_above_the_shoulders_and_holds_the_face() -> None:
    points = np.zeros((33, 3), dtype=np.float32)
    points[:11, :2] = np.random.default_rng(0).uniform((90, 40), (110, 60), (11, 2))
    points[11, :2], points[12, :2] = (70, 90), (130, 90)
    pose = Pose(points, points, np.ones(33, np.float32), 1.0)
    head = pose.head
    assert all(head.x0 < x < head.x1 and head.y0 < y < head.y1 for x, y, _ in points[:11])
    assert head.y1 < 90
