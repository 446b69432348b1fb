"""What steers the generator: depth, skeleton and face of the avatars, never of the real people.

All of it is drawn from fitted bodies and the camera. So the generator's inputs, like the renderer's,
depend on the recording through the pose only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body import INDEX, JOINTS, PARENTS, Camera, Drawing, to_srgb

Frames = npt.NDArray[np.uint8]
CONDITIONS = ("depth", "pose", "face")
_GREY = 128
# eyes, nose and corners of the mouth about the middle of the head: metres left, up and forward
_FEATURES = np.array([
    [0.032, 0.02, 0.08], [-0.032, 0.02, 0.08], [0, -0.01, 0.105], [0.025, -0.05, 0.085],
    [-0.025, -0.05, 0.085],
])  # fmt: skip
_RADIUS = 0.012  # metres: of the dots that mark them


@dataclass(frozen=True)
class DrawnBody:
    """One avatar as it was drawn: fitted joints (T, 24, 3) and in which frames it is there."""

    joints: npt.NDArray[np.float64]
    present: npt.NDArray[np.bool_]


def over_grey(drawings: Sequence[Drawing]) -> Frames:
    """The avatars over one constant colour: nothing of the recording is behind them."""
    out = []
    for drawing in drawings:
        alpha = drawing.alpha[..., None]
        colour = to_srgb(drawing.colour / np.maximum(alpha, 1e-6))
        out.append(np.rint(colour * alpha + _GREY * (1 - alpha)).astype(np.uint8))
    return np.stack(out)


def condition(
    name: str, drawings: Sequence[Drawing], figures: Sequence[DrawnBody], camera: Camera
) -> Frames:
    """Pictures (T, H, W, 3) of one condition."""
    if name == "depth":
        return _depth(drawings)
    draw = _skeleton if name == "pose" else _face
    pictures = np.zeros((len(drawings), camera.height, camera.width, 3), np.uint8)
    for t, picture in enumerate(pictures):
        for figure in figures:
            if figure.present[t]:
                draw(picture, figure.joints[t], camera)
    return pictures


def _depth(drawings: Sequence[Drawing]) -> Frames:
    """Near is bright, nobody is black; one scale for all frames, so that nothing flickers."""
    inverse = np.stack([1 / np.maximum(drawing.depth, 1e-3) for drawing in drawings])
    there = inverse > 0
    if not there.any():
        return np.zeros((*inverse.shape, 3), np.uint8)
    low, high = float(inverse[there].min()), float(inverse.max())
    scaled = 55 + 200 * (inverse - low) / max(high - low, 1e-6)
    grey = np.where(there, np.rint(scaled), 0).astype(np.uint8)
    return np.repeat(grey[..., None], 3, -1)


def _skeleton(
    picture: npt.NDArray[np.uint8], joints: npt.NDArray[np.float64], camera: Camera
) -> None:
    spots, depth = camera.project(joints), camera.to_camera(joints)[:, 2]
    for child, parent in enumerate(PARENTS):
        if parent < 0 or min(depth[child], depth[parent]) < 0.1:
            continue
        hue = np.array([[[round(179 * child / len(JOINTS)), 255, 255]]], np.uint8)
        colour = [int(c) for c in cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0]]
        ends = [(round(float(x)), round(float(y))) for x, y in spots[[child, parent]]]
        thick = max(1, round(0.03 * camera.focal / float(depth[child])))
        cv2.line(picture, ends[0], ends[1], colour, thick, cv2.LINE_AA)


def _face(picture: npt.NDArray[np.uint8], joints: npt.NDArray[np.float64], camera: Camera) -> None:
    """Dots for eyes, nose and mouth, turned as the shoulders are; none from behind."""
    left = joints[INDEX["left_shoulder"]] - joints[INDEX["right_shoulder"]]
    up = joints[INDEX["crown"]] - joints[INDEX["neck"]]
    left = left / max(float(np.linalg.norm(left)), 1e-6)
    up = up / max(float(np.linalg.norm(up)), 1e-6)
    forward = np.cross(left, up)
    middle = (joints[INDEX["head"]] + joints[INDEX["crown"]]) / 2
    if forward @ (camera.position - middle) <= 0 or camera.to_camera(middle)[2] < 0.1:
        return
    places = middle + _FEATURES @ np.stack([left, up, forward])
    size = max(1, round(_RADIUS * camera.focal / float(camera.to_camera(middle)[2])))
    for x, y in camera.project(places):
        cv2.circle(picture, (round(float(x)), round(float(y))), size, (255, 255, 255), -1)
