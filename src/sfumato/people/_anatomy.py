"""What joints say about a body: where the head is, and the least that belongs to the person.

Lengths are in head radii: half of a head's height, hair and chin included, about 14 cm.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.people._boxes import Box, hull
from sfumato.people._person import Joints, paint_ellipse

SEEN = 0.2  # confidence from which a joint is drawn
_LIKELY = 0.12  # that of a limb: an arm too many is better than one in view
_GUESSED = 0.1  # confidence from which a joint helps to place the head
_FACE, _SHOULDERS, _HIPS = slice(0, 5), [5, 6], [11, 12]
# Head radii in units of what can be measured: distances of shoulders, of shoulders and hips, of ears, of
# eyes. Whatever is seen from an angle is shorter, so the largest counts.
_BY_SHOULDERS, _BY_TRUNK, _BY_EARS, _BY_EYES = 0.40, 0.26, 0.9, 1.9
_LEAST, _MOST = 0.05, 0.3  # of the longer side of the box
_TALLER = 1.2
_ROOM = 1.25  # joints of a face lie anywhere on a head that is seen from the side or from behind
_EARS, _HAIR = 0.12, 0.12  # of a face's sides, on either side and above
# a head by its joints is at most so much larger than by its face; than by one of so many pixels, which is exact
_MUCH_LARGER, _EXACT, _HARDLY_LARGER = 1.25, 40, 1.05
_UP = 0.15  # hair: the middle of a head lies above that of eyes, ears and nose
_LIMBS = (  # pairs of joints, half width, and how far the limb goes on beyond the second one
    *((a, a + 2, 0.6, 0.0) for a in (5, 6)),  # upper arms
    *((a, a + 2, 0.5, 1.0) for a in (7, 8)),  # forearms and hands
    *((a, a + 2, 0.85, 0.0) for a in (11, 12)),  # thighs
    *((a, a + 2, 0.65, 0.4) for a in (13, 14)),  # shins and feet
)
_TRUNK = 0.7
_NECK = 0.7
_FOOT, _HAND = 0.45, 0.3


def no_joints() -> Joints:
    return np.zeros((17, 3), np.float32)


def has_trunk(joints: Joints) -> bool:
    """Whether both shoulders and both hips were seen."""
    return bool(joints[[*_SHOULDERS, *_HIPS], 2].min() >= SEEN)


def head_radius(joints: Joints, box: Box) -> float:
    """How large the head must be, from everything that can be measured."""
    longest = max(box.width, box.height)
    sizes = [_LEAST * longest]

    def apart(a: int, b: int, least: float) -> float:
        if min(joints[a, 2], joints[b, 2]) < least:
            return 0.0
        return float(np.linalg.norm(joints[a, :2] - joints[b, :2]))

    sizes.append(_BY_SHOULDERS * apart(5, 6, SEEN))
    sizes.append(_BY_EARS * apart(3, 4, SEEN))
    sizes.append(_BY_EYES * apart(1, 2, SEEN))
    if has_trunk(joints):
        trunk = joints[_SHOULDERS, :2].mean(axis=0) - joints[_HIPS, :2].mean(axis=0)
        sizes.append(_BY_TRUNK * float(np.linalg.norm(trunk)))
    return min(max(sizes), max(_MOST * longest, 0.45 * min(box.width, box.height)))


def head_by_joints(joints: Joints, box: Box) -> Box | None:
    """The box whose ellipse holds the head, by the joints of the face or by the trunk."""
    radius = head_radius(joints, box)
    face = joints[_FACE]
    trusted = face[face[:, 2] >= _GUESSED]
    shoulders = joints[_SHOULDERS][joints[_SHOULDERS, 2] >= _GUESSED, :2]
    hips = joints[_HIPS][joints[_HIPS, 2] >= _GUESSED, :2]
    up = np.array([0.0, -1.0])
    if len(trusted):
        x, y = np.average(trusted[:, :2], axis=0, weights=trusted[:, 2])
        away = np.linalg.norm(trusted[:, :2] - (x, y), axis=1)
        spread = float(np.average(away, weights=trusted[:, 2]))
        radius = max(radius, min(1.6 * spread, 1.4 * radius))
        if len(shoulders):
            up = np.array([x, y]) - shoulders.mean(axis=0)
    elif len(shoulders) and len(hips):
        up = shoulders.mean(axis=0) - hips.mean(axis=0)
        length = max(float(np.linalg.norm(up)), 1e-6)
        x, y = shoulders.mean(axis=0) + up / length * 1.7 * radius
        radius *= 1.2  # a place that was guessed needs more room
    else:
        return None
    up = up / max(float(np.linalg.norm(up)), 1e-6)
    radius *= _ROOM
    x, y = float(x + _UP * radius * up[0]), float(y + _UP * radius * up[1])
    wide, high = (1.0, _TALLER) if abs(up[1]) >= abs(up[0]) else (_TALLER, 1.0)
    return Box(
        x - wide * radius, y - high * radius, x + wide * radius, y + high * radius, box.score
    )


def head_by_box(box: Box) -> Box:
    """Where the head of somebody is of whom only a box is known: the upper part of one who stands,
    anywhere in one who does not."""
    if box.height < 1.2 * box.width:
        return box
    half = min(0.5 * box.width, 0.16 * box.height)
    x = box.centre[0]
    high = max(2.4 * half, 0.2 * box.height)
    # a head may be at either side of a wide box: the person bends or reaches out
    half = max(half, 0.4 * box.width)
    return Box(x - half, box.y0 - 0.05 * high, x + half, box.y0 + high, box.score)


def head_of(joints: Joints, box: Box, face: Box | None) -> Box:
    """One box for the head, around what joints and a face detector say."""
    by_joints = head_by_joints(joints, box)
    if face is None:
        return by_joints or head_by_box(box)
    around = head_by_face(face)
    if by_joints is None or not _near(by_joints, around):
        return around
    # joints say where the head is from any side, a face says better how large it is
    larger = _HARDLY_LARGER if face.height >= _EXACT else _MUCH_LARGER
    most = larger * max(around.width, around.height)
    smaller = min(1.0, most / max(by_joints.width, by_joints.height))
    return hull([by_joints.scale(smaller), around])


def head_by_face(face: Box) -> Box:
    """The head around a face: hair above it, and ears."""
    x, y = _EARS * face.width, _HAIR * face.height
    return Box(face.x0 - x, face.y0 - 1.5 * y, face.x1 + x, face.y1 + 0.5 * y, face.score)


def body_circle(joints: Joints, box: Box) -> Joints:
    """The middle of the hips, and a point above the head on the circle around the body (2, 2): what
    BlazePose wants to know of a person. Without a trunk, the circle around the box."""
    seen = joints[joints[:, 2] >= SEEN, :2]
    if not has_trunk(joints):
        x, y = box.centre
        return np.array([[x, y], [x, y - max(box.width, box.height) / 2]], np.float32)
    hips = joints[_HIPS, :2].mean(axis=0)
    up = joints[_SHOULDERS, :2].mean(axis=0) - hips
    up = up / max(float(np.linalg.norm(up)), 1e-6)
    reach = np.linalg.norm(seen - hips, axis=1).max() + head_radius(joints, box)
    return np.stack([hips, hips + up * reach]).astype(np.float32)


def _near(a: Box, b: Box) -> bool:
    (x, y), (u, v) = a.centre, b.centre
    return (
        float(np.hypot(x - u, y - v)) < 0.6 * (max(a.width, a.height) + max(b.width, b.height)) / 2
    )


def paint_body(
    drawn: npt.NDArray[np.uint8],
    joints: Joints,
    head: Box | None,
    radius: float,
    origin: tuple[float, float],
    slim: float = 1.0,
) -> None:
    """Fill capsules around the joints that were seen, the trunk and the head with ones. Limbs may be
    ``slim``; hands and feet, which networks miss first, are as large as ever."""
    spots = joints[:, :2] - np.array(origin, np.float32) - 0.5
    seen, likely = joints[:, 2] >= SEEN, joints[:, 2] >= _LIKELY
    whole, radius = radius, slim * radius
    for a, b, half, beyond in _LIMBS:
        if likely[a] and likely[b]:
            end = spots[b] + (spots[b] - spots[a]) * _ratio(spots[a], spots[b], beyond * whole)
            _capsule(drawn, spots[a], end, half * radius)
            if b in (9, 10):
                _capsule(drawn, spots[b], end, _HAND * whole)
    for a in (15, 16):
        if likely[a]:
            _capsule(drawn, spots[a], spots[a], _FOOT * whole)
    trunk = [i for i in (*_SHOULDERS, *_HIPS[::-1]) if seen[i]]
    for i, a in enumerate(trunk):
        for b in trunk[i + 1 :]:
            _capsule(drawn, spots[a], spots[b], _TRUNK * radius)
    if len(trunk) >= 3:
        cv2.fillPoly(drawn, [np.rint(spots[trunk]).astype(np.int32)], (1,))
    if head is not None:
        paint_ellipse(drawn, head, origin)
        shoulders = [i for i in _SHOULDERS if seen[i]]
        middle = np.array(head.centre, np.float32) - np.array(origin, np.float32) - 0.5
        for a in shoulders:
            _capsule(drawn, spots[a], middle, _NECK * radius)


def _ratio(a: Joints, b: Joints, length: float) -> float:
    return length / max(float(np.linalg.norm(b - a)), length, 1e-6)


def _capsule(drawn: npt.NDArray[np.uint8], a: Joints, b: Joints, half: float) -> None:
    ends = [(round(float(x)), round(float(y))) for x, y in (a, b)]
    # joints of small people are half a pixel off
    cv2.line(drawn, ends[0], ends[1], (1,), max(1, round(2 * half + 1)))
    for end in ends:
        cv2.circle(drawn, end, max(1, round(half + 0.5)), (1,), -1)
