"""Fast limbs that no network sees: what moves at somebody's rim is covered, what stands still is not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import pytest

from sfumato.media import Frame
from sfumato.people import Box, People
from sfumato.people._anatomy import no_joints
from sfumato.people._person import Person
from sfumato.people.track._moving import with_moving, with_others

WIDTH, HEIGHT, FRAMES = 240, 180, 11
BODY = Box(100, 60, 130, 160)
LENGTH, THICK = 40, 5


@dataclass
class Shot:
    """A patterned wall, a body that stands, and an arm that swings about its shoulder."""

    pan: int = 0  # pixels a frame
    degrees: float = 14.0  # a frame
    waves: float = 0.0  # grey levels by which the lower half, water, changes
    cut_at: int | None = None
    scale: int = 1

    def arm(self, number: int) -> Any:
        """The pixels of the arm on a frame, where the body does not hide it."""
        drawn = np.zeros((HEIGHT, WIDTH), np.uint8)
        angle = np.radians(-75 + self.degrees * number)
        shoulder = 128, 80
        hand = shoulder[0] + LENGTH * np.cos(angle), shoulder[1] + LENGTH * np.sin(angle)
        cv2.line(drawn, shoulder, (round(hand[0]), round(hand[1])), 1, THICK)
        drawn[self.body()] = 0
        return drawn.view(bool)

    def body(self) -> Any:
        return BODY.pixels(WIDTH, HEIGHT)

    def frames(self) -> list[Frame]:
        made = []
        for number in range(FRAMES):
            other = self.cut_at is not None and number >= self.cut_at
            generator = np.random.default_rng(2 if other else 1)
            wide = generator.integers(60, 140, (HEIGHT // 6, (WIDTH + FRAMES * 9) // 6, 3))
            wall = np.kron(wide, np.ones((6, 6, 1))).astype(np.float32)
            image = wall[:, self.pan * number :][:HEIGHT, :WIDTH].copy()
            if self.waves:
                phase = np.random.default_rng(number).uniform(-1, 1, (HEIGHT // 6, WIDTH // 6, 1))
                image[HEIGHT // 2 :] += (
                    self.waves * np.kron(phase, np.ones((6, 6, 1)))[HEIGHT // 2 :]
                )
            image[self.body()] = 30
            image[self.arm(number)] = (235, 200, 180)
            image = np.clip(image, 0, 255).astype(np.uint8)
            image = np.repeat(np.repeat(image, self.scale, axis=0), self.scale, axis=1)
            made.append(Frame(image, number, Fraction(number, 25)))
        return made


def found_on(shot: Shot) -> list[tuple[Frame, Person, Person]]:
    """Every frame with the person before and after: a mask of the body alone comes in."""
    by = shot.scale
    box = Box(BODY.x0 * by, (BODY.y0 - 12) * by, (BODY.x1 + 30) * by, BODY.y1 * by)
    window = Box(BODY.x0 * by, BODY.y0 * by, BODY.x1 * by, BODY.y1 * by).pixels(
        WIDTH * by, HEIGHT * by
    )
    cut = np.ones([side.stop - side.start for side in window], bool)
    person = Person(
        0, box, no_joints(), None, "test", (HEIGHT * by, WIDTH * by), cut=cut, window=window
    )
    found = []
    for around in with_others((frame, People([person])) for frame in shot.frames()):
        (wider,) = with_moving(around, around.people)
        found.append((around.frame, person, wider))
    return found


@pytest.mark.parametrize("shot", [Shot(), Shot(pan=3), Shot(cut_at=5), Shot(scale=4)])
def test_a_swinging_arm_is_covered_between_the_ends_of_a_shot_and_the_wall_is_not(
    shot: Shot,
) -> None:
    rows = found_on(shot)
    assert len(rows) == FRAMES
    cuts = {0, FRAMES - 1} | (set() if shot.cut_at is None else {shot.cut_at - 1, shot.cut_at})
    for number, (_, before, after) in enumerate(rows):
        if number in cuts:  # nothing before, or nothing after
            assert (before.mask == after.mask).all()
            continue
        arm = np.kron(shot.arm(number), np.ones((shot.scale, shot.scale))).astype(bool)
        added = after.mask & ~before.mask
        assert not (before.mask & ~after.mask).any()
        assert (added & arm).sum() >= 0.65 * arm.sum(), number
        near = cv2.dilate(arm.astype(np.uint8), np.ones((9 * shot.scale, 9 * shot.scale)))
        # at the shoulder the wall shows between two places of the arm
        assert (added & ~near.astype(bool)).sum() <= 0.3 * arm.sum(), number


def test_an_arm_that_stands_still_is_left_to_the_networks() -> None:
    for _, before, after in found_on(Shot(degrees=0.0)):
        assert (before.mask == after.mask).all()


def test_before_water_motion_tells_nothing() -> None:
    for _, before, after in found_on(Shot(waves=80.0)):
        assert (before.mask == after.mask).all()


@pytest.mark.parametrize(("colour", "is_limb"), [((0.7, 0.7, 0.7), False), ((0.3, 0.3, 0.3), True)])
def test_a_shadow_that_moves_is_none_of_somebody(
    colour: tuple[float, float, float], is_limb: bool
) -> None:
    class Shaded(Shot):
        def frames(self) -> list[Frame]:
            made = []
            for number, frame in enumerate(super().frames()):
                image = np.full_like(frame.image, (180, 170, 150))
                image[::12], image[:, ::12] = 90, 90  # tiles
                image[self.arm(number)] = (image[self.arm(number)] * np.array(colour)).astype(
                    np.uint8
                )
                image[self.body()] = 30
                made.append(Frame(image, number, Fraction(number, 25)))
            return made

    grown = [(after.mask & ~before.mask).sum() for _, before, after in found_on(Shaded())[2:-2]]
    assert (min(grown) > 100) if is_limb else (max(grown) < 30)


def test_what_moves_and_touches_nobody_is_left() -> None:
    shot = Shot()
    far = Box(2, 100, 12, 175)
    nobody_near = Person(
        0, far, no_joints(), None, "test", (HEIGHT, WIDTH),
        cut=np.ones((75, 10), bool), window=far.pixels(WIDTH, HEIGHT),
    )  # fmt: skip
    for around in with_others((frame, People([nobody_near])) for frame in shot.frames()):
        (after,) = with_moving(around, around.people)
        assert (after.mask == nobody_near.mask).all()


@pytest.mark.parametrize("frames", [0, 1, 2, 5, 9, 20])
def test_every_frame_comes_once_in_order_with_those_around_it(frames: int) -> None:
    def numbered(n: int) -> Frame:
        return Frame(np.full((4, 6, 3), n, np.uint8), n, Fraction(n, 25))

    rows = list(with_others((numbered(n), People(number=n)) for n in range(frames)))
    assert [int(row.frame.image[0, 0, 0]) for row in rows] == list(range(frames))
    for n, row in enumerate(rows):
        assert row.people.number == n
        for others, way in ((row.before, -1), (row.after, 1)):
            expected = [n + way * away for away in (2, 1) if 0 <= n + way * away < frames]
            assert [int(other[0, 0, 0]) for other in others] == expected
