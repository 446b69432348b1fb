"""Masks are closed over time: a frame on which the segmenter fails is still covered."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.people import MissedPersonError, person_masks


class ScriptedSegmenter:
    name, device = "scripted", "test"

    def __init__(self, masks: list[np.ndarray]) -> None:
        self._masks = iter(masks)

    def segment(self, image: np.ndarray) -> np.ndarray:
        return next(self._masks).astype(np.float32)


def person(x: int) -> np.ndarray:
    mask = np.zeros((240, 320), dtype=bool)
    mask[40:200, x : x + 40] = True
    return mask


TRUTH = [person(50 + 2 * i) for i in range(30)]
NOTHING = np.zeros((240, 320), dtype=bool)


def _run(frames, masks, **settings):  # type: ignore[no-untyped-def]
    stream = person_masks(frames(len(masks)), ScriptedSegmenter(masks), **settings)
    return [found for _, found in stream], stream


def test_found_masks_are_never_made_smaller(frames) -> None:  # type: ignore[no-untyped-def]
    answers, _ = _run(frames, TRUTH, margin=0)
    assert len(answers) == 30
    assert all(not (truth & ~a.mask).any() for truth, a in zip(TRUTH, answers, strict=True))
    # one frame before and after, and no more: the person moves two pixels a frame
    assert all(a.mask.sum() <= TRUTH[0].sum() * 1.11 for a in answers)


@pytest.mark.parametrize("gap", [{10}, {10, 11, 12}, {9, 11, 13}])
def test_missed_frames_are_covered_from_both_sides(frames, gap) -> None:  # type: ignore[no-untyped-def]
    masks = [NOTHING if i in gap else mask for i, mask in enumerate(TRUTH)]
    answers, stream = _run(frames, masks, margin=0)
    for i in gap:
        assert (TRUTH[i] & answers[i].mask).sum() > 0.95 * TRUTH[i].sum()
        assert answers[i].state == "bridged"
    assert stream.status.empty == stream.status.bridged == len(gap)
    assert not any(a.blank for a in answers)


def test_one_of_two_people_missed_is_closed_over_time(frames) -> None:  # type: ignore[no-untyped-def]
    both = [person(20) | person(200) for _ in range(20)]
    masks = [person(20) if 8 <= i < 12 else mask for i, mask in enumerate(both)]
    answers, _ = _run(frames, masks, margin=0)
    assert all(not (both[i] & ~answers[i].mask).any() for i in range(20))


def test_mask_is_held_at_the_ends(frames) -> None:  # type: ignore[no-untyped-def]
    masks = [TRUTH[10] if 8 <= i < 20 else NOTHING for i in range(30)]
    answers, _ = _run(frames, masks, lookahead=6, margin=0)
    held = [i for i, a in enumerate(answers) if a.state == "held"]
    assert held == [*range(2, 8), *range(20, 26)]
    assert all(not (TRUTH[10] & ~answers[i].mask).any() for i in held)


@pytest.mark.parametrize("glances", [True, False])
def test_frames_between_two_looks_have_the_masks_of_both(frames, glances) -> None:  # type: ignore[no-untyped-def]
    """Looked at on every third frame and on the last one; what is glanced between is covered too."""
    count = 29
    looks = [mask for i, mask in enumerate(TRUTH[:count]) if i % 3 == 0 or i == count - 1]
    others = [mask for i, mask in enumerate(TRUTH[:count]) if i % 3 and i < count - 1]
    between = ScriptedSegmenter(others) if glances else None
    stream = person_masks(
        frames(count), ScriptedSegmenter(looks), every=3, between=between, margin=0
    )
    answers = [found.mask for _, found in stream]
    assert stream.status.looked_at == len(looks)
    assert stream.status.bridged == stream.status.empty == 0
    for i, mask in enumerate(answers):
        for near in (i - i % 3, min(i - i % 3 + 3, count - 1)) if i % 3 else (i,):
            assert not (TRUTH[near] & ~mask).any()
        if glances:
            assert not (TRUTH[i] & ~mask).any()
    areas = [int(mask.sum()) for mask in answers]
    assert max(abs(b - a) / max(a, b) for a, b in pairwise(areas)) < 0.25


def test_a_look_may_not_be_further_away_than_the_lookahead(frames) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SfumatoError, match="n from 1 to the lookahead of 6"):
        person_masks(frames(3), ScriptedSegmenter(TRUTH), every=7)


def test_a_fading_mask_comes_and_goes_little_by_little(frames) -> None:  # type: ignore[no-untyped-def]
    """Somebody beside another one is there for a while: never less is covered, and no area jumps."""
    masks = [person(20) | person(200) if 12 <= i < 22 else person(20) for i in range(40)]
    plain, _ = _run(frames, masks, margin=0)
    fading, stream = _run(frames, masks, margin=0, fade=True)
    assert stream.lookahead == 6 + 4
    for before, after in zip(plain, fading, strict=True):
        assert not (before.mask & ~after.mask).any()
    jumps = [_largest_jump(answers) for answers in (plain, fading)]
    assert jumps[0] == pytest.approx(0.5)
    assert jumps[1] < 0.25
    assert not fading[0].mask[:, 200:].any()
    assert not fading[-1].mask[:, 200:].any()


def _largest_jump(answers) -> float:  # type: ignore[no-untyped-def]
    areas = [int(found.mask.sum()) for found in answers]
    return max(abs(b - a) / max(a, b) for a, b in pairwise(areas))


def test_margin_widens_the_mask(frames) -> None:  # type: ignore[no-untyped-def]
    answers, _ = _run(frames, [person(100)] * 5, margin=0.02)
    rows, columns = np.flatnonzero(answers[2].mask.any(1)), np.flatnonzero(answers[2].mask.any(0))
    assert (rows[0], rows[-1]) == (40 - 5, 199 + 5)
    assert (columns[0], columns[-1]) == (100 - 5, 139 + 5)


def test_no_more_frames_are_taken_than_the_lookahead_says(frames) -> None:  # type: ignore[no-untyped-def]
    taken = 0

    def counted():  # type: ignore[no-untyped-def]
        nonlocal taken
        for frame in frames(30):
            taken += 1
            yield frame

    for index, _ in enumerate(person_masks(counted(), ScriptedSegmenter(TRUTH), lookahead=4)):
        assert taken <= index + 1 + 4


def test_policies_blank_and_fail(frames) -> None:  # type: ignore[no-untyped-def]
    masks = [NOTHING if i == 10 else mask for i, mask in enumerate(TRUTH)]
    answers, stream = _run(frames, masks, policy="blank")
    assert [i for i, a in enumerate(answers) if a.blank] == [10]
    assert stream.status.blanked == 1
    with pytest.raises(MissedPersonError, match="on frame 10"):
        _run(frames, masks, policy="fail")
