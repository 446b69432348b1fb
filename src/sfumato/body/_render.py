"""Drawing bodies on the CPU: colour, depth, exact alpha and who is in front.

Rays go through embree. Pixels away from edges take one ray, edge pixels ``samples`` squared;
alpha is the share of a pixel's rays that hit a body, so alpha == 1 means that no ray saw anything
else and the pixel is a function of bodies, poses, camera and light alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body._body import Mesh
from sfumato.body._camera import Camera
from sfumato.body._skeleton import Floats
from sfumato.errors import needs_extra

NOBODY = -1
_NEAR = 0.05
# rays have a direction of depth one, and embree measures along the direction: t is the depth


@dataclass(frozen=True)
class Light:
    """A soft key light, a sky above and a floor below, all in linear RGB."""

    direction: tuple[float, float, float] = (0.35, 0.8, 0.55)  # towards the light
    key: tuple[float, float, float] = (0.95, 0.92, 0.86)
    sky: tuple[float, float, float] = (0.42, 0.45, 0.50)
    ground: tuple[float, float, float] = (0.20, 0.18, 0.16)

    def shade(self, colours: Floats, normals: Floats, to_eye: Floats) -> npt.NDArray[np.float32]:
        """Wrapped diffuse light and a hemisphere of ambient: soft, without hard terminators."""
        towards = np.asarray(self.direction, np.float32)
        towards = towards / np.linalg.norm(towards)
        facing = normals @ towards
        wrapped = np.clip((facing + 0.35) / 1.35, 0, 1)[:, None] ** 1.5
        up = (0.5 + 0.5 * normals[:, 1])[:, None]
        ambient = up * np.asarray(self.sky, np.float32) + (1 - up) * np.asarray(
            self.ground, np.float32
        )
        # surfaces seen at a grazing angle get a little darker, which draws the form
        grazing = 0.72 + 0.28 * np.clip(np.abs((normals * to_eye).sum(1)), 0, 1)[:, None]
        lit = colours * (wrapped * np.asarray(self.key, np.float32) + ambient) * grazing
        return np.asarray(lit, dtype=np.float32)


@dataclass(frozen=True)
class Drawing:
    """One frame of bodies on nothing.

    ``colour`` is linear RGB premultiplied by ``alpha``; ``depth`` is in metres along the view
    axis, infinite where nobody is; ``owner`` is the index of the nearest body or -1.
    """

    colour: npt.NDArray[np.float32]
    alpha: npt.NDArray[np.float32]
    depth: npt.NDArray[np.float32]
    owner: npt.NDArray[np.int32]

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Where the body covers the whole pixel: written by the renderer alone."""
        return np.asarray(self.alpha == 1)

    @property
    def touched(self) -> npt.NDArray[np.bool_]:
        """Where the body covers any of the pixel."""
        return np.asarray(self.alpha > 0)


def draw(
    meshes: Sequence[Mesh], camera: Camera, *, light: Light | None = None, samples: int = 3
) -> Drawing:
    """Draw all bodies together, so that the nearer hides the farther."""
    height, width = camera.height, camera.width
    blank = Drawing(
        np.zeros((height, width, 3), np.float32),
        np.zeros((height, width), np.float32),
        np.full((height, width), np.inf, np.float32),
        np.full((height, width), NOBODY, np.int32),
    )
    scene = BodyScene(meshes, camera)
    box = scene.box
    if box is None:
        return blank
    left, top, right, bottom = box
    ys, xs = np.mgrid[top:bottom, left:right]
    shape = ys.shape
    first = scene.cast(xs.ravel() + 0.5, ys.ravel() + 0.5, light or Light())
    colour = first.colour.reshape(*shape, 3)
    alpha = first.hit.reshape(shape).astype(np.float32)
    owner = first.owner.reshape(shape)
    depth = first.depth.reshape(shape)
    edge = _edges(owner)
    if samples > 1 and edge.any():
        ey, ex = np.nonzero(edge)
        offsets = (np.arange(samples) + 0.5) / samples
        oy, ox = (grid.ravel() for grid in np.meshgrid(offsets, offsets, indexing="ij"))
        fine = scene.cast(
            (ex[:, None] + left + ox).ravel(), (ey[:, None] + top + oy).ravel(), light or Light()
        )
        count = samples * samples
        hits = fine.hit.reshape(-1, count)
        colour[ey, ex] = fine.colour.reshape(-1, count, 3).mean(1)
        alpha[ey, ex] = hits.sum(1).astype(np.float32) / np.float32(count)
        near = fine.depth.reshape(-1, count)
        nearest = near.argmin(1)[:, None]
        depth[ey, ex] = np.take_along_axis(near, nearest, 1)[:, 0]
        owner[ey, ex] = np.take_along_axis(fine.owner.reshape(-1, count), nearest, 1)[:, 0]
    blank.colour[top:bottom, left:right] = colour
    blank.alpha[top:bottom, left:right] = alpha
    blank.depth[top:bottom, left:right] = depth
    blank.owner[top:bottom, left:right] = owner
    return blank


@dataclass(frozen=True)
class _Hits:
    hit: npt.NDArray[np.bool_]
    colour: npt.NDArray[np.float32]
    depth: npt.NDArray[np.float32]
    owner: npt.NDArray[np.int32]


class BodyScene:
    """Posed bodies in embree's tree, seen from one camera."""

    def __init__(self, meshes: Sequence[Mesh], camera: Camera) -> None:
        self.camera = camera
        self._faces, self._owner = _visible(meshes, camera)
        if meshes:
            self._vertices = np.concatenate([mesh.vertices for mesh in meshes])
            self._normals = np.concatenate([mesh.normals for mesh in meshes])
            self._colours = np.concatenate([mesh.colours for mesh in meshes])
        self._tree: Any = None

    @property
    def box(self) -> tuple[int, int, int, int] | None:
        """The pixels (left, top, right, bottom) that a body may touch, or None."""
        if not len(self._faces):
            return None
        used = np.zeros(len(self._vertices), bool)
        used[self._faces.ravel()] = True
        seen = self.camera.project(self._vertices[used])
        low, high = np.floor(seen.min(0)).astype(int) - 1, np.ceil(seen.max(0)).astype(int) + 1
        left, top = max(int(low[0]), 0), max(int(low[1]), 0)
        right = min(int(high[0]), self.camera.width)
        bottom = min(int(high[1]), self.camera.height)
        return None if right <= left or bottom <= top else (left, top, right, bottom)

    def cast(self, x: Floats, y: Floats, light: Light) -> _Hits:
        """Follow the rays through pixel positions ``x``, ``y``."""
        directions = self.camera.rays(x, y)
        origins = np.broadcast_to(self.camera.position.astype(np.float32), directions.shape)
        found = self._embree().run(np.ascontiguousarray(origins), directions, output=True)
        triangle = found["primID"]
        hit = triangle >= 0
        which = triangle[hit]
        u, v = found["u"][hit, None], found["v"][hit, None]
        corners = self._faces[which]
        parts = (1 - u - v, u, v)
        normal = sum(p * self._normals[corners[:, k]] for k, p in enumerate(parts))
        normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
        tone = sum(p * self._colours[corners[:, k]] for k, p in enumerate(parts))
        to_eye = -directions[hit]
        to_eye /= np.linalg.norm(to_eye, axis=1, keepdims=True)
        colour = np.zeros((len(hit), 3), np.float32)
        colour[hit] = light.shade(tone, normal, to_eye)
        depth = np.where(hit, found["tfar"], np.inf).astype(np.float32)
        owner = np.full(len(hit), NOBODY, np.int32)
        owner[hit] = self._owner[which]
        return _Hits(hit, colour, depth, owner)

    def _embree(self) -> Any:
        if self._tree is None:
            with needs_extra("embreex", "render", "Rendering people"):
                from embreex.mesh_construction import TriangleMesh
                from embreex.rtcore_scene import EmbreeScene

            self._tree = EmbreeScene()
            TriangleMesh(self._tree, self._vertices, self._faces)
        return self._tree


def _visible(
    meshes: Sequence[Mesh], camera: Camera
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Triangles that face the camera: the others are the inside of a body and always hidden."""
    eye = camera.position.astype(np.float32)
    kept, owners, offset = [np.zeros((0, 3), np.int32)], [np.zeros(0, np.int32)], 0
    for index, mesh in enumerate(meshes):
        a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
        outward = np.cross(b - a, c - a)
        in_front = camera.to_camera(a)[:, 2] > _NEAR
        front = ((eye - a) * outward).sum(1) > 0
        chosen = mesh.faces[front & in_front] + np.int32(offset)
        kept.append(chosen)
        owners.append(np.full(len(chosen), index, np.int32))
        offset += len(mesh.vertices)
    return np.ascontiguousarray(np.concatenate(kept)), np.concatenate(owners)


def _edges(owner: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Pixels next to one that shows somebody else, or nobody."""
    plane = owner.astype(np.int16)
    kernel = np.ones((3, 3), np.uint8)
    return np.asarray(cv2.dilate(plane, kernel) != cv2.erode(plane, kernel))


_LEVELS = 1 << 14


def _curve() -> npt.NDArray[np.uint8]:
    linear = np.arange(_LEVELS + 1) / _LEVELS
    curved = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(curved * 255), dtype=np.uint8)


_SRGB = _curve()


def to_srgb(linear: Floats) -> npt.NDArray[np.uint8]:
    """Linear light in 0..1 to 8-bit sRGB; a table, because every frame of a clip passes here."""
    levels = np.rint(np.clip(linear, 0, 1) * _LEVELS).astype(np.int32)
    coded: npt.NDArray[np.uint8] = np.take(_SRGB, levels)
    return coded
