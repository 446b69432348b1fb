"""The promise of a DP-SGD schedule, or the noise that a promise needs, from what a person states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from sfumato.privacy._events import Event, Group
from sfumato.privacy._guarantee import Guarantee
from sfumato.privacy._units import Relation, Unit
from sfumato.privacy.accounting._accountant import epsilon_of
from sfumato.privacy.accounting._calibration import (
    calibrate_dpsgd,
    calibrate_event,
    dpsgd_event,
    dpsgd_schedule,
)
from sfumato.privacy.accounting._terms import AccountingError
from sfumato.settings import Settings, validated


class _Numbers(Settings):
    """What an accountant can tell anything about, in a time that somebody would wait."""

    epsilon: Annotated[float, Field(ge=1e-6, le=1e6)] | None
    noise_multiplier: Annotated[float, Field(ge=1e-3, le=1e6)] | None
    delta: Annotated[float, Field(ge=1e-30, lt=1)] | None
    batch: Annotated[int, Field(ge=1, le=10**12)] | None
    records: Annotated[int, Field(ge=1, le=10**12)] | None
    sampling_rate: Annotated[float, Field(ge=1e-9, le=1)] | None
    steps: Annotated[int, Field(ge=1, le=10**8)] | None
    epochs: Annotated[float, Field(gt=0, le=10**6)] | None
    group: Annotated[int, Field(ge=1, le=1000)]


_ASSUMPTIONS = (
    "every unit joins a batch by its own secret coin, and nothing shows who did",
    "each unit's gradient is clipped, and the noisy sum is divided by a constant",
)


@dataclass(frozen=True)
class DpsgdPromise:
    """A schedule with its noise and promise; ``rdp_epsilon`` is the other accountant's, never below."""

    noise_multiplier: float
    sampling_rate: float
    steps: int
    guarantee: Guarantee
    rdp_epsilon: float

    @property
    def noise_in_words(self) -> str:
        return round_up(self.noise_multiplier)

    def to_json(self) -> dict[str, Any]:
        return {
            "noise_multiplier": self.noise_multiplier,
            "sampling_rate": self.sampling_rate,
            "steps": self.steps,
            "guarantee": self.guarantee.to_json(),
            "mu": self.guarantee.mu,
            "true_positive_rate_at_1_percent": self.guarantee.attacker_power(0.01),
            "true_positive_rate_at_0.1_percent": self.guarantee.attacker_power(0.001),
            "rdp_epsilon": self.rdp_epsilon if math.isfinite(self.rdp_epsilon) else None,
        }


def dpsgd_promise(
    *,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    delta: float | None = None,
    batch: int | None = None,
    records: int | None = None,
    sampling_rate: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    relation: str | None = None,
    unit: str = "record",
    group: int = 1,
    accountant: str = "pld",
) -> DpsgdPromise:
    """Find the noise for ``epsilon`` or the epsilon of ``noise_multiplier``; one of them is given."""
    numbers = {"epsilon": epsilon, "noise_multiplier": noise_multiplier, "delta": delta,
               "batch": batch, "records": records, "sampling_rate": sampling_rate,
               "steps": steps, "epochs": epochs, "group": group}  # fmt: skip
    validated(_Numbers, numbers, "sfumato account", AccountingError)
    if (epsilon is None) == (noise_multiplier is None):
        raise AccountingError(
            "Expected either --epsilon (to find the noise) or --noise-multiplier (to find epsilon); "
            "try sfumato account --help."
        )
    if relation is None:
        raise AccountingError(
            "Expected --relation add-remove, replace or zero-out: epsilon has no meaning without it."
        )
    if delta is None:
        raise AccountingError("Expected --delta, well below 1 / records, such as --delta 1e-6.")
    rate, count = dpsgd_schedule(
        batch=batch, records=records, sampling_rate=sampling_rate, steps=steps, epochs=epochs
    )
    kind = Relation.parse(relation)

    def event(noise: float) -> Event:
        single = dpsgd_event(noise, rate, count)
        return Group(single, group) if group > 1 else single

    if noise_multiplier is None:
        assert epsilon is not None
        searchable = "pld" if accountant == "analytic-gaussian" else accountant
        noise = calibrate_dpsgd(epsilon, delta, rate, count, kind, searchable)
        if group > 1:
            noise = calibrate_event(event, epsilon, delta, kind, accountant, guess=noise * group)
    else:
        noise = noise_multiplier
    promise = Guarantee(
        mechanism=f"DP-SGD, {count} Poisson steps at rate {rate:.4g}, noise multiplier {round_up(noise)}",
        unit=_stated_unit(unit, group),
        relation=kind,
        delta=delta,
        event=event(noise),
        accountant=accountant,
        assumptions=_ASSUMPTIONS,
        not_covered=("tuning, early stopping and statistics taken from the private data",),
    )
    return DpsgdPromise(noise, rate, count, promise, epsilon_of(promise.event, delta, kind, "rdp"))


def _stated_unit(unit: str, group: int) -> Unit:
    """What the promise is about: a group counts records, so it can only state a person who has them."""
    stated = Unit.parse(unit)
    if group == 1:
        return stated
    if stated == Unit.record():
        return Unit.person(group)
    needed = Unit.record().needed_for(stated)
    if needed is None or needed > group:
        raise AccountingError(
            f"Expected --unit record or person(m) with m up to {group} beside --group {group}, which "
            f"counts the records of one person, got {stated}."
        )
    return stated


def round_up(noise: float) -> str:
    """Five significant digits, rounded up: whoever types it in again keeps the promise."""
    scale = 10.0 ** (4 - math.floor(math.log10(noise)))
    return f"{math.ceil(noise * scale * (1 - 1e-12)) / scale:.10g}"
