"""One staged recording: an actor does an action in a room, seen by a camera."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body import Body, Camera, Mesh, Motion, VirtualPerson, draw, to_srgb
from sfumato.stage._room import Backdrop, Room, backdrop

_SHADOW = 0.45  # how much of the light the person takes away


@dataclass(frozen=True)
class Clip:
    """Frames and their full ground truth; T frames of H x W pixels.

    ``mask`` is True where the person covers the whole pixel, ``alpha`` is the exact coverage (0 to
    255 for 0 to 1), ``depth`` is in metres, ``joints`` are in the world, ``pixels`` in the image.
    ``empty`` is the room without the person and the shadow.
    """

    frames: npt.NDArray[np.uint8]
    mask: npt.NDArray[np.bool_]
    alpha: npt.NDArray[np.uint8]
    depth: npt.NDArray[np.float16]
    joints: npt.NDArray[np.float32]
    pixels: npt.NDArray[np.float32]
    empty: npt.NDArray[np.uint8]
    camera: Camera
    action: str
    actor: str
    person: VirtualPerson
    room: Room


def film(
    body: Body,
    motion: Motion,
    room: Room,
    camera: Camera,
    *,
    action: str,
    actor: str,
    person: VirtualPerson,
    samples: int = 3,
) -> Clip:
    """Draw every frame of a motion in a room."""
    scene = backdrop(room, camera)
    joints, dark = body.joints(motion), _Shadow(scene, room)
    shape = (len(motion), camera.height, camera.width)
    frames = np.zeros((*shape, 3), np.uint8)
    mask, alpha = np.zeros(shape, bool), np.zeros(shape, np.uint8)
    depth = np.zeros(shape, np.float16)
    for t in range(len(motion)):
        mesh = body.mesh(motion, t)
        drawn = draw([mesh], camera, light=room.light, samples=samples)
        front = (drawn.depth < scene.depth)[..., None]  # furniture may stand in front
        cover = drawn.alpha[..., None] * front
        behind = scene.colour * dark.keeps(mesh)[..., None]
        frames[t] = to_srgb(drawn.colour * front + (1 - cover) * behind)
        alpha[t] = np.rint(cover[..., 0] * 255)
        mask[t] = cover[..., 0] == 1
        depth[t] = np.where(front[..., 0], drawn.depth, scene.depth)
    return Clip(
        frames=frames,
        mask=mask,
        alpha=alpha,
        depth=depth,
        joints=joints.astype(np.float32),
        pixels=camera.project(joints).astype(np.float32),
        empty=to_srgb(scene.colour),
        camera=camera,
        action=action,
        actor=actor,
        person=person,
        room=room,
    )


class _Shadow:
    """The person's soft shadow on floor, walls and furniture, from a map seen from the light.

    Vertices are dropped into cells of 4 cm across the light's direction; the gaps between them
    are closed and the edge blurred. Points nearer to the light than the person stay lit.
    """

    _CELL = 0.04
    _SIDE = 128

    def __init__(self, scene: Backdrop, room: Room) -> None:
        towards = np.asarray(room.light.direction, np.float32)
        towards /= np.linalg.norm(towards)
        right = np.cross(np.array([0, 1, 0], np.float32), towards)
        right /= np.linalg.norm(right)
        self._axes = np.stack([right, np.cross(towards, right), towards], 1)
        seen = scene.points.reshape(-1, 3) @ self._axes
        self._column, self._row = (self._cells(seen[:, k]) for k in (0, 1))
        self._nearness = seen[:, 2]
        self._shape = scene.depth.shape

    def keeps(self, mesh: Mesh) -> npt.NDArray[np.float32]:
        """The share of light that every background pixel keeps beside ``mesh``."""
        seen = mesh.vertices @ self._axes
        cells = np.zeros((self._SIDE, self._SIDE), np.uint8)
        cells[self._cells(seen[:, 1]), self._cells(seen[:, 0])] = 255
        closed = cv2.morphologyEx(cells, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
        soft = cv2.GaussianBlur(closed, (0, 0), 1.2).astype(np.float32) / 255
        hidden = soft[self._row, self._column] * (self._nearness < seen[:, 2].mean())
        return np.asarray(1 - _SHADOW * hidden.reshape(self._shape), dtype=np.float32)

    def _cells(self, metres: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
        cell = np.rint(metres / self._CELL).astype(np.intp) + self._SIDE // 2
        # the outermost cells belong to no person and stay lit
        return np.where((cell < 1) | (cell > self._SIDE - 2), 0, cell)
