"""Looks that others made: people are followed as if this process had looked itself, to the last bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import pytest
from test_moving import BODY, Shot
from test_moving import HEIGHT as TALL
from test_moving import WIDTH as WIDE

from sfumato import people
from sfumato.media import Frame, Image
from sfumato.people import Box, Look, LookTurn
from sfumato.people.track import _find

HEIGHT, WIDTH, COUNT = 96, 128, 130
SIZE = TALL, WIDE


def recording(seed: int) -> list[Frame]:
    """Patterned people on a floor; each picture holds its number, and some begin another shot."""
    rng = np.random.default_rng(seed)
    cuts = set(rng.integers(5, COUNT, 2).tolist())
    floor = rng.integers(60, 190, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    floor = np.asarray(cv2.GaussianBlur(floor, (0, 0), 2.0), np.uint8)
    body = rng.integers(0, 255, (30, 12, 3)).astype(np.uint8)
    frames = []
    for number in range(COUNT):
        if number in cuts:
            floor = np.ascontiguousarray(255 - floor[::-1])
        image = floor.copy()
        for start, speed in ((10, 0.6), (100, -0.5)):
            x = int(start + speed * number) % (WIDTH - 14)
            image[30:60, x : x + 12] = body
        image[0, 0] = number
        frames.append(Frame(image, number, Fraction(number, 25)))
    return frames


class Scripted:
    """Finds on a frame what chance decided for that frame, however often it is asked."""

    device = "test"

    def __init__(self, name: str, seed: int, faces: bool) -> None:
        self.name, self.birth = name, 0.2
        rng = np.random.default_rng(seed)
        self._script: list[list[Box]] = []
        seen = 0.7  # how often those who are there are found: in stretches, so that people are held
        for number in range(COUNT):
            seen = float(rng.uniform(0, 1)) if number % 12 == 0 else seen
            found = []
            for start, speed in ((10, 0.6), (100, -0.5)):
                x = (start + speed * number) % (WIDTH - 14)
                if rng.uniform() < seen:
                    jump = rng.normal(0, 1, 2)
                    sides = (x + jump[0], 30 + jump[1], x + 12 + jump[0], 60 + jump[1])
                    if faces:
                        sides = (x + 3, 31.0, x + 9, 38.0)
                    found.append(Box(*np.float32(sides), score=float(rng.uniform(0.05, 0.95))))
            if rng.uniform() < 0.05:  # nobody is there
                x, y = rng.uniform(0, 80, 2)
                found.append(Box(x, y, x + 10, y + 25, float(rng.uniform(0.05, 0.6))))
            self._script.append(found)

    def detect(self, image: Image) -> list[Box]:
        if image.shape[:2] != (HEIGHT, WIDTH):  # a part, a turned or an enlarged picture
            return []
        return self._script[int(image[0, 0, 0])]


def look(seed: int) -> Look:
    return Look([Scripted("bodies", seed, False)], [Scripted("faces", seed + 1, True)])


class Blind(Look):
    """Was not there when the recording was looked at."""

    def __call__(self, image: Image, **how: Any) -> Any:
        raise AssertionError("asked to look again")


def known_looks(
    frames: list[Frame], every: int, seed: int, cuts: list[int]
) -> dict[int, tuple[LookTurn, list[Any]]]:
    """Span by span by networks of their own, and back from lines of text."""
    turns = list(people.look_schedule(frames, every))
    book = {}
    for first, stop in zip([0, *cuts], [*cuts, len(frames)], strict=True):
        own = look(seed)
        for number in reversed(range(first, stop)):
            if turns[number].whom is not people.LookFor.NONE:
                found = people.look_at(own, frames[number].image, turns[number])
                line = people.line_of_sightings(found)
                book[number] = turns[number], people.sightings_of_line(line)
    return book


def followed(stream: Any) -> list[str]:
    return [people.line_of_people(found) for _, found in stream]


@pytest.mark.parametrize("seed", range(12))
def test_whoever_is_followed_from_known_looks_is_who_one_run_follows(seed: int) -> None:
    """Held, bridged, of one detector, across cuts: every box, head, number and word is the same."""
    rng, every, frames = np.random.default_rng(seed), (1, 2, 4, 7)[seed % 4], recording(seed)
    cuts = sorted(set(rng.integers(1, COUNT, 6).tolist()))
    whole = people.find(frames, look(seed), masks=False, every=every)
    book = known_looks(frames, every, seed, cuts)
    blind = Blind(look(seed)._bodies, look(seed)._faces)
    spans = people.find(frames, blind, masks=False, every=every, known=book.get)
    one, other = followed(whole), followed(spans)
    assert one == other
    assert whole.status == spans.status
    assert whole.review.to_json() == spans.review.to_json()
    assert "held" in "".join(one) or "bridged" in "".join(one)


def test_a_look_that_nobody_made_or_on_another_turn_is_made_here() -> None:
    frames = recording(3)
    book: dict[int, Any] = known_looks(frames, 4, 3, [50])
    for number in list(book)[::3]:
        del book[number]
    for number in list(book)[::4]:
        book[number] = LookTurn(people.LookFor.ALL, (7,)), []
    spans = people.find(frames, look(3), masks=False, every=4, known=book.get)
    assert followed(spans) == followed(people.find(frames, look(3), masks=False, every=4))


def with_arm(around: int) -> list[bool]:
    """Frame by frame, whether the mask of somebody with a swinging arm is that of one run where spans of
    three frames know ``around`` frames beyond their ends."""
    box = Box(BODY.x0, BODY.y0 - 12, BODY.x1 + 30, BODY.y1)
    joints = np.zeros((17, 3), np.float32)
    there = [
        (frame, people.People([people.Person(0, box, joints, None, "test", SIZE)], number))
        for number, frame in enumerate(Shot().frames())
    ]

    def segment(image: Image) -> Any:
        return np.asarray((image < 40).all(axis=2), np.float32)

    whole = [found.mask(*SIZE) for _, found in people.with_masks(there, segment)]
    same = []
    for first in range(0, len(there), 3):
        stop = min(first + 3, len(there))
        for _, found in people.with_masks(there[max(0, first - around) : stop + around], segment):
            if first <= found.number < stop:
                same.append(bool((found.mask(*SIZE) == whole[found.number]).all()))
    return same


def test_masks_of_a_span_are_those_of_one_run() -> None:
    """With the few frames around it, which show what moves at somebody's rim; fewer would not do."""
    assert all(with_arm(people.MOST_AWAY))
    assert len(with_arm(people.MOST_AWAY)) == len(Shot().frames())
    assert not all(with_arm(0))


def test_lines_keep_the_kind_of_every_number() -> None:
    """A single-precision side that came back in double would be rounded otherwise from then on."""
    box = Box(np.float32(0.1), np.float64(0.1), 0.1, 7, np.float32(0.3), "one")
    joints = np.float32([[0.1, 0.2, 0.3]] * 17)
    given = people.Sighting(box, joints, box, ("one", "two"), True, False, True)
    (back,) = people.sightings_of_line(people.line_of_sightings([given]))
    for name in ("x0", "y0", "x1", "y1", "score"):
        one, other = getattr(given.box, name), getattr(back.box, name)
        assert (type(one), one) == (type(other), other)
    assert (back.sources, back.body, back.solid, back.faint) == (("one", "two"), True, False, True)
    assert back.joints.dtype == np.float32
    np.testing.assert_array_equal(back.joints, joints)


def test_the_schedule_follows_from_the_pictures_alone() -> None:
    frames = recording(5)
    turns = list(people.look_schedule(frames, 4))
    assert turns == [each.turn for each in _find._scheduled(frames, 4)]
    assert turns[0].whom is not people.LookFor.NONE
    assert turns[-1].whom is not people.LookFor.NONE
