"""What a detector must be able to do, so that any other can take its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box
from sfumato.people._text_line import TextLine

Mask = npt.NDArray[np.bool_]
Points = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Pose:
    """One person: 33 landmarks of the BlazePose topology.

    ``points`` (33, 3) are x, y in pixels of the whole picture and a depth in the same scale,
    relative to the hips; ``world`` (33, 3) are metres about the mid-hip, x right, y down, z away;
    ``visibility`` (33,) is the probability that the landmark is in view and not hidden. ``mask``
    is the person's own mask over the whole picture, if the estimator gives one. ``circle`` (2, 2)
    is the mid-hip and a point above the head on the circle around the body: where to look next.
    """

    points: Points
    world: Points
    visibility: Points
    score: float
    mask: Mask | None = None
    person: int = -1
    circle: Points | None = None

    @property
    def box(self) -> Box:
        """Around the landmarks that are likely in view, or around all when none is."""
        seen = self.points[self.visibility > 0.5, :2]
        if len(seen) < 4:
            seen = self.points[:, :2]
        (x0, y0), (x1, y1) = seen.min(axis=0), seen.max(axis=0)
        return Box(float(x0), float(y0), float(x1), float(y1), self.score, "pose")

    @property
    def head(self) -> Box:
        """A box around the whole head, hair and chin included, from any side.

        The landmarks of eyes, ears, nose and mouth span the face only; the circle about them that
        reaches twice as far holds the head in profile and from behind as well.
        """
        face = self.points[:11, :2]
        cx, cy = (float(v) for v in face.mean(axis=0))
        spread = float(np.linalg.norm(face - face.mean(axis=0), axis=1).max())
        shoulders = float(np.linalg.norm(self.points[11, :2] - self.points[12, :2]))
        radius = max(1.7 * spread, 0.35 * shoulders)
        return Box(cx - radius, cy - 1.25 * radius, cx + radius, cy + radius, self.score, "pose")


@runtime_checkable
class FaceDetector(Protocol):
    """Finds faces in one picture.

    One whose attribute ``at_once`` is true may be asked by several threads at the same time.
    """

    name: str
    device: str

    def detect(self, image: Image) -> list[Box]: ...


@runtime_checkable
class PersonDetector(Protocol):
    """Finds whole people in one picture."""

    name: str
    device: str

    def detect(self, image: Image) -> list[Box]: ...


@runtime_checkable
class PersonSegmenter(Protocol):
    """For every pixel of one picture, the probability that it shows a person (float32, 0 to 1)."""

    name: str
    device: str

    def segment(self, image: Image) -> npt.NDArray[np.float32]: ...


@runtime_checkable
class PoseEstimator(Protocol):
    """Finds people and their landmarks; ``previous`` poses of the same video say where to look."""

    name: str
    device: str

    def estimate(
        self, image: Image, previous: tuple[Pose, ...] = (), search: bool = True
    ) -> tuple[Pose, ...]: ...


@runtime_checkable
class TextDetector(Protocol):
    """Finds lines of text in one picture.

    One that also has ``detect_in_turn(image, turn)`` is asked along a video by that: a quicker look, which may
    see other things on even turns than on odd ones.
    """

    name: str
    device: str

    def detect(self, image: Image) -> list[TextLine]: ...


@runtime_checkable
class FaceEmbedder(Protocol):
    """Turns the face in a box into a vector; near vectors mean the same person."""

    name: str
    device: str
    same_person: float

    def embed(self, image: Image, face: Box) -> npt.NDArray[np.float64]: ...
