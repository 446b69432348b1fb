"""People as ``people.find`` gives them, and the pose of each along the whole track, in metres."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from scipy.ndimage import binary_closing, binary_dilation, binary_opening

from sfumato import people
from sfumato.body import INDEX, Camera, Paths, Sightings, fitting_error, ground_plane, joint_paths
from sfumato.media import Frame, Image
from sfumato.protect.avatar._scene import AHEAD, OwnPixels, Scene, Track, outline
from sfumato.protect.avatar._sighted import (
    FACE_LOOKS,
    Seen,
    Sighted,
    alike,
    belongs,
    estimated,
    faces_alone,
    pixels_a_metre,
    sightings,
)

_PAST = 24  # frames before a window that its poses are fitted with
_POSES_A_SECOND = (
    15  # motion of people is slower than that; a fit over time fills what lies between
)
_SMALLEST = 28  # pixels of height below which nobody is posed
_GOOD = 0.10  # metres at the body by which a fit may miss what was seen
_CARRIED = 0.6  # seconds over which a pose is carried without being seen
_HEAD = 0.15  # of a person's height that a head may be away from where it was found
_GIANT, _SIZED = (
    (2.5, 3.5),
    ("neck", "crown", "left_shoulder", "right_shoulder"),
)  # sizes of the head
_COVERED = 0.35  # of the person's own pixels must be where the pose has a body
_STEADY = 5  # frames: a pose is believed, and doubted, for no less
_SHOWN = 10  # frames between two looks that saw joints on which somebody is surely there
_APART = 0.9  # sizes between the heads of two people
_FACE_NEAR = 4  # frames that a face which is all that was ever seen is carried
_SHAPED = 20  # frames with a pose after which a person's bones are known
_SAME = 0.72  # people who look more alike than that, one after the other, are one
_CUT, _ALIKE = 38.0, 0.75  # grey levels between frames, and shared grey levels, at a cut
_LARGER, _JOINTS = 1.9, 9  # sizes of a person, and joints that one who is held must show
_CLOSE, _LONGEST = (
    0.9,
    4.0,
)  # metres: nobody is nearer; how much longer the lens may be than usual for that
_SMALL = 240  # pixels of the longer side on which poses are compared with regions


class PeopleFinder:
    """Everybody whom ``people.find`` finds is erased; whoever can be posed gets an avatar.

    BlazePose looks for the pose inside each person who was found; its landmarks and MoveNet's joints are
    explained by one body that moves smoothly (``body.joint_paths``). The camera is unknown: it is taken
    with a usual focal length. A pose that does not fit what was seen, or covers too little of the person, is not
    believed: that person has a region and no joints there.
    """

    name = "people"

    def __init__(
        self, *, poses: Any = "blazepose-heavy", detector: Any = None, offline: bool = False
    ) -> None:
        self._poses = people.pose_estimator(poses, offline=offline)
        self._look = people.search(detector, offline=offline)
        self._stream: people.PeopleStream | None = None
        self._gone: list[Seen] = []  # who was seen before: looks and bones only
        self._count = 0
        self._clear()

    def _clear(self) -> None:
        self._tracks: dict[int, Seen] = {}
        self._masks: list[npt.NDArray[np.uint8]] = []  # bits: of large pictures there are many
        self._times: list[float] = []
        self._looks = 0
        self._new_shot()

    def _new_shot(self) -> None:
        self._ground: tuple[float, float] | None = None
        self._camera: Camera | None = None

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of every detector, for the card."""
        found = () if self._stream is None else self._stream.status.used
        return (*found, (f"{self._poses.name} for poses", self._poses.device))

    def find(self, images: Sequence[Image]) -> Scene:
        """Everybody on these frames, as one window."""
        frames = [Frame(image, i, Fraction(i, 25)) for i, image in enumerate(images)]
        ((_, scene),) = self.windows(iter(frames), len(images))
        return scene

    def windows(self, frames: Iterator[Frame], most: int) -> Iterator[tuple[list[Frame], Scene]]:
        """The recording in windows of ``most`` frames, each with its people.

        People are followed, and their poses fitted, beyond the ends of a window.
        """
        self._clear()
        held: list[Frame] = []
        first = 0
        self._stream = people.find(frames, self._look)
        for frame, everybody in self._stream:
            if held and is_cut(held[-1].image, frame.image):  # another shot: nothing goes on
                yield held, self._scene(first, len(held), held[0].image)
                held, first = [], first + len(held)
                self._new_shot()
            self._note(first + len(held), frame, everybody)
            held.append(frame)
            if len(held) >= most + AHEAD:
                yield held[:most], self._scene(first, most, held[0].image)
                held, first = held[most:], first + most
        if held:
            yield held, self._scene(first, len(held), held[0].image)

    def _note(self, t: int, frame: Frame, everybody: people.People) -> None:
        height, width = frame.image.shape[:2]
        mask = everybody.mask(height, width) | everybody.blank
        self._times = [*self._times[-30:], float(frame.time)]
        poses: dict[int, people.Pose] = {}
        if t % max(1, round(self._rate / _POSES_A_SECOND)) == 0:
            whom = {p.track: p for p in everybody if p.box.height >= _SMALLEST}
            places = tuple(people.place_of_pose(person) for person in whom.values())
            self._looks += 1
            for pose in estimated(self._poses, frame.image, places, mirrored=self._looks % 2 == 0):
                if pose.mask is not None:
                    mask |= pose.mask
                if pose.person in whom and belongs(pose, whom[pose.person].box):
                    # without its mask, which is as large as the picture and in use already
                    poses[pose.person] = dataclasses.replace(pose, mask=None)
        self._masks.append(np.packbits(mask))
        for person in everybody:
            if person.track not in self._tracks:
                self._tracks[person.track] = Seen(self._count)
                self._count += 1
            self._tracks[person.track].add(t, person, poses.get(person.track), frame.image)

    @property
    def _rate(self) -> float:
        span = self._times[-1] - self._times[0]
        return (len(self._times) - 1) / span if span > 0 else 25.0

    def _scene(self, first: int, count: int, image: Image) -> Scene:
        here = {
            key: seen
            for key, seen in self._tracks.items()
            if any(first <= t < first + count for t in seen.frames)
        }
        here = {key: seen for key, seen in here.items() if not _part_of_another(seen, here, first)}
        self._recognise(here)
        if self._camera is None:
            self._camera = _lens(here, image.shape[1], image.shape[0])
        camera = self._camera
        fitted = {key: self._fitted(seen, first, count, camera) for key, seen in here.items()}
        solved = [found[2] for found in fitted.values() if found is not None]
        if self._ground is None:
            self._ground = ground_plane(solved)
            if self._ground is not None:  # once more, with feet that stand on it
                fitted = {
                    key: self._fitted(seen, first, count, camera) for key, seen in here.items()
                }
        tracks = [
            self._track(here[key], found, first, count, camera) for key, found in fitted.items()
        ]
        height, width = image.shape[:2]
        masks = np.empty((count, height, width), bool)
        for t, bits in enumerate(self._masks[:count]):
            masks[t] = np.unpackbits(bits, count=height * width).view(bool).reshape(height, width)
        self._masks = self._masks[count:]
        self._forget(first + count - _PAST)
        return Scene(masks, tuple(tracks), camera)

    def _fitted(
        self, seen: Seen, first: int, count: int, camera: Camera
    ) -> tuple[int, Sightings, Paths] | None:
        """Where the fit of a track begins, what it was given, and the fit; None without any pose."""
        near = [t for t in seen.frames if first - _PAST <= t < first + count + AHEAD]
        start, end = min(near), max(near) + 1
        given = sightings(seen, start, end, camera)
        if given.trust.sum() < 4:
            return None
        known = []
        for t in range(start, first):
            if t not in seen.settled:
                break
            known.append(seen.settled[t])
        paths = joint_paths(
            given,
            self._rate,
            lengths=seen.lengths,
            known=np.array(known).reshape(-1, 17, 3),
            ground=self._ground,
        )
        return start, given, paths

    def _track(
        self,
        seen: Seen,
        found: tuple[int, Sightings, Paths] | None,
        first: int,
        count: int,
        camera: Camera,
    ) -> Track:
        sure = _surely_there(seen, first, first + count)
        regions = tuple(
            dataclasses.replace(region, sure=bool(sure[t - first]))
            if t in seen.frames and (region := seen.frames[t].region) is not None
            else None
            for t in range(first, first + count)
        )
        joints = np.full((count, 24, 3), np.nan)
        if found is not None:
            start, given, paths = found
            if seen.lengths is None and (given.local_trust.max(axis=1) > 0).sum() >= _SHAPED:
                seen.lengths = paths.lengths
            world = paths.joints() @ camera.rotation
            fits = self._believed(given, paths)
            if not _has_joints(seen):
                faces = np.array(faces_alone(seen, camera), int)
                times = np.arange(start, start + len(fits))
                fits &= (np.abs(times[:, None] - faces) <= _FACE_NEAR).any(axis=1)
            for i, joint in enumerate(world):
                t = start + i
                if t >= first and t - first < count:
                    seen.settled[t] = paths.points[i]
                    if fits[i] and t in seen.frames:
                        joints[t - first] = joint
            _doubt_where_elsewhere(joints, seen, regions, first, camera)
            _doubt_without_head(joints, seen, first, camera)
            _without_flicker(joints)
        return Track(joints, seen.number, regions)

    def _believed(self, given: Sightings, paths: Paths) -> npt.NDArray[np.bool_]:
        """Frames whose pose fits what was seen there, or shortly before or after."""
        error = fitting_error(given, paths)
        good = np.isfinite(error) & (error < _GOOD)
        bad = np.isfinite(error) & (error >= _GOOD)
        reach = max(1, round(_CARRIED * self._rate))
        near = binary_dilation(good, np.ones(2 * reach + 1))
        return np.asarray(near & ~bad)

    def _recognise(self, here: dict[int, Seen]) -> None:
        """Somebody new who looks as one who is gone did is the same person: number and bones go on."""
        others = [*self._gone, *self._tracks.values()]
        for seen in here.values():
            if seen.settled:
                continue  # drawn already
            begins = min(seen.frames)
            gone = [
                other
                for other in others
                if other is not seen and (not other.frames or max(other.frames) < begins)
            ]
            busy = {o.number for o in self._tracks.values() if o.frames and max(o.frames) >= begins}
            likely = max(
                (other for other in gone if other.number not in busy - {seen.number}),
                key=lambda other: alike(seen, other),
                default=None,
            )
            if likely is not None and alike(seen, likely) >= _SAME:
                seen.number, seen.lengths = likely.number, likely.lengths

    def _forget(self, before: int) -> None:
        for key, seen in list(self._tracks.items()):
            seen.forget_before(before)
            if not seen.frames:
                self._gone = [*self._gone[-63:], self._tracks.pop(key)]


def _lens(here: dict[int, Seen], width: int, height: int) -> Camera:
    """A usual camera; a longer lens where faces are so large that it would have to touch them."""
    usual = Camera.facing(width, height)
    sizes = [
        float(np.median(large))
        for seen in here.values()
        if (large := [size for each in seen.frames.values() if (size := pixels_a_metre(each))])
    ]
    focal = min(max([_CLOSE * size for size in sizes], default=0.0), _LONGEST * usual.focal)
    return Camera.facing(width, height, focal=max(focal, usual.focal))


def _has_joints(seen: Seen) -> bool:
    """Whether a person's joints were seen at all, on some of the frames on which somebody looked."""
    looks = [each.joints[:, 2] for each in seen.frames.values() if each.joints[:, 2].any()]
    good = sum(int((sure >= 0.25).sum()) >= 4 for sure in looks)
    return good >= 1 and 5 * good >= len(looks)


def _surely_there(seen: Seen, first: int, last: int) -> npt.NDArray[np.bool_]:
    """Frames on which joints of the person were seen, and those between two of them that are near: elsewhere it
    may be a pattern that was taken for somebody, or a track that is carried on into nothing."""
    there = np.zeros(last - first, bool)
    looks = sorted(t for t, each in seen.frames.items() if (each.joints[:, 2] >= 0.25).sum() >= 4)
    for before, after in pairwise([*looks[:1], *looks]):
        begin = before if after - before <= _SHOWN else after
        there[max(0, begin - first) : max(0, after + 1 - first)] = True
    return there


def _part_of_another(seen: Seen, everybody: dict[int, Seen], first: int) -> bool:
    """Whether somebody much larger holds a person whose joints are hardly seen: a ball, a bag, a hand.

    Nobody else is to stand there; it is erased with whoever holds it.
    """
    times = [t for t in seen.frames if t >= first]
    inside, face = 0, sum(each.face for each in seen.frames.values()) >= FACE_LOOKS
    for t in times:
        box = seen.frames[t].box
        inside += any(
            other is not seen
            and t in other.frames
            and other.frames[t].box.height > _LARGER * box.height
            and other.frames[t].box.scale(1.1).covers(box) > 0.7
            and not (face and _other_head(seen.frames[t], other.frames[t]))
            for other in everybody.values()
        )
    if 2 * inside < len(times):
        return False
    looks = [seen.frames[t].joints[:, 2] for t in times if seen.frames[t].joints[:, 2].any()]
    whole = sum(int((sure >= 0.3).sum()) >= _JOINTS for sure in looks)
    return 2 * whole < max(len(looks), 1)


def _other_head(one: Sighted, two: Sighted) -> bool:
    """Whether the head of one is far from the head of another: somebody behind, not a part."""
    if one.head is None or two.head is None:
        return False
    away = np.hypot(*np.subtract(one.head.centre, two.head.centre))
    return bool(away > _APART * (one.head.height + two.head.height) / 2)


def is_cut(before: Image, after: Image) -> bool:
    """Whether another shot begins: nothing is where it was, and the colours are others."""
    small = [
        cv2.resize(image, (32, 24), interpolation=cv2.INTER_AREA).astype(np.float32)
        for image in (before, after)
    ]
    if np.abs(small[0] - small[1]).mean() < _CUT:
        return False
    spread = [np.histogram(image, 16, (0, 256))[0] / image.size for image in small]
    return bool(np.minimum(*spread).sum() < _ALIKE)


def _doubt_where_elsewhere(
    joints: npt.NDArray[np.float64],
    seen: Seen,
    regions: Sequence[OwnPixels | None],
    first: int,
    camera: Camera,
) -> None:
    """Take poses away that leave most of the person's own pixels uncovered; pixels beyond the person's box may be
    somebody else's."""
    factor = min(1.0, _SMALL / max(camera.width, camera.height))
    small = camera.resized(round(camera.width * factor), round(camera.height * factor))
    doubted = np.zeros(len(joints), bool)
    for t, region in enumerate(regions):
        if region is None or not np.isfinite(joints[t]).any():
            continue
        drawn = outline(joints[t], small)
        ys, xs = np.nonzero(region.cut[:: max(1, region.height // 48), ::2])
        step = max(1, region.height // 48)
        ys, xs = ys * step + region.window[0].start, xs * 2 + region.window[1].start
        box = seen.frames[first + t].box
        own = (xs > box.x0) & (xs < box.x1) & (ys > box.y0) & (ys < box.y1)
        ys, xs = ys[own], xs[own]
        if not len(ys):
            continue
        y = np.clip((ys * factor).astype(int), 0, small.height - 1)
        x = np.clip((xs * factor).astype(int), 0, small.width - 1)
        doubted[t] = drawn[y, x].mean() < _COVERED
    joints[doubted] = np.nan


def _doubt_without_head(
    joints: npt.NDArray[np.float64], seen: Seen, first: int, camera: Camera
) -> None:
    """Take poses away whose head is far from where the person's head was found, is much larger, or is folded
    onto the trunk as no neck allows: giants, and bodies upside down."""
    for t in np.flatnonzero(np.isfinite(joints).any(axis=(1, 2))):
        each = seen.frames.get(first + int(t))
        if each is None or each.head is None:
            continue
        spot = camera.project((joints[t, INDEX["neck"]] + joints[t, INDEX["crown"]]) / 2)
        away = float(np.hypot(*(spot - np.array(each.head.centre))))
        large = max(each.head.height, each.head.width)
        spots = camera.project(joints[t, [INDEX[name] for name in _SIZED]])
        sizes = np.linalg.norm(spots[::2] - spots[1::2], axis=1)
        neck, crown, pelvis = (joints[t, INDEX[name]] for name in ("neck", "crown", "pelvis"))
        if (
            away > _HEAD * each.box.height + large / 2
            or (sizes > large * np.array(_GIANT)).any()
            or float((crown - neck) @ (neck - pelvis)) < 0
        ):
            joints[t] = np.nan


def _without_flicker(joints: npt.NDArray[np.float64]) -> None:
    """Poses that are believed for a few frames only are taken away; gaps that short stay closed by whoever
    draws."""
    there = np.asarray(np.isfinite(joints).any(axis=(1, 2)))
    size = min(_STEADY, len(there))
    closed = binary_closing(np.pad(there, size), np.ones(size))[size:-size]
    steady = binary_opening(np.pad(closed, size, mode="edge"), np.ones(size))[size:-size]
    joints[~steady] = np.nan
