"""What detectors saw of one person, frame by frame, as the fit over the whole track wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.body import POINTS, Camera, Sightings
from sfumato.media import Image
from sfumato.protect.avatar._scene import OwnPixels

_COCO = {"shoulder": 5, "elbow": 7, "wrist": 9, "hip": 11, "knee": 13, "ankle": 15}
_MEDIAPIPE = {"shoulder": 11, "elbow": 13, "wrist": 15, "hip": 23, "knee": 25, "ankle": 27,
              "toe": 31}  # fmt: skip
_PAIRED = [i for i, name in enumerate(POINTS) if name != "ears"]
_SWAP = [POINTS.index(n.replace("left", "?").replace("right", "left").replace("?", "right"))
         for n in POINTS]  # fmt: skip
_JOINT = 0.2  # confidence from which a joint of MoveNet counts
_SWAPPED = 0.5  # a pose is turned about if that brings it so much nearer to the one before
_WITHOUT_JOINTS = frozenset(("centernet", "centerface", "nanodet"))  # detectors of boxes alone
_FACES = "centerface"
_INSIDE, _AROUND = 0.6, 1.2  # of the landmarks in view must lie in the box, so much larger
_SURE = 0.3  # confidence of the best joint on a frame on which MoveNet saw the person
_NEAR = 7  # frames around one on which MoveNet looked
_ELSEWHERE = 0.12  # of the body's extent: farther apart, the two mean different poses
_HARDLY = 0.1
_SMALLER = 0.6  # of a head's height: neither shoulders nor neck of a body are less
_EXTREMES = [POINTS.index(f"{side}_{end}") for side in ("left", "right") for end in ("hand", "toe")]
_NEARER = [
    POINTS.index(f"{side}_{end}") for side in ("left", "right") for end in ("wrist", "ankle")
]
# landmarks of BlazePose with left and right exchanged
_OTHER_SIDE = [
    0,
    4,
    5,
    6,
    1,
    2,
    3,
    8,
    7,
    10,
    9,
    *(i + 1 if i % 2 else i - 1 for i in range(11, 33)),
]
_SURELY = 0.5  # mean confidence from which MoveNet tells left from right
_CONFIRMS = 7  # joints of MoveNet that tell that a whole body is in view
_ARM_DEPTH, _ANKLE_AHEAD = 1.4, 0.04  # chosen on staged clips of seeds 11 and 12
_SHOULDERS, _HIPS = (
    [POINTS.index(f"{side}_{end}") for side in ("left", "right")] for end in ("shoulder", "hip")
)
_ARMS, _LEGS = (
    [[POINTS.index(f"{side}_{end}") for end in ends] for side in ("left", "right")]
    for ends in (("shoulder", "elbow", "wrist", "hand"), ("ankle", "toe"))
)
_EYES, _EARS, _HEAD_TALL = (
    0.063,
    0.15,
    (0.16, 0.34),
)  # metres: apart, and how tall a head box may be
_BELOW, _WIDE, _INFERRED = (
    0.2,
    0.34,
    0.5,
)  # metres from ears to shoulders, and between these; their trust
_HEAD_USUAL, FACE_LOOKS = 0.27, 3  # metres that a head box is tall; looks that saw a face
_FACE_SMALLEST, _FACE_LARGEST = (
    28,
    0.45,
)  # pixels of a head that is seen alone; of the picture's height
_FACE_STEADY = 0.1  # by which its size may change
_EARS_AT = POINTS.index("ears")
_BINS = 4  # of each colour in what a person looks like
_LOOKS = 12  # frames of a track that say what the person looks like


def _weights() -> npt.NDArray[np.float32]:
    """(17, 33): which landmarks of BlazePose make our points."""
    out = np.zeros((len(POINTS), 33), np.float32)
    for i, name in enumerate(POINTS):
        side, _, end = name.rpartition("_")
        off = int(side == "right")
        if name == "ears":
            out[i, [7, 8]] = 0.5
        elif end == "hand":
            out[i, [17 + off, 19 + off]] = 0.5
        else:
            out[i, _MEDIAPIPE[end] + off] = 1
    return out


_FROM_33 = _weights()


@dataclass(frozen=True, eq=False)
class Sighted:
    """One person on one frame; pixels of the whole picture, metres about the hips."""

    region: OwnPixels | None
    box: people.Box
    joints: npt.NDArray[np.float32]  # (17, 3) of MoveNet, confidence 0 where not seen on this frame
    pose: people.Pose | None = None
    head: people.Box | None = None
    face: bool = False  # whether a detector of faces saw it on this frame


@dataclass(eq=False)
class Seen:
    """Everything seen of one person, by frame of the recording."""

    number: int
    frames: dict[int, Sighted] = field(default_factory=dict)
    looks: list[npt.NDArray[np.float32]] = field(default_factory=list)
    lengths: npt.NDArray[np.float64] | None = None  # of bones, once enough was seen
    settled: dict[int, npt.NDArray[np.float64]] = field(
        default_factory=dict
    )  # points already drawn

    def add(self, t: int, person: people.Person, pose: people.Pose | None, image: Image) -> None:
        seen_now = person.state == "seen"
        joints = person.joints.copy()
        # joints of somebody whom only these found are those that BlazePose sees in any box
        joints[:, 2] *= seen_now and not _WITHOUT_JOINTS.issuperset(person.evidence.split("+"))
        region = None
        if person.cut is not None and person.window is not None and person.cut.size:
            region = OwnPixels(person.window, person.cut, looked=seen_now)
        face = person.head is not None and _FACES in person.evidence.split("+")
        self.frames[t] = Sighted(region, person.box, joints, pose, person.head, face)
        if seen_now and region is not None and len(self.looks) < _LOOKS:
            look = appearance(image, region)
            if look is not None:
                self.looks.append(look)

    def forget_before(self, t: int) -> None:
        for frame in [frame for frame in self.frames if frame < t]:
            del self.frames[frame]
        for frame in [frame for frame in self.settled if frame < t]:
            del self.settled[frame]


def appearance(image: Image, region: OwnPixels) -> npt.NDArray[np.float32] | None:
    """Colours of the upper and the lower half of a person, as two histograms."""
    part, rows = image[region.window], region.cut.shape[0]
    parts = []
    for half in (slice(0, rows // 2), slice(rows // 2, rows)):
        mask = region.cut[half].astype(np.uint8)
        if mask.sum() < 30:
            return None
        bins = [_BINS] * 3
        hist = cv2.calcHist(
            [np.ascontiguousarray(part[half])], [0, 1, 2], mask, bins, [0, 256] * 3
        ).ravel()
        parts.append(hist / max(float(hist.sum()), 1.0))
    return np.asarray(np.concatenate(parts) / 2, np.float32)


def alike(one: Seen, two: Seen) -> float:
    """How much two people look alike, from 0 to 1; 0 if one of them was hardly seen."""
    if len(one.looks) < 3 or len(two.looks) < 3:
        return 0.0
    a, b = np.mean(one.looks, axis=0), np.mean(two.looks, axis=0)
    return float(np.minimum(a, b).sum())


def estimated(
    poses: people.PoseEstimator, image: Image, places: Sequence[people.Pose], *, mirrored: bool
) -> list[people.Pose]:
    """Poses at given places. Every other look is at the mirrored picture: what the network errs by on one
    side it then errs by on the other, and the fit over time takes the mean."""
    if not mirrored:
        return list(poses.estimate(image, tuple(places), False))
    width = image.shape[1]
    there = tuple(_mirrored(place, width) for place in places)
    found = poses.estimate(np.ascontiguousarray(image[:, ::-1]), there, False)
    return [_mirrored(pose, width) for pose in found]


def _mirrored(pose: people.Pose, width: int) -> people.Pose:
    across = np.array([-1, 1, 1], np.float32)
    points = pose.points[_OTHER_SIDE] * across + np.array([width, 0, 0], np.float32)
    circle = pose.circle
    if circle is not None:
        circle = circle * across[:2] + np.array([width, 0], np.float32)
    mask = None if pose.mask is None else np.ascontiguousarray(pose.mask[:, ::-1])
    world, visible = pose.world[_OTHER_SIDE] * across, pose.visibility[_OTHER_SIDE]
    return replace(pose, points=points, world=world, visibility=visible, mask=mask, circle=circle)


def belongs(pose: people.Pose, box: people.Box) -> bool:
    """Whether a pose is that of the person in the box, and not of somebody beside or of a pattern."""
    around = box.scale(_AROUND)
    x, y = pose.points[:, 0], pose.points[:, 1]
    inside = (x > around.x0) & (x < around.x1) & (y > around.y0) & (y < around.y1)
    view = pose.visibility > 0.5
    if view.sum() < 4:
        return False
    return bool(inside[view].mean() >= _INSIDE)


def sightings(seen: Seen, first: int, last: int, camera: Camera) -> Sightings:
    """What was seen on frames ``first`` to ``last`` (not included)."""
    count = last - first
    pixels, trust = np.zeros((2, count, 17, 2)), np.zeros((2, count, 17))
    local, local_trust = np.zeros((count, 17, 3)), np.zeros((count, 17))
    carried, sure = _carried(seen, first, last)
    whole = _whole_bodies(seen)
    for t, sighted in seen.frames.items():
        if not first <= t < last:
            continue
        i = t - first
        pose = sighted.pose
        if pose is not None:
            visible = _FROM_33 @ pose.visibility
            spots = np.asarray(_FROM_33 @ pose.points[:, :2], np.float64)
            near = [known for known in whole if abs(known - t) <= _NEAR]
            if near or not _squeezed(pose, sighted.head):
                pixels[0, i] = spots
                trust[0, i] = visible * _in_view(spots, camera)
                local[i] = _corrected(_turned(_FROM_33 @ pose.world, pose, camera))
                local_trust[i] = 0.25 + 0.75 * visible
        if sighted.joints[:, 2].any():
            pixels[1, i] = carried[i]
            trust[1, i] = np.where(sure[i] >= _JOINT, np.minimum(1.0, 1.5 * sure[i]), 0)
    _turn_about(pixels, trust, local, local_trust, carried, sure)
    _hear_both(pixels, trust, local_trust, np.array([
        seen.frames[t].joints[:, 2].max() if t in seen.frames else 0 for t in range(first, last)
    ]))  # fmt: skip
    for t, sighted in seen.frames.items():
        if first <= t < last and trust[1, t - first, _SHOULDERS].max() == 0:
            shoulders = shoulders_below(sighted)
            if shoulders is not None:
                pixels[1, t - first, _SHOULDERS] = shoulders
                trust[1, t - first, _SHOULDERS] = _INFERRED
    for t in faces_alone(seen, camera):
        head = seen.frames[t].head
        if first <= t < last and head is not None:
            _below_head(pixels[1, t - first], trust[1, t - first], head)
            trust[0, t - first] = local_trust[t - first] = 0
    cx, cy = camera.principal
    return Sightings((pixels - [cx, cy]) / camera.focal, trust, local, local_trust)


def pixels_a_metre(sighted: Sighted) -> float | None:
    """How large a person is whose face MoveNet saw, by eyes, ears and head; None without a face."""
    face = sighted.joints[:5]
    if (face[1:3, 2] < _JOINT).any() or (face[3:, 2] < _JOINT).all():
        return None
    eyes = float(np.linalg.norm(face[1, :2] - face[2, :2])) / _EYES
    ears = float(np.linalg.norm(face[3, :2] - face[4, :2])) / _EARS
    if sighted.head is None:
        return max(eyes, ears)
    tall = [sighted.head.height / metres for metres in _HEAD_TALL]
    return float(np.clip(max(eyes, ears), min(tall), max(tall)))


def faces_alone(seen: Seen, camera: Camera) -> list[int]:
    """Frames on which a detector of faces saw somebody of whom no joints were ever seen.

    Several times and at one size: a face that is now large and now small is a pattern, or somebody who
    is too near for a pose; none then.
    """
    if any((each.joints[:, 2] >= _JOINT).sum() >= 4 for each in seen.frames.values()):
        return []
    tall = {t: e.head.height for t, e in seen.frames.items() if e.face and e.head is not None}
    usual = float(np.median([*tall.values()])) if tall else 0.0
    if not _FACE_SMALLEST <= usual <= _FACE_LARGEST * camera.height:
        return []
    steady = [t for t, height in tall.items() if abs(height / usual - 1) <= _FACE_STEADY]
    return steady if len(steady) >= FACE_LOOKS else []


def _below_head(
    pixels: npt.NDArray[np.float64], trust: npt.NDArray[np.float64], head: people.Box
) -> None:
    """Ears and shoulders of somebody upright, by the head alone: one who faces the camera."""
    x, y = head.centre
    scale = head.height / _HEAD_USUAL
    pixels[_EARS_AT], trust[_EARS_AT] = (x, y), _INFERRED
    for side, j in zip((1, -1), _SHOULDERS, strict=True):
        pixels[j] = (x + side * _WIDE / 2 * scale, y + _BELOW * scale)
        trust[j] = _INFERRED


def shoulders_below(sighted: Sighted) -> npt.NDArray[np.float64] | None:
    """Where the shoulders (2, 2) of a face must be, left and right, of somebody who is upright.

    Near the camera a face is all that is seen for sure; without them it would have no size.
    """
    scale = pixels_a_metre(sighted)
    if scale is None:
        return None
    ears = sighted.joints[3:5, :2].astype(np.float64)
    # the left ear of a face that is seen lies on the right
    side = 1.0 if sighted.joints[1, 0] >= sighted.joints[2, 0] else -1.0
    neck = ears.mean(axis=0) + np.array([0.0, _BELOW * scale])
    half = np.array([side * _WIDE / 2 * scale, 0.0])
    return np.stack([neck + half, neck - half])


def _carried(
    seen: Seen, first: int, last: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """MoveNet's joints as our points (T, 17, 2), carried between its looks, and how sure (T, 17) the nearest
    look was; 0 where there was none shortly before or after."""
    places, sure = np.zeros((last - first, 17, 2)), np.zeros((last - first, 17))
    looks = {t: each.joints for t, each in seen.frames.items() if each.joints[:, 2].any()}
    times = np.array(sorted(looks))
    for t, sighted in seen.frames.items():
        if not first <= t < last:
            continue
        near = times[np.abs(times - t).argmin()] if len(times) else t - _NEAR - 1
        for j, name in enumerate(POINTS):
            side, _, end = name.rpartition("_")
            which = [3, 4] if name == "ears" else [_COCO[end] + (side == "right")] \
                if end in _COCO else []  # fmt: skip
            if which and abs(near - t) <= _NEAR:
                places[t - first, j] = sighted.joints[which, :2].mean(0)
                sure[t - first, j] = looks[int(near)][which, 2].min()
    return places, sure


def _whole_bodies(seen: Seen) -> list[int]:
    """Frames on which MoveNet has most joints of a whole body where the pose has them, left and right aside."""
    found = []
    for t, sighted in seen.frames.items():
        places, sure = _carried(seen, t, t + 1)
        known = sure[0] >= _SURE
        if sighted.pose is None or known.sum() < _CONFIRMS or not sighted.joints[:, 2].any():
            continue
        spots = _FROM_33 @ sighted.pose.points[:, :2]
        size = max(float(np.ptp(places[0, known], axis=0).max()), 1.0)
        gaps = [np.linalg.norm((e - places[0])[known], axis=1) for e in (spots, spots[_SWAP])]
        if np.median(np.minimum(*gaps)) <= _ELSEWHERE * size:
            found.append(t)
    return found


def _squeezed(pose: people.Pose, head: people.Box | None) -> bool:
    """Whether a whole body was squeezed into what shows a head and shoulders: head and pose are of
    different sizes."""
    shoulders, ears = pose.points[[11, 12], :2], pose.points[[7, 8], :2]
    width = np.linalg.norm(shoulders[0] - shoulders[1])
    neck = np.linalg.norm(shoulders.mean(0) - ears.mean(0))
    return head is not None and bool(max(width, neck) < _SMALLER * head.height)


def _corrected(local: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Metres about the hips without what the network errs by always (seen on staged clips): arms reach
    farther from or towards the camera than it says, and its ankles lie behind the joint."""
    out = local.copy()
    across = local[_SHOULDERS[0]] - local[_SHOULDERS[1]] + local[_HIPS[0]] - local[_HIPS[1]]
    ahead = np.cross(across, local[_SHOULDERS].mean(0) - local[_HIPS].mean(0))
    ahead /= max(float(np.linalg.norm(ahead)), 1e-6)
    for arm, leg in zip(_ARMS, _LEGS, strict=True):
        out[arm[1:], 2] += (_ARM_DEPTH - 1) * (local[arm[1:], 2] - local[arm[0], 2])
        out[arm[3], 2] = out[arm[2], 2] + local[arm[3], 2] - local[arm[2], 2]
        out[leg] += _ANKLE_AHEAD * ahead
    return out


def _in_view(spots: npt.NDArray[np.float64], camera: Camera) -> npt.NDArray[np.bool_]:
    room = 0.03 * max(camera.width, camera.height)
    x, y = spots[:, 0], spots[:, 1]
    return np.asarray(
        (x > -room) & (x < camera.width + room) & (y > -room) & (y < camera.height + room)
    )


def _turned(
    world: npt.NDArray[np.float32], pose: people.Pose, camera: Camera
) -> npt.NDArray[np.float64]:
    """Metres about the hips along the camera's axes: the network sees a crop as if it were in the
    middle of the picture."""
    cx, cy = camera.principal
    hips = pose.points[[23, 24], :2].mean(0)
    ray = np.array([(hips[0] - cx) / camera.focal, (hips[1] - cy) / camera.focal, 1.0])
    ray /= np.linalg.norm(ray)
    axis = np.cross([0.0, 0.0, 1.0], ray)
    angle = float(np.arccos(np.clip(ray[2], -1, 1)))
    length = np.linalg.norm(axis)
    if length < 1e-9:
        return np.asarray(world, np.float64)
    turn, _ = cv2.Rodrigues(axis / length * angle)
    return np.asarray(world @ turn.T, np.float64)


def _turn_about(
    pixels: npt.NDArray[np.float64],
    trust: npt.NDArray[np.float64],
    local: npt.NDArray[np.float64],
    local_trust: npt.NDArray[np.float64],
    carried: npt.NDArray[np.float64],
    sure: npt.NDArray[np.float64],
) -> None:
    """Left and right of a pose are as MoveNet has them where it is sure; elsewhere a pose that has them the
    other way round than before is put back, and so is an unsure MoveNet."""

    def swap(t: int) -> None:
        for each in (pixels[0], trust[0], local, local_trust):
            each[t] = each[t][_SWAP]

    last: npt.NDArray[np.float64] | None = None
    for t in (int(each) for each in np.flatnonzero(trust[0].max(axis=1) > 0)):
        straight, crossed, how_sure = _either_way(pixels[0, t], carried[t], sure[t])
        if how_sure >= _SURELY:
            if crossed < _SWAPPED * straight:
                swap(t)
        elif last is not None:
            size = max(float(np.ptp(pixels[0, t], axis=0).max()), 1.0)
            before, turned = _apart(last, pixels[0, t]), _apart(last, pixels[0, t][_SWAP])
            if turned < _SWAPPED * before and before > 0.05 * size:
                swap(t)
        last = pixels[0, t].copy()
        straight, crossed, _ = _either_way(pixels[0, t], pixels[1, t], trust[1, t])
        if crossed < _SWAPPED * straight:
            pixels[1, t], trust[1, t] = pixels[1, t][_SWAP], trust[1, t][_SWAP]


def _either_way(
    spots: npt.NDArray[np.float64], other: npt.NDArray[np.float64], sure: npt.NDArray[np.float64]
) -> tuple[float, float, float]:
    """How far two sets of joints are apart as they are and with left and right exchanged, and how sure the
    second is of both sides; (0, 0, 0) if it knows too few of them."""
    both = [j for j in _PAIRED if min(sure[j], sure[_SWAP[j]]) > _JOINT]
    if len(both) < 4:
        return 0.0, 0.0, 0.0
    straight = np.linalg.norm(spots[both] - other[both], axis=1).mean()
    crossed = np.linalg.norm(spots[both] - other[_SWAP][both], axis=1).mean()
    return float(straight), float(crossed), float(np.mean(sure[both]))


def _hear_both(
    pixels: npt.NDArray[np.float64],
    trust: npt.NDArray[np.float64],
    local_trust: npt.NDArray[np.float64],
    looked: npt.NDArray[np.float64],
) -> None:
    """BlazePose wants a whole body and squeezes one into whatever is in view: it is not heard where MoveNet
    has the joints elsewhere, and hardly on joints that MoveNet does not see around that time."""
    times = np.flatnonzero(looked >= _SURE)
    for t in (int(each) for each in times):
        both = np.minimum(trust[0, t], trust[1, t]) > _JOINT
        if both.sum() >= 3:
            size = max(float(np.ptp(pixels[1, t, trust[1, t] > 0], axis=0).max()), 1.0)
            gap = np.linalg.norm(pixels[0, t, both] - pixels[1, t, both], axis=1)
            if np.median(gap) > _ELSEWHERE * size:
                near = slice(max(0, t - _NEAR // 3), t + _NEAR // 3 + 1)
                trust[0, near], local_trust[near] = 0, 0
    for t in range(len(local_trust)):
        around = times[np.abs(times - t) <= _NEAR]
        if not len(around):
            continue
        unseen = trust[1, around].max(axis=0) < _JOINT
        unseen[_EXTREMES] = unseen[_NEARER]
        trust[0, t, unseen] *= _HARDLY
        local_trust[t, unseen] *= _HARDLY


def _apart(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    return float(np.linalg.norm(a[_PAIRED] - b[_PAIRED], axis=1).mean())
