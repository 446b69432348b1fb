"""Poses along a video: the same person keeps one number, and short gaps are filled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people._anatomy import body_circle
from sfumato.people._boxes import iou
from sfumato.people._person import Person
from sfumato.people.detect._protocols import Pose, PoseEstimator
from sfumato.people.track._status import DetectorStatus, Review

_SAME_PLACE = 0.2  # overlap of the boxes of a lost and a new pose that are one person


@dataclass(frozen=True, slots=True, eq=False)
class TrackedPoses:
    """Everybody on one frame; ``filled`` are the numbers of those who were interpolated."""

    index: int
    poses: tuple[Pose, ...]
    filled: frozenset[int]


class PoseStream(Iterator[tuple[Frame, TrackedPoses]]):
    """Iterates over (frame, poses); at most ``lookahead`` + 1 frames are in memory."""

    def __init__(
        self,
        frames: Iterable[Frame],
        estimator: PoseEstimator,
        *,
        search_every: int,
        lookahead: int,
    ) -> None:
        if search_every < 1 or lookahead < 0:
            raise SfumatoError(
                f"Expected search_every >= 1 and lookahead >= 0, got {search_every} and "
                f"{lookahead}: correct them."
            )
        self.lookahead = lookahead
        self.status = DetectorStatus(estimator.name, estimator.device)
        self.review = Review()
        self._estimator, self._search_every = estimator, search_every
        self._lost: list[tuple[int, Pose]] = []
        self._people = 0
        self._answers = self._run(frames)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Frame, TrackedPoses]:
        return next(self._answers)

    def _run(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, TrackedPoses]]:
        last: dict[int, tuple[int, Pose]] = {}
        waiting: deque[tuple[int, Frame, dict[int, Pose]]] = deque()
        previous: tuple[Pose, ...] = ()
        for index, frame in enumerate(frames):
            search = index % self._search_every == 0 or not previous
            found = self._estimator.estimate(frame.image, previous, search)
            previous = self._number(index, previous, found)
            self.status.frames += 1
            self.status.looked_at += 1
            self.status.empty += not previous
            waiting.append((index, frame, {pose.person: pose for pose in previous}))
            if len(waiting) > self.lookahead:
                yield self._answer(waiting, last)
        while waiting:
            yield self._answer(waiting, last)
        self.review.close()

    def _number(
        self, index: int, previous: tuple[Pose, ...], found: tuple[Pose, ...]
    ) -> tuple[Pose, ...]:
        """Give new poses the number of a person lost nearby and shortly before, or a fresh one."""
        kept = {pose.person for pose in found}
        self._lost += [(index - 1, pose) for pose in previous if pose.person not in kept]
        self._lost = [(i, pose) for i, pose in self._lost if index - i <= self.lookahead]
        return tuple(
            pose if pose.person >= 0 else replace(pose, person=self._claim(pose)) for pose in found
        )

    def _claim(self, pose: Pose) -> int:
        for entry in sorted(self._lost, key=lambda entry: -iou(entry[1].box, pose.box)):
            if iou(entry[1].box, pose.box) >= _SAME_PLACE:
                self._lost = [one for one in self._lost if one is not entry]
                return entry[1].person
        self._people += 1
        return self._people - 1

    def _answer(
        self,
        waiting: deque[tuple[int, Frame, dict[int, Pose]]],
        last: dict[int, tuple[int, Pose]],
    ) -> tuple[Frame, TrackedPoses]:
        index, frame, now = waiting.popleft()
        poses, filled = dict(now), set()
        for person, (before, old) in last.items():
            if person in now:
                continue
            later = next((w for w in waiting if person in w[2]), None)
            if later is not None:
                part = (index - before) / (later[0] - before)
                poses[person] = between(old, later[2][person], part)
                filled.add(person)
                self.review.note(index, "bridged", person)
        self.status.bridged += bool(filled)
        last.update({person: (index, pose) for person, pose in now.items()})
        for person in [p for p, (i, _) in last.items() if index - i > 2 * self.lookahead + 1]:
            del last[person]
        ordered = tuple(poses[person] for person in sorted(poses))
        return frame, TrackedPoses(index, ordered, frozenset(filled))


def place_of_pose(person: Person) -> Pose:
    """Where a pose estimator shall look for the pose of a person who was found: give it as one of the
    ``previous`` poses."""
    nobody = np.zeros((33, 3), np.float32)
    circle = body_circle(person.joints, person.box)
    return Pose(nobody, nobody, nobody[:, 0], 1.0, None, person.track, circle)


def between(a: Pose, b: Pose, part: float) -> Pose:
    """The pose a ``part`` of the way from ``a`` to ``b``; its mask covers both."""

    def mix(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(x + (y - x) * np.float32(part), dtype=np.float32)

    mask = a.mask | b.mask if a.mask is not None and b.mask is not None else None
    return Pose(
        mix(a.points, b.points),
        mix(a.world, b.world),
        mix(a.visibility, b.visibility),
        min(a.score, b.score),
        mask,
        a.person,
        mix(a.circle, b.circle) if a.circle is not None and b.circle is not None else None,
    )


def poses(
    frames: Iterable[Frame],
    estimator: PoseEstimator,
    *,
    search_every: int = 5,
    lookahead: int = 5,
) -> PoseStream:
    """Follow everybody's landmarks; new people are looked for on every ``search_every``-th frame."""
    return PoseStream(frames, estimator, search_every=search_every, lookahead=lookahead)
