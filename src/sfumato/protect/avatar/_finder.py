"""People by the bundled detectors: poses, segmentation and faces, what any of them finds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.body import Camera, layout
from sfumato.media import Frame, Image
from sfumato.protect.avatar._scene import SHORTEST, Continuity, Scene, Track, outline, place

_UNSEEN = 0.1  # visibility below which a landmark is inferred instead of believed
_FACES_EVERY = 2  # frames: heads lie inside the other masks nearly always, faces are a second look
_GIANT = 2.5  # sizes of a person: whoever is that much larger and holds it, for less time, is none
_Poses = dict[int, people.Pose]  # of one person, by frame


class PeopleFinder:
    """Looks for people with several detectors; q is the union of everything they give.

    Poses by BlazePose, person masks by selfie segmentation, heads by two face detectors, outlines of
    poses that are not believed, and the masks of an estimator that gives some with its poses. The
    camera is unknown: it is taken level, with a usual focal length, and each person is put at the
    depth that makes the metric landmarks fall on the seen ones.
    """

    name = "people"

    def __init__(
        self,
        *,
        poses: str = "blazepose",
        masks: str = "selfie",
        faces: str = "centerface+blazeface",
        offline: bool = False,
    ) -> None:
        self._poses = people.pose_estimator(poses, offline=offline)
        self._masks = people.person_segmenter(masks, offline=offline)
        self._faces = people.face_detector(faces, offline=offline)
        self._persons = Continuity()

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of every detector, for the card."""
        return tuple((each.name, each.device) for each in (self._poses, self._masks, self._faces))

    def find(self, images: Sequence[Image]) -> Scene:
        height, width = images[0].shape[:2]
        camera = Camera.facing(width, height)
        frames = [Frame(image, i, Fraction(i, 25)) for i, image in enumerate(images)]
        masks = self._covered(frames, width, height)
        seen: dict[int, _Poses] = {}
        for t, (_, tracked) in enumerate(people.poses(frames, self._poses)):
            for pose in tracked.poses:
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

    def _covered(self, frames: list[Frame], width: int, height: int) -> npt.NDArray[np.bool_]:
        """Everything that segmentation or a face detector gives; a doubtful frame entirely."""
        masks = np.zeros((len(frames), height, width), bool)
        for t, (_, found) in enumerate(people.person_masks(frames, self._masks)):
            masks[t] |= found.mask | found.blank
        for t, (_, heads) in enumerate(people.track_boxes(frames, self._faces, every=_FACES_EVERY)):
            masks[t] |= people.box_mask(heads.boxes, width, height)
            masks[t] |= heads.blank
        return masks

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
