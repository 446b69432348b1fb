"""What the search found is kept for the check; flicker is measured as it is defined."""

from __future__ import annotations

import pytest

from sfumato import people
from sfumato.bench.hiding import flicker
from sfumato.protect.video._output_check import credible
from sfumato.protect.video._trail import Trail


def test_boxes_come_back_frame_by_frame_as_often_as_asked() -> None:
    trail = Trail()
    box = people.Box(1.5, 2.25, 30.125, 40, 0.75)
    given = [((box, box.shift(3, 0)), False), ((), True), (None, False), ((box,), True)]
    for faces, blank in given:
        trail.add(faces, blank)
    assert list(trail) == given
    assert list(trail) == given


def test_a_box_around_faces_is_no_face() -> None:
    crowd, one, two = people.Box(0, 0, 90, 90), people.Box(5, 5, 25, 25), people.Box(40, 5, 70, 40)
    assert credible([crowd, one, two]) == [one, two]
    assert credible([crowd]) == [crowd]
    assert credible([crowd], known=[one]) == []


def test_flicker_is_the_change_between_neighbours() -> None:
    assert flicker([0.1, 0.1, 0.2, 0.2, 0.19])["largest_change_of_area"] == pytest.approx(0.5)
    assert flicker([0.1, 0.1, 0.2, 0.2, 0.19])["share_of_changes_above_a_quarter"] == 0.25
    assert flicker([0.0, 0.0])["largest_change_of_area"] == 0.0
