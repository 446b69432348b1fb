"""How well an attacker does on one attribute, in several ways, because one number hides leaks.

At an 80/20 prior an attacker may learn a lot and still never beat the majority guess. So beside
accuracy stand balanced accuracy, the area under the ROC curve and mutual information.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from sfumato.audit.measure._measure import BatchedMeasure, MeasureError, Result

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class AttributeScores:
    """An attacker's success on held-out records. Empirical: never a bound on what another learns.

    ``information`` is the mutual information in nats between the attribute and the attacker's view,
    as estimated by the attack; ``information_bias`` is what that estimate shows where nothing
    leaks at all, to first order.
    """

    accuracy: float
    interval: tuple[float, float]
    guessing: float
    balanced_accuracy: float
    auc: float
    information: float
    information_bias: float
    records: int
    classes: int
    balanced_interval: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        lists = {
            "interval": list(self.interval),
            "balanced_interval": list(self.balanced_interval),
        }
        return asdict(self) | lists

    def results(self, **facts: Any) -> list[Result]:
        """Balanced accuracy first, because accuracy hides leaks behind a majority (H13)."""
        shares: dict[str, Any] = {
            "higher_is_better": False,
            "bounds": (0.0, 1.0),
            "confidence": 0.95,
        }
        low, high = self.balanced_interval
        balanced = Result(
            "balanced accuracy of an attribute",
            "privacy",
            value=self.balanced_accuracy,
            low=low,
            high=high,
            chance=1 / self.classes,
            **shares,
        )
        low, high = self.interval
        plain = Result(
            "accuracy of an attribute",
            "privacy",
            value=self.accuracy,
            low=low,
            high=high,
            chance=self.guessing,
            **shares,
        )
        return [balanced.about(**facts), plain.about(**facts)]


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """95 % interval of a proportion; sound near 0 and 1, where the normal one is not."""
    if trials < 1:
        raise MeasureError("Expected at least one trial for an interval, got none.")
    share, square = successes / trials, _Z95**2
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = (
        _Z95
        / (1 + square / trials)
        * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    )
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(mean: float, counts: npt.ArrayLike) -> tuple[float, float]:
    """95 % interval of a mean of proportions, one a class with ``counts`` trials.

    Wilson's, at the number of trials K^2 / sum(1 / n_k) with which one proportion would vary as the
    mean of K equal ones does: sound where every class was always right, as a bootstrap is not.
    """
    trials = np.asarray(counts, dtype=np.float64)
    equal = len(trials) ** 2 / float((1 / trials).sum())
    return wilson(mean * equal, equal)


def majority_rate(codes: Codes) -> float:
    """Accuracy of always naming the most frequent class."""
    return float(np.bincount(codes).max() / len(codes))


def auc(positive: Floats, negative: Floats) -> float:
    """Area under the ROC curve: a positive scores higher than a negative; ties count half."""
    wins, losses = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))[:wins]
    return float((ranks.sum() - wins * (wins + 1) / 2) / (wins * losses))


def auc_variance(area: float, positives: int, negatives: int) -> float:
    """Variance of an AUC times the number of pairs (Hanley and McNeil 1982)."""
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (positives - 1) * (first - area**2) + (negatives - 1) * (second - area**2)
    return area * (1 - area) + spread


def mean_auc(scores: Floats, codes: Codes) -> float:
    """One class against the rest, averaged over the classes that occur; ties count half."""
    areas = []
    for code in np.unique(codes):
        positive = codes == code
        if positive.all():
            continue
        areas.append(auc(scores[positive, code], scores[~positive, code]))
    return float(np.mean(areas)) if areas else 0.5


def plug_in_information(joint: Floats) -> float:
    """I(S; X') in nats of a joint distribution (classes, outputs)."""
    joint = joint / joint.sum()
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / product[seen])).sum())


def plug_in_bias(classes: int, outputs: int, records: int) -> float:
    """(|S| - 1)(|X'| - 1) / 2n: what the plug-in estimate shows of independent variables."""
    return (classes - 1) * (outputs - 1) / (2 * records)


class ClassifierScores(BatchedMeasure):
    """Scores of an attacker that gives class probabilities for single records."""

    name = "attribute inference"
    higher_is_better = False
    bounds = (0.0, 1.0)

    def __init__(self, class_count: int, prior: Floats | None = None) -> None:
        super().__init__()
        self.class_count, self.prior = class_count, prior

    def update(
        self,
        probabilities: npt.ArrayLike,
        codes: npt.ArrayLike,
        groups: Sequence[object] | None = None,
    ) -> None:
        """``groups`` says which records are of one person: together they count as one trial."""
        given = np.asarray(probabilities, dtype=np.float64)
        truth = np.asarray(codes, dtype=np.int64)
        if given.shape != (len(truth), self.class_count):
            raise MeasureError(
                f"Expected probabilities of shape {(len(truth), self.class_count)}, "
                f"got {given.shape}."
            )
        names = [f"record {self.count + i}" for i in range(len(truth))]
        if groups is not None:
            names = [f"group {each}" for each in groups]
        if len(names) != len(truth):
            raise MeasureError(f"Expected {len(truth)} groups, one a record, got {len(names)}.")
        self.keep(given, truth, np.array(names))

    def compute(self) -> AttributeScores:
        probabilities, codes, groups = self.joined()
        guess = probabilities.argmax(1)
        hits = guess == codes
        counts = np.bincount(codes, minlength=self.class_count)
        prior = counts / counts.sum() if self.prior is None else self.prior
        # maximise balanced accuracy, not accuracy: divide the prior out of the posterior
        balanced_guess = (probabilities / np.clip(prior, 1e-12, None)).argmax(1)
        present = np.unique(codes)
        recall = [float((balanced_guess[codes == code] == code).mean()) for code in present]
        own = np.clip(probabilities[np.arange(len(codes)), codes], 1e-12, None)
        share = counts[counts > 0] / counts.sum()
        # records of one person are right or wrong together, so that people are what is counted
        people = len(np.unique(groups))
        in_class = [len(np.unique(groups[codes == code])) for code in present]
        return AttributeScores(
            accuracy=float(hits.mean()),
            interval=wilson(float(hits.mean()) * people, people),
            guessing=majority_rate(codes),
            balanced_accuracy=float(np.mean(recall)),
            auc=mean_auc(probabilities, codes),
            # H(S) - cross entropy: a lower bound on I(S; X'), which only an attacker can raise
            information=float(-(share * np.log(share)).sum() + np.log(own).mean()),
            information_bias=0.0,
            records=len(codes),
            classes=len(present),
            balanced_interval=mean_interval(float(np.mean(recall)), in_class),
        )

    def results(self, **facts: Any) -> list[Result]:
        return self.compute().results(**facts)
