"""Text along a video: looked for on every n-th frame, covered on all of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from sfumato.media import Frame
from sfumato.people._text_line import SURE, TextLine, paint, with_pages
from sfumato.people.detect._litert import threads
from sfumato.people.detect._protocols import TextDetector
from sfumato.people.track._batches import in_parallel, with_last
from sfumato.people.track._carry import RecentFrames
from sfumato.people.track._status import DetectorStatus, Review

# looks for which a line that is not found any more stays covered, and before it was first found
_HELD, _BACK = 3, 2
_STEADY = 12  # looks more for one that was found twice, as long as its place looks as it did
_REST = 2  # times as many frames lie between two looks where none of the last ones found text
_WHOLE = 0.9  # part of a line that must be found for it not to be held
_AS_LARGE = 0.7
_MARGIN = 0.15  # of a line's height, where its place is not seen but worked out
_LETTERS = 0.1  # of the picture's height: what is higher is a page


@dataclass(frozen=True)
class _Turn:
    """A frame's turn to be looked at: its number, 0 for a thorough look, and whether it showed text."""

    number: int
    text: Future[bool] = field(default_factory=Future)


@dataclass
class _Look:
    """A frame that was looked at: what was found there, and what is known from its neighbours."""

    index: int
    found: list[TextLine]
    again: list[bool]  # of each, whether the look before knew it
    # lines of earlier and later looks that were not found here, and for how many looks they were not
    held: list[tuple[TextLine, int]] = field(default_factory=list)


@dataclass(frozen=True)
class TextFound:
    """What is left of a stream that ran in another process: how it went."""

    status: DetectorStatus
    review: Review = field(default_factory=Review)


class TextStream(Iterator[tuple[Frame, tuple[TextLine, ...]]]):
    """Iterates over (frame, lines of text), ``lookahead`` frames after they came.

    A line that is found on two looks is followed between them; one that is lost or newly found is
    carried by what the picture shows, some looks on and back. A faint line counts if it is found twice.
    """

    def __init__(self, frames: Iterable[Frame], detector: TextDetector, every: int) -> None:
        self._detector, self._every = detector, every
        self._workers = threads() if getattr(detector, "at_once", False) else 1
        self.lookahead = text_lookahead(every, self._workers)
        often = "" if every == 1 else f"every {every} to {_rest(every)} frames"
        self.status = DetectorStatus(detector.name, detector.device, often)
        self.review = Review()  # nobody is asked to look at text frame by frame
        self._recent = RecentFrames(self.lookahead + _rest(every) + 1)
        self._letters = 0.0  # the greatest height that is taken for that of letters
        self._answers = self._run(frames)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Frame, tuple[TextLine, ...]]:
        return next(self._answers)

    def _run(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, tuple[TextLine, ...]]]:
        waiting: deque[Frame] = deque()
        looks: deque[_Look] = deque()  # the first one is the last look whose frame was given back
        for index, ((frame, _), found) in enumerate(
            in_parallel(self._turns(frames), self._look, self._workers)
        ):
            self._recent.add(index, frame.image)
            self._letters = _LETTERS * frame.image.shape[0]
            waiting.append(frame)
            self.status.frames += 1
            if found is None:
                continue
            self.status.looked_at += 1
            self.status.empty += not found
            looks.append(_Look(index, found, [False] * len(found)))
            if len(looks) > 1:
                self._carry_on(looks[-2], looks[-1])
            if len(looks) > 2:
                self._agree(looks[-3], looks[-1])
            if len(looks) > _BACK + 1:
                yield from self._give(looks, waiting)
        while len(looks) > 1:
            yield from self._give(looks, waiting)
        if looks and waiting:
            yield waiting.popleft(), tuple(self._settled(looks))
        del self._detector  # its network takes memory that whoever comes next may need

    def _turns(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, _Turn | None]]:
        """Every frame, with a turn if it is one to look at: half as many are once several looks in a
        row found no text."""
        looked, empty, number = 0, 0, 0
        turn = _Turn(0)
        for index, (frame, last) in enumerate(with_last(frames, self._every > 1)):
            since = index - looked
            if index and since == self._every:
                # waits for the last look, so that which frames are looked at never depends on threads
                empty = 0 if turn.text.result() else empty + 1
            wait = self._every if empty <= _HELD else _rest(self._every)
            if last or not index or since >= wait:
                looked, turn = index, _Turn(0 if last else number)
                number += 1
                yield frame, turn
            else:
                yield frame, None

    def _look(self, at: tuple[Frame, _Turn | None]) -> list[TextLine] | None:
        frame, turn = at
        if turn is None:
            return None
        lines: list[TextLine] | None = None
        try:
            detect_in_turn = getattr(self._detector, "detect_in_turn", None)
            if turn.number and detect_in_turn is not None:
                lines = with_pages(detect_in_turn(frame.image, turn.number))
            else:
                lines = with_pages(self._detector.detect(frame.image))
        finally:
            turn.text.set_result(lines is None or len(lines) > 0)
        return lines

    def _agree(self, before: _Look, now: _Look) -> None:
        """Faint lines that both looks found become sure: of looks that take turns, every second one sees
        as this one does."""
        faint = [line for line in before.found if line.score < SURE]
        there = [self._carried(line, before.index, now.index) for line in faint]
        now.found = [line.sure() if line.counts(there) else line for line in now.found]

    def _carry_on(self, before: _Look, now: _Look) -> None:
        """Faint lines that two looks agree on become sure; what is not found now stays for some looks."""
        carried = [self._carried(line, before.index, now.index) for line in before.found]
        before.found = [
            line.sure() if there.counts(now.found) else line
            for line, there in zip(before.found, carried, strict=True)
        ]
        held = [(self._carried(line, before.index, now.index), n) for line, n in before.held]
        expected = [*carried, *(one for one, _ in held)]
        now.found = [line.sure() if line.counts(expected) else line for line in now.found]
        now.again = [line.agrees(expected) for line in now.found]
        known = [
            (line, there, -_STEADY if again else 0)
            for line, there, again in zip(before.found, carried, before.again, strict=True)
            if line.score >= SURE
        ]
        known += [(line, there, n) for (line, n), (there, _) in zip(before.held, held, strict=True)]
        now.held = [
            (there, (missed if steady else max(missed, 0)) + 1)
            for line, there, missed in known
            for steady in (self._recent.alike(line.box, before.index, there.box, now.index),)
            if missed < _HELD and (steady or not self._huge(line))
            # what lies around a line that is found, by as much as it might be off, is that line
            if _share_found(there, [self._with_margin(each) for each in now.found]) < _WHOLE
        ]

    def _settled(self, looks: deque[_Look]) -> list[TextLine]:
        """The lines of the first look: what was found and is sure, what is held, and what is first
        found some looks later, carried back. A single picture has no second look: all counts."""
        first = looks[0]
        only = self.status.looked_at == 1
        lines = [line for line in first.found if only or line.score >= SURE]
        lines += [self._with_margin(line, max(missed, 1)) for line, missed in first.held]
        for later in range(1, min(_BACK + 1, len(looks))):
            for line in looks[later].found:
                if line.score < SURE:
                    continue
                seen = line
                for step in range(later, 0, -1):
                    line = self._carried(line, looks[step].index, looks[step - 1].index)
                was_there = not self._huge(seen) or self._recent.alike(
                    seen.box, looks[later].index, line.box, first.index
                )
                if was_there and _share_found(line, lines) < _WHOLE:
                    lines.append(self._with_margin(line, later))
        return lines

    def _give(
        self, looks: deque[_Look], waiting: deque[Frame]
    ) -> Iterator[tuple[Frame, tuple[TextLine, ...]]]:
        """The frames from the first look up to the second, which is the first one from then on."""
        start = self._settled(looks)
        first = looks.popleft()
        end = self._settled(looks)
        length = looks[0].index - first.index
        for step in range(length):
            lines = start if step == 0 else self._between(first.index, step, length, start, end)
            yield waiting.popleft(), tuple(lines)

    def _between(
        self, begin: int, step: int, length: int, start: list[TextLine], end: list[TextLine]
    ) -> list[TextLine]:
        """Lines of both looks: those that are the same lie between, any other is carried."""
        lines, paired = [], set[int]()
        for line in start:
            match = _same_line(line, end)
            if match is None:
                lines.append(self._with_margin(self._carried(line, begin, begin + step)))
            else:
                paired.add(match)
                moved = np.abs(line.corners.mean(axis=0) - end[match].corners.mean(axis=0)).max()
                # where it lay on both looks, it lay between them
                lines.append(
                    self._with_margin(line.towards(end[match], step / length), most=float(moved))
                )
        lines += [
            self._with_margin(self._carried(line, begin + length, begin + step))
            for number, line in enumerate(end)
            if number not in paired
        ]
        return lines

    def _huge(self, line: TextLine) -> bool:
        """Letters of that size are found where they are: to cover where they went by guess costs more."""
        return line.sides[0] > self._letters

    def _with_margin(self, line: TextLine, looks: int = 1, most: float = math.inf) -> TextLine:
        """Larger by what may have gone wrong since it was seen: by its letters, not by a whole page."""
        return line.grown(min(looks * _MARGIN * min(line.sides[0], self._letters), most))

    def _carried(self, line: TextLine, start: int, end: int) -> TextLine:
        """The line of one frame on another: followed from frame to frame, or where it was last."""
        box, direction = line.box, 1 if end > start else -1
        first = box
        for index in range(start, end, direction):
            box = self._recent.carried(box, index, index + direction) or box
        return line.moved(box.x0 - first.x0, box.y0 - first.y0)


def _rest(every: int) -> int:
    """Frames between two looks where none of the last ones found text."""
    return _REST * every if every > 1 else 1


def text_lookahead(every: int, workers: int) -> int:
    """Frames that a stream of text keeps back."""
    return (_BACK + 2) * _rest(every) + (every > 1) + (workers if workers > 1 else 0)


def find_text(frames: Iterable[Frame], detector: TextDetector, *, every: int) -> TextStream:
    """Every frame with the lines of text on it, looked for on every ``every``-th one."""
    return TextStream(frames, detector, every)


def _share_found(line: TextLine, lines: Iterable[TextLine]) -> float:
    """Which part of a line others cover together."""
    box = line.box
    origin = int(box.x0) - 1, int(box.y0) - 1
    own = np.zeros((int(box.height) + 4, int(box.width) + 4), np.uint8)
    others = np.zeros_like(own)
    paint(own, line, origin)
    for other in lines:
        paint(others, other, origin)
    return float((own & others).sum()) / max(float(own.sum()), 1.0)


def _same_line(line: TextLine, lines: list[TextLine]) -> int | None:
    """Which of the lines is this one on another frame: as large, and not further than its height."""
    box, reach = line.box, line.sides[0]
    for number, other in enumerate(lines):
        there = other.box
        (ax, ay), (bx, by) = box.centre, there.centre
        near = max(abs(ax - bx), abs(ay - by)) <= reach
        if near and min(box.area, there.area) >= _AS_LARGE * max(box.area, there.area):
            return number
    return None
