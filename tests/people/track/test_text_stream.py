"""Text along a video: whatever is found on some looks is covered on every frame it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import cv2
import numpy as np
import pytest

from sfumato import people
from sfumato.media import Frame, Image
from sfumato.people import TextLine

HEIGHT, WIDTH, EVERY = 120, 240, 4
Where = Callable[[int], tuple[int, int] | None]


def at_rest(number: int) -> tuple[int, int] | None:
    return 60, 40


def drifting(number: int) -> tuple[int, int] | None:
    return 20 + 4 * number, 30 + number


def recording(where: Where, count: int) -> Iterator[Frame]:
    """A word on a textured wall, where ``where`` says."""
    wall = np.random.default_rng(0).integers(90, 130, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    for number in range(count):
        image = wall.copy()
        if (place := where(number)) is not None:
            x, y = place
            cv2.putText(image, "OKAFOR", (x, y + 14), 0, 0.6, (255, 255, 255), 2)
        yield Frame(image, number, Fraction(number, 25))


def word(x: int, y: int, score: float = 0.9) -> TextLine:
    return TextLine.around((x + 38, y + 8), (80, 20), 0, score)


class Scripted:
    """Finds the word on the looks it is not blind on; ``also`` is found once, with a low score."""

    name, device, at_once = "scripted", "test", False

    def __init__(self, where: Where, blind: set[int], score: float = 0.9) -> None:
        self._where, self._blind, self._score = where, blind, score
        self.looks = 0

    def detect(self, image: Image) -> list[TextLine]:
        number, self.looks = self.looks, self.looks + 1
        place = self._where(number * EVERY)
        hidden = place is None or number in self._blind
        return [] if hidden or place is None else [word(*place, self._score)]


def covered(where: Where, count: int, blind: set[int], score: float = 0.9) -> list[float]:
    """Which part of the word's box is covered on each frame that shows it."""
    stream = people.find_text(recording(where, count), Scripted(where, blind, score), every=EVERY)
    shares = []
    for number, (frame, lines) in enumerate(stream):
        assert frame.time == Fraction(number, 25)
        if (place := where(number)) is not None:
            mask = people.text_mask(lines, HEIGHT, WIDTH)
            shares.append(float(mask[word(*place).box.pixels(WIDTH, HEIGHT)].mean()))
    return shares


@pytest.mark.parametrize("where", [at_rest, drifting])
@pytest.mark.parametrize("blind", [set(), {3}, {2, 3}, {0}, {0, 1}])
def test_a_word_is_covered_on_every_frame(where: Where, blind: set[int]) -> None:
    # 33 frames: the last one is a look too
    shares = covered(where, 33, blind)
    assert len(shares) == 33
    assert min(shares) > 0.95


def test_a_word_at_rest_that_was_found_twice_stays_covered_and_one_found_once_does_not() -> None:
    """A cover that flickers shows on one frame what it hides on the next."""
    assert min(covered(at_rest, 49, set(range(2, 13)))) > 0.95
    assert max(covered(at_rest, 49, set(range(1, 13)))[24:]) == 0


def test_a_word_at_rest_is_covered_where_it_is_and_no_further() -> None:
    """Margins are for what moved: each look may see the word turned a little, or one letter more."""

    class Wavering(Scripted):
        def detect(self, image: Image) -> list[TextLine]:
            found = super().detect(image)
            wider = 3 if self.looks % 2 else 0
            return [TextLine.around((98, 48), (80 + wider, 20), 0, 0.9) for _ in found]

    stream = people.find_text(recording(at_rest, 33), Wavering(at_rest, set()), every=EVERY)
    widest = TextLine.around((98, 48), (83, 20), 0)
    least = people.text_mask([TextLine.around((98, 48), (80, 20), 0)], HEIGHT, WIDTH)
    most = people.text_mask([widest], HEIGHT, WIDTH)
    for _, lines in stream:
        mask = people.text_mask(lines, HEIGHT, WIDTH)
        assert (mask & least).sum() == least.sum()
        assert not (mask & ~most).any()


def test_a_word_that_comes_and_goes_is_covered_from_its_first_frame_to_its_last() -> None:
    def shown(number: int) -> tuple[int, int] | None:
        return (60, 40) if 9 <= number < 22 else None

    assert min(covered(shown, 41, set())) > 0.95


def test_the_cover_ends_after_the_word_has_gone() -> None:
    def shown(number: int) -> tuple[int, int] | None:
        return (60, 40) if number < 9 else None

    stream = people.find_text(recording(shown, 61), Scripted(shown, set()), every=EVERY)
    shares = [people.text_mask(lines, HEIGHT, WIDTH).mean() for _, lines in stream]
    assert shares[8] > 0
    assert max(shares[32:]) == 0


def test_a_faint_line_counts_if_two_looks_agree_and_not_if_it_was_seen_once() -> None:
    assert min(covered(at_rest, 33, set(), score=0.45)) > 0.95
    once = covered(at_rest, 33, set(range(9)) - {4}, score=0.45)
    assert max(once) == 0


@pytest.mark.parametrize("where", [at_rest, drifting])
def test_a_faint_line_that_every_second_look_sees_is_covered_on_every_frame(where: Where) -> None:
    assert min(covered(where, 33, {1, 3, 5, 7}, score=0.45)) > 0.95


class Fragments(Scripted):
    """The word on every second look, and on the others its left half, three times."""

    def detect(self, image: Image) -> list[TextLine]:
        (whole,) = super().detect(image)
        half = TextLine.around((60 + 18, 40 + 8), (40, 20), 0, 0.9)
        return [whole] if self.looks % 2 else [half] * 3


def test_pieces_that_lie_over_each_other_are_not_the_whole_word() -> None:
    stream = people.find_text(recording(at_rest, 34), Fragments(at_rest, set()), every=EVERY)
    for _, lines in stream:
        mask = people.text_mask(lines, HEIGHT, WIDTH)
        assert mask[word(60, 40).box.pixels(WIDTH, HEIGHT)].mean() > 0.95


class TakingTurns(Scripted):
    """A thorough look at the first and the last frame, and quicker ones in turn between them."""

    def __init__(self) -> None:
        super().__init__(at_rest, set())
        self.turns: list[int | None] = []

    def detect(self, image: Image) -> list[TextLine]:
        self.turns.append(None)
        return super().detect(image)

    def detect_in_turn(self, image: Image, turn: int) -> list[TextLine]:
        found = super().detect(image)
        self.turns.append(turn)
        return found if turn % 2 else []


def test_looks_take_turns_between_two_thorough_ones() -> None:
    detector = TakingTurns()
    stream = people.find_text(recording(at_rest, 18), detector, every=EVERY)
    shares = [people.text_mask(lines, HEIGHT, WIDTH)[word(60, 40).box.pixels(WIDTH, HEIGHT)].mean()
              for _, lines in stream]  # fmt: skip
    assert detector.turns == [None, 1, 2, 3, 4, None]
    assert min(shares) > 0.95


def test_a_faint_line_of_a_single_picture_counts() -> None:
    assert covered(at_rest, 1, set(), score=0.45)[0] > 0.95


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 9])
def test_every_frame_comes_out_once_however_short_the_clip(count: int) -> None:
    stream = people.find_text(recording(at_rest, count), Scripted(at_rest, set()), every=EVERY)
    assert [frame.time * 25 for frame, _ in stream] == list(range(count))


def test_no_more_frames_are_kept_back_than_declared() -> None:
    taken = 0

    def counted() -> Iterator[Frame]:
        nonlocal taken
        for frame in recording(at_rest, 60):
            taken += 1
            yield frame

    stream = people.find_text(counted(), Scripted(at_rest, set()), every=EVERY)
    for given, _ in enumerate(stream, 1):
        assert taken - given <= stream.lookahead
