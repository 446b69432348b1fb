"""Who was in the training set? Attacks on a model, beside what its epsilon allows.

Loss threshold (Yeom et al. 2018) and LiRA (Carlini et al. 2022) with a few shadow models. Success is
reported at low false-positive rates: whoever accuses everybody is right half of the time, and an
attack that names a few people for sure is worse than one that is slightly better than guessing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from sfumato.audit.certify._one_run import one_run_lower_bound
from sfumato.audit.measure._measure import BatchedMeasure, MeasureError, Result
from sfumato.audit.measure._scores import auc, auc_variance
from sfumato.privacy import Guarantee, NoGuarantee, Randomness, UnitKind, true_positive_bound
from sfumato.privacy.clopper_pearson import at_least, at_most
from sfumato.privacy.verdict import LowerBound

Array = npt.NDArray[np.float64]
Members = npt.NDArray[np.bool_]
# fit(indices) trains on those records of the pool and returns the confidence in every record's label
Fit = Callable[[npt.NDArray[np.int64]], Array]

FALSE_POSITIVES = (0.001, 0.01, 0.1)
# With fewer shadows than this a record's own spread is not known: all records share one (Carlini).
_OWN_SPREAD = 64
# Beside a public view, presence and label are public (R1): no epsilon speaks of membership.
_SILENT = {UnitKind.MASKED_TOKENS, UnitKind.FEATURES}


@dataclass(frozen=True)
class AtRate:
    """How many members are named while accusing ``false_positive`` of the others."""

    false_positive: float
    true_positive: float
    interval: tuple[float, float]
    allowed: float | None

    @property
    def beyond(self) -> bool:
        """More than epsilon allows, even at the interval's lower end."""
        return self.allowed is not None and self.interval[0] > self.allowed


@dataclass(frozen=True)
class Membership:
    """What one attack got: AUC, and true-positive rates at low false-positive rates."""

    attack: str
    auc: float
    interval: tuple[float, float]
    rates: tuple[AtRate, ...]
    members: int
    others: int
    confidence: float

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack, "auc": self.auc, "interval": list(self.interval),
            "members": self.members, "others": self.others, "confidence": self.confidence,
            "rates": [
                {"false_positive": rate.false_positive, "true_positive": rate.true_positive,
                 "interval": list(rate.interval), "allowed": rate.allowed, "beyond": rate.beyond}
                for rate in self.rates
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        low, high = self.interval
        said = [f"{self.attack}: AUC {self.auc:.3f} ({low:.3f} to {high:.3f}; guessing has 0.5)"]
        for rate in self.rates:
            allowed = "" if rate.allowed is None else f", epsilon allows {rate.allowed:.3g}"
            said.append(
                f"{100 * rate.true_positive:.3g} % of the members named while accusing "
                f"{100 * rate.false_positive:g} % of the others (at most "
                f"{100 * rate.interval[1]:.3g} %{allowed})"
            )
        return "; ".join(said) + "."


class MembershipSuccess(BatchedMeasure):
    """``update`` with scores (larger: was in) and who was in; ``compute`` gives a ``Membership``.

    A rate's threshold is set by the others' scores, so that at most that share of them is accused;
    with fewer others than 1 / rate nobody may be. Its interval is Clopper-Pearson's for the members.
    """

    name: ClassVar[str] = "membership inference"
    higher_is_better: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(
        self,
        attack: str = "membership inference",
        *,
        promise: Guarantee | NoGuarantee | None = None,
        confidence: float = 0.95,
    ) -> None:
        super().__init__()
        self.attack, self.promise, self.confidence = attack, promise, confidence

    def update(self, scores: Any, member: Any) -> None:
        values, inside = np.asarray(scores, dtype=float).ravel(), np.asarray(member, bool).ravel()
        if values.shape != inside.shape or np.isnan(values).any():
            raise MeasureError(
                f"Expected one number a record and whether it was in, got {len(values)} scores "
                f"for {len(inside)} records."
            )
        self.keep(values, inside)

    def compute(self) -> Membership:
        values, inside = self.joined() if self.count else (np.zeros(0), np.zeros(0, dtype=bool))
        ours, theirs = values[inside], values[~inside]
        if len(ours) < 2 or len(theirs) < 2:
            raise MeasureError(
                f"Expected at least two members and two others, got {len(ours)} and {len(theirs)}."
            )
        area, pairs = auc(ours, theirs), len(ours) * len(theirs)
        deviation = math.sqrt(max(auc_variance(area, len(ours), len(theirs)), 0.0) / pairs)
        width = float(norm.ppf((1 + self.confidence) / 2)) * deviation
        return Membership(
            self.attack, area, (max(0.0, area - width), min(1.0, area + width)),
            tuple(self._rate(rate, ours, theirs) for rate in FALSE_POSITIVES),
            len(ours), len(theirs), self.confidence,
        )  # fmt: skip

    def results(self, **facts: Any) -> list[Result]:
        found = self.compute()
        shared = {"confidence": self.confidence, "target": "membership", **facts}
        low, high = found.interval
        said = [self.result(f"{self.attack}: AUC", value=found.auc, low=low, high=high,
                            chance=0.5, **shared)]  # fmt: skip
        for rate in found.rates:
            note = None if rate.allowed is None else f"epsilon allows {rate.allowed:.3g}"
            low, high = rate.interval
            said.append(
                self.result(
                    f"{self.attack}: true positives at {100 * rate.false_positive:g} % false ones",
                    value=rate.true_positive, low=low, high=high, chance=rate.false_positive,
                    **{"note": note, **shared},
                )
            )  # fmt: skip
        return said

    def _rate(self, rate: float, ours: Array, theirs: Array) -> AtRate:
        accused = math.floor(rate * len(theirs))
        threshold = np.sort(theirs)[::-1][accused]
        hits = int((ours > threshold).sum())
        error = (1 - self.confidence) / 2
        interval = (
            float(at_least(hits, len(ours), error)),
            float(at_most(hits, len(ours), error)),
        )
        return AtRate(rate, hits / len(ours), interval, allowed_rate(self.promise, rate))


def allowed_rate(promise: Guarantee | NoGuarantee | None, false_positive: float) -> float | None:
    """The trade-off curve of the promise: no attacker names more members; None if it says nothing."""
    if not isinstance(promise, Guarantee) or promise.unit.kind in _SILENT:
        return None
    return true_positive_bound(promise.event, false_positive, promise.relation)


def lira_scores(target: Any, shadows: Any, included: Any, *, offline: bool = False) -> Array:
    """LiRA: how much likelier a record's confidence is if it was in.

    ``target`` (records,) and ``shadows`` (models, records) are logit-scaled confidences in the right
    label, ``included`` (models, records) says on which records each shadow was trained. Online, two
    Gaussians are compared; ``offline`` looks at the shadows without the record alone.
    """
    seen, others = np.asarray(target, dtype=float), np.asarray(shadows, dtype=float)
    inside = np.asarray(included, dtype=bool)
    if others.shape != inside.shape or others.shape[1:] != seen.shape or len(others) < 2:
        raise MeasureError(
            "Expected confidences (shadows, records) of at least two shadows and which records each "
            f"was trained on, got shapes {others.shape}, {inside.shape} and {seen.shape}."
        )
    mean_out, spread_out = _fits(others, ~inside)
    if offline:
        return np.asarray((seen - mean_out) / spread_out)
    mean_in, spread_in = _fits(others, inside)
    return np.asarray(
        norm.logpdf(seen, mean_in, spread_in) - norm.logpdf(seen, mean_out, spread_out)
    )


def _fits(values: Array, chosen: Members) -> tuple[Array, Array]:
    """Mean and spread of each record over the chosen models; records never chosen take the mean."""
    count = chosen.sum(0)
    total = np.where(chosen, values, 0.0).sum(0)
    overall = float(values[chosen].mean()) if chosen.any() else float(values.mean())
    mean = np.where(count > 0, total / np.maximum(count, 1), overall)
    squares = np.where(chosen, (values - mean) ** 2, 0.0).sum(0)
    freedom = np.maximum(count - 1, 0)
    pooled = math.sqrt(float(squares.sum()) / max(1.0, float(freedom.sum()))) + 1e-9
    if len(values) < _OWN_SPREAD:
        return mean, np.full(len(mean), pooled)
    own = np.sqrt(squares / np.maximum(freedom, 1)) + 1e-9
    return mean, np.where(freedom > 0, own, pooled)


@dataclass(frozen=True)
class Shadows:
    """Confidences (models, records) of models trained on random halves of a pool."""

    confidences: Array
    included: Members

    def certificate(self, *, delta: float, confidence: float = 0.95) -> LowerBound:
        """Certified lower limit of epsilon: the first model is attacked with the help of the others.

        Every record was included independently with probability 1/2, so this is the audit of one
        run; the attacked model is fixed beforehand, and its own inclusions are used only to count
        right guesses.
        """
        scores = lira_scores(self.confidences[0], self.confidences[1:], self.included[1:])
        return one_run_lower_bound(self.included[0], scores, delta=delta, confidence=confidence)


def train_shadows(
    fit: Fit, records: int, count: int, *, randomness: Randomness | None = None
) -> Shadows:
    """``count`` models, each trained by ``fit`` on records included with probability 1/2."""
    if count < 3:
        raise MeasureError(f"Expected at least 3 shadow models, got {count}.")
    generator = (randomness or Randomness()).generator()
    included = generator.random((count, records)) < 0.5
    # among the models that attack, every record has one with it and one without
    included[2] = ~included[1]
    return Shadows(np.stack([fit(np.flatnonzero(row)) for row in included]), included)
