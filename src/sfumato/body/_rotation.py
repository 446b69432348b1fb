"""Small rotations algebra, vectorised over frames."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_TINY = 1e-9


def unit(vectors: npt.ArrayLike) -> Floats:
    """Vectors (..., 3) at length one; a zero vector stays zero."""
    given = np.asarray(vectors, dtype=np.float64)
    return np.asarray(given / np.maximum(np.linalg.norm(given, axis=-1, keepdims=True), _TINY))


def frame(first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
    """Orthonormal frames (..., 3, 3) whose columns are ``first``, then ``second`` made square to it."""
    a = unit(first)
    b = np.asarray(second, dtype=np.float64)
    b = unit(b - (a * b).sum(-1, keepdims=True) * a)
    return np.stack([a, b, np.cross(a, b)], -1)


def swing(start: npt.ArrayLike, end: npt.ArrayLike, *, at_most: float = np.pi) -> Floats:
    """The smallest rotation that takes direction ``start`` to ``end``, by at most ``at_most``."""
    a, b = np.broadcast_arrays(unit(start), unit(end))
    axis = np.cross(a, b)
    sine = np.linalg.norm(axis, axis=-1)
    angle = np.minimum(np.arctan2(sine, (a * b).sum(-1)), at_most)
    # opposite directions have no smallest rotation: any axis square to them will do
    spare = np.cross(a, np.where(np.abs(a[..., :1]) < 0.9, [1.0, 0, 0], [0, 1.0, 0]))
    axis = np.where(sine[..., None] > 1e-7, axis, spare)
    return turn(unit(axis), angle)


def turn(axis: npt.ArrayLike, angle: npt.ArrayLike) -> Floats:
    """Rotation matrices about unit axes (..., 3) by angles in radians (Rodrigues)."""
    x, y, z = np.moveaxis(np.asarray(axis, dtype=np.float64), -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*x.shape, 3, 3)
    theta = np.asarray(angle, dtype=np.float64)[..., None, None]
    return np.asarray(np.eye(3) + np.sin(theta) * cross + (1 - np.cos(theta)) * (cross @ cross))


def angle_of(rotation: Floats) -> Floats:
    """The angle of rotations (..., 3, 3), in radians."""
    trace = np.trace(rotation, axis1=-2, axis2=-1)
    return np.asarray(np.arccos(np.clip((trace - 1) / 2, -1, 1)))


def part_of(rotation: Floats, share: float) -> Floats:
    """A share of a rotation about its own axis (share 0.5 is half way from the identity)."""
    angle = angle_of(rotation)
    skew = np.stack([
        rotation[..., 2, 1] - rotation[..., 1, 2],
        rotation[..., 0, 2] - rotation[..., 2, 0],
        rotation[..., 1, 0] - rotation[..., 0, 1],
    ], -1)  # fmt: skip
    return turn(unit(skew), angle * share)


def limited(rotation: Floats, at_most: float) -> Floats:
    """The same rotation, by no more than ``at_most`` radians."""
    angle = angle_of(rotation)
    over = angle > at_most
    if not over.any():
        return rotation
    out = rotation.copy()
    for index in zip(*np.nonzero(over), strict=True):
        out[index] = part_of(rotation[index], at_most / float(angle[index]))
    return out
