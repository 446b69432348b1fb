"""The one way of finding people: a stream of frames in, the same frames with everybody out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people._person import People
from sfumato.people.detect._litert import threads
from sfumato.people.detect._search import searchers
from sfumato.people.detect._sightings import Look, Sighting
from sfumato.people.track._batches import looked_at, with_last
from sfumato.people.track._motion import moved, thumbnail
from sfumato.people.track._person_masks import Segment, masked
from sfumato.people.track._status import DetectorStatus, OnMiss, Review
from sfumato.people.track._tracks import PersonTracker

LOOKAHEAD = 24
HOLD = 30
EVERY = 4


class PeopleStream(Iterator[tuple[Frame, People]]):
    """Iterates over (frame, people), ``lookahead`` frames after they came; memory does not grow.

    ``status`` counts along; ``review`` is complete once the stream is exhausted.
    """

    def __init__(
        self,
        frames: Iterable[Frame],
        look: Look,
        segment: Segment | None,
        *,
        every: int,
        policy: OnMiss,
        lookahead: int,
        hold: int,
    ) -> None:
        if every < 1 or hold < 0 or lookahead < every:
            raise SfumatoError(
                f"Expected every >= 1, hold >= 0 and a lookahead of at least every, got every "
                f"{every}, hold {hold}, lookahead {lookahead}: a skipped frame needs the next look."
            )
        self._look, self._every, self._segment = look, every, segment
        self._workers = threads() if look.at_once else 1
        self.lookahead = held_back(lookahead, every, self._workers)
        name = look.name if every == 1 else f"{look.name} every {every} frames"
        self.status = DetectorStatus(name, look.device)
        self._tracker = PersonTracker(self.status, lookahead, hold, policy, every)
        self._answers = self._run(frames)

    @property
    def review(self) -> Review:
        return self._tracker.review

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Frame, People]:
        return next(self._answers)

    def _run(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, People]]:
        waiting: deque[Frame] = deque()
        for frame, found in looked_at(self._turns(frames), self._sightings, self._workers):
            waiting.append(frame)
            self._tracker.push(frame.image, found)
            for people in self._tracker.answers():
                yield self._masked(waiting.popleft(), people)
        for people in self._tracker.answers(finished=True):
            yield self._masked(waiting.popleft(), people)
        self._tracker.review.close()

    def _turns(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, bool]]:
        """Every frame, and whether it is one to look at: the last one always is, for nothing after it
        could lead back to it, and twice as many are where the picture moves much."""
        looked, seen = -self._every, None
        for index, (frame, last) in enumerate(with_last(frames, self._every > 1)):
            since = index - looked
            turn = last or since >= self._every
            if not turn and 2 * since >= self._every:
                turn = moved(seen, thumbnail(frame.image))
            if turn:
                looked = index
                seen = thumbnail(frame.image) if self._every > 1 else None
            yield frame, turn

    def _sightings(self, frame: Frame, turn: bool) -> list[Sighting] | None:
        return self._look(frame.image) if turn else None

    def _masked(self, frame: Frame, people: People) -> tuple[Frame, People]:
        segment = self._segment
        if segment is None:
            return frame, people
        image = np.ascontiguousarray(frame.image)
        whole = [masked(person, image, segment) for person in people]
        return frame, People(whole, people.number, people.blank)


def held_back(lookahead: int, every: int, workers: int) -> int:
    """Frames that a stream keeps: to follow people, for the looks that are under way, and one more if
    the last frame must be known as such."""
    return lookahead + (every > 1) + (workers if workers > 1 else 0)


def find(
    frames: Iterable[Frame],
    detector: Any = None,
    *,
    masks: bool = True,
    every: int = EVERY,
    policy: OnMiss | str = OnMiss.HOLD,
    lookahead: int = LOOKAHEAD,
    hold: int = HOLD,
    offline: bool = False,
) -> PeopleStream:
    """Everybody on every frame: (frame, people) with track, box, joints, head, mask and evidence.

    ``detector`` names detectors of people and faces (``a+b``), or is one; by default MoveNet, CenterNet
    and two face detectors search together, on every ``every``-th frame. Without ``masks`` people have
    boxes, joints and heads only, which is faster. ``policy`` says what happens on a frame where somebody
    seen before and after was not found: ``hold`` covers where they must be, ``blank`` blanks the
    frame, ``fail`` raises.
    """
    look, segment = searchers(detector, masks=masks, offline=offline)
    return PeopleStream(
        frames,
        look,
        segment,
        every=every,
        policy=OnMiss(policy),
        lookahead=lookahead,
        hold=hold,
    )
