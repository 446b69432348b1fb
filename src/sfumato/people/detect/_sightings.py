"""One look at one picture by several detectors: who is there, each person once.

People by their bodies first; a face inside a body belongs to it, any other face is somebody whose body
is not seen. Nothing that any detector finds is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from sfumato.media import Image
from sfumato.people._anatomy import body_circle, head_by_face, head_by_joints, head_of, no_joints
from sfumato.people._boxes import Box, hull, iou
from sfumato.people._person import Joints
from sfumato.people.detect._protocols import Pose, PoseEstimator
from sfumato.people.detect._tiles import brightened

SAME = 0.5  # overlap from which boxes of two networks are one person
_PART, _SURE_PART = (
    0.8,
    0.35,
)  # a box that lies inside another by so much is a part of it, unless sure
_IN_GROUP = 0.8  # of somebody who belongs to a group
_LOW_IN_BODY = 0.6  # a face lies in the upper part of an upright body
_SURE_FACE, _GIANT = 0.5, 0.35
_FILLS = 0.95  # of the picture's width or height
_SMALLEST_POSE = 40  # pixels: joints of smaller people say nothing
# the 17 joints of COCO among the 33 landmarks of BlazePose
_COCO = [0, 2, 5, 7, 8, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28]
_LIKELY_HEAD = 0.15
_THOROUGH = 900  # pixels of the longer side of a single picture
_NEAR, _IN_NEAR = 0.25, 0.75  # of the picture, of whoever lies in the box of somebody so near
SOLID = 0.4  # score from which one network's word is enough
_AGREED = (
    0.25  # score from which two networks' word is: what both hardly see may be a van or a tree
)
_SAME_HEAD = 0.7  # of their mean size: heads whose middles are nearer than that are one


# box, joints, who found it, and whether that is enough to believe it
Body = tuple[Box, Joints, tuple[str, ...], bool]


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
    bodies: list[Body] = []
    free = list(boxes)
    for box, joints in jointed:
        match = max(free, key=lambda other: iou(box, other), default=None)
        if match is not None and iou(box, match) >= SAME:
            free.remove(match)
            both = replace(hull([box, match]), score=max(box.score, match.score))
            bodies.append((both, joints, (box.source, match.source), both.score >= _AGREED))
        else:
            bodies.append((box, joints, (box.source,), box.score >= SOLID))
    for box in free:
        inside = any(
            other.covers(box) >= _PART and _is_part(box, other, joints)
            for other, joints, _, _ in bodies
        )
        same = any(iou(other, box) >= SAME for other, *_ in bodies)
        if not inside and not same:
            bodies.append((box, no_joints(), (box.source,), box.score >= SOLID))
    people = [body for body in bodies if not _is_group(body, bodies)]
    return _with_faces(people, faces, birth)


def _is_group(body: Body, everybody: Sequence[Body]) -> bool:
    """Whether a doubtful box without joints is drawn around several people who were found each."""
    box, joints, _, solid = body
    if solid or joints[:, 2].any():
        return False
    inside = [
        other
        for other, _, sources, sure in everybody
        if (sure or len(sources) > 1) and other is not box and box.covers(other) >= _IN_GROUP
    ]
    return len(inside) > 1


def _is_part(box: Box, whole: Box, joints: Joints) -> bool:
    """Whether a box inside another is a part of that person, and not somebody in front or behind."""
    if box.score >= _SURE_PART:
        return False
    head = head_by_joints(joints, whole)
    own = (box.centre[0], box.y0 + 0.15 * box.height)
    # one who has a head of their own, at the height of heads
    return head is None or own[1] > head.y1 + head.height or _holds(head.scale(1.6), own)


def _holds(box: Box, point: tuple[float, float]) -> bool:
    return box.x0 <= point[0] <= box.x1 and box.y0 <= point[1] <= box.y1


def _with_faces(
    bodies: list[Body],
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
        sure = solid or (face is not None and max(face[0].score, box.score) >= _AGREED)
        found.append(Sighting(box, joints, head, sources, True, sure, faint))
    tallest = max((box.height for box, *_ in bodies), default=np.inf)
    for alone, names in left:
        if len(names) == 1 and alone.score < _SURE_FACE and alone.height > _GIANT * tallest:
            continue  # a face as large as people are tall: a floor, a wall
        around = head_by_face(alone)
        found.append(Sighting(around, no_joints(), around, names, False, len(names) > 1))
    return found


def near_people_once(
    found: Sequence[Sighting], width: int, height: int, faces: set[str]
) -> list[Sighting]:
    """Everybody, without the doubtful finds on somebody near the camera: a network that knows whole people
    takes a shoulder for one, or sees the face of whom another one sees the body. ``faces`` are the names of
    those who found faces: one with a face of their own is somebody else."""
    kept = list(found)
    for near in found:
        if not _is_near(near, width, height):
            continue
        box = near.box.clip(width, height)
        shown = near.joints[:, 2].any() or faces.intersection(near.sources)
        for one in found:
            inside = one.body and one.score < _SURE_PART and box.covers(one.box.clip(width, height))
            if one is near or inside < _IN_NEAR or one not in kept or near not in kept:
                continue
            face = faces.intersection(one.sources)
            if shown and not face:
                kept.remove(one)
            elif face and not shown:  # the face of the very body
                kept.remove(one)
                sources = (*near.sources, *one.sources)
                whole = replace(near, joints=one.joints, head=one.head, sources=sources)
                kept[kept.index(near)] = whole
                break
    return kept


def _is_near(one: Sighting, width: int, height: int) -> bool:
    """Whether somebody who is surely there fills a large part of the picture."""
    large = one.box.clip(width, height).area >= _NEAR * width * height
    return large and one.body and one.score >= SOLID


def _below_head(one: Sighting, x: float, y: float, sure: float) -> bool:
    """Whether a doubtful head lies on somebody's body: a shoulder, a hand, a pattern of the clothes."""
    return sure < _SURE_PART and _holds(one.box, (x, y)) and y > one.head.y1


def _agreed(faces: Sequence[Box]) -> list[tuple[Box, tuple[str, ...]]]:
    """Faces with the names of those who found them; of two boxes of one face the first detector's, whose
    boxes are the tighter ones, unless they agree on the place only."""
    agreed: list[tuple[Box, tuple[str, ...]]] = []
    for face in faces:
        for i, (box, names) in enumerate(agreed):
            if face.source not in names and _one_face(face, box):
                agreed[i] = (
                    box if iou(face, box) >= 0.5 else hull([box, face]),
                    (*names, face.source),
                )
                break
        else:
            agreed.append((face, (face.source,)))
    return agreed


def _one_face(a: Box, b: Box) -> bool:
    return iou(a, b) >= 0.2 or max(a.covers(b), b.covers(a)) > 0.7


def thorough(look: Look, image: Image) -> list[Sighting]:
    """Everybody in a single picture, which no other frame helps with: it is looked at turned all ways, and
    a small one enlarged too, in tiles."""
    factor = _THOROUGH / max(image.shape[:2])
    found = look(image, turns=(2, 1, 3))
    if factor <= 1:
        return found
    size = round(image.shape[1] * factor), round(image.shape[0] * factor)
    large = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), np.uint8)
    wider, higher = image.shape[1] / size[0], image.shape[0] / size[1]
    scale = np.array([wider, higher, 1], np.float32)

    def back(box: Box) -> Box:
        return replace(
            box, x0=box.x0 * wider, y0=box.y0 * higher, x1=box.x1 * wider, y1=box.y1 * higher
        )

    more = [
        replace(one, box=back(one.box), head=back(one.head), joints=one.joints * scale)
        for one in look(large)
    ]
    missed = [  # a faint one begins no track, so it answers for nobody else
        one
        for one in found
        if all(iou(one.box, other.box) < SAME for other in more if one.faint or not other.faint)
    ]
    return [*more, *missed]


def with_loose_heads(
    heads: Sequence[tuple[float, float, float]], found: Sequence[Sighting]
) -> list[Sighting]:
    """Everybody, and heads (x, y, sure) that nobody who was found has, each as large as that of whoever is
    nearest. One that lies half on somebody's head is that head, whose joints were a little off."""
    everybody = list(found)
    for x, y, sure in sorted(heads, key=lambda head: -head[2]):
        bodies = [one for one in everybody if one.body]
        if not bodies or any(_in_ellipse(one.head, x, y) for one in everybody):
            continue
        near = min(bodies, key=lambda one: _away(one.head, x, y))
        if sure < SOLID and not any(_holds(one.box.scale(1.2), (x, y)) for one in bodies):
            continue
        half = min(
            max(near.head.width, near.head.height) / 2, 0.3 * max(near.box.width, near.box.height)
        )
        head = Box(x - half, y - 1.2 * half, x + half, y + 1.2 * half, sure, "movenet")
        if _away(near.head, x, y) <= _SAME_HEAD * (near.head.width + head.width) / 2:
            wider = replace(hull([near.head, head]), score=near.head.score)
            everybody[everybody.index(near)] = replace(near, head=wider)
        else:
            everybody.append(Sighting(head, no_joints(), head, ("movenet",), False, False))
    return everybody


def _in_ellipse(head: Box, x: float, y: float) -> bool:
    (u, v), a, b = head.centre, max(head.width, 1e-6) / 2, max(head.height, 1e-6) / 2
    return bool(((x - u) / a) ** 2 + ((y - v) / b) ** 2 <= 1)


def _away(head: Box, x: float, y: float) -> float:
    return float(np.hypot(head.centre[0] - x, head.centre[1] - y))


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

    ``bodies`` are person detectors (with joints and heads if they have a method ``look``), ``faces`` are face
    detectors, ``poses`` gives joints to those who have none.
    """

    def __init__(
        self, bodies: Sequence[Any], faces: Sequence[Any], poses: PoseEstimator | None = None
    ) -> None:
        self._bodies, self._faces, self._poses = tuple(bodies), tuple(faces), poses
        every = (*self._bodies, *self._faces)
        self.name = "+".join(each.name for each in every) or "none"
        self.device = ", ".join(dict.fromkeys(each.device for each in every)) or "none"
        self.helpers = () if poses is None else ((f"{poses.name} for joints", poses.device),)
        self.at_once = all(getattr(each, "at_once", False) for each in every)
        # nobody but a detector of one's own: no bundled network is asked beside it
        self.bare = not self._bodies
        self._turning = [each for each in self._bodies if getattr(each, "turns", False)]
        self._birth = {each.name: getattr(each, "birth", 0.0) for each in every}

    def __call__(
        self, image: Image, *, tiles: bool = True, turns: Sequence[int] = ()
    ) -> list[Sighting]:
        """Everybody; without ``tiles`` small people of a large picture are not asked for. Also those
        whom a detector that ``turns`` sees in the picture turned by so many quarters."""
        image = brightened(image)
        jointed: list[tuple[Box, Joints]] = []
        boxes: list[Box] = []
        heads: list[tuple[float, float, float]] = []
        for detector in self._bodies:
            how = {} if tiles or not getattr(detector, "in_tiles", False) else {"tiles": False}
            if hasattr(detector, "look"):
                everybody, peaks = detector.look(image, **how)
                heads += [
                    (float(x), float(y), float(sure))
                    for x, y, sure in peaks
                    if sure >= _LIKELY_HEAD
                ]
                for person in everybody:
                    joints = np.concatenate([person.joints, person.confidence[:, None]], axis=1)
                    jointed.append((person.box, joints.astype(np.float32)))
            else:
                boxes += [_named(box, detector) for box in detector.detect(image, **how)]
        faces = [_named(box, each) for each in self._faces for box in each.detect(image)]
        found = sightings(jointed, boxes, faces, self._birth)
        found = near_people_once(found, image.shape[1], image.shape[0], {f.source for f in faces})
        for quarters in turns if self._turning else ():
            found = self._turned(image, quarters, found)
        if self._poses is not None:
            found = [self._posed(image, one, self._poses) for one in found]
        near = [one for one in found if _is_near(one, image.shape[1], image.shape[0])]
        heads = [head for head in heads if not any(_below_head(one, *head) for one in near)]
        return with_loose_heads(heads, found)

    def _turned(self, image: Image, quarters: int, upright: list[Sighting]) -> list[Sighting]:
        """With those who are seen better, or only, in the picture turned."""
        from sfumato.people.detect._turned import turned_back, with_turned

        how = quarters, image.shape[1], image.shape[0]
        picture = np.ascontiguousarray(np.rot90(image, quarters))
        boxes = [
            _named(box, each) for each in self._turning for box in each.detect(picture, tiles=False)
        ]
        seen = [one for one in sightings([], boxes, [], self._birth) if not one.faint]
        # a pose takes long: that of those who stay, told by their heads
        by_head = {(back := turned_back(one, *how)).head: (one, back) for one in seen}
        everybody = with_turned(upright, [back for _, back in by_head.values()])
        for i, one in enumerate(everybody):
            if self._poses is not None and one.head in by_head:
                posed = turned_back(self._posed(picture, by_head[one.head][0], self._poses), *how)
                everybody[i] = replace(one, joints=posed.joints, head=posed.head)
        return everybody

    def _posed(self, image: Image, one: Sighting, poses: PoseEstimator) -> Sighting:
        """Somebody with a body and without joints, with those that a pose estimator sees there."""
        if not one.body or one.faint or one.joints[:, 2].any() or one.box.height < _SMALLEST_POSE:
            return one
        height, width = image.shape[:2]
        if one.box.width >= _FILLS * width or one.box.height >= _FILLS * height:
            return (
                one  # cut off on both sides: the estimator would invent the rest, and be sure of it
            )
        nobody = np.zeros((33, 3), np.float32)
        place = Pose(nobody, nobody, nobody[:, 0], 1.0, None, 0, body_circle(one.joints, one.box))
        for pose in poses.estimate(image, (place,), False):
            joints = np.concatenate([pose.points[_COCO, :2], pose.visibility[_COCO, None]], axis=1)
            if one.box.scale(1.3).covers(pose.box) > 0.6:
                head = head_of(joints, one.box, None)
                return replace(one, joints=joints, head=head if len(one.sources) == 1 else one.head)
        return one


def _named(box: Box, detector: Any) -> Box:
    return box if box.source else replace(box, source=detector.name)
