"""One look at one picture by several detectors: who is there, each person once.

People by their bodies first; a face inside a body belongs to it, any other face is somebody whose body
is not seen. Nothing that any detector finds is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.media import Image
from sfumato.people._anatomy import head_by_joints, head_of, no_joints
from sfumato.people._boxes import Box, hull, iou, unite
from sfumato.people._person import Joints

_SAME = 0.5  # overlap from which boxes of two networks are one person
_PART, _SURE_PART = (
    0.8,
    0.35,
)  # a box that lies inside another by so much is a part of it, unless sure
_LOW_IN_BODY = 0.6  # a face lies in the upper part of an upright body
SOLID = 0.4  # score from which one network's word is enough


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """Somebody as one look shows them. ``body`` is false for a face alone; ``solid`` says that the
    look alone is believed; one that is ``faint`` may continue a track and never begins one."""

    box: Box
    joints: Joints
    head: Box
    sources: tuple[str, ...]
    body: bool
    solid: bool
    faint: bool = False

    @property
    def score(self) -> float:
        return self.box.score


def sightings(
    jointed: Sequence[tuple[Box, Joints]],
    boxes: Sequence[Box],
    faces: Sequence[Box],
    birth: dict[str, float],
) -> list[Sighting]:
    """Unite bodies with joints, bodies without and faces of one picture.

    ``birth`` is, by detector, the score below which a find is faint.
    """
    bodies: list[tuple[Box, Joints, tuple[str, ...], bool]] = []
    free = list(boxes)
    for box, joints in jointed:
        match = max(free, key=lambda other: iou(box, other), default=None)
        if match is not None and iou(box, match) >= _SAME:
            free.remove(match)
            both = replace(hull([box, match]), score=max(box.score, match.score))
            bodies.append((both, joints, (box.source, match.source), True))
        else:
            bodies.append((box, joints, (box.source,), box.score >= SOLID))
    for box in free:
        inside = any(
            other.covers(box) >= _PART and (box.score < _SURE_PART or sources[-1] == box.source)
            for other, _, sources, _ in bodies
        )
        same = any(iou(other, box) >= _SAME for other, *_ in bodies)
        if not inside and not same:
            bodies.append((box, no_joints(), (box.source,), box.score >= SOLID))
    return _with_faces(bodies, faces, birth)


def _with_faces(
    bodies: list[tuple[Box, Joints, tuple[str, ...], bool]],
    faces: Sequence[Box],
    birth: dict[str, float],
) -> list[Sighting]:
    left = _agreed(faces)
    found: list[Sighting] = []
    for box, joints, sources, solid in bodies:
        face = _face_of(box, joints, left)
        if face is not None:
            left = [each for each in left if each[0] is not face[0]]
            sources = (*sources, *face[1])
        faint = len(sources) == 1 and box.score < birth.get(sources[0], 0.0)
        head = head_of(joints, box, None if face is None else face[0])
        sure = solid or face is not None
        found.append(Sighting(box, joints, head, sources, True, sure, faint))
    for alone, names in left:
        around = alone.scale(1.3)
        found.append(Sighting(around, no_joints(), around, names, False, len(names) > 1))
    return found


def _agreed(faces: Sequence[Box]) -> list[tuple[Box, tuple[str, ...]]]:
    """Faces with the names of those who found them, two boxes of one face as one."""
    united = unite(faces)
    return [
        (box, tuple(dict.fromkeys(face.source for face in faces if box.covers(face) > 0.7)))
        for box in united
    ]


def _face_of(
    box: Box, joints: Joints, faces: list[tuple[Box, tuple[str, ...]]]
) -> tuple[Box, tuple[str, ...]] | None:
    """The face that belongs to a body: nearest to where its joints put the head."""
    expected = head_by_joints(joints, box)
    best, nearest = None, np.inf
    for face, names in faces:
        if face.area > 0.5 * box.area or box.grow(0, 0.3 * face.height).covers(face) < 0.7:
            continue
        x, y = face.centre
        if expected is not None:
            u, v = expected.centre
            reach = 0.6 * (max(expected.width, expected.height) + max(face.width, face.height))
            away = float(np.hypot(x - u, y - v))
            if away > reach:
                continue
        else:
            away = y - box.y0
            if box.height > box.width and away > _LOW_IN_BODY * box.height:
                continue
        if away < nearest:
            best, nearest = (face, names), away
    return best


class Look:
    """The detectors that search a picture, as one: ``look(image)`` gives everybody, once.

    ``bodies`` are person detectors (with joints if they have a method ``people``), ``faces`` are face
    detectors.
    """

    def __init__(self, bodies: Sequence[Any], faces: Sequence[Any]) -> None:
        self._bodies, self._faces = tuple(bodies), tuple(faces)
        every = (*self._bodies, *self._faces)
        self.name = "+".join(each.name for each in every) or "none"
        self.device = ", ".join(dict.fromkeys(each.device for each in every)) or "none"
        self.at_once = all(getattr(each, "at_once", False) for each in every)
        # nobody but a detector of one's own: no bundled network is asked beside it
        self.bare = not self._bodies
        self._birth = {each.name: getattr(each, "birth", 0.0) for each in every}

    def __call__(self, image: Image) -> list[Sighting]:
        jointed: list[tuple[Box, Joints]] = []
        boxes: list[Box] = []
        for detector in self._bodies:
            if hasattr(detector, "people"):
                for person in detector.people(image):
                    joints = np.concatenate([person.joints, person.confidence[:, None]], axis=1)
                    jointed.append((person.box, joints.astype(np.float32)))
            else:
                boxes += [_named(box, detector) for box in detector.detect(image)]
        faces = [_named(box, each) for each in self._faces for box in each.detect(image)]
        return sightings(jointed, boxes, faces, self._birth)


def _named(box: Box, detector: Any) -> Box:
    return box if box.source else replace(box, source=detector.name)
