"""A body: a skinned mesh with colours that takes any pose of the shared skeleton."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sfumato.body._skeleton import INDEX, JOINTS, PARENTS, Floats, forward
from sfumato.errors import SfumatoError

Array = npt.NDArray[np.float32]


class BodyError(SfumatoError):
    """A body or motion whose parts do not fit together."""


@dataclass(frozen=True)
class Motion:
    """Poses over time: rotations (T, 24, 3, 3), pelvis positions (T, 3), one size factor."""

    rotations: Floats
    translation: Floats
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.rotations.ndim != 4 or self.rotations.shape[1:] != (len(JOINTS), 3, 3):
            raise BodyError(
                f"Expected rotations shaped (T, {len(JOINTS)}, 3, 3), got {self.rotations.shape}."
            )
        if self.translation.shape != (len(self.rotations), 3):
            raise BodyError(
                f"Expected one pelvis position a frame, shaped ({len(self.rotations)}, 3), "
                f"got {self.translation.shape}."
            )

    def __len__(self) -> int:
        return len(self.rotations)


@dataclass(frozen=True)
class Mesh:
    """A posed body: triangles ready to be drawn."""

    vertices: Array
    normals: Array
    colours: Array
    faces: npt.NDArray[np.int32]


@runtime_checkable
class Body(Protocol):
    """What the renderer and the fitter need of a body; a GPU body may implement it as well."""

    @property
    def rest_joints(self) -> Floats: ...

    def joints(self, motion: Motion) -> npt.NDArray[np.float64]: ...

    def mesh(self, motion: Motion, frame: int) -> Mesh: ...


@dataclass(frozen=True)
class SkinnedBody:
    """Linear blend skinning of a coloured triangle mesh.

    ``weights`` (V, 24) say how much each joint's rotation moves a vertex; rows sum to one.
    ``colours`` are linear RGB in 0..1 per vertex.
    """

    vertices: Array
    faces: npt.NDArray[np.int32]
    weights: Array
    rest: Floats
    colours: Array
    traits: dict[str, Any] = field(default_factory=dict)
    normals: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count = len(self.vertices)
        if self.weights.shape != (count, len(JOINTS)) or self.colours.shape != (count, 3):
            raise BodyError(
                f"Expected weights ({count}, {len(JOINTS)}) and colours ({count}, 3), "
                f"got {self.weights.shape} and {self.colours.shape}."
            )
        if not np.allclose(self.weights.sum(1), 1, atol=1e-4):
            raise BodyError("Expected skinning weights that sum to one at every vertex.")
        object.__setattr__(self, "normals", vertex_normals(self.vertices, self.faces))

    @property
    def rest_joints(self) -> Floats:
        return self.rest

    @property
    def height(self) -> float:
        """From the lowest to the highest point at rest, in metres."""
        return float(np.ptp(self.vertices[:, 1]))

    def joints(self, motion: Motion) -> npt.NDArray[np.float64]:
        """Joint positions (T, 24, 3)."""
        return forward(self.rest, motion.rotations, motion.translation, motion.scale)[1]

    def mesh(self, motion: Motion, frame: int) -> Mesh:
        """The body in one frame of a motion."""
        turned, placed = forward(
            self.rest, motion.rotations[frame], motion.translation[frame], motion.scale
        )
        # v' = sum_j w_j (s G_j (v - r_j) + p_j): gather the affine maps first, one product each
        linear = turned * motion.scale
        shift = placed - np.einsum("jab,jb->ja", linear, self.rest)
        maps = np.concatenate([linear, shift[:, :, None]], 2).reshape(len(JOINTS), 12)
        blended = (self.weights @ maps.astype(np.float32)).reshape(-1, 3, 4)
        vertices = (blended[:, :, :3] @ self.vertices[:, :, None])[:, :, 0] + blended[:, :, 3]
        normals = (blended[:, :, :3] @ self.normals[:, :, None])[:, :, 0]
        normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-12
        return Mesh(np.ascontiguousarray(vertices), normals, self.colours, self.faces)


def stretched(body: SkinnedBody, lengths: Floats) -> SkinnedBody:
    """The body with other bone lengths: ``lengths`` (24,) are factors on the way from the parent.

    Every vertex moves with its joints, and along each bone in proportion; thickness stays.
    """
    rest = np.array(body.rest, dtype=np.float64)
    for j, parent in enumerate(PARENTS):
        if parent >= 0:
            rest[j] = rest[parent] + (body.rest[j] - body.rest[parent]) * lengths[j]
    moved = np.zeros_like(body.vertices)
    for j in range(len(JOINTS)):
        share = body.weights[:, j : j + 1]
        if not share.any():
            continue
        matrix = np.eye(3)
        if j in _ALONG:
            child = _ALONG[j]
            axis = body.rest[child] - body.rest[j]
            axis = axis / (np.linalg.norm(axis) + 1e-12)
            matrix = matrix + (lengths[child] - 1) * np.outer(axis, axis)
        moved += share * ((body.vertices - body.rest[j]) @ matrix.T + rest[j]).astype(np.float32)
    ground = min(0.0, float(moved[:, 1].min()) - float(body.vertices[:, 1].min()))
    moved[:, 1] -= ground
    rest[:, 1] -= ground
    return SkinnedBody(moved, body.faces, body.weights, rest, body.colours, body.traits)


# the child at the other end of the bone that a joint turns
_ALONG = {
    INDEX[a]: INDEX[b]
    for a, b in [
        ("pelvis", "spine"),
        ("spine", "chest"),
        ("chest", "neck"),
        ("neck", "head"),
        ("head", "crown"),
    ]
    + [
        (f"{side}_{a}", f"{side}_{b}")
        for side in ("left", "right")
        for a, b in (
            ("hip", "knee"),
            ("knee", "ankle"),
            ("ankle", "toe"),
            ("shoulder", "elbow"),
            ("elbow", "wrist"),
            ("wrist", "hand"),
        )
    ]
}


def vertex_normals(vertices: Array, faces: npt.NDArray[np.int32]) -> Array:
    """Area-weighted unit normals."""
    corners = vertices[faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    total = np.zeros_like(vertices)
    for corner in range(3):
        for axis in range(3):
            total[:, axis] += np.bincount(
                faces[:, corner], weights=across[:, axis], minlength=len(vertices)
            ).astype(np.float32)
    unit: Array = total / (np.linalg.norm(total, axis=1, keepdims=True) + 1e-12)
    return unit.astype(np.float32)


def rest_motion(body: Body, frames: int = 1) -> Motion:
    """Standing at rest, pelvis where the rest pose has it."""
    rotations = np.broadcast_to(np.eye(3), (frames, len(JOINTS), 3, 3)).copy()
    return Motion(rotations, np.repeat(np.asarray(body.rest_joints[:1]), frames, 0))
