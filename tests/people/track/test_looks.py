"""Several frames are looked at together; what comes out is what one after the other gives."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.media import Frame, Image
from sfumato.people import Box, Look, find
from sfumato.people.detect._registry import UnitedDetector
from sfumato.people.track import _find
from sfumato.people.track._batches import in_parallel


def marked(frames: Any, count: int) -> Any:
    return ((frame, number % 2 == 0) for number, frame in enumerate(frames(count)))


@pytest.mark.parametrize("workers", [1, 2, 3, 30])
def test_frames_keep_their_order_and_their_marks(frames: Any, workers: int) -> None:
    found = in_parallel(marked(frames, 20), lambda item: (item[0].pts, item[1]), workers)
    assert [(item[0].pts, *seen) for item, seen in found] == [(i, i, i % 2 == 0) for i in range(20)]


def test_two_are_really_looked_at_together_and_no_more_are_taken(frames: Any) -> None:
    together, taken = threading.Barrier(2, timeout=300), 0

    def counted() -> Any:
        nonlocal taken
        for item in marked(frames, 20):
            taken += 1
            yield item

    for given, _ in enumerate(in_parallel(counted(), lambda _: together.wait(), 2)):
        assert taken <= given + 1 + 2


def test_what_goes_wrong_in_a_look_is_raised_in_its_turn(frames: Any) -> None:
    def look(item: tuple[Any, bool]) -> int:
        frame = item[0]
        if frame.pts == 5:
            raise ValueError("blind")
        return int(frame.pts)

    found = in_parallel(marked(frames, 20), look, 3)
    assert [next(found)[1] for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="blind"):
        next(found)


class ByBrightness:
    """A face whose place tells the frame (they differ in brightness)."""

    name, device = "brightness", "test"

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once

    def detect(self, image: Image) -> list[Box]:
        x = float(image[0, 0, 0])
        return [Box(x, 10, x + 20, 30, 0.9)] if x % 5 else []


@pytest.mark.parametrize("every", [1, 3])
def test_tracks_are_the_same_however_many_look(
    frames: Any, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_find, "threads", lambda: 4)
    answers = []
    for at_once in (False, True):
        stream = find(frames(40), ByBrightness(at_once), every=every, masks=False)
        answers.append([[(p.track, p.box, p.evidence) for p in found] for _, found in stream])
    assert answers[0] == answers[1]
    assert any(answers[0])


@pytest.mark.parametrize(("every", "at_once"), [(1, False), (3, True)])
def test_a_stream_holds_back_what_it_declares_and_gives_every_frame(
    frames: Any, every: int, at_once: bool
) -> None:
    taken = 0

    def counted() -> Any:
        nonlocal taken
        for frame in frames(60):
            taken += 1
            yield frame

    stream = find(counted(), ByBrightness(at_once), every=every, masks=False, lookahead=7)
    for given, (frame, found) in enumerate(stream):
        assert frame.pts == found.number == given
        assert taken - given - 1 <= stream.lookahead
    assert given == 59
    assert stream.status.looked_at == len({*range(0, 60, {1: 1, 3: 6}[every]), 59}), "nothing stirs"


@pytest.mark.parametrize("wrong", [{"every": 0}, {"hold": -1}, {"every": 5, "lookahead": 4}])
def test_settings_that_leave_frames_open_are_refused(frames: Any, wrong: dict[str, int]) -> None:
    with pytest.raises(SfumatoError, match="Expected every >= 1"):
        find(frames(3), ByBrightness(False), masks=False, **wrong)


def test_a_union_may_be_asked_at_once_if_all_its_parts_may() -> None:
    both = [ByBrightness(True), ByBrightness(True)]
    assert UnitedDetector(both).at_once
    assert not UnitedDetector([*both, ByBrightness(False)]).at_once


def looks_at(pictures: list[Image], every: int) -> list[int]:
    """The numbers of the frames that ``find`` looks at."""
    seen: list[int] = []

    class Counting:
        name, device = "counting", "test"

        def detect(self, image: Image) -> list[Box]:
            seen.append(next(i for i, each in enumerate(pictures) if each is image))
            return []

    frames = (Frame(each, i, Fraction(i, 25)) for i, each in enumerate(pictures))
    stream = find(frames, Counting(), every=every, masks=False)
    assert sum(1 for _ in stream) == len(pictures)
    return sorted(seen)


def test_the_more_a_picture_changes_the_more_of_its_frames_are_looked_at() -> None:
    pattern = np.random.default_rng(1).integers(0, 256, (12, 40, 3), dtype=np.uint8)
    large = np.kron(pattern, np.ones((10, 10, 1), np.uint8))
    still = [large[:, :160].copy() for _ in range(13)]
    moving = [large[:, 8 * i : 8 * i + 160].copy() for i in range(13)]
    brighter = [np.clip(each // 2 + 8 * i, 0, 255).astype(np.uint8) for i, each in enumerate(still)]
    stirring = [each.copy() for each in still]
    for i, each in enumerate(stirring):
        each[40:64, 40 + 2 * i : 60 + 2 * i] = 255  # somebody walks, and nothing else changes
    assert looks_at(still, 4) == [0, 8, 12]
    assert looks_at(brighter, 4) == [0, 8, 12], "a lamp moves nobody"
    assert looks_at(stirring, 4) == [0, 4, 8, 12]
    assert looks_at(moving, 4) == [0, 2, 4, 6, 8, 10, 12]
    assert looks_at(moving, 1) == list(range(13))


def test_every_second_look_at_a_large_picture_is_for_large_people_and_misses_nobody_small() -> None:
    asked: list[bool] = []

    class Tiled:
        """Somebody small, whom only tiles show."""

        name, device, in_tiles = "tiled", "test", True

        def detect(self, image: Image, *, tiles: bool = True) -> list[Box]:
            asked.append(tiles)
            return [Box(300, 200, 312, 230, 0.9)] if tiles else []

    def numbers(width: int) -> list[int]:
        asked.clear()
        picture = np.zeros((400, width, 3), np.uint8)
        frames = (Frame(picture, i, Fraction(i, 25)) for i in range(31))
        stream = find(frames, Look([Tiled()], []), every=4, masks=False, policy="fail")
        found = [len(people) for _, people in stream]
        assert stream.status.bridged == 0, "who was not looked for was not missed"
        return found

    assert numbers(700) == [1] * 31
    assert asked == [True, False, True, False, True], "the last look is for everybody"
    assert numbers(640) == [1] * 31
    assert asked == [True] * 5
