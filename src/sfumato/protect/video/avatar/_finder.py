"""People by the bundled detectors: poses, segmentation and faces, what any of them finds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.body import INDEX, Camera, layout
from sfumato.media import Frame, Image
from sfumato.protect.video.avatar._found import Found, Track, place

_UNSEEN = 0.1  # visibility below which a landmark is inferred instead of believed
_SHORTEST = 3  # frames: a pose found for less is a flicker, its place is erased and greyed
_FACES_EVERY = 2  # frames: heads lie inside the other masks nearly always, faces are a second look
_NEAR = 0.15  # of the picture's diagonal: a track that goes on there across windows is the same


class PeopleFinder:
    """Looks for people with several detectors; q is the union of everything they give.

    Poses by BlazePose (with their own masks), person masks by selfie segmentation, heads by two face
    detectors. The camera is unknown: it is taken level, with a usual focal length, and each person
    is put at the depth that makes the metric landmarks fall on the seen ones.
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
        self._ended: list[tuple[int, npt.NDArray[np.float64]]] = []
        self._count = 0

    def find(self, images: Sequence[Image]) -> Found:
        height, width = images[0].shape[:2]
        camera = Camera.facing(width, height)
        frames = [Frame(image, i, Fraction(i, 25)) for i, image in enumerate(images)]
        masks = self._covered(frames, width, height)
        seen: dict[int, dict[int, people.Pose]] = {}
        for t, (_, tracked) in enumerate(people.poses(frames, self._poses)):
            for pose in tracked.poses:
                seen.setdefault(pose.person, {})[t] = pose
                if pose.mask is not None:
                    masks[t] |= pose.mask
        lasting = [poses for poses in seen.values() if len(poses) >= min(_SHORTEST, len(images))]
        tracks = [self._track(poses, len(images), camera) for poses in lasting]
        return Found(masks, tuple(self._numbered(tracks, camera)), camera)

    def _covered(self, frames: list[Frame], width: int, height: int) -> npt.NDArray[np.bool_]:
        """Everything that segmentation or a face detector gives; a doubtful frame entirely."""
        masks = np.zeros((len(frames), height, width), bool)
        for t, (_, found) in enumerate(people.person_masks(frames, self._masks)):
            masks[t] |= found.mask | found.blank
        for t, (_, heads) in enumerate(people.track_boxes(frames, self._faces, every=_FACES_EVERY)):
            masks[t] |= people.box_mask(heads.boxes, width, height)
            masks[t] |= heads.blank
        return masks

    def _track(self, poses: dict[int, people.Pose], count: int, camera: Camera) -> Track:
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

    def _numbered(self, tracks: list[Track], camera: Camera) -> list[Track]:
        """Give a person who goes on from the last window the number of then."""
        reach = _NEAR * float(np.hypot(camera.width, camera.height))
        named, ended = [], []
        for track in tracks:
            there = np.flatnonzero(track.present)
            hips = camera.project(track.joints[there][:, INDEX["pelvis"]])
            number = self._count
            for earlier, spot in self._ended:
                if there[0] < _SHORTEST and np.linalg.norm(spot - hips[0]) < reach:
                    number = earlier
                    self._ended = [each for each in self._ended if each[0] != earlier]
                    break
            self._count = max(self._count, number + 1)
            named.append(Track(track.joints, number))
            if there[-1] >= len(track.joints) - _SHORTEST:
                ended.append((number, hips[-1]))
        self._ended = ended
        return named
