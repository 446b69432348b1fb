"""Vectors that tell people apart: faces, gait, and any view after it learned whom to tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._attacker import Space
from sfumato.audit.measure._measure import MeasureError
from sfumato.people import PoseEstimator

Floats = npt.NDArray[np.float64]
# BlazePose: shoulders, elbows, wrists, hips, knees, ankles
_BODY = (11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
_POSE_BONES = ((0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (6, 7), (6, 8), (7, 9), (8, 10), (9, 11),
               (0, 6), (1, 7))  # fmt: skip


def gait_vector(
    joints: npt.ArrayLike, bones: Sequence[tuple[int, int]], *, proportions: bool = True
) -> Floats:
    """How somebody is built and moves, from joints (T, J, D): wherever they stand, whatever size.

    Lengths of bones (median over time, relative to all of them) and how the directions of bones
    spread and follow each other. ``proportions=False`` leaves the lengths out: what remains after a
    body was replaced by another.
    """
    points = np.asarray(joints, np.float64)
    if points.ndim != 3 or not len(points):
        raise MeasureError(f"Expected joints (frames, joints, dimensions), got {points.shape}.")
    vectors = np.stack([points[:, b] - points[:, a] for a, b in bones], 1)
    lengths = np.linalg.norm(vectors, axis=2)
    ways = vectors / np.maximum(lengths, 1e-9)[..., None]
    speed = np.abs(np.diff(ways, axis=0)).mean(0) if len(ways) > 1 else np.zeros(ways.shape[1:])
    parts = [ways.mean(0).ravel(), ways.std(0).ravel(), speed.ravel()]
    if proportions:
        usual = np.median(lengths, axis=0)
        parts.insert(0, usual / max(float(usual.mean()), 1e-9))
    return np.concatenate(parts)


def gait_of_clip(
    frames: npt.NDArray[np.uint8], estimator: PoseEstimator, *, pictures: int = 4
) -> Floats:
    """``gait_vector`` of the pose found in a few frames; zeros where no pose was found."""
    places = ((np.arange(pictures) + 0.5) * len(frames) / pictures).astype(int)
    found = []
    for place in np.unique(np.minimum(places, len(frames) - 1)):
        seen = estimator.estimate(np.ascontiguousarray(frames[place]))
        if seen:
            best = max(seen, key=lambda pose: pose.score)
            found.append(best.world[list(_BODY)])
    size = len(gait_vector(np.zeros((1, len(_BODY), 3)), _POSE_BONES))
    return gait_vector(np.stack(found), _POSE_BONES) if found else np.zeros(size)


def discriminant_features(
    views: Mapping[str, Any], asked: Mapping[str, Any], identities: Sequence[object]
) -> tuple[Floats, Floats]:
    """Vectors of ``views`` and of ``asked`` in which the identities of ``views`` lie far apart.

    Linear discriminant analysis with a shrunk covariance: directions in which one identity varies
    little are stretched. It learns from ``views``, so ask with other recordings.
    """
    space = Space.of(views)
    points, other = space(views), space(asked)
    names, number = np.unique([str(each) for each in identities], return_inverse=True)
    means = np.stack([points[number == k].mean(0) for k in range(len(names))])
    within = np.cov((points - means[number]).T, bias=True).reshape(points.shape[1], -1)
    scale = max(float(np.trace(within)) / len(within), 1e-12)
    values, vectors = np.linalg.eigh(0.5 * within + 0.5 * scale * np.eye(len(within)))
    stretch = vectors / np.sqrt(values)
    return points @ stretch, other @ stretch
