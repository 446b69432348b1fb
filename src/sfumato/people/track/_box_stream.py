"""Boxes along a video: a stream of frames in, the same frames with every box out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Self

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people._boxes import Box
from sfumato.people.detect._litert import threads
from sfumato.people.detect._protocols import FaceDetector, PersonDetector
from sfumato.people.track._batches import looked_at, with_last
from sfumato.people.track._status import DetectorStatus, OnMiss, Review
from sfumato.people.track._steady import REACH, steady
from sfumato.people.track._tracker import BoxTracker, TrackedBoxes

LOOKAHEAD = 24
HOLD = 30
_GLANCE_HOLD = 2


def held_back(lookahead: int, every: int, workers: int) -> int:
    """Frames that a stream keeps: to follow and to steady boxes, for the looks that are under way,
    and one more if the last frame must be known as such."""
    return lookahead + REACH + (every > 1) + workers


class BoxStream(Iterator[tuple[Frame, TrackedBoxes]]):
    """Iterates over (frame, boxes); at most ``lookahead`` + 2 frames are in memory.

    Detectors that say so (``at_once``) look at as many frames at the same time as there are cores.

    ``status`` counts along; ``review`` is complete once the stream is exhausted.
    """

    def __init__(
        self,
        frames: Iterable[Frame],
        detector: FaceDetector | PersonDetector,
        *,
        every: int,
        between: FaceDetector | PersonDetector | None,
        on_miss: OnMiss,
        lookahead: int,
        hold: int,
        sure: float,
    ) -> None:
        if every < 1 or lookahead < 0 or hold < 0 or (every > 1 and lookahead < every):
            raise SfumatoError(
                f"Expected every >= 1, hold >= 0 and a lookahead of at least every, got every "
                f"{every}, hold {hold}, lookahead {lookahead}: a skipped frame needs the next look."
            )
        asked = [one for one in (detector, between) if one is not None]
        alone = not all(getattr(one, "at_once", False) for one in asked)
        self._workers = 1 if alone else threads()
        self.lookahead = held_back(lookahead, every, 0 if alone else self._workers)
        name = detector.name
        if every > 1:
            name += f" every {every} frames" + (f", {between.name} between" if between else "")
        devices = (each.device for each in (detector, between) if each is not None)
        self.status = DetectorStatus(name, ", ".join(dict.fromkeys(devices)))
        self._detector, self._every, self._between = detector, every, between
        self._tracker = BoxTracker(self.status, lookahead, hold, on_miss, sure, every)
        # What a glance finds is covered besides, and never moves what a real look has found: a hand
        # that a fast detector takes for a face would otherwise lead the cover away from the face.
        self._glances = BoxTracker(DetectorStatus("", ""), lookahead, _GLANCE_HOLD, sure=sure)
        self._answers = self._run(frames)

    @property
    def review(self) -> Review:
        return self._tracker.review

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Frame, TrackedBoxes]:
        return next(self._answers)

    def _run(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, TrackedBoxes]]:
        waiting: deque[Frame] = deque()
        for answer in steady(self._boxes(frames, waiting)):
            yield waiting.popleft(), answer
        self._tracker.review.close()

    def _boxes(self, frames: Iterable[Frame], taken: deque[Frame]) -> Iterator[TrackedBoxes]:
        for frame, (found, glanced) in looked_at(self._turns(frames), self._look, self._workers):
            taken.append(frame)
            self._tracker.push(found)
            self._glances.push(glanced)
            yield from self._united()
        yield from self._united(finished=True)

    def _turns(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, bool]]:
        """Every frame, and whether it is one to look at."""
        for index, (frame, last) in enumerate(with_last(frames, self._every > 1)):
            # the last frame is always looked at: nothing after it could lead back to it
            yield frame, index % self._every == 0 or last

    def _look(self, frame: Frame, turn: bool) -> tuple[list[Box] | None, list[Box] | None]:
        """What a look finds, or what a glance does."""
        if turn:
            return self._detector.detect(frame.image), None
        return None, None if self._between is None else self._between.detect(frame.image)

    def _united(self, *, finished: bool = False) -> Iterator[TrackedBoxes]:
        pairs = zip(self._tracker.answers(finished), self._glances.answers(finished), strict=True)
        for looks, glances in pairs:
            more = (replace(one, track=-1 - one.track) for one in glances.tracked)
            yield TrackedBoxes(looks.index, (*looks.tracked, *more), looks.blank)


def track_boxes(
    frames: Iterable[Frame],
    detector: FaceDetector | PersonDetector,
    *,
    every: int = 1,
    between: FaceDetector | PersonDetector | None = None,
    policy: OnMiss | str = OnMiss.HOLD,
    lookahead: int = LOOKAHEAD,
    hold: int = HOLD,
    sure: float = 0.5,
) -> BoxStream:
    """Find boxes on every ``every``-th frame and follow them through all of them.

    ``between`` may name a faster detector that glances at the frames in between, for faces that come
    and go within a few frames; what it does not find is no miss.
    ``policy`` says what happens on a frame where someone seen before and after was not found:
    ``hold`` covers the interpolated box and blanks the frame when no credible box is left,
    ``blank`` blanks the frame, ``fail`` raises. See :mod:`sfumato.people.track._tracker` for the rules.
    """
    return BoxStream(
        frames,
        detector,
        every=every,
        between=between,
        on_miss=OnMiss(policy),
        lookahead=lookahead,
        hold=hold,
        sure=sure,
    )
