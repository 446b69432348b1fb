"""Canaries in a real training: records made to be found again, and the code that trains taken as it is.

Each canary is a record whose gradient lies on a coordinate of its own, far beyond the clip norm. The
private step that training uses (``learn``) draws, clips, sums and noises; what it releases along a
canary's coordinate is scored by the likelihood ratio that the plan itself implies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import nn

from sfumato.audit._epsilon import AuditError, LowerBound
from sfumato.audit._one_run import one_run_lower_bound
from sfumato.audit._pairs import step_ratio
from sfumato.data import ArrayRecords
from sfumato.learn import AsIs, MaskedPixels, Plan, Speed, cross_entropy
from sfumato.learn._step import PrivateStep, units_of
from sfumato.learn._streams import Streams
from sfumato.learn._views import BLANK
from sfumato.privacy import Randomness, Relation

# How far a canary's gradient lies beyond the clip norm; the public one must outshine the noise.
_LOUD = 1e6


@dataclass(frozen=True)
class CanaryRun:
    """Which canaries were in, and how much one training says that each of them was."""

    included: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64]
    plan: Plan

    def lower_bound(self, confidence: float = 0.95) -> LowerBound:
        """By the one-run audit, which assumes nothing about how canaries influence each other."""
        return one_run_lower_bound(
            self.included, self.scores, delta=self.plan.delta, confidence=confidence
        )


def canary_run(
    plan: Plan, *, canaries: int = 1000, randomness: Randomness | None = None
) -> CanaryRun:
    """One training of ``plan.steps`` steps with ``canaries``, half of them in by a fair coin.

    "In" and "out" are neighbours under the plan's relation: out means absent (add-remove), blank
    (zero-out), or the opposite gradient (replace). With a public view (``MaskedPixels``) every canary
    also has a loud public gradient, and the attacker takes the private batch to be the public one:
    the attack on the published shared batch, which finds nothing where the two are independent.
    """
    view = plan.public_view
    if not plan.is_private or plan.by_person or plan.clips > 1 or plan.projector is not None:
        raise AuditError(
            "Expected a plan with noise, unit record or masked-tokens, one clip and no projector: "
            "canaries are single records on coordinates of their own."
        )
    if view is not None and not isinstance(view, MaskedPixels):
        raise AuditError("Expected a plan without public view or with MaskedPixels.")
    source = randomness or Randomness()
    included = source.generator().random(canaries) < 0.5
    data, where = _records(plan, included, view)
    model = nn.Linear(data.x.shape[1], 2, bias=False)
    nn.init.zeros_(model.weight)
    step = PrivateStep(
        model, cross_entropy, plan, Streams(model, data, plan, AsIs()),
        units_of(plan, data, None), len(data), randomness=source, speed=Speed(noise_threads=1),
    )  # fmt: skip
    scores = np.zeros(canaries)
    sigma, rate = plan.noise_multiplier, plan.sampling_rate
    away = -1.0 if plan.relation is Relation.REPLACE else 0.0
    for _ in range(plan.steps):
        gradient = step.take().gradient["weight"].double().numpy() * plan.divisor / plan.clip_norm
        along = (gradient[0] - gradient[1]) / math.sqrt(2)
        seen = along[where]
        if view is None:
            scores += step_ratio(seen, rate, sigma, away=away)
        else:
            present = np.abs(along[:canaries]) > 1e3 * sigma
            scores += np.where(present, step_ratio(seen, 1.0, sigma, away=away), 0.0)
    return CanaryRun(included, scores, plan)


def _records(
    plan: Plan, included: npt.NDArray[np.bool_], view: MaskedPixels | None
) -> tuple[ArrayRecords, npt.NDArray[np.int64]]:
    """Canaries as one-hot rows, and the coordinate that each of them moves."""
    count = len(included)
    loud = _LOUD * plan.clip_norm
    x = np.zeros((count, count if view is None else 2 * count), dtype=np.float32)
    mask = None
    where = np.arange(count) if view is None else np.arange(count, 2 * count)
    x[np.arange(count), where] = loud
    y = np.ones(count, dtype=np.int64)
    if view is not None:
        # the public half of a canary shines without clipping; its private half is all that differs
        x[np.arange(count), np.arange(count)] = loud
        mask = np.zeros(x.shape, dtype=bool)
        mask[:, :count] = True
    if plan.relation is Relation.REPLACE:
        x[~included, where[~included]] *= -1
    if plan.relation is Relation.ADD_REMOVE:
        return ArrayRecords(x[included], y[included]), where
    # blank is a symbol whose gradient is defined as zero, not black pixels (R2)
    blank = ~included & (plan.relation is Relation.ZERO_OUT)
    return ArrayRecords(x, y, mask=mask, attributes={BLANK: blank}), where
