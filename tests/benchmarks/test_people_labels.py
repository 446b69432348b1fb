"""The labels of the people table: enough, inside their pictures, half of them held back."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.people.labels import LabelledFrame, Somebody, labelled


def test_at_least_two_hundred_frames_are_labelled_inside_their_pictures() -> None:
    clips = labelled()
    assert sum(len(clip.frames) for clip in clips) >= 200
    assert len({clip.name for clip in clips}) == len(clips)
    for clip in clips:
        assert len(clip.numbers) == len(clip.frames)
        for frame in clip.frames:
            assert frame.people or frame.damaged
            for each in frame.people:
                assert each.points
                for x, y in each.points:
                    assert 0 <= x < clip.size[0]
                    assert 0 <= y < clip.size[1]


def test_half_of_the_clips_of_each_folder_are_held_back() -> None:
    clips = labelled()
    held_back = Counter(clip.folder for clip in clips if not clip.tuning)
    # five were held back and seen all the same: they count as tuned on
    assert held_back == {"clips": 1, "airtlab": 34}


def somebody(head: tuple[float, float] | None, torso: tuple[float, float] | None) -> Somebody:
    return Somebody(head, torso, None, hard=False, counted=True, who=None)


def test_reach_holds_the_feet_and_not_the_neighbourhood() -> None:
    frame = LabelledFrame(0, (somebody((50, 20), (50, 40)),), damaged=False)
    reach = frame.reach(200, 120)
    assert reach[20, 50]
    assert reach[80, 50]
    assert reach[40, 70]
    assert not reach[40, 100]
    assert not reach[40, 10]


@pytest.mark.parametrize("torso", [None, (30.0, 30.0)])
def test_scale_is_the_way_from_head_to_torso_or_what_is_usual(
    torso: tuple[float, float] | None,
) -> None:
    others = (somebody((0, 0), (0, 10)), somebody((50, 0), (50, 12)))
    frame = LabelledFrame(0, (somebody((30, 10), torso), *others), damaged=False)
    assert frame.people[0].scale == (None if torso is None else 20)
    assert frame.scale(100) == (11 if torso is None else 12)
