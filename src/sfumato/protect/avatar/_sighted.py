"""What detectors saw of one person, frame by frame, as the fit over the whole track wants it."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    head: float = 0.0  # pixels of height, 0 if unknown


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
        joints[:, 2] *= seen_now
        region = None
        if person.cut is not None and person.window is not None and person.cut.size:
            region = OwnPixels(person.window, person.cut)
        head = 0.0 if person.head is None else person.head.height
        self.frames[t] = Sighted(region, person.box, joints, pose, head)
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
    for t, sighted in seen.frames.items():
        if not first <= t < last:
            continue
        i = t - first
        pose = sighted.pose
        if pose is not None and not _squeezed(pose, sighted.head):
            pixels[0, i] = _FROM_33 @ pose.points[:, :2]
            visible = _FROM_33 @ pose.visibility
            trust[0, i] = visible * _in_view(pixels[0, i], camera)
            local[i] = _turned(_FROM_33 @ pose.world, pose, camera)
            local_trust[i] = 0.25 + 0.75 * visible
        for j, name in enumerate(POINTS):
            side, _, end = name.rpartition("_")
            which = [3, 4] if name == "ears" else [_COCO[end] + (side == "right")] \
                if end in _COCO else []  # fmt: skip
            if which and sighted.joints[which, 2].min() >= _JOINT:
                pixels[1, i, j] = sighted.joints[which, :2].mean(0)
                trust[1, i, j] = min(1.0, 1.5 * float(sighted.joints[which, 2].min()))
    _turn_about(pixels, trust, local, local_trust)
    _hear_both(pixels, trust, local_trust, np.array([
        seen.frames[t].joints[:, 2].max() if t in seen.frames else 0 for t in range(first, last)
    ]))  # fmt: skip
    cx, cy = camera.principal
    return Sightings((pixels - [cx, cy]) / camera.focal, trust, local, local_trust)


def _squeezed(pose: people.Pose, head: float) -> bool:
    """Whether a whole body was squeezed into what shows a head and shoulders: head and pose are of
    different sizes."""
    shoulders, ears = pose.points[[11, 12], :2], pose.points[[7, 8], :2]
    width = np.linalg.norm(shoulders[0] - shoulders[1])
    neck = np.linalg.norm(shoulders.mean(0) - ears.mean(0))
    return bool(max(width, neck) < _SMALLER * head)


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
) -> None:
    """Left and right that change places for some frames are put back, and MoveNet is not heard where it
    has them the other way round than the rest of the track."""
    last: npt.NDArray[np.float64] | None = None
    turned, state = np.zeros(len(local), bool), False
    posed = trust[0].max(axis=1) > 0
    for t in np.flatnonzero(posed):
        spots = pixels[0, t]
        if last is not None:
            size = max(float(np.ptp(spots, axis=0).max()), 1.0)
            straight, crossed = _apart(last, spots), _apart(last, spots[_SWAP])
            if crossed < _SWAPPED * straight and straight > 0.05 * size:
                state = not state
        turned[t], last = state, spots
    if turned[posed].mean() > 0.5 if posed.any() else False:
        turned = posed & ~turned
    pixels[0, turned] = pixels[0, turned][:, _SWAP]
    trust[0, turned] = trust[0, turned][:, _SWAP]
    local[turned] = local[turned][:, _SWAP]
    local_trust[turned] = local_trust[turned][:, _SWAP]
    both = np.flatnonzero((trust[0].max(axis=1) > 0) & (trust[1].max(axis=1) > 0))
    for t in both:
        sure = [j for j in _PAIRED if min(trust[0, t, j], trust[1, t, j]) > 0.2
                and trust[1, t, _SWAP[j]] > 0.2]  # fmt: skip
        if len(sure) >= 4:
            other = pixels[1, t][_SWAP]
            straight = np.linalg.norm(pixels[0, t, sure] - pixels[1, t, sure], axis=1).mean()
            crossed = np.linalg.norm(pixels[0, t, sure] - other[sure], axis=1).mean()
            if crossed < _SWAPPED * straight:
                pixels[1, t], trust[1, t] = other, trust[1, t][_SWAP]


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
