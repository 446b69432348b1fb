"""Open points and wrong covers: what is unchanged is open, what touches nobody is wrong."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from benchmarks.people.covers import (
    Image,
    Mask,
    changed,
    codec_noise,
    covers,
    is_open,
    wrong_covers,
)
from benchmarks.people.labels import LabelledFrame, Somebody

SIZE = 90, 160


def textured() -> Image:
    return np.random.default_rng(1).integers(40, 200, (*SIZE, 3)).astype(np.uint8)


def with_box(image: Image, left: int, top: int, right: int, bottom: int) -> Image:
    after = image.copy()
    after[top:bottom, left:right] = 255
    return after


def test_a_point_is_open_unless_most_of_its_disc_has_changed() -> None:
    before = textured()
    mask = changed(before, with_box(before, 20, 20, 40, 40))
    assert not is_open((30, 30), 4, before, mask)
    assert is_open((60, 30), 4, before, mask)
    assert not is_open((38, 30), 4, before, mask)
    assert is_open((42, 30), 4, before, mask)


def test_a_point_at_the_edge_of_the_picture_is_judged_by_what_is_inside() -> None:
    before = textured()
    mask = changed(before, with_box(before, 0, 0, 10, 10))
    assert not is_open((0, 0), 5, before, mask)
    assert is_open((159, 89), 5, before, mask)


@pytest.mark.parametrize("blurred", [True, False])
def test_black_hair_is_judged_by_what_surrounds_it(blurred: bool) -> None:
    before = textured()
    cv2.circle(before, (80, 45), 7, (0, 0, 0), -1)
    after = before.copy()
    if blurred:
        after[25:65, 60:100] = cv2.GaussianBlur(before, (0, 0), 6)[25:65, 60:100]
        cv2.circle(after, (80, 45), 5, (0, 0, 0), -1)  # as black as before
    assert is_open((80, 45), 4, before, changed(before, after)) is not blurred


def test_noise_of_a_codec_is_no_change_and_covers_are() -> None:
    before = textured()
    rng = np.random.default_rng(2)
    noisy = np.clip(before.astype(int) + rng.integers(-5, 6, before.shape), 0, 255).astype(np.uint8)
    after = with_box(noisy, 20, 20, 60, 60)
    untouched = ~changed(before, with_box(before, 20, 20, 60, 60))
    noise = codec_noise(before, after, untouched)
    assert noise == 5
    mask = changed(before, after, noise)
    assert mask[30:50, 30:50].mean() > 0.99
    assert not mask[:, 100:].any()


def test_noise_is_measured_far_from_covers_only() -> None:
    before = textured()
    after = with_box(before, 20, 20, 60, 60)
    after[20:60, 60:64] = 255  # a codec smears the rim
    untouched = ~changed(before, with_box(before, 20, 20, 60, 60))
    assert codec_noise(before, after, untouched) == 0


def test_specks_are_no_covers_and_chance_matches_make_no_holes() -> None:
    mask = np.zeros(SIZE, bool)
    mask[20:40, 20:40] = True
    mask[30, 25:35] = False
    mask[5, 5] = True
    assert [cover.sum() for cover in covers(mask)] == [400]


def frame_at(number: int) -> LabelledFrame:
    person = Somebody((30, 20), (30, 30), None, hard=False, counted=True, who=None)
    return LabelledFrame(number, (person,), damaged=False)


def masks_of(*boxes: tuple[int, int] | None) -> list[Mask]:
    """On every frame the person's cover, and another 10 pixels wide with its left top corner here."""
    masks = []
    for box in boxes:
        mask = np.zeros(SIZE, bool)
        mask[10:50, 25:36] = True
        if box is not None:
            mask[box[1] : box[1] + 10, box[0] : box[0] + 10] = True
        masks.append(mask)
    return masks


def test_a_cover_beyond_reach_is_wrong_for_as_long_as_it_stays() -> None:
    masks = masks_of(None, (118, 40), (120, 40), (122, 40), (124, 42), None, (124, 42))
    (wrong,) = wrong_covers(masks, frame_at(2))
    assert (wrong.frame, wrong.length) == (2, 4)
    assert wrong.share == pytest.approx(100 / mask_size())
    assert wrong_covers(masks, frame_at(0)) == []


def mask_size() -> int:
    return SIZE[0] * SIZE[1]


def test_a_wrong_cover_ends_where_it_becomes_part_of_a_larger_one() -> None:
    masks = masks_of((120, 40), (120, 40), None)
    masks[2][:, 100:] = True
    (wrong,) = wrong_covers(masks, frame_at(0))
    assert wrong.length == 2


def test_nothing_is_said_about_damaged_frames() -> None:
    masks = masks_of((120, 40))
    assert wrong_covers(masks, LabelledFrame(0, (), damaged=True)) == []
