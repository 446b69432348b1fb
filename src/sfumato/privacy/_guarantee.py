"""The noun: what is promised, to whom, under which assumptions, and what is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sfumato.errors import SfumatoError
from sfumato.privacy._discrete import DRAWN_EXACTLY
from sfumato.privacy._events import (
    Composed,
    Event,
    Group,
    NoAccess,
    event_from_json,
    is_real,
    plain_count,
    plain_number,
    sampling_of,
)
from sfumato.privacy._units import Relation, Unit, UnitKind, UnitMismatchError
from sfumato.privacy.accounting._accountant import (
    ACCOUNTANTS,
    epsilon_of,
    gdp_mu,
    true_positive_bound,
)

SCHEMA_VERSION = 1
OS_ENTROPY = "operating system entropy"
SEEDED = "seeded (not private)"

# A stored epsilon may differ from a recomputed one by the accountant's version, not by more.
_STORED_TOLERANCE = 1e-6
_LARGEST = 1e300
_SMALLEST_SHOWN = 1e-100


class GuaranteeError(SfumatoError):
    """A guarantee that cannot be stated."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A differential privacy promise. ``epsilon`` follows from the event; it is never passed in or kept.

    | case | what happens |
    | --- | --- |
    | unit and relation that do not go together | ``UnitError`` |
    | delta outside [0, 1), or 0 where the event is only approximately private | ``GuaranteeError`` |
    | an event that the accountant cannot bound under the relation | ``AccountingError`` |
    | stored epsilon smaller than what its own event implies | ``GuaranteeError`` on load |
    """

    mechanism: str
    unit: Unit
    relation: Relation
    delta: float
    event: Event
    accountant: str
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    randomness: str = OS_ENTROPY

    def __init_subclass__(cls) -> None:
        raise TypeError(
            "A guarantee has no subclasses: what one says would not follow from its event."
        )

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", Unit.parse(self.unit))
        object.__setattr__(self, "relation", Relation.parse(self.relation))
        for name in ("assumptions", "not_covered", "public"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise GuaranteeError(f"Expected a list of sentences for {name}, got one string.")
            object.__setattr__(self, name, tuple(value))
        merged = dict.fromkeys((*self.unit.public, *self.public))
        object.__setattr__(self, "public", tuple(merged))
        if not self.mechanism:
            raise GuaranteeError("A guarantee names its mechanism, got an empty name.")
        if self.randomness not in {OS_ENTROPY, SEEDED}:
            raise GuaranteeError(
                f"Expected randomness {OS_ENTROPY!r} or {SEEDED!r}, got {self.randomness!r}."
            )
        if self.accountant not in ACCOUNTANTS:
            raise GuaranteeError(
                f"Expected an accountant out of {', '.join(ACCOUNTANTS)}, got {self.accountant!r}."
            )
        delta = plain_number(self.delta)
        if not 0 <= delta < 1:
            raise GuaranteeError(f"Expected 0 <= delta < 1, got {self.delta!r}.")
        object.__setattr__(self, "delta", delta)
        self.unit.check(self.relation)
        if not math.isfinite(self.epsilon):
            raise GuaranteeError(
                f"No finite epsilon exists for {self.mechanism} at delta {self.delta:g}: "
                "use more noise, a larger delta, or state NoGuarantee."
            )

    @property
    def epsilon(self) -> float:
        return epsilon_of(self.event, self.delta, self.relation, self.accountant)

    # -- other ways to say the same ------------------------------------------------------------

    @property
    def is_private(self) -> bool:
        """False when the noise came from a seed: then the promise is for tests only."""
        return self.randomness == OS_ENTROPY

    @property
    def mu(self) -> float:
        """The mu of a Gaussian release that protects no better, at this delta and at larger ones."""
        return gdp_mu(self.event, self.delta, self.relation)

    def attacker_power(self, false_positive_rate: float) -> float:
        """Best true-positive rate of any attacker that accuses the innocent at the given rate."""
        return true_positive_bound(self.event, false_positive_rate, self.relation)

    def for_group(self, size: int, unit: Unit) -> Guarantee:
        """The same release seen by ``size`` units that change together, stated for ``unit``.

        ``unit`` is what they make up together: a larger one, of which ``size`` small ones are known to be
        the whole (``Unit.needed_for``). Nothing else can be restated (R23).
        """
        count = plain_count(size)
        if count is None or count < 1:
            raise GuaranteeError(f"Expected a group of a whole number >= 1 of units, got {size!r}.")
        unit = Unit.parse(unit)
        needed = self.unit.needed_for(unit)
        if needed is None:
            raise UnitMismatchError(
                f"A guarantee for {self.unit} says nothing about {unit}, whatever the group: expected "
                "a unit that so many of them make up (person(m) from record, more frames or pixels), "
                "or a run with that unit."
            )
        if count < needed:
            raise UnitMismatchError(
                f"Expected a group of at least {needed}, because {unit} can be that many of "
                f"{self.unit}, got {count}."
            )
        return replace(self, event=Group(self.event, count) if count > 1 else self.event, unit=unit)

    def compose(self, other: Guarantee, *, delta: float | None = None) -> Guarantee:
        """Both releases about the same units. Different units or relations cannot be added."""
        if self.unit != other.unit:
            raise UnitMismatchError(
                f"Cannot combine a guarantee for {self.unit} with one for {other.unit}: "
                "convert one explicitly (for_group, or re-run with the other unit)."
            )
        if self.relation != other.relation:
            raise UnitMismatchError(
                f"Cannot combine relation {self.relation.value} with {other.relation.value}: "
                "state both releases under the same relation."
            )
        if delta is None and self.delta != other.delta:
            raise GuaranteeError(
                f"The deltas differ ({self.delta:g} and {other.delta:g}): pass delta= for the sum."
            )
        return Guarantee(
            mechanism=f"{self.mechanism} + {other.mechanism}",
            unit=self.unit,
            relation=self.relation,
            delta=self.delta if delta is None else delta,
            event=Composed((self.event, other.event)),
            accountant="pld",
            assumptions=tuple(dict.fromkeys(self.assumptions + other.assumptions)),
            not_covered=tuple(dict.fromkeys(self.not_covered + other.not_covered)),
            public=tuple(
                said
                for said in dict.fromkeys(self.public + other.public)
                # true of both together only where it is true of each
                if said != DRAWN_EXACTLY or (said in self.public and said in other.public)
            ),
            randomness=OS_ENTROPY if self.is_private and other.is_private else SEEDED,
        )

    # -- words ---------------------------------------------------------------------------------

    @property
    def terms(self) -> str:
        """What this epsilon is about; no epsilon is shown without it."""
        return (
            f"unit {self.unit}, relation {self.relation.value}, delta {self.delta:g}, "
            f"{sampling_of(self.event)}, accountant {self.accountant}"
        )

    def __str__(self) -> str:
        lines = []
        if not self.is_private:
            lines.append(
                "NOT PRIVATE: the noise came from a seed, so whoever knows it can remove it."
            )
        lines.append(
            f"This release ({self.mechanism}) is differentially private with epsilon "
            f"{format_epsilon(self.epsilon)} and delta {self.delta:g} for {self.unit.sentence}: the "
            f"chance of any output changes by a factor of at most {format_factor(self.epsilon)} "
            f"{self.relation.sentence}, apart from a probability of {self.delta:g}."
        )
        if self.unit.kind in {UnitKind.MASKED_TOKENS, UnitKind.FEATURES} and self.epsilon == 0:
            lines.append(
                "Nothing private was read at this unit; for the record as a whole epsilon is infinite."
            )
        elif not isinstance(self.event, NoAccess):
            strong, weak = self.attacker_power(0.01), self.attacker_power(0.001)
            lines.append(
                "Whoever tries to tell the two cases apart and wrongly accuses 1 % of the time is "
                f"right at most {format_rate(strong)} of the time; at 0.1 %, {format_rate(weak)}."
            )
        lines.append(
            f"Unit {self.unit}, relation {self.relation.value}, accountant {self.accountant}."
        )
        for title, items in (
            ("Public by assumption", self.public),
            ("Assumes", self.assumptions),
            ("Does not cover", self.not_covered),
        ):
            if items:
                lines.append(f"{title}: {'; '.join(items)}.")
        return " ".join(lines)

    def __repr__(self) -> str:
        return (
            f"Guarantee(epsilon={format_epsilon(self.epsilon)}, delta={self.delta:g}, "
            f"unit={self.unit}, relation={self.relation.value}, mechanism={self.mechanism!r}, "
            f"accountant={self.accountant}{'' if self.is_private else ', NOT PRIVATE'})"
        )

    # -- JSON ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "guarantee",
            "version": SCHEMA_VERSION,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": str(self.unit),
            "relation": self.relation.value,
            "mechanism": self.mechanism,
            "event": self.event.to_json(),
            "accountant": self.accountant,
            "assumptions": list(self.assumptions),
            "not_covered": list(self.not_covered),
            "public": list(self.public),
            "randomness": self.randomness,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Guarantee:
        """Read a stored guarantee; its epsilon is computed again and may not be understated."""
        _check_schema(value, "guarantee", _GUARANTEE_FIELDS)
        made = cls(
            mechanism=value["mechanism"],
            unit=Unit.parse(value["unit"]),
            relation=Relation.parse(value["relation"]),
            delta=_stored_number(value, "delta"),
            event=event_from_json(value["event"]),
            accountant=value["accountant"],
            assumptions=tuple(value["assumptions"]),
            not_covered=tuple(value["not_covered"]),
            public=tuple(value["public"]),
            randomness=value["randomness"],
        )
        stored = _stored_number(value, "epsilon")
        if stored < made.epsilon * (1 - _STORED_TOLERANCE) - 1e-12:
            raise GuaranteeError(
                f"The stored epsilon {stored:g} is below {made.epsilon:g}, which its own event "
                "implies: the file was changed, or written by a faulty version."
            )
        return made


@dataclass(frozen=True, kw_only=True)
class NoGuarantee:
    """Plainly: nothing is proven about this release. Measure it with ``sfumato audit``."""

    mechanism: str
    reason: str
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    randomness: str = OS_ENTROPY

    def __post_init__(self) -> None:
        for name in ("assumptions", "not_covered"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.mechanism or not self.reason:
            raise GuaranteeError("NoGuarantee names its mechanism and the reason.")

    @property
    def is_private(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        lines = [
            f"No guarantee: nothing is proven about this release ({self.mechanism}). {self.reason}",
            "What still leaks can only be measured: run sfumato audit.",
        ]
        for title, items in (("Assumes", self.assumptions), ("Does not cover", self.not_covered)):
            if items:
                lines.append(f"{title}: {'; '.join(items)}.")
        return " ".join(lines)

    def __repr__(self) -> str:
        return f"NoGuarantee(mechanism={self.mechanism!r}, reason={self.reason!r})"

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "no-guarantee",
            "version": SCHEMA_VERSION,
            "mechanism": self.mechanism,
            "reason": self.reason,
            "assumptions": list(self.assumptions),
            "not_covered": list(self.not_covered),
            "randomness": self.randomness,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NoGuarantee:
        _check_schema(value, "no-guarantee", _NO_GUARANTEE_FIELDS)
        return cls(
            mechanism=value["mechanism"],
            reason=value["reason"],
            assumptions=tuple(value["assumptions"]),
            not_covered=tuple(value["not_covered"]),
            randomness=value["randomness"],
        )


_NO_GUARANTEE_FIELDS = frozenset(
    {"type", "version", "mechanism", "reason", "assumptions", "not_covered", "randomness"}
)
_GUARANTEE_FIELDS = (_NO_GUARANTEE_FIELDS - {"reason"}) | {
    "epsilon",
    "delta",
    "unit",
    "relation",
    "event",
    "accountant",
    "public",
}


def promise_from_json(value: Mapping[str, Any]) -> Guarantee | NoGuarantee:
    """Read either kind of promise."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    try:
        if kind == "guarantee":
            return Guarantee.from_json(value)
        if kind == "no-guarantee":
            return NoGuarantee.from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise GuaranteeError(
            "Expected a promise with values of the right kind, got others: the file was changed by "
            "hand, or is not one that sfumato wrote."
        ) from None
    raise GuaranteeError(f"Expected type guarantee or no-guarantee, got {kind!r}.")


def _check_schema(value: Mapping[str, Any], kind: str, keys: frozenset[str]) -> None:
    if value.get("type") != kind:
        raise GuaranteeError(f"Expected type {kind!r}, got {value.get('type')!r}.")
    if value.get("version") != SCHEMA_VERSION:
        raise GuaranteeError(
            f"Expected schema version {SCHEMA_VERSION}, got {value.get('version')!r}: "
            "read it with the version of sfumato that wrote it."
        )
    if set(value) != keys:
        raise GuaranteeError(f"Expected the fields {sorted(keys)}, got {sorted(value)}.")


def _stored_number(value: Mapping[str, Any], name: str) -> float:
    """A number as JSON should hold it: neither NaN nor infinite, not a word, not a truth value."""
    stored = value[name]
    if not is_real(stored) or not abs(stored) <= _LARGEST:
        raise GuaranteeError(
            f"Expected a finite number as stored {name}, got {stored!r}: the file was changed, or "
            "written by a faulty version."
        )
    return float(stored)


def format_epsilon(epsilon: float) -> str:
    """Three significant digits, rounded up: a promise is never rounded in our own favour."""
    if epsilon == 0 or not math.isfinite(epsilon):
        return f"{epsilon:g}"
    epsilon = max(epsilon, _SMALLEST_SHOWN)
    scale = 10.0 ** (2 - math.floor(math.log10(epsilon)))
    # the tiny allowance keeps 0.5 from becoming 0.501 by binary rounding
    return f"{math.ceil(epsilon * scale * (1 - 1e-9)) / scale:.6g}"


def format_factor(epsilon: float) -> str:
    """By how much epsilon lets the chance of an output change, rounded up."""
    if epsilon < 50:
        # above the allowance of ``format_epsilon``: only an epsilon of 0 is a factor of 1
        return format_epsilon(max(math.exp(epsilon), 1 + 1e-6 if epsilon > 0 else 1.0))
    return f"e^{format_epsilon(epsilon)}"


def format_rate(rate: float) -> str:
    """An attacker's rate in percent, two decimals, rounded up."""
    return f"{min(100.0, math.ceil(1e4 * rate * (1 - 1e-9)) / 100):g} %"
