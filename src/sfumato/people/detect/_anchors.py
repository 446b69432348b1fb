"""Decoding the single-shot detectors of MediaPipe: anchors, boxes, keypoints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

# MediaPipe's own constants (ssd_anchors_calculator and tensors_to_detections_calculator of 0.10):
# anchors are cell centres of unit size, so a box is the anchor plus what the network says.
_LARGEST_LOGIT = 80.0


@cache
def cell_centres(size: int, layers: tuple[tuple[int, int], ...]) -> Floats:
    """Anchor centres in 0..1: for every (stride, anchors per cell), cell by cell, row by row."""
    rows: list[Floats] = []
    for stride, per_cell in layers:
        cells = size // stride
        axis = (np.arange(cells, dtype=np.float32) + np.float32(0.5)) / np.float32(cells)
        y, x = np.meshgrid(axis, axis, indexing="ij")
        rows.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), per_cell, axis=0))
    centres = np.concatenate(rows)
    centres.setflags(write=False)
    return centres


def decode(
    raw: Floats, logits: Floats, centres: Floats, size: int, threshold: float
) -> tuple[Floats, Floats, Floats]:
    """Corners (n, 4), keypoints (n, k, 2), both in 0..1 of the input, and scores (n,)."""
    scores = 1 / (1 + np.exp(-np.clip(logits.reshape(-1), -_LARGEST_LOGIT, _LARGEST_LOGIT)))
    sure = scores >= threshold
    raw, anchors, scores = raw[sure] / np.float32(size), centres[sure], scores[sure]
    middle, extent = raw[:, :2] + anchors, raw[:, 2:4]
    corners = np.concatenate([middle - extent / 2, middle + extent / 2], axis=1)
    keypoints = raw[:, 4:].reshape(len(raw), raw.shape[1] // 2 - 2, 2) + anchors[:, None]
    return (
        corners.astype(np.float32, copy=False),
        keypoints.astype(np.float32, copy=False),
        scores.astype(np.float32, copy=False),
    )


def suppress_rows(corners: Floats, scores: Floats, threshold: float) -> list[list[int]]:
    """Groups of indices: each starts with a best box and lists the boxes it stands for."""
    order: Sequence[int] = np.argsort(-scores).tolist()
    area = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    groups: list[list[int]] = []
    left = np.array(order, dtype=int)
    while len(left):
        best, rest = left[0], left[1:]
        low = np.maximum(corners[best, :2], corners[rest, :2])
        high = np.minimum(corners[best, 2:], corners[rest, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        same = shared / (area[best] + area[rest] - shared + 1e-12) >= threshold
        groups.append([int(best), *(int(i) for i in rest[same])])
        left = rest[~same]
    return groups


def weighted(rows: Floats, scores: Floats, groups: list[list[int]]) -> Floats:
    """MediaPipe's weighted suppression: each group's mean, weighted by score."""
    means = [np.average(rows[group], axis=0, weights=scores[group]) for group in groups]
    return np.array(means, dtype=np.float32).reshape(len(groups), *rows.shape[1:])
