"""PCKh, PCK by torso and OKS as plain functions of arrays, and which of them a data set is scored by."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.data._joints import COCO, vocabulary

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


@dataclass(frozen=True)
class PoseMeasures:
    """Shares of one: the data set's own measure, each joint's, and other measures of the same answers."""

    name: str
    value: float
    per_joint: dict[str, float]
    others: dict[str, float] = field(default_factory=dict)


# MPII's evaluation leaves them out of the mean
_NOT_IN_PCKH = frozenset({"pelvis", "thorax"})


def pose_measures(
    predicted: Array,
    truth: Array,
    names: str | tuple[str, ...],
    scores: Array | None = None,
    *,
    head_size: Array | None = None,
    area: Array | None = None,
) -> PoseMeasures:
    """Every measure that these people allow, the first of them as the data set's own.

    PCKh@0.5 and @0.1 where a head size is known, over all annotated joints but pelvis and thorax, as
    MPII counts; OKS average precision where an area is known and the joints are COCO's; PCK@0.2 and
    @0.1 by torso, mean over joints, as LSP is evaluated. ``scores`` (people,) rank predictions.
    """
    have = vocabulary(names)
    found: dict[str, float] = {}
    own = None
    if head_size is not None and np.isfinite(head_size).any():
        for threshold in (0.5, 0.1):
            every = pckh(predicted, truth, head_size, threshold)
            found[f"PCKh@{threshold}"] = _mean_as_mpii(every, truth, head_size, have)
            own = every if own is None else own
    if have == COCO and area is not None and np.isfinite(area).any():
        similar = np.where(np.isfinite(area), oks(predicted, truth, area), np.nan)
        sure = np.ones(len(truth)) if scores is None else scores
        found["OKS average precision"] = oks_average_precision(similar, sure)
    if {"left_shoulder", "right_hip"} <= set(have):
        size = torso_size(truth, have)
        for threshold in (0.2, 0.1):
            every = pck(predicted, truth, size, threshold)
            if np.isfinite(every).any():
                found[f"PCK@{threshold} by torso"] = float(np.nanmean(every))
                own = every if own is None else own
    if not found:
        return PoseMeasures("PCK@0.2 by torso", float("nan"), {})
    shares = () if own is None else own
    per_joint = {n: float(v) for n, v in zip(have, shares) if np.isfinite(v)}
    (name, value), *others = found.items()
    return PoseMeasures(name, value, per_joint, dict(others))


def _mean_as_mpii(every: Array, truth: Array, head_size: Array, names: tuple[str, ...]) -> float:
    """The mean over joints weighted by how often each is annotated: every annotated joint counts once."""
    usable = np.isfinite(head_size) & (head_size > 0)
    counts = ((truth[..., 2] > 0) & usable[:, None]).sum(0)
    weight = np.array([0 if name in _NOT_IN_PCKH else count for name, count in zip(names, counts)])
    if not weight.sum():
        return float("nan")
    return float((np.nan_to_num(every) * weight).sum() / weight.sum())
