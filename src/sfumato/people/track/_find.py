"""The one way of finding people: a stream of frames in, the same frames with everybody out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from enum import Enum
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame, Image
from sfumato.people._person import People
from sfumato.people.detect._litert import threads
from sfumato.people.detect._search import searchers
from sfumato.people.detect._sightings import Look, Sighting, thorough
from sfumato.people.detect._tiles import brightened, loses_detail
from sfumato.people.detect._turned import IN_TURN
from sfumato.people.track._batches import in_parallel
from sfumato.people.track._motion import Thumbnail, bounds, due, with_shots
from sfumato.people.track._moving import MOST_AWAY, Around, with_moving, with_others
from sfumato.people.track._person_masks import (
    Segment,
    masked,
    near_ones,
    without_doubtful_parts,
)
from sfumato.people.track._status import DetectorStatus, OnMiss, Review
from sfumato.people.track._tracks import PersonTracker

LOOKAHEAD = 24
HOLD = 30
EVERY = 4
_SMALL = ", for small people on every second of these"


class LookFor(Enum):
    """Who is looked for on a frame."""

    NONE, LARGE, ALL, THOROUGH = range(4)


class LookTurn(NamedTuple):
    """Who is looked for on a frame, and by how many quarters the picture is turned besides."""

    whom: LookFor = LookFor.NONE
    quarters: tuple[int, ...] = ()


class _FrameToSearch(NamedTuple):
    """A frame, what is its turn, and whether a shot begins with it."""

    number: int
    frame: Frame
    turn: LookTurn
    cut: bool = False
    alternate: bool = (
        False  # in a large picture, where looks for all and for large people take turns
    )


# The looks that others made already, by the number of the frame: on what turn, and what they found.
KnownLooks = Callable[[int], "tuple[LookTurn, list[Sighting]] | None"]


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
        known: KnownLooks | None = None,
        masks_later: bool = False,
    ) -> None:
        if every < 1 or hold < 0 or lookahead < (most := bounds(every)[1]):
            raise SfumatoError(
                f"Expected every >= 1, hold >= 0 and a lookahead of at least {bounds(max(every, 1))[1]}, "
                f"got every {every}, hold {hold}, lookahead {lookahead}: a skipped frame needs the next "
                "look."
            )
        self._look, self._every = look, every
        self._segment = None if masks_later else segment
        self._known = known
        self._workers = threads() if look.at_once else 1
        self.lookahead = held_back(lookahead, every, self._workers)
        often = "" if every == 1 else f"every {(every + 1) // 2} to {most} frames"
        self.status = DetectorStatus(look.name, look.device, often, look.helpers)
        segmenter = getattr(segment, "__self__", None)
        if segmenter is not None and segmenter.name != look.name:
            self.status.helpers += ((f"{segmenter.name} for masks", segmenter.device),)
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
        found = self._found(frames)
        if self._segment is None:
            yield from found
            return
        with closing(found):
            yield from with_masks(found, self._segment, self._workers)

    def _found(self, frames: Iterable[Frame]) -> Generator[tuple[Frame, People], None, None]:
        """Everybody without masks."""
        waiting: deque[Frame] = deque()
        for turn, found in in_parallel(self._turns(frames), self._sightings, self._workers):
            waiting.append(turn.frame)
            at_all = turn.turn.whom is not LookFor.LARGE
            self._tracker.push(turn.frame.image, found, at_all=at_all, cut=turn.cut)
            for people in self._tracker.answers():
                yield waiting.popleft(), people
        for people in self._tracker.answers(finished=True):
            yield waiting.popleft(), people
        self._tracker.review.close()
        del self._look  # networks take memory that whoever comes next may need

    def _turns(self, frames: Iterable[Frame]) -> Iterator[_FrameToSearch]:
        for each in _scheduled(frames, self._every):
            if each.alternate and _SMALL not in self.status.often:
                self.status.often += _SMALL
            yield each

    def _sightings(self, at: _FrameToSearch) -> list[Sighting] | None:
        if at.turn.whom is LookFor.NONE:
            return None
        known = self._known(at.number) if self._known is not None else None
        if known is not None and known[0] == at.turn:
            return known[1]
        return look_at(self._look, at.frame.image, at.turn)


def look_at(look: Look, image: Image, turn: LookTurn) -> list[Sighting]:
    """What one look finds; no other frame plays a part in it."""
    if turn.whom is LookFor.THOROUGH:
        return thorough(look, image)
    return look(image, tiles=turn.whom is LookFor.ALL, turns=turn.quarters)


def look_schedule(frames: Iterable[Frame], every: int) -> Iterator[LookTurn]:
    """The turn of every frame; it follows from the pictures alone, whatever is found on them."""
    return (each.turn for each in _scheduled(frames, every))


def _scheduled(frames: Iterable[Frame], every: int) -> Iterator[_FrameToSearch]:
    """Every frame, and whether it is one to look at: the first and the last one of a shot always are,
    for nothing beyond them could lead to them. In a large picture every second look is for large people
    alone, who move by more pixels than small ones. Each look is also at the picture turned, another way
    each time."""
    looked, looks = 0, 0
    seen: Thumbnail | None = None
    for index, (frame, cells, begins, ends) in enumerate(with_shots(frames, every > 1)):
        if not (begins or ends or due(seen, cells, index - looked, every)):
            yield _FrameToSearch(index, frame, LookTurn())
            continue
        alternate = every > 1 and not (begins or ends) and loses_detail(frame.image)
        alone = ends and (begins or not index)
        everybody = LookFor.THOROUGH if alone else LookFor.ALL
        whom = LookFor.LARGE if looks % 2 and alternate else everybody
        turn = LookTurn(whom, (IN_TURN[looks % len(IN_TURN)],))
        yield _FrameToSearch(index, frame, turn, begins, alternate)
        looked, seen, looks = index, cells, looks + 1


def with_masks(
    found: Iterable[tuple[Frame, People]], segment: Segment, workers: int = 1
) -> Iterator[tuple[Frame, People]]:
    """The same people with masks; a frame's masks depend on no frame farther than ``MOST_AWAY`` from it."""

    def masks_of(around: Around) -> People:
        image = np.ascontiguousarray(brightened(around.frame.image))
        everybody = [masked(one, image, segment) for one in around.people]
        everybody = without_doubtful_parts(near_ones(everybody, image, segment))
        people = with_moving(around, everybody)
        return People(people, around.people.number, around.people.blank)

    for around, people in in_parallel(with_others(found), masks_of, workers):
        yield around.frame, people


def held_back(lookahead: int, every: int, workers: int) -> int:
    """Frames that a stream keeps: to follow people, for the looks and masks that are under way, to see what
    moves, and one more if the last frame must be known as such."""
    return lookahead + MOST_AWAY + (every > 1) + (2 * workers if workers > 1 else 0)


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
    known: KnownLooks | None = None,
    masks_later: bool = False,
) -> PeopleStream:
    """Everybody on every frame: (frame, people) with track, box, joints, head, mask and evidence.

    ``detector`` names detectors of people and faces (``a+b``), or is one; by default MoveNet, CenterNet
    and two face detectors search together, on every ``every``-th frame. Without ``masks`` people have
    boxes, joints and heads only, which is faster. ``policy`` says what happens on a frame where somebody
    seen before and after was not found: ``hold`` covers where they must be, ``blank`` blanks the
    frame, ``fail`` raises. Of ``known`` looks nobody looks again; with ``masks_later`` somebody else
    makes the masks (:func:`with_masks`).
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
        known=known,
        masks_later=masks_later,
    )
