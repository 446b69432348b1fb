"""Canaries in a real training: records made to be found again, and the code that trains taken as it is.

Each canary is a record whose gradient lies on a coordinate of its own, far beyond the clip norm. The
private step that training uses (``learn``) draws, clips, sums and noises; what it releases along a
canary's coordinate is scored by the likelihood ratio that the plan itself implies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sfumato.audit.certify._epsilon import AuditError
from sfumato.audit.certify._one_run import one_run_lower_bound
from sfumato.audit.certify._worst_case_simulation import step_ratio
from sfumato.data import ArrayRecords
from sfumato.learn import (
    AsIs,
    Plan,
    PublicView,
    Speed,
    Subspace,
    cross_entropy,
)
from sfumato.learn.engine import StepEngine, Streams, records_by_owner, units_of
from sfumato.learn.views import BLANK, Canaries
from sfumato.privacy import Randomness, Relation
from sfumato.privacy.verdict import LowerBound

# How far a canary's gradient lies beyond the clip norm; a public one lies far beyond the noise.
_BEYOND, _PUBLIC_BEYOND = 1e3, 1e9
_RECORDS_OF_A_PERSON = 3


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
    plan: Plan,
    *,
    canaries: int = 1000,
    randomness: Randomness | None = None,
    shared_batch: bool = True,
) -> CanaryRun:
    """One training of ``plan.steps`` steps with ``canaries``, each included with probability 1/2.

    "In" and "out" are neighbours under the plan's relation: out means absent (add-remove), blank
    (zero-out), or the opposite gradient (replace).

    | switch of the plan | what a canary is |
    | --- | --- |
    | several clips | a record whose clips all say the same |
    | unit person | a person with three records (or as many as the unit allows) |
    | projector | as ever; the public gradients span every canary's direction |
    | feature map | a direction that the map does not see, so that neighbours share their view |
    | masked pixels | a public half with a large gradient beside the private one |

    With masked pixels the attacker takes the private batch to be the public one: the attack on the
    published shared batch, which finds nothing where the two are independent. ``shared_batch=False``
    attacks the private stream alone, as without a public view.
    """
    view = plan.public_view
    if not plan.is_private:
        raise AuditError("Expected a plan with noise, got one without: there is nothing to refute.")
    if plan.bands:
        raise AuditError(
            "Expected a plan with sampling, got banded noise: no attack on it is written."
        )
    source = randomness or Randomness()
    included = source.generator().random(canaries) < 0.5
    made = _canaries(canaries, view)
    directions = made.private
    if plan.projector is not None:
        public = ArrayRecords(_clipwise(directions, plan.clips), np.ones(canaries, dtype=np.int64))
        plan = replace(plan, projector=Subspace(public, rank=canaries, refresh=plan.steps))
    data = _records(plan, included, made)
    owners = None
    if plan.by_person:
        owners = records_by_owner(data, most=plan.unit.max_records)
    model = nn.Linear(directions.shape[1], 2, bias=False)
    nn.init.zeros_(model.weight)
    step = StepEngine(
        model, cross_entropy, plan, Streams(model, data, plan, AsIs()),
        units_of(plan, data, owners), len(data), randomness=source, speed=Speed(),
    )  # fmt: skip
    scores = np.zeros(canaries)
    sigma, rate = plan.noise_multiplier, plan.sampling_rate
    away = -1.0 if plan.relation is Relation.REPLACE else 0.0
    for _ in range(plan.steps):
        gradient = step.take().gradient["weight"].double().numpy() * plan.divisor / plan.clip_norm
        along = (gradient[0] - gradient[1]) / math.sqrt(2)
        seen = directions @ along
        if shared_batch and made.public is not None:
            present = np.abs(made.public @ along) > 1e3 * sigma
            scores += np.where(present, step_ratio(seen, 1.0, sigma, away=away), 0.0)
        else:
            scores += step_ratio(seen, rate, sigma, away=away)
    return CanaryRun(included, scores, plan)


def has_public_half(view: PublicView | None) -> bool:
    """Whether the view shows a part of every record as it is."""
    found = None if view is None else view.canary(1)
    return found is not None and found.public is not None


def _canaries(count: int, view: PublicView | None) -> Canaries:
    """One unit vector a canary, orthogonal to the others, that no public view shows."""
    if view is None:
        return Canaries(np.eye(count, dtype=np.float32))
    found = view.canary(count)
    if found is None:
        raise AuditError(
            f"Expected a public view that loses something, got {view.name}: it has no neighbours "
            "that share their view, so there is nothing to attack."
        )
    return found


def _records(plan: Plan, included: npt.NDArray[np.bool_], canaries: Canaries) -> ArrayRecords:
    """Canaries as rows with large gradients along their directions, and what is public about them."""
    count, mask = len(included), canaries.mask
    x = canaries.private * np.float32(
        (_BEYOND if mask is None else _PUBLIC_BEYOND) * plan.clip_norm
    )
    if plan.relation is Relation.REPLACE:
        x[~included] *= -1
    if canaries.public is not None:
        # the public half of a canary is never clipped; its private half is all that differs
        x += canaries.public * np.float32(_PUBLIC_BEYOND * plan.clip_norm)
    rows = np.arange(count)
    if plan.relation is Relation.ADD_REMOVE:
        rows = rows[included]
    # blank is a symbol whose gradient is defined as zero, not black pixels (R2)
    blank = ~included & (plan.relation is Relation.ZERO_OUT)
    if plan.by_person:
        rows = np.repeat(rows, min(_RECORDS_OF_A_PERSON, plan.unit.max_records or count))
    return ArrayRecords(
        _clipwise(x[rows], plan.clips), np.ones(len(rows), dtype=np.int64),
        mask=None if mask is None else _clipwise(mask[rows], plan.clips),
        owners=[f"canary {row}" for row in rows] if plan.by_person else None,
        attributes={BLANK: blank[rows]},
    )  # fmt: skip


def _clipwise(rows: npt.NDArray[Any], clips: int) -> npt.NDArray[Any]:
    return rows if clips == 1 else np.repeat(rows[:, None], clips, axis=1)
