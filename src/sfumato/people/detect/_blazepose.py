"""BlazePose: where people stand, and 33 landmarks of each in 2D and in metres."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box
from sfumato.people.detect._anchors import cell_centres, decode, suppress_rows, weighted
from sfumato.people.detect._litert import DEVICE, LiteRtModel
from sfumato.people.detect._protocols import Mask, Pose
from sfumato.people.detect._square_views import reduced, square_views

LANDMARKS = 33
_LANDMARK_MODELS = {"blazepose": "pose-landmark-full", "blazepose-heavy": "blazepose-heavy"}
_LAYERS = ((8, 2), (16, 2), (32, 6))  # 2254 anchors
_OVERLAP = 0.3
_ROOM = 1.25  # the crop reaches this much beyond the body's circle
_SAME_HIPS = 0.1  # crops of one person seen in two views agree this well, in crop sides
_SAME_BODY = 0.08  # mean distance of two poses of one person, in crop sides
_AUXILIARY = (33, 34)  # extra landmarks: the hip centre and a point on the body's circle


@dataclass(frozen=True, slots=True)
class Crop:
    """A square about (x, y), turned by ``angle`` (radians) so that the body in it is upright."""

    x: float
    y: float
    side: float
    angle: float
    score: float = 1.0

    @property
    def box(self) -> Box:
        half = self.side / 2
        return Box(self.x - half, self.y - half, self.x + half, self.y + half, self.score, "pose")

    def to_picture(self, size: int) -> npt.NDArray[np.float64]:
        """The 2x3 matrix from pixels of the ``size`` x ``size`` crop to pixels of the picture."""
        scale = self.side / size
        cos, sin = math.cos(self.angle) * scale, math.sin(self.angle) * scale
        middle = (size - 1) / 2
        return np.array(
            [
                [cos, -sin, self.x - 0.5 - cos * middle + sin * middle],
                [sin, cos, self.y - 0.5 - sin * middle - cos * middle],
            ]
        )


def upright_crop(
    centre: npt.NDArray[np.float32], rim: npt.NDArray[np.float32], score: float
) -> Crop:
    """The crop of a body from its mid-hip and a point above the head, on the circle around it."""
    dx, dy = (float(v) for v in rim - centre)
    side = 2 * math.hypot(dx, dy) * _ROOM
    return Crop(float(centre[0]), float(centre[1]), side, math.atan2(dx, -dy), score)


class BodyDetector:
    """``pose-detection``: crops in which bodies stand upright, also usable as person boxes."""

    name = "pose"
    device = DEVICE

    def __init__(
        self, *, threshold: float = 0.4, tiles: bool = True, offline: bool = False
    ) -> None:
        self._threshold, self._tiles = threshold, tiles
        self._model = LiteRtModel("pose-detection", cores=4, offline=offline)
        self._size = self._model.input_size[0]
        self._centres = cell_centres(self._size, _LAYERS)

    def crops(self, image: Image) -> list[Crop]:
        """One crop a person, the surest first."""
        found: list[Crop] = []
        small, wider, higher = reduced(image, 2 * self._size)
        height, width = small.shape[:2]
        for view in square_views(width, height, tiles=self._tiles):
            raw, logits = self._model(view.picture(small, self._size, -1.0, 1.0))
            corners, points, scores = decode(
                raw, logits, self._centres, self._size, self._threshold
            )
            groups = suppress_rows(corners, scores, _OVERLAP)
            for person, group in zip(weighted(points, scores, groups), groups, strict=True):
                person = person * view.side + np.array([view.x, view.y], np.float32)
                person = person * np.array([wider, higher], np.float32)
                found.append(upright_crop(person[0], person[1], float(scores[group[0]])))
        kept: list[Crop] = []
        for crop in sorted(found, key=lambda crop: crop.score, reverse=True):
            if crop.side > 1 and not any(_same(crop, other) for other in kept):
                kept.append(crop)
        return kept

    def detect(self, image: Image) -> list[Box]:
        """Person boxes: the body's circle without the crop's extra room, inside the picture."""
        height, width = image.shape[:2]
        return [crop.box.scale(1 / _ROOM).clip(width, height) for crop in self.crops(image)]


class BlazePose:
    """``blazepose``: several people, each followed from frame to frame by the landmarks it had.

    ``blazepose-heavy`` is the larger network for the landmarks, in the same places and units.
    ``people`` bounds how many are looked for. A pose is kept while the network says a person is in
    the crop with at least ``presence``.
    """

    device = DEVICE

    def __init__(
        self,
        name: str = "blazepose",
        *,
        people: int = 10,
        presence: float = 0.5,
        threshold: float = 0.4,
        masks: bool = False,
        offline: bool = False,
    ) -> None:
        self._people, self._presence, self._masks = people, presence, masks
        self._bodies = BodyDetector(threshold=threshold, offline=offline)
        self.name = name
        self._model = LiteRtModel(_LANDMARK_MODELS[name], cores=4, offline=offline)
        self._size = self._model.input_size[0]

    def estimate(
        self, image: Image, previous: tuple[Pose, ...] = (), search: bool = True
    ) -> tuple[Pose, ...]:
        """Poses in ``image``: first where ``previous`` ones were, then, on ``search``, anywhere.

        A pose that continues a previous one keeps its ``person`` number; new ones have -1.
        """
        poses: list[Pose] = []
        for old in previous:
            pose = self._landmarks(image, _crop_of(old), old.person)
            if pose is not None and all(_distance(pose, other) > _SAME_BODY for other in poses):
                poses.append(pose)
        if search:
            for crop in self._bodies.crops(image):
                if len(poses) >= self._people:
                    break
                if any(_same(crop, _crop_of(pose)) for pose in poses):
                    continue
                pose = self._landmarks(image, crop, -1)
                if pose is not None and all(_distance(pose, other) > _SAME_BODY for other in poses):
                    poses.append(pose)
        return tuple(poses)

    def _landmarks(self, image: Image, crop: Crop, person: int) -> Pose | None:
        matrix = crop.to_picture(self._size)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        view = cv2.warpAffine(image, matrix, (self._size, self._size), flags=flags)
        flat, flag, logits, _, world = self._model(view.astype(np.float32) / np.float32(255))
        # the network's own last layer is a sigmoid, so the flag is a probability already
        if float(flag[0]) < self._presence:
            return None
        raw = flat.reshape(-1, 5)
        turn = matrix[:, :2].astype(np.float32)
        # landmarks are in units of the crop's side, pixel i spanning i..i+1; the matrix maps centres
        planar = (raw[:, :2] - 0.5) @ turn.T + matrix[:, 2].astype(np.float32) + 0.5
        depth = raw[:, 2:3] * np.float32(crop.side / self._size)
        points = np.concatenate([planar, depth], axis=1).astype(np.float32)
        cos, sin = math.cos(crop.angle), math.sin(crop.angle)
        metres = world.reshape(-1, 3).copy()
        metres[:, :2] = metres[:, :2] @ np.array([[cos, sin], [-sin, cos]], np.float32)
        visible = 1 / (1 + np.exp(-np.clip(raw[:LANDMARKS, 3], -80, 80)))
        return Pose(
            points[:LANDMARKS],
            metres[:LANDMARKS],
            visible.astype(np.float32),
            float(flag[0]),
            self._mask(logits[..., 0], matrix, image.shape) if self._masks else None,
            person,
            points[list(_AUXILIARY), :2],
        )

    def _mask(
        self,
        logits: npt.NDArray[np.float32],
        matrix: npt.NDArray[np.float64],
        shape: tuple[int, ...],
    ) -> Mask:
        height, width = shape[:2]
        whole = cv2.warpAffine(
            logits, matrix, (width, height), flags=cv2.INTER_LINEAR, borderValue=-10.0
        )
        return np.asarray(whole > 0)


def _crop_of(pose: Pose) -> Crop:
    if pose.circle is not None:
        return upright_crop(pose.circle[0], pose.circle[1], pose.score)
    # a pose from elsewhere: the circle about the hips that holds every landmark
    planar = pose.points[:, :2]
    hips, shoulders = planar[[23, 24]].mean(axis=0), planar[[11, 12]].mean(axis=0)
    up = shoulders - hips
    up = up / max(float(np.linalg.norm(up)), 1e-6)
    return upright_crop(hips, hips + up * np.linalg.norm(planar - hips, axis=1).max(), pose.score)


def _same(a: Crop, b: Crop) -> bool:
    """Whether two crops are of one person: people side by side share most of their crops' area, so
    the hips must agree."""
    return math.hypot(a.x - b.x, a.y - b.y) < _SAME_HIPS * max(a.side, b.side)


def _distance(a: Pose, b: Pose) -> float:
    """Mean distance of the trunk's and the head's landmarks, in sizes of the smaller body."""
    trunk = [0, 7, 8, 11, 12, 23, 24]
    gap = np.linalg.norm(a.points[trunk, :2] - b.points[trunk, :2], axis=1).mean()
    size = min(_crop_of(a).side, _crop_of(b).side)
    return float(gap) / max(size, 1e-6)
