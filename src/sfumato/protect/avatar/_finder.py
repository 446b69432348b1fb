"""People as ``people.find`` gives them, and the pose of each in metres."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.body import Camera, layout
from sfumato.media import Frame, Image
from sfumato.protect.avatar._scene import SHORTEST, Continuity, Scene, Track, outline, place

_UNSEEN = 0.1  # visibility below which a landmark is inferred instead of believed
_GIANT = 2.5  # sizes of a person: whoever is that much larger and holds it, for less time, is none
_Poses = dict[int, people.Pose]  # of one person, by frame


class PeopleFinder:
    """Everybody whom ``people.find`` finds is erased; whoever BlazePose can pose gets an avatar.

    The pose is looked for inside each person who was found. The camera is unknown: it is taken level,
    with a usual focal length, and each person is put at the depth that makes the metric landmarks fall
    on the seen ones.
    """

    name = "people"

    def __init__(
        self, *, poses: Any = "blazepose", detector: Any = None, offline: bool = False
    ) -> None:
        self._poses = people.pose_estimator(poses, offline=offline)
        self._look = people.search(detector, offline=offline)
        self._persons = Continuity()

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of every detector, for the card."""
        return tuple((each.name, each.device) for each in (self._look, self._poses))

    def find(self, images: Sequence[Image]) -> Scene:
        height, width = images[0].shape[:2]
        camera = Camera.facing(width, height)
        frames = [Frame(image, i, Fraction(i, 25)) for i, image in enumerate(images)]
        masks = np.zeros((len(frames), height, width), bool)
        seen: dict[int, _Poses] = {}
        for t, (frame, everybody) in enumerate(people.find(frames, self._look)):
            masks[t] = everybody.mask(height, width) | everybody.blank
            places = tuple(people.place_of_pose(person) for person in everybody)
            for pose in self._poses.estimate(frame.image, places, False):
                seen.setdefault(pose.person, {})[t] = pose
                if pose.mask is not None:
                    masks[t] |= pose.mask
        believed, doubted = split_plausible_poses(list(seen.values()), min(SHORTEST, len(images)))
        for poses in doubted:
            track = self._track(poses, len(images), camera)
            for t in poses:
                masks[t] |= outline(track.joints[t], camera)
        tracks = [self._track(poses, len(images), camera) for poses in believed]
        return Scene(masks, tuple(self._persons.numbered(tracks, camera)), camera)

    def _track(self, poses: _Poses, count: int, camera: Camera) -> Track:
        world = np.full((count, 33, 3), np.nan)
        pixels, weight = np.full((count, 33, 2), np.nan), np.zeros((count, 33))
        for t, pose in poses.items():
            believed = pose.visibility > _UNSEEN
            world[t, believed] = pose.world[believed]
            pixels[t], weight[t] = pose.points[:, :2], pose.visibility
        upright = np.asarray(
            world @ camera.rotation
        )  # from x right, y down, z away to the camera's world
        shift = place(upright, pixels, weight, camera)
        return Track(layout("mediapipe33").canonical(upright + shift[:, None]))


def split_plausible_poses(found: list[_Poses], shortest: int) -> tuple[list[_Poses], list[_Poses]]:
    """Poses that an avatar may take on, and those that are erased only.

    Not taken on are flickers and giants: patterns of a floor look like a body as large as the room,
    for a while, in which the real ones stand.
    """
    lasting = [poses for poses in found if len(poses) >= shortest]
    giants = [poses for poses in lasting if any(_dwarfs(poses, other) for other in lasting)]
    believed = [poses for poses in lasting if not any(poses is giant for giant in giants)]
    return believed, [poses for poses in found if not any(poses is kept for kept in believed)]


def _dwarfs(large: _Poses, other: _Poses) -> bool:
    """Whether a pose that lasts longer stands, much smaller, inside ``large`` most of the time."""
    both = large.keys() & other.keys()
    if len(other) <= len(large) or not both:
        return False
    inside = 0
    for t in both:
        (hips, radius), (spot, size) = _circle(large[t]), _circle(other[t])
        inside += radius > _GIANT * size and float(np.linalg.norm(spot - hips)) < radius
    return 2 * inside > len(both)


def _circle(pose: people.Pose) -> tuple[npt.NDArray[np.floating], float]:
    """The hips, and how far the body reaches around them."""
    points = pose.points[:, :2]
    hips = points[[23, 24]].mean(axis=0)
    return hips, float(np.linalg.norm(points - hips, axis=1).max())
