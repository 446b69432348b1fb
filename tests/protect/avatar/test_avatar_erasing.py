"""Covering and erasing: nothing found is left out, and hidden pixels have no say."""

from __future__ import annotations

import cv2
import numpy as np

from sfumato.protect.avatar import background, erase, erase_mask, unreplaced
from sfumato.protect.avatar._inpaint import (
    camera_motion,
    contradicted,
    fill_around,
    moved_together,
    seamless,
)


def scenery(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A picture with structure at several scales, so that motion and texture can be followed."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3), np.float32)
    for cell in (4, 9, 25):
        small = rng.uniform(0, 1, (height // cell + 2, width // cell + 2, 3)).astype(np.float32)
        total += cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(total / 3 * 255, 0, 255).astype(np.uint8)


def walker(count: int, height: int, width: int) -> np.ndarray:
    masks = np.zeros((count, height, width), bool)
    for t in range(count):
        left = 4 + t * (width - 24) // count
        masks[t, 10 : height - 6, left : left + 14] = True
    return masks


def test_cover_holds_grows_and_never_leaves_out() -> None:
    masks = np.zeros((9, 40, 60), bool)
    masks[4, 15:25, 20:30] = True
    made = erase_mask(masks, hold=2, grow=0.03, feather=0.05)
    assert made.inside[masks].all()
    assert made.inside.any(axis=(1, 2)).tolist() == [False] * 2 + [True] * 5 + [False] * 2
    assert made.inside[4].sum() > masks[4].sum()
    assert (made.weight[made.inside] == 1).all()
    rim = (made.weight > 0) & (made.weight < 1)
    assert rim.any()
    assert not (rim & made.inside).any()
    assert (made.weight[0] == 0).all()


def test_background_is_the_median_of_what_was_seen() -> None:
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 256, (7, 5, 6, 3)).astype(np.uint8)
    hidden = rng.random((7, 5, 6)) < 0.5
    hidden[:, 0, 0] = True
    plate, never = background(frames, hidden)
    for y in range(5):
        for x in range(6):
            seen = frames[~hidden[:, y, x], y, x]
            assert never[y, x] == (len(seen) == 0)
            if len(seen):
                assert np.array_equal(plate[y, x], np.sort(seen, 0)[(len(seen) - 1) // 2])


def test_a_still_camera_gives_the_true_background_back() -> None:
    room = scenery(60, 90)
    masks = walker(16, 60, 90)
    frames = np.repeat(room[None], 16, 0)
    frames[masks] = 200
    made = erase(frames, masks)
    assert made.still_camera
    assert not made.unseen.any()
    assert np.array_equal(made.frames, np.repeat(room[None], 16, 0))


def test_changing_light_is_followed() -> None:
    room = scenery(60, 90) // 2 + 40
    masks = walker(16, 60, 90)
    true = np.stack([room + np.uint8(2 * t) for t in range(16)])
    frames = true.copy()
    frames[masks] = 0
    made = erase(frames, masks)
    assert np.abs(made.frames.astype(int) - true).max() <= 2


def test_hidden_pixels_have_no_say() -> None:
    room = scenery(50, 70)
    masks = np.zeros((6, 50, 70), bool)
    masks[:, 12:44, 25:45] = True  # never uncovered
    frames = np.repeat(room[None], 6, 0)
    noise = frames.copy()
    noise[masks] = np.random.default_rng(0).integers(0, 256, (masks.sum(), 3))
    one, two = erase(frames, masks), erase(noise, masks)
    assert one.unseen[masks].all()
    assert np.array_equal(one.frames, two.frames)


def test_a_moving_camera_is_followed() -> None:
    world = scenery(100, 260)
    frames = np.stack([world[20:80, 3 * t : 3 * t + 120] for t in range(20)])
    true = frames.copy()
    masks = np.zeros(frames.shape[:3], bool)
    masks[:, 20:50, 50:64] = True
    frames[masks] = 255
    made = erase(frames, masks)
    assert not made.still_camera
    assert made.unseen.sum() < 0.2 * masks.sum()
    error = (made.frames.astype(float) - true)[masks & ~made.unseen]
    spatial = np.stack(
        [fill_around(f, m, texture=False) for f, m in zip(frames, masks, strict=True)]
    )
    guess = (spatial.astype(float) - true)[masks & ~made.unseen]
    assert np.mean(error**2) < 0.25 * np.mean(guess**2)


def test_a_person_does_not_make_the_camera_seem_to_move() -> None:
    room = scenery(80, 120)
    masks = walker(10, 80, 120)
    frames = np.repeat(room[None], 10, 0)
    for t in range(10):
        frames[t][masks[t]] = scenery(80, 120, t + 5)[masks[t]]
    assert camera_motion(frames, masks) is None


def test_what_passes_before_the_camera_is_not_filled_with_what_was_there_before() -> None:
    room = scenery(48, 64) // 4  # dark
    frames, hidden = np.stack([room] * 9), walker(9, 48, 64)
    frames[4, :, 14:43] = 230  # a bus is behind the person for a moment
    made = erase(frames, hidden)
    assert np.abs(made.frames[4][hidden[4]].astype(int) - 230).max() < 12
    assert made.unseen[4][hidden[4]].all()
    apart = np.abs(made.frames[2].astype(int) - room)
    assert apart.mean() < 4


def test_shadows_that_play_over_a_floor_are_no_motion_of_the_camera() -> None:
    rng = np.random.default_rng(8)
    start = rng.uniform(0, 200, (200, 2)).astype(np.float32)
    restless = start + rng.normal(0, 0.8, (200, 2)).astype(np.float32)
    assert np.median(np.linalg.norm(restless - start, axis=1)) > 0.7
    assert moved_together(start, restless, (200, 200)) < 0.5
    for turned in (start + np.array([0.8, 0]), (start - 100) * 1.02 + 100):  # a pan, and a zoom
        assert moved_together(start, turned.astype(np.float32), (200, 200)) > 0.7


def test_an_edge_that_lies_a_pixel_beside_is_no_other_thing_and_a_car_is() -> None:
    shown = np.zeros((60, 60, 3), np.uint8)
    shown[::4], shown[1::4] = 200, 200
    hole = np.zeros((60, 60), bool)
    hole[20:40, 20:40] = True
    beside = np.roll(shown, 1, axis=0)
    assert not contradicted(beside, shown, hole, ~hole).any()
    car = shown.copy()
    car[:, :60] = 220
    assert contradicted(car, shown, hole, ~hole)[hole].all()


def test_a_filling_in_other_light_meets_its_surroundings() -> None:
    shown = np.tile(np.linspace(60, 160, 80).astype(np.uint8)[None, :, None], (60, 1, 3))
    hole = np.zeros((60, 80), bool)
    hole[10:50, 20:60] = True
    brighter = (shown + 25).astype(np.uint8)  # the wall without the shadow that lies on it now
    seam = np.abs(seamless(brighter, shown, hole).astype(int) - shown)[hole]
    assert seam.max() <= 6


def test_texture_goes_on_into_a_hole() -> None:
    stripes = np.zeros((72, 96, 3), np.uint8)
    stripes[(np.arange(72) // 6) % 2 == 0] = 220  # horizontal bars
    hole = np.zeros((72, 96), bool)
    hole[20:50, 38:58] = True
    broken = stripes.copy()
    broken[hole] = 0
    textured = fill_around(broken, hole)
    smooth = fill_around(broken, hole, texture=False)
    assert np.array_equal(textured[~hole], broken[~hole])

    def off(picture: np.ndarray) -> float:
        return float(np.abs(picture.astype(int) - stripes)[hole].mean())

    assert off(textured) < 0.25 * off(smooth)


def test_nothing_to_go_by_gives_grey() -> None:
    picture = scenery(30, 40)
    assert (fill_around(picture, np.ones((30, 40), bool)) == 128).all()
    assert np.array_equal(fill_around(picture, np.zeros((30, 40), bool)), picture)


def test_unreplaced_are_regions_that_no_avatar_touches() -> None:
    masks, drawn = np.zeros((2, 60, 80), bool), np.zeros((2, 60, 80), bool)
    masks[:, 10:40, 10:20] = True
    masks[1, 10:40, 60:70] = True
    masks[:, 50, 40] = True  # a single pixel is noise
    drawn[:, 12:36, 12:18] = True
    left = unreplaced(masks, drawn)
    assert not left[0].any()
    assert np.array_equal(np.argwhere(left[1]).min(0), [10, 60])
    assert left[1].sum() == 300
