"""Boxes along a video: a stream of frames in, the same frames with every box out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Self

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people._protocols import FaceDetector, PersonDetector
from sfumato.people._status import DetectorStatus, OnMiss, Review
from sfumato.people._tracker import BoxTracker, TrackedBoxes

LOOKAHEAD = 15
HOLD = 30


class BoxStream(Iterator[tuple[Frame, TrackedBoxes]]):
    """Iterates over (frame, boxes); at most ``lookahead`` + 1 frames are in memory.

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
        self.lookahead = lookahead
        name = detector.name
        if every > 1:
            name += f" every {every} frames" + (f", {between.name} between" if between else "")
        self.status = DetectorStatus(name, detector.device)
        self._detector, self._every, self._between = detector, every, between
        self._tracker = BoxTracker(self.status, lookahead, hold, on_miss, sure, every)
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
        for index, frame in enumerate(frames):
            waiting.append(frame)
            if index % self._every == 0:
                self._tracker.push(self._detector.detect(frame.image))
            elif self._between is not None:
                self._tracker.push(self._between.detect(frame.image), thorough=False)
            else:
                self._tracker.push(None)
            for answer in self._tracker.answers():
                yield waiting.popleft(), answer
        for answer in self._tracker.answers(finished=True):
            yield waiting.popleft(), answer
        self._tracker.review.close()


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
    ``blank`` blanks the frame, ``fail`` raises. See :mod:`sfumato.people._tracker` for the rules.
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
