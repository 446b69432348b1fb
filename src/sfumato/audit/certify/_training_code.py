"""From a card to a plan that runs the same code: its rate, noise and switches, on records of our own."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit.certify._epsilon import AuditError
from sfumato.data import ArrayRecords
from sfumato.errors import SfumatoError
from sfumato.learn import METHODS, Plan, Subspace
from sfumato.learn.views import view_of_unit
from sfumato.privacy import (
    Card,
    Event,
    Gaussian,
    Guarantee,
    PoissonSampled,
    Relation,
    SelfComposed,
    SharedBatch,
    UnitKind,
    epsilon_of,
)

# Steps of a training that are really run; a longer one is audited by its first steps.
MOST_STEPS = 100
# A person's gradient is formed on its own, and a feature map makes long rows: fewer canaries then.
_CANARIES, _FEW_CANARIES = 1000, 300


@dataclass(frozen=True)
class TrainingCode:
    """What is run for a card: ``limit`` is the epsilon that the first ``taken`` steps promise."""

    plan: Plan
    limit: float
    taken: int
    steps: int
    noise: float

    @property
    def target(self) -> str:
        part = "all" if self.taken == self.steps else "first"
        return f"Training code ({self.plan.mechanism}), {part} {self.taken} steps"

    @property
    def canaries(self) -> int:
        slow = self.plan.unit.kind in {UnitKind.PERSON, UnitKind.FEATURES}
        return _FEW_CANARIES if slow else _CANARIES

    @property
    def calibrated(self) -> bool:
        """Whether planning for the card's epsilon gives the card's noise."""
        return abs(self.plan.noise_multiplier / self.noise - 1) <= 0.01


def training_code(promise: Guarantee, card: Card | None) -> TrainingCode | None:
    """The plan of a training's card; None where the event is not that of a training."""
    found = _step(promise.event)
    if found is None:
        return None
    rate, noise, steps, shared = found
    taken = min(steps, MOST_STEPS)
    event: Event = SelfComposed(PoissonSampled(rate, noise), taken)
    # the published form calibrates for add-remove by Renyi orders; its true epsilon is another
    asked = epsilon_of(
        event, promise.delta,
        Relation.ADD_REMOVE if shared else promise.relation, "rdp" if shared else "pld",
    )  # fmt: skip
    share = Fraction(rate).limit_denominator(1_000_000)
    plan = Plan(
        epsilon=asked, delta=promise.delta, records=share.denominator, batch=share.numerator,
        steps=taken, clip_norm=1.0, relation=promise.relation, unit=_unit(promise),
        as_published=shared, **_switches(promise, card),
    )  # fmt: skip
    limit = asked
    if shared:
        limit = epsilon_of(SharedBatch(rate, noise, taken), promise.delta, promise.relation)
    return TrainingCode(plan, limit, taken, steps, noise.noise_multiplier)


def _step(event: Event) -> tuple[float, Gaussian, int, bool] | None:
    """Sampling rate, noise, steps and whether one batch serves both streams."""
    if isinstance(event, SharedBatch):
        return event.probability, event.event, event.steps, True
    if isinstance(event, SelfComposed) and isinstance(event.event, PoissonSampled):
        return event.event.probability, event.event.event, event.count, False
    return None


def _unit(promise: Guarantee) -> Any:
    own = {UnitKind.MASKED_TOKENS, UnitKind.FEATURES, UnitKind.PERSON}
    return promise.unit if promise.unit.kind in own else "record"


def _switches(promise: Guarantee, card: Card | None) -> dict[str, Any]:
    """Public view, clips and projector as the card says."""
    try:
        found: dict[str, Any] = {"public_view": view_of_unit(promise.unit)}
    except SfumatoError as error:
        raise AuditError(f"{error} The card's unit is {promise.unit}.") from None
    if card is None:
        return found
    found["clips"] = int(card.settings.get("clips", 1))
    method = METHODS.get(card.method)
    if (method is not None and method.projector) or "project" in promise.mechanism:
        # the canaries bring public records of their own; this one only turns the switch
        found["projector"] = Subspace(ArrayRecords(np.zeros((1, 1)), np.zeros(1)), rank=1)
    return found
