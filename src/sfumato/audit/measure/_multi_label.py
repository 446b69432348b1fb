"""Several attributes a picture: cMAP and class-wise F1, as Video-DPRP (4.3) takes them from VISPR.

cMAP (Orekondy, Schiele, Fritz 2017) is the average precision of every attribute, averaged over the
attributes. F1 is taken class by class at a probability of one half, then averaged. Guessing is not
0 for either: without any knowledge the average precision is about the share p of pictures that show
the attribute (``blind_precision`` is exact), and the best F1 is that of always saying yes, 2 p / (1 + p). Both stand beside the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.measure._measure import BatchedMeasure, Estimate, MeasureError, Result

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_DRAWS = 400


def average_precision(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Mean, over the positive records, of the precision among all records scored at least as high.

    Records of equal score are reached together, so that the order they came in does not matter.
    """
    given, positive = np.asarray(scores, np.float64), np.asarray(truth, bool)
    if not positive.any():
        raise MeasureError("Expected at least one record with the attribute, got none.")
    order = np.argsort(-given, kind="stable")
    ranked, hits = given[order], np.cumsum(positive[order])
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    gained = np.diff(hits[last], prepend=0)
    return float((gained * hits[last] / (last + 1)).sum() / positive.sum())


def blind_precision(positive: int, records: int) -> float:
    """The expected average precision of a random order, a little above the share of positives.

    At place k stands a positive with k - 1 others before it, each a positive with probability
    (m - 1) / (n - 1): the precision there is (1 + (k - 1)(m - 1) / (n - 1)) / k, averaged over k.
    """
    places = np.arange(1, records + 1)
    others = (positive - 1) / max(records - 1, 1)
    return float(((1 + (places - 1) * others) / places).mean())


def cmap(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Class-wise mean average precision of ``scores`` (records, attributes) against ``truth``.

    Attributes that no record has are left out: they have no precision.
    """
    given, true = _checked(scores, truth)
    kept = true.any(0)
    if not kept.any():
        raise MeasureError("Expected at least one record with any attribute, got none.")
    return float(
        np.mean([average_precision(given[:, k], true[:, k]) for k in np.flatnonzero(kept)])
    )


def class_f1(chosen: npt.ArrayLike, truth: npt.ArrayLike) -> Floats:
    """F1 of every attribute, 2 TP / (2 TP + FP + FN); NaN where nobody has it nor is said to."""
    said, true = np.asarray(chosen, bool), np.asarray(truth, bool)
    right = (said & true).sum(0)
    both = said.sum(0) + true.sum(0)
    return np.where(both > 0, 2 * right / np.maximum(both, 1), np.nan)


@dataclass(frozen=True)
class MultiLabelScores:
    """cMAP and mean F1 with 95 % intervals, and both by attribute."""

    cmap: Estimate
    f1: Estimate
    average_precision: dict[str, float]
    class_f1: dict[str, float]
    records: int


class MultiLabel(BatchedMeasure):
    """Scores of an attacker who says for every picture which attributes it shows.

    ``update(probabilities, truth, groups=None)``: (records, attributes) each. Pictures of one group
    (frames of a video, recordings of a person) are drawn together by the bootstrap that gives the
    intervals: frames of one video are not many pictures.
    """

    name = "cMAP"
    higher_is_better = False
    bounds = (0.0, 1.0)

    def __init__(self, attributes: Sequence[str]) -> None:
        super().__init__()
        self.attributes = tuple(attributes)

    def update(
        self,
        probabilities: npt.ArrayLike,
        truth: npt.ArrayLike,
        groups: Sequence[object] | None = None,
    ) -> None:
        given, true = _checked(probabilities, truth)
        if given.shape[1] != len(self.attributes):
            raise MeasureError(
                f"Expected one column for each of {', '.join(self.attributes)}, got "
                f"{given.shape[1]}."
            )
        names = [f"record {self.count + i}" for i in range(len(given))]
        if groups is not None:
            names = [f"group {each}" for each in groups]
        if len(names) != len(given):
            raise MeasureError(f"Expected {len(given)} groups, one a record, got {len(names)}.")
        self.keep(given, true, np.array(names))

    def compute(self) -> MultiLabelScores:
        scores, truth, groups = self.joined()
        share = truth.mean(0)
        kept = truth.any(0)
        names = np.array(self.attributes)
        precision = {
            str(names[k]): average_precision(scores[:, k], truth[:, k])
            for k in np.flatnonzero(kept)
        }
        f1 = class_f1(scores > 0.5, truth)
        blind = float(np.mean([blind_precision(int(n), len(truth)) for n in truth.sum(0)[kept]]))
        return MultiLabelScores(
            cmap=_estimate(cmap, scores, truth, groups, blind),
            f1=_estimate(
                lambda s, t: float(np.nanmean(class_f1(s > 0.5, t)[kept])),
                scores,
                truth,
                groups,
                float((2 * share / (1 + share))[kept].mean()),
            ),
            average_precision=precision,
            class_f1={str(names[k]): float(f1[k]) for k in np.flatnonzero(kept)},
            records=len(truth),
        )

    def results(self, **facts: Any) -> list[Result]:
        found = self.compute()
        rows = [
            self.result("cMAP", per_class=found.average_precision, **facts),
            self.result("class-wise F1", per_class=found.class_f1, **facts),
        ]
        for name, value in (("cMAP", found.cmap), ("class-wise F1", found.f1)):
            rows.insert(0, self.result(name, **value.parts, **facts))
        return rows


def _estimate(
    score: Callable[[Floats, Bools], float],
    scores: Floats,
    truth: Bools,
    groups: npt.NDArray[Any],
    chance: float,
) -> Estimate:
    """The score with the 95 % percentile interval of a bootstrap over groups."""
    value = score(scores, truth)
    _, number = np.unique(groups, return_inverse=True)
    members = [np.flatnonzero(number == k) for k in range(number.max() + 1)]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(_DRAWS):
        rows = np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])
        if truth[rows].any():
            drawn.append(score(scores[rows], truth[rows]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value), 0.95, chance)


def _checked(scores: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Floats, Bools]:
    given, true = np.asarray(scores, np.float64), np.asarray(truth)
    if given.ndim != 2 or given.shape != true.shape or not len(given):
        raise MeasureError(
            f"Expected scores and truth (records, attributes) of one shape, got {given.shape} and "
            f"{true.shape}."
        )
    return given, true > 0
