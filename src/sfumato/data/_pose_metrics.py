"""PCKh, PCK by torso and OKS as plain functions of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.data._joints import vocabulary

Array = npt.NDArray[np.floating]

# Per-joint deviations of COCO's keypoint evaluation, in the order of its 17 joints.
COCO_SIGMAS = np.array(
    [
        *(0.026, 0.025, 0.025, 0.035, 0.035),
        *(0.079, 0.079, 0.072, 0.072, 0.062, 0.062),
        *(0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
    ]
)


def pck(predicted: Array, truth: Array, size: Array, threshold: float) -> npt.NDArray[np.float64]:
    """Share of joints within ``threshold`` x ``size`` of the truth, per joint; NaN where none counts.

    ``predicted`` (people, J, 2), ``truth`` (people, J, 3) with weights, ``size`` (people,). People
    whose size is NaN or zero, and joints of weight zero, do not count.
    """
    distance = np.linalg.norm(predicted[..., :2] - truth[..., :2], axis=-1)
    usable = np.isfinite(size) & (size > 0)
    counts = (truth[..., 2] > 0) & usable[:, None]
    right = counts & (distance <= threshold * np.where(usable, size, 1.0)[:, None])
    total = counts.sum(0)
    return np.where(total > 0, right.sum(0) / np.maximum(total, 1), np.nan)


def pckh(
    predicted: Array, truth: Array, head_size: Array, threshold: float = 0.5
) -> npt.NDArray[np.float64]:
    """PCK by head size, as MPII is evaluated; per joint."""
    return pck(predicted, truth, head_size, threshold)


def torso_size(truth: Array, names: str | tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Left shoulder to right hip, as LSP is evaluated; NaN where either is not annotated."""
    have = vocabulary(names)
    a, b = truth[:, have.index("left_shoulder")], truth[:, have.index("right_hip")]
    size = np.linalg.norm(a[:, :2] - b[:, :2], axis=-1)
    return np.where((a[:, 2] > 0) & (b[:, 2] > 0), size, np.nan)


def oks(predicted: Array, truth: Array, area: Array, sigmas: Array = COCO_SIGMAS) -> Array:
    """Object keypoint similarity of each person: mean of exp(-d^2 / (2 area (2 sigma)^2)).

    NaN for a person without annotated joints.
    """
    squared = np.square(predicted[..., :2] - truth[..., :2]).sum(-1)
    spread = 2 * np.asarray(area)[:, None] * np.square(2 * sigmas) + np.spacing(1)
    weight = truth[..., 2] > 0
    total = weight.sum(1)
    summed = (np.exp(-squared / spread) * weight).sum(1)
    return np.where(total > 0, summed / np.maximum(total, 1), np.nan)


def oks_average_precision(similarity: Array, scores: Array) -> float:
    """COCO's AP for predictions made one a person: mean over OKS thresholds 0.50, 0.55 ... 0.95.

    ``similarity`` is the OKS of each prediction with its person (NaN where no joint is annotated:
    left out), ``scores`` its confidence. Precision is interpolated at 101 recalls, as COCO does.
    """
    counts = np.isfinite(similarity)
    if not counts.any():
        return float("nan")
    ranked = np.asarray(similarity)[counts][np.argsort(-np.asarray(scores)[counts], kind="stable")]
    people, recalls = len(ranked), np.linspace(0, 1, 101)
    precisions = []
    for threshold in np.linspace(0.5, 0.95, 10):
        right = np.cumsum(ranked >= threshold)
        recall, precision = right / people, right / np.arange(1, people + 1)
        best = np.maximum.accumulate(precision[::-1])[::-1]
        place = np.searchsorted(recall, recalls, side="left")
        precisions.append(np.where(place < people, best[np.minimum(place, people - 1)], 0.0).mean())
    return float(np.mean(precisions))
