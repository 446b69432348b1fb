"""People along a video: who goes on, who is new, who is gone.

One policy. A sighting covers its own frame, always. A track is *believed* after a solid sighting (two
detectors agree, or one is sure) or after its second one. Of a believed track,

- between two sightings box, joints and head are interpolated (*bridged*); somebody who fills much of the
  picture, whom nobody was sure of on either side, no farther than the looks next to a sighting;
- beyond them the person is followed by what the picture shows there, and covered (*held*) as long as
  that is found again: at most ``hold`` frames after the last sighting, ``lookahead`` before the first;
- without that, and where no sighting was solid (a pattern of the floor stays where it is), a few frames
  are held all the same: as many as lie between two looks, and two more.

A body that was seen once by one doubtful detector is held until the neighbouring looks; a face that no
body and no second look or detector supports covers its own frame and no more. A head's size is
at least 0.95 of what it is a frame before and after, so no cover pumps. Nobody goes on across a cut.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Image
from sfumato.people._boxes import Box, hull, iou
from sfumato.people._person import BRIDGED, HELD, People, Person
from sfumato.people.detect._sightings import Sighting
from sfumato.people.track._carry import RecentFrames
from sfumato.people.track._person_masks import beyond_edges
from sfumato.people.track._status import DetectorStatus, OnMiss, Review

_DRIFT = 0.015  # of a held or bridged box's sides that it grows each frame, on every side
_MOST_DRIFT = 0.12
_BEND = 0.25  # of the way of a bridged head that it may be off the straight line
_DAMPING = 0.8  # a held box that is not followed keeps moving, more slowly each frame
_GATE, _GATE_PER_FRAME, _WIDEST_GATE = 0.7, 0.06, 1.5  # of association, in sizes
_FAINT_GATE = 0.5  # what nobody would believe alone continues a track in its place only
_LARGEST_RATIO = 2.5  # two sightings of one person differ at most this much in size
_BLIND = 2  # frames beyond the next look that are held without a look at the picture
_WORTH = 12  # frames of holding that a sighting is worth at most
_MOST_FOR_BOXES = 8  # frames for which a box of one network without joints is held
_STEADY = 0.95
_REACH = 18  # frames: by then the largest sighting of somebody (_LARGEST_RATIO) weighs less than the smallest
_ELSEWHERE, _FAR = 0.4, 2.0  # sizes by which a head may be off its path before both places count
_ANYWHERE = 0.7  # of a box: a head that large is not known to be in any part of it
_GONE = 0.2  # of a box that has to be inside the picture
# of the picture: somebody so large would be seen on most looks. What no look was sure of, and those between did
# not see, is a street before a swinging camera.
_LARGE = 0.15


class MissedPersonError(SfumatoError):
    """A person was not found on a frame and the policy is to fail."""


@dataclass(slots=True)
class _Track:
    number: int
    sightings: dict[int, Sighting]
    first: int
    last: int
    believed: bool
    count: int = 1
    solid: int = 0  # sightings that would be believed alone
    velocity: tuple[float, float] = (0.0, 0.0)
    shot_start: int = 0
    shot_end: float = math.inf
    followed: dict[int, Box | None] = field(default_factory=dict)  # beyond the sightings

    def add(self, index: int, found: Sighting) -> None:
        before, gap = self.sightings[self.last], index - self.last
        step = [(b - a) / gap for a, b in zip(before.box.centre, found.box.centre, strict=True)]
        fresh = 1.0 if len(self.sightings) == 1 else 0.5
        vx, vy = (fresh * s + (1 - fresh) * v for s, v in zip(step, self.velocity, strict=True))
        earlier = max((i for i in self.sightings if i < self.last), default=None)
        if earlier is not None:
            part = (self.last - earlier) / (index - earlier)
            expected = _mixed(self.sightings[earlier].head, found.head, part)
            self.sightings[self.last] = replace(before, head=_either(before.head, expected))
        if found.body and not any(one.body for one in self.sightings.values()):
            # the body of a head that was seen alone until now was there before
            self.sightings = {i: _embodied(one, found) for i, one in self.sightings.items()}
        self.velocity, self.last = (vx, vy), index
        self.sightings[index] = found
        self.believed, self.count = True, self.count + 1
        self.solid += found.solid and found.body
        self.followed = {i: box for i, box in self.followed.items() if i < self.first}

    def expected(self, index: int) -> list[Box]:
        """Where the last box would be by now: if it slowed down, if it did not, and as followed."""
        box, gap = self.sightings[self.last].box, index - self.last
        places = [box.shift(*_coast(self.velocity, gap)), box]
        places.append(box.shift(self.velocity[0] * gap, self.velocity[1] * gap))
        return places


def _coast(velocity: tuple[float, float], frames: int) -> tuple[float, float]:
    reach = (1 - _DAMPING**frames) / (1 - _DAMPING)
    return velocity[0] * reach, velocity[1] * reach


def _size(box: Box) -> float:
    return math.sqrt(max(box.area, 1e-9))


@dataclass
class PersonTracker:
    """The logic without detectors: push sightings frame by frame, take answers."""

    status: DetectorStatus
    lookahead: int = 24
    hold: int = 30
    on_miss: OnMiss = OnMiss.HOLD
    every: int = 1
    review: Review = field(default_factory=Review)
    _tracks: list[_Track] = field(default_factory=list)
    _looked: deque[bool] = field(default_factory=deque)
    _looks: deque[int] = field(default_factory=deque)  # the frames looked at that still matter
    _faint: deque[list[Sighting]] = field(default_factory=deque)
    _newest: int = -1
    _shot_start: int = 0
    _next: int = 0
    _numbers: int = 0
    _shape: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._pictures = RecentFrames(self.hold + self.lookahead + 2)

    def push(
        self,
        image: Image,
        found: Sequence[Sighting] | None,
        *,
        at_all: bool = True,
        cut: bool = False,
    ) -> None:
        """The next frame and what a look found on it, or None when nobody looked. Unless it looked for
        everybody ``at_all``, it says nothing about those it did not find. A ``cut`` begins another shot."""
        looked = found is not None
        self._newest += 1
        if cut:
            self._shot_start = self._newest
            for track in self._tracks:
                track.shot_end = min(track.shot_end, self._newest - 1)
        self._shape = image.shape[0], image.shape[1]
        self._pictures.add(self._newest, image)
        self._looked.append(looked and at_all)
        self.status.frames += 1
        self.status.looked_at += looked
        self.status.empty += looked and not found
        self._faint.append([one for one in found or () if one.faint])
        while len(self._faint) > self.lookahead:
            self._faint.popleft()
        if found is not None:
            if at_all:
                self._looks.append(self._newest)
            self._associate(list(found))

    def answers(self, finished: bool = False) -> Iterator[People]:
        """The frames that can be answered by now: all when ``finished``."""
        while self._next <= self._newest - (0 if finished else self.lookahead):
            yield self._answer(self._next, self._looked.popleft())
            self._next += 1
            self._forget()

    def _associate(self, found: list[Sighting]) -> None:
        index = self._newest
        pairs: list[tuple[float, int, int]] = []
        for row, track in enumerate(self._tracks):
            if index - track.last <= self.lookahead and index <= track.shot_end:
                gate = min(_GATE + _GATE_PER_FRAME * (index - track.last), _WIDEST_GATE)
                costs = [(_mismatch(track, one, index), row, i) for i, one in enumerate(found)]
                pairs += [
                    pair
                    for pair in costs
                    if pair[0] <= (min(gate, _FAINT_GATE) if found[pair[2]].faint else gate)
                ]
        rows, taken = set[int](), set[int]()
        for _, row, column in sorted(pairs):  # the best fit first
            if row not in rows and column not in taken:
                track = self._tracks[row]
                track.add(index, _continued(track.sightings[track.last], found[column]))
                rows.add(row)
                taken.add(column)
        for column, one in enumerate(found):
            if column not in taken and not one.faint:
                self._begin(one)

    def _begin(self, one: Sighting) -> None:
        track = _Track(self._numbers, {self._newest: one}, self._newest, self._newest, one.solid)
        track.solid, track.shot_start = one.solid and one.body, self._shot_start
        self._tracks.append(track)
        self._numbers += 1
        self._extend_back(track)

    def _extend_back(self, track: _Track) -> None:
        """Faint sightings before the first one, which nobody believed then, belong to it now."""
        for back, faint in enumerate(reversed(list(self._faint)[:-1]), start=1):
            index, first = self._newest - back, track.sightings[track.first]
            near = [one for one in faint if iou(one.box, first.box) >= 0.4]
            if (
                near
                and index >= max(self._next, track.shot_start)
                and track.first - index <= 3 * self.every
            ):
                track.sightings[index] = max(near, key=lambda one: iou(one.box, first.box))
                track.first, track.believed, track.count = index, True, track.count + 1
        track.sightings = dict(sorted(track.sightings.items()))

    def _answer(self, index: int, looked: bool) -> People:
        found: list[Person] = []
        blank = False
        for track in self._tracks:
            person = self._person(track, index)
            if person is None:
                continue
            found.append(person)
            if person.evidence == BRIDGED and looked:
                self._miss(index, track)
                blank = blank or self.on_miss is OnMiss.BLANK
            elif person.evidence not in (BRIDGED, HELD) and not track.believed:
                self.review.note(index, "unsure", track.number)
        found = _without_shadows(found)
        for person in found:
            if person.evidence == HELD:
                self.review.note(index, "held", person.track)
        states = {person.evidence for person in found}
        self.status.bridged += looked and BRIDGED in states
        self.status.held += HELD in states
        self.status.blanked += blank
        if blank:
            self.review.note(index, "blank")
        return People(found, index, blank)

    def _miss(self, index: int, track: _Track) -> None:
        if self.on_miss is OnMiss.FAIL:
            raise MissedPersonError(
                f"Expected every person on every frame, but on frame {index} the detectors missed "
                "one who is there before and after: use --on-miss hold or blank, unite more detectors "
                "(a+b), or correct the boxes by hand and import them."
            )
        self.review.note(index, "bridged", track.number)

    def _person(self, track: _Track, index: int) -> Person | None:
        if not track.shot_start <= index <= track.shot_end:
            return None
        seen = track.sightings.get(index)
        if seen is not None:
            evidence, place = "+".join(seen.sources), seen
        elif track.first < index < track.last:
            if self.on_miss is OnMiss.HOLD and self._is_guess(track, index):
                self.review.note(index, "unsure", track.number)
                return None
            evidence, place = BRIDGED, _between(track, index)
        else:
            held = self._held(track, index)
            if held is None:
                return None
            evidence, place = HELD, held
        head = _steady_head(track, index, place.head)
        if head.area > _ANYWHERE * place.box.area:
            # anywhere in a box that ends at an edge, so also in its corner
            head = beyond_edges(head, self._shape[1], self._shape[0])
        return Person(
            track.number, place.box, place.joints, head, evidence, self._shape, body=place.body
        )

    def _is_guess(self, track: _Track, index: int) -> bool:
        """Whether somebody large, seen doubtfully before and after, is missed on looks between that are not
        next to either sighting."""
        before, after = _neighbours(track, index)
        large = _LARGE * self._shape[0] * self._shape[1]
        doubtful = not any(track.sightings[at].solid for at in (before, after))
        sizes = (
            track.sightings[at].box.clip(self._shape[1], self._shape[0]).area
            for at in (before, after)
        )
        if not doubtful or min(sizes) < large:
            return False
        return (
            index - before > self._to_next_look(before, index) + _BLIND
            and after - index > self._to_next_look(after, index) + _BLIND
        )

    def _held(self, track: _Track, index: int) -> Sighting | None:
        """Somebody before the first or after the last sighting, if there is reason to think so."""
        near = track.last if index > track.last else track.first
        away, whom = abs(index - near), track.sightings[near]
        alone = track.count == 1 and not track.believed
        if alone and not whom.body:
            return None
        blind = self._to_next_look(near, index) + (0 if alone else _BLIND)
        most = self.hold if index > near else self.lookahead
        if len(whom.sources) == 1 and not whom.joints[:, 2].any():
            most = min(most, _MOST_FOR_BOXES)  # a doorway looks alike for ever
        if alone and self._looked_again(near, index):
            return None
        if away <= blind:
            box = self._followed(track, near, index) or self._coasted(track, near, index)
        elif not track.solid or away > min(most, _WORTH * track.count):
            return None
        else:
            followed = self._followed(track, near, index)
            if followed is None:
                return None
            box = followed
        inside = box.clip(self._shape[1], self._shape[0])
        if inside.area < _GONE * box.area:
            return None
        return _moved(whom, box, _drift(away))

    def _to_next_look(self, near: int, index: int) -> int:
        """Frames between ``near`` and the next look, on the side where ``index`` lies."""
        gaps = [look - near if index > near else near - look for look in self._looks]
        return min((gap for gap in gaps if gap > 0), default=self.every) - 1

    def _looked_again(self, near: int, index: int) -> bool:
        """Whether somebody looked after frame ``near``, up to ``index``, in either direction of time."""
        low, high = (near + 1, index) if index > near else (index, near - 1)
        return any(low <= look <= high for look in self._looks)

    def _coasted(self, track: _Track, near: int, index: int) -> Box:
        box = track.sightings[near].box
        if index > near:
            return box.shift(*_coast(track.velocity, index - near))
        later = next((i for i in track.sightings if i > near), None)
        if later is None:
            return box
        (x0, y0), (x1, y1) = box.centre, track.sightings[later].box.centre
        gap = later - near
        return box.shift(*_coast(((x0 - x1) / gap, (y0 - y1) / gap), near - index))

    def _followed(self, track: _Track, near: int, index: int) -> Box | None:
        """The box of the sighting ``near`` followed to ``index``, a frame at a time."""
        if index in track.followed:
            return track.followed[index]
        step = 1 if index > near else -1
        before = index - step
        box = track.sightings[near].box if before == near else self._followed(track, near, before)
        if box is not None:
            box = self._pictures.carried(box, before, index)
        if box is not None and not self._pictures.alike(
            track.sightings[near].box, near, box, index
        ):
            box = None
        track.followed[index] = box
        return box

    def _forget(self) -> None:
        """Drop what can no longer matter, so that memory does not depend on the length."""
        horizon = self.hold + self.lookahead
        while self._looks and self._looks[0] < self._newest - horizon:
            self._looks.popleft()
        self._tracks = [track for track in self._tracks if self._newest - track.last <= horizon]
        for track in self._tracks:
            # a sighting before the frame answered last is enough to bridge from; a few more steady heads
            old = [i for i in track.sightings if i < self._next - _REACH - 1][:-1]
            for i in old:
                del track.sightings[i]
            for i in [i for i in track.followed if i < self._next - 1]:
                del track.followed[i]


def _mismatch(track: _Track, found: Sighting, index: int) -> float:
    """How unlike a sighting is to where its track is expected: distances in sizes."""
    known = track.sightings[track.last]
    if known.body and found.body:
        return min(_apart(place, found.box) for place in track.expected(index))
    shifts = [
        (place.centre[0] - known.box.centre[0], place.centre[1] - known.box.centre[1])
        for place in track.expected(index)
    ]
    return 0.2 + min(_apart(known.head.shift(*shift), found.head) for shift in shifts)


def _apart(expected: Box, found: Box) -> float:
    sizes = _size(expected), _size(found)
    ratio = max(sizes) / min(sizes)
    if ratio > _LARGEST_RATIO:
        return math.inf
    (x0, y0), (x1, y1) = expected.centre, found.centre
    away = math.hypot(x1 - x0, y1 - y0) / (sum(sizes) / 2)
    return 0.7 * away + 0.3 * math.log(ratio) + 0.3 * (1 - iou(expected, found))


def _continued(known: Sighting, found: Sighting) -> Sighting:
    """A sighting as its track goes on: of somebody whose face alone is seen the body is thought to be
    where the face says."""
    if found.body or not known.body:
        return found
    (x0, y0), (x1, y1) = known.head.centre, found.head.centre
    box = replace(known.box.shift(x1 - x0, y1 - y0), score=found.score)
    moved = _moved(known, box, 0.0)
    return replace(moved, head=found.head, sources=found.sources, solid=found.solid)


def _embodied(head: Sighting, later: Sighting) -> Sighting:
    """Somebody of whom a head alone was seen, with the body that a later look shows."""
    return replace(_continued(later, head), body=True)


def _moved(known: Sighting, box: Box, growth: float) -> Sighting:
    """The same person in another place, a little larger."""
    (x0, y0), (x1, y1) = known.box.centre, box.centre
    joints = known.joints.copy()
    joints[:, :2] += np.array([x1 - x0, y1 - y0], np.float32)
    grown = box.grow(growth * box.width, growth * box.height)
    head = known.head.shift(x1 - x0, y1 - y0)
    room = growth * max(head.width, head.height)
    return replace(known, box=grown, joints=joints, head=head.grow(room, room))


def _drift(frames: int) -> float:
    return min(_DRIFT * frames, _MOST_DRIFT)


def _neighbours(track: _Track, index: int) -> tuple[int, int]:
    """The sightings before and after a frame."""
    before = max(i for i in track.sightings if i < index)
    return before, min(i for i in track.sightings if i > index)


def _between(track: _Track, index: int) -> Sighting:
    before, after = _neighbours(track, index)
    a, b = track.sightings[before], track.sightings[after]
    part = (index - before) / (after - before)
    growth = _drift(min(index - before, after - index))
    joints = _mixed_joints(a, b, part)
    box = _mixed(a.box, b.box, part)
    grown = box.grow(growth * box.width, growth * box.height)
    head = _mixed(a.head, b.head, part)
    (x0, y0), (x1, y1) = a.head.centre, b.head.centre
    # nobody moves on a straight line: the farther, the more room, most of it in the middle
    bend = _BEND * 4 * part * (1 - part) * math.hypot(x1 - x0, y1 - y0)
    room = growth * max(head.width, head.height) + min(bend, max(head.width, head.height) / 2)
    return Sighting(grown, joints, head.grow(room, room), (), a.body or b.body, False)


def _either(seen: Box, expected: Box) -> Box:
    """The head as it was seen, and also where it should be if that is elsewhere: of two who stand close
    a network may give both the same head."""
    (x0, y0), (x1, y1) = seen.centre, expected.centre
    away, size = math.hypot(x1 - x0, y1 - y0), max(expected.width, expected.height)
    if not _ELSEWHERE * size < away < _FAR * size:
        return seen
    return replace(hull([seen, expected]), score=seen.score)


def _mixed(a: Box, b: Box, part: float) -> Box:
    def mix(x: float, y: float) -> float:
        return x + (y - x) * part

    sides = mix(a.x0, b.x0), mix(a.y0, b.y0), mix(a.x1, b.x1), mix(a.y1, b.y1)
    return Box(*sides, min(a.score, b.score))


def _mixed_joints(a: Sighting, b: Sighting, part: float) -> np.ndarray:
    if not a.joints[:, 2].any() or not b.joints[:, 2].any():
        # one side has none: the other's, as far as its box has moved
        known = a if a.joints[:, 2].any() else b
        return _moved(known, _mixed(a.box, b.box, part), 0.0).joints
    mixed = a.joints + (b.joints - a.joints) * np.float32(part)
    # a joint that one side alone saw is where that side saw it
    for mine, other in ((a.joints, b.joints), (b.joints, a.joints)):
        only = (mine[:, 2] >= 0.2) & (other[:, 2] < 0.2)
        mixed[only] = mine[only]
    return np.asarray(mixed, np.float32)


def _steady_head(track: _Track, index: int, head: Box) -> Box:
    wide, high = head.width, head.height
    for i, other in track.sightings.items():
        if 0 < abs(i - index) <= _REACH:
            part = _STEADY ** abs(i - index)
            wide, high = max(wide, part * other.head.width), max(high, part * other.head.height)
    return head.grow((wide - head.width) / 2, (high - head.height) / 2)


def _without_shadows(found: list[Person]) -> list[Person]:
    """Without those held where somebody is seen: the same person under a new number."""
    seen = [person for person in found if person.evidence not in (HELD, BRIDGED)]
    return [
        person
        for person in found
        if person.evidence != HELD
        or not any(
            iou(person.box, other.box) >= 0.4
            or (other.box.covers(person.box) > 0.8 and other.head is not None)
            for other in seen
        )
    ]
