"""Following boxes over time, forwards and backwards, so that no frame is left open.

Detections of one person are joined into a track. A frame is answered only after ``lookahead``
further frames, so that a track can be continued from both sides:

- between two sightings the box is interpolated (*bridged*);
- after the last and before the first sighting it is *held*, for at most ``hold`` frames, and for
  fewer when there is little evidence for the track; then it shrinks away over a few frames more;
- a track that another one has taken over (same place, later in time) is not held;
- every box is the hull of the track's boxes on the frame before, the frame itself and the frame
  after, and grows with the distance from the nearest sighting and with the speed of the motion;
- a bridged box that would have to grow beyond all measure is not credible, and its frame is blank.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.people._boxes import Box, hull
from sfumato.people.track._status import DetectorStatus, OnMiss, Review

Seen = Literal["seen", "bridged", "held", "imported"]

# How far a person may have moved off the straight line, a frame away from the nearest sighting.
_DRIFT = 0.04  # in box sizes
_TURN = 0.25  # in speeds: a quarter of the motion may have gone elsewhere
_CREDIBLE = 1.0  # a box that must grow by more than its own size on each side says nothing
_DAMPING = 0.8  # a held box keeps moving, more slowly each frame
_GATE, _GATE_PER_FRAME, _WIDEST_GATE = 0.8, 0.1, 2.0  # of association, in box sizes
_TAKEN_OVER = 1.5  # a new track this near to a held one, in box sizes, is the same person
_LARGEST_RATIO = 2.5  # two sightings of one face differ at most this much in size
_EVIDENCE = 2  # frames of holding that one sighting is worth; a sure one is worth three times that
# A cover does not pop up and vanish: beyond the hold its sides shrink by a tenth each frame, until it is
# small beside the face. (That covers more, never less: the hold is what the frames are answered for.)
TAPER, _SHRINK, _GONE = 14, 0.9, 0.25
_LONGEST_TAPER = math.ceil(math.log(_GONE / (1 + 2 * _CREDIBLE)) / math.log(_SHRINK))


class MissedPersonError(SfumatoError):
    """A person was not found on a frame and the policy is to fail."""


@dataclass(frozen=True, slots=True)
class TrackedBox:
    """A box of one frame, the number of its track, and how it came to be."""

    box: Box
    track: int
    state: Seen


@dataclass(frozen=True, slots=True)
class TrackedBoxes:
    """Everything found on one frame. A ``blank`` frame must not be shown at all."""

    index: int
    tracked: tuple[TrackedBox, ...]
    blank: bool = False

    @property
    def boxes(self) -> tuple[Box, ...]:
        return tuple(one.box for one in self.tracked)


@dataclass(slots=True)
class _Track:
    number: int
    sightings: dict[int, Box]
    evidence: float
    first: int
    last: int
    velocity: tuple[float, float] = (0.0, 0.0)
    handed_over: int | None = None  # the frame on which another track took over
    lost_since: int | None = None  # the last sighting of the track that this one goes on with
    ended: bool = False  # another track goes on with it

    def expected(self, index: int) -> tuple[Box, Box]:
        """Where the last sighting would be by now, if it slowed down and if it did not."""
        box, gap = self.sightings[self.last], index - self.last
        (vx, vy) = self.velocity
        return box.shift(*_coast(self.velocity, gap)), box.shift(vx * gap, vy * gap)

    def add(self, index: int, box: Box, evidence: float) -> None:
        before, gap = self.sightings[self.last], index - self.last
        step = tuple((b - a) / gap for a, b in zip(before.centre, box.centre, strict=True))
        fresh = 1.0 if len(self.sightings) == 1 else 0.5
        vx, vy = (fresh * s + (1 - fresh) * v for s, v in zip(step, self.velocity, strict=True))
        self.velocity, self.last, self.handed_over = (vx, vy), index, None
        self.sightings[index] = box
        self.evidence += evidence


def _coast(velocity: tuple[float, float], frames: int) -> tuple[float, float]:
    reach = (1 - _DAMPING**frames) / (1 - _DAMPING)
    return velocity[0] * reach, velocity[1] * reach


def _size(box: Box) -> float:
    return math.sqrt(max(box.area, 1e-9))


@dataclass
class BoxTracker:
    """The logic without the pictures: push detections frame by frame, take answers.

    ``sure`` is the score from which a detection needs no second look.
    """

    status: DetectorStatus
    lookahead: int = 24
    hold: int = 30
    on_miss: OnMiss = OnMiss.HOLD
    sure: float = 0.5
    every: int = 1
    review: Review = field(default_factory=Review)
    _tracks: list[_Track] = field(default_factory=list)
    _looked: deque[bool] = field(default_factory=deque)
    _newest: int = -1
    _next: int = 0
    _numbers: int = 0

    def push(self, found: Sequence[Box] | None) -> None:
        """The detections of the next frame, or None when nobody looked at it."""
        looked = found is not None
        self._newest += 1
        self._looked.append(looked)
        self.status.frames += 1
        self.status.looked_at += looked
        self.status.empty += looked and not found
        if found is not None:
            self._associate(found)

    def answers(self, finished: bool = False) -> Iterator[TrackedBoxes]:
        """The frames that can be answered by now: all when ``finished``."""
        while self._next <= self._newest - (0 if finished else self.lookahead):
            yield self._answer(self._next, self._looked.popleft())
            self._next += 1
            self._forget()

    def _associate(self, found: Sequence[Box]) -> None:
        from scipy.optimize import linear_sum_assignment

        index, costs = self._newest, np.full((len(self._tracks), len(found)), 1e6)
        for row, track in enumerate(self._tracks):
            if track.ended or index - track.last > self.hold + self.lookahead:
                continue
            expected = track.expected(index)
            gate = min(_GATE + _GATE_PER_FRAME * (index - track.last), _WIDEST_GATE)
            for column, box in enumerate(found):
                cost = min(_mismatch(place, box) for place in expected)
                if cost <= gate:
                    costs[row, column] = cost
        taken = set()
        for row, column in zip(*linear_sum_assignment(costs), strict=True):
            if costs[row, column] < 1e6:
                self._continue(self._tracks[row], found[column])
                taken.add(int(column))
        for column, box in enumerate(found):
            if column not in taken:
                self._begin(box)

    def _continue(self, track: _Track, box: Box) -> None:
        """Another sighting. After a gap that is longer than the lookahead, in which some frames have
        been answered without it, the same person goes on under a new number."""
        if self._newest - track.last <= self.lookahead:
            track.add(self._newest, box, self._evidence(box))
            return
        track.ended = True
        self._begin(box, track.evidence, track.last)

    def _begin(self, box: Box, evidence: float = 0.0, lost_since: int | None = None) -> None:
        index, evidence = self._newest, evidence + self._evidence(box)
        first = _Track(self._numbers, {index: box}, evidence, index, index, lost_since=lost_since)
        self._tracks.append(first)
        self._numbers += 1

    def _evidence(self, box: Box) -> float:
        return _EVIDENCE * self.every * (3.0 if box.score >= self.sure else 1.0)

    def _answer(self, index: int, looked: bool) -> TrackedBoxes:
        tracked: list[TrackedBox] = []
        blank = False
        for track in self._tracks:
            state, box = self._place(track, index)
            since = track.lost_since
            if looked and (
                state == "bridged" or (since is not None and since < index < track.first)
            ):
                self._miss(index, track)
                blank = blank or self.on_miss is OnMiss.BLANK
            if box is None:
                blank = blank or state == "bridged"
                continue
            around = [self._place(track, near)[1] for near in (index - 1, index + 1)]
            whole = hull([box, *(near for near in around if near is not None)])
            left = 1.0 if state != "held" else self._left_beside_another(track, box, index)
            if left == 0:
                continue
            tracked.append(TrackedBox(whole.scale(left), track.number, state))
            if state == "seen" and track.sightings[index].score < self.sure:
                self.review.note(index, "unsure", track.number)
            elif state == "held":
                self.review.note(index, "held", track.number)
        self._count(index, tracked, looked, blank)
        return TrackedBoxes(index, tuple(tracked), blank)

    def _left_beside_another(self, track: _Track, box: Box, index: int) -> float:
        """How much of each side of a held cover is left when another track has taken over.

        What has begun to go goes on going: no cover comes and goes. Before its first sighting a
        cover stays beside the other one, for it would have to come in at once when that one leaves.
        """
        if index < track.first:
            return 1.0
        if track.handed_over is None:
            if not self._taken_over(track, box, index):
                return 1.0
            track.handed_over = index
        since = index - track.handed_over + 1
        return float(_SHRINK**since) if since <= TAPER else 0.0

    def _taken_over(self, track: _Track, box: Box, index: int) -> bool:
        """Whether another track, which began after this one ended, is seen where this one is held:
        then it is the same person under a new number."""
        return any(
            other.first > track.last
            and other.first <= index <= other.last
            and (there := self._place(other, index)[1]) is not None
            and _distance(box, there) <= _TAKEN_OVER * _size(there)
            for other in self._tracks
        )

    def _count(self, index: int, tracked: list[TrackedBox], looked: bool, blank: bool) -> None:
        states = {one.state for one in tracked}
        self.status.bridged += looked and "bridged" in states
        self.status.held += "held" in states
        self.status.blanked += blank
        if blank:
            self.review.note(index, "blank")

    def _miss(self, index: int, track: _Track) -> None:
        if self.on_miss is OnMiss.FAIL:
            raise MissedPersonError(
                f"Expected every person on every frame, but on frame {index} the detector missed "
                "one who is there before and after: use --on-miss hold or blank, unite detectors "
                "(a+b), or correct the boxes by hand and import them."
            )
        self.review.note(index, "bridged", track.number)

    def _place(self, track: _Track, index: int) -> tuple[Seen, Box | None]:
        """The track's box on a frame: None when it has none, or none that is credible."""
        if index in track.sightings:
            return "seen", track.sightings[index]
        before = max((i for i in track.sightings if i < index), default=None)
        after = min((i for i in track.sightings if i > index), default=None)
        if before is not None and after is not None:
            return "bridged", _bridge(track, before, after, index)
        near = before if before is not None else after
        assert near is not None
        beyond = self._beyond(track, index)
        if index < 0 or beyond > _LONGEST_TAPER:
            return "held", None
        if beyond <= 0:
            return "held", self._hold(track, near, index)
        last = self._hold(track, near, index - beyond if index > near else index + beyond)
        fading = last.scale(_SHRINK**beyond)
        return "held", fading if _size(fading) > _GONE * _size(track.sightings[near]) else None

    def _beyond(self, track: _Track, index: int) -> int:
        """How many frames further from the track than it is held; not positive where it is held."""
        reach = int(min(self.hold, track.evidence))
        if index < track.first:
            return track.first - index - max(min(reach, self.lookahead - TAPER), 0)
        return index - track.last - reach

    def _hold(self, track: _Track, near: int, index: int) -> Box:
        box, distance = track.sightings[near], abs(index - near)
        if near < index:
            velocity = track.velocity
        else:
            later = [i for i in track.sightings if i > near][:1]
            velocity = (0.0, 0.0)
            if later:
                (x0, y0), (x1, y1) = box.centre, track.sightings[later[0]].centre
                gap = later[0] - near
                velocity = ((x0 - x1) / gap, (y0 - y1) / gap)
        growth = _growth(box, velocity, distance)
        growth = min(growth, _CREDIBLE * _size(box))
        return box.shift(*_coast(velocity, distance)).grow(growth, growth)

    def _forget(self) -> None:
        """Drop what can no longer matter, so that memory does not depend on the length."""
        horizon = self.hold + _LONGEST_TAPER + self.lookahead
        self._tracks = [t for t in self._tracks if self._newest - t.last <= horizon]
        for track in self._tracks:
            # one sighting before the frame answered last is enough to bridge from
            old = [i for i in track.sightings if i < self._next - 1][:-1]
            for i in old:
                del track.sightings[i]


def _bridge(track: _Track, before: int, after: int, index: int) -> Box | None:
    a, b = track.sightings[before], track.sightings[after]
    part = (index - before) / (after - before)

    def mix(x: float, y: float) -> float:
        return x + (y - x) * part

    sides = mix(a.x0, b.x0), mix(a.y0, b.y0), mix(a.x1, b.x1), mix(a.y1, b.y1)
    middle = Box(*sides, min(a.score, b.score), a.source)
    gap = after - before
    velocity = tuple((y - x) / gap for x, y in zip(a.centre, b.centre, strict=True))
    growth = _growth(middle, (velocity[0], velocity[1]), min(index - before, after - index))
    return None if growth > _CREDIBLE * _size(middle) else middle.grow(growth, growth)


def _growth(box: Box, velocity: tuple[float, float], distance: int) -> float:
    return distance * (_DRIFT * _size(box) + _TURN * math.hypot(*velocity))


def _mismatch(expected: Box, found: Box) -> float:
    """Distance of the centres in mean sizes, and how unlike the sizes are; infinite if too unlike."""
    sizes = _size(expected), _size(found)
    ratio = max(sizes) / min(sizes)
    if ratio > _LARGEST_RATIO:
        return math.inf
    return _distance(expected, found) / (sum(sizes) / 2) + 0.3 * math.log(ratio)


def _distance(a: Box, b: Box) -> float:
    (x0, y0), (x1, y1) = a.centre, b.centre
    return math.hypot(x1 - x0, y1 - y0)
