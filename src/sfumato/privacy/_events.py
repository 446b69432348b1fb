"""Mechanisms as data: what was done to protect people, in a form whose meaning never changes.

An event says nothing about epsilon. An accountant reads it under a relation, today or years later.
The set is closed: an accountant meets nothing it does not know, and nobody can plug in noise. Numbers
are made plain when an event is built: half precision would overflow, a subclass could count otherwise
than it compares, and both would be remembered for the plain event that equals them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar

from sfumato.errors import SfumatoError
from sfumato.privacy._units import Relation

# Wider than any mechanism needs, and narrow enough that squares and products stay finite.
_LEAST = 1e-100
_MOST = 1e100
_MOST_COUNT = 10**15
_MOST_BANDS = 10_000


class EventError(SfumatoError):
    """An event that cannot be: a negative noise, a probability above one, an unknown name."""


class Bounds(StrEnum):
    """What a noise multiplier is measured against.

    ``CONTRIBUTION``: every unit adds a vector of norm at most 1 to a sum (DP-SGD: clip norm 1), so
    replacing one moves the sum by up to 2. ``DIFFERENCE``: outputs on neighbours under the stated
    relation differ by at most 1 (a one-shot release whose sensitivity was computed for it).
    """

    CONTRIBUTION = "contribution"
    DIFFERENCE = "difference"


@dataclass(frozen=True)
class Event:
    """Base of all events; not itself an event."""

    name: ClassVar[str] = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; ``event_from_json`` reads them back."""
        body = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"kind": self.name, **body}

    def sensitivity(self, relation: Relation) -> float:
        """Largest change of the un-noised quantity, in units of the multiplier's scale."""
        raise EventError(f"A {self.name} event has no single sensitivity under {relation.value}.")


@dataclass(frozen=True)
class NoAccess(Event):
    """The unit was never read: epsilon 0 at that unit (public-only training)."""

    name: ClassVar[str] = "no-access"

    def sensitivity(self, relation: Relation) -> float:
        return 0.0


@dataclass(frozen=True)
class _Additive(Event):
    noise_multiplier: float
    bounds: Bounds = Bounds.CONTRIBUTION

    def __post_init__(self) -> None:
        _set_positive(self, "noise_multiplier")
        if self.bounds not in set(Bounds):
            expected = " or ".join(Bounds)
            raise EventError(f"Expected bounds {expected}, got {self.bounds!r}.")
        object.__setattr__(self, "bounds", Bounds(self.bounds))

    def sensitivity(self, relation: Relation) -> float:
        doubled = self.bounds is Bounds.CONTRIBUTION and relation is Relation.REPLACE
        return 2.0 if doubled else 1.0


@dataclass(frozen=True)
class Gaussian(_Additive):
    """Gaussian noise of standard deviation ``noise_multiplier`` times the bounded l2 norm."""

    name: ClassVar[str] = "gaussian"


@dataclass(frozen=True)
class Laplace(_Additive):
    """Laplace noise of scale ``noise_multiplier`` times the bounded l1 norm."""

    name: ClassVar[str] = "laplace"


@dataclass(frozen=True)
class RandomizedResponse(Event):
    """A value out of ``categories`` is replaced by a uniform one with probability ``noise``.

    The replacement may be the value itself, so the likelihood ratio is
    ``1 + categories * (1 - noise) / noise``. Local: the relation is replace (or zero-out).
    """

    noise: float
    categories: int
    name: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        _set_probability(self, "noise")
        _set_count(self, "categories", least=2)

    @property
    def epsilon(self) -> float:
        return math.log1p(self.categories * (1.0 - self.noise) / self.noise)


@dataclass(frozen=True)
class ExponentialChoice(Event):
    """One option is drawn from a softmax whose log-probabilities move by at most ``epsilon``.

    PASS-LDP: scores ``t cos`` in [-t, t] give epsilon = 4 t. Local: relation replace (or zero-out).
    """

    epsilon: float
    name: ClassVar[str] = "exponential-choice"

    def __post_init__(self) -> None:
        _set_positive(self, "epsilon")


@dataclass(frozen=True)
class ApproximateRelease(Event):
    """A mechanism known only by one proven pair (epsilon, delta), composed as its worst case.

    Snow as published (a pixel survives with probability 1 - p) is (0, 1 - p) for one pixel.
    """

    epsilon: float
    delta: float
    mechanism: str
    name: ClassVar[str] = "approximate-release"

    def __post_init__(self) -> None:
        epsilon, delta = plain_number(self.epsilon), plain_number(self.delta)
        if not 0 <= epsilon <= _MOST:
            raise EventError(f"Expected epsilon >= 0 and finite, got {self.epsilon!r}.")
        if not 0 <= delta < 1:
            raise EventError(f"Expected 0 <= delta < 1, got {self.delta!r}.")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        if not isinstance(self.mechanism, str) or not self.mechanism:
            raise EventError("An approximate release names its mechanism, got an empty name.")


@dataclass(frozen=True)
class PoissonSampled(Event):
    """Every unit takes part independently with ``probability``; nothing else shows who did."""

    probability: float
    event: Gaussian
    name: ClassVar[str] = "poisson-sampled"

    def __post_init__(self) -> None:
        _set_probability(self, "probability")
        if type(self.event) is not Gaussian or self.event.bounds is not Bounds.CONTRIBUTION:
            raise EventError(
                "Poisson sampling is accounted for a sum of bounded contributions with Gaussian "
                f"noise only, got {self.event!r}."
            )

    def sensitivity(self, relation: Relation) -> float:
        return self.event.sensitivity(relation)


@dataclass(frozen=True)
class SharedBatch(Event):
    """``steps`` Poisson steps whose participants an un-noised output reveals (Lemma D).

    The published MaskDP: no amplification is left beyond the random number of participations.
    """

    probability: float
    event: Gaussian
    steps: int
    name: ClassVar[str] = "shared-batch"

    def __post_init__(self) -> None:
        _set_probability(self, "probability")
        _set_count(self, "steps")
        if type(self.event) is not Gaussian or self.event.bounds is not Bounds.CONTRIBUTION:
            raise EventError(f"A shared batch holds a Gaussian sum, got {self.event!r}.")

    def sensitivity(self, relation: Relation) -> float:
        return self.event.sensitivity(relation)


@dataclass(frozen=True)
class BandedGaussian(Event):
    """``steps`` sums of contributions of norm at most 1 whose Gaussian noise is correlated (R28).

    Instead of the sums g, the products C g + z are noised, z of deviation ``noise_multiplier``; C is
    lower triangular, Toeplitz, with ``bands`` coefficients (``banded_coefficients``). Every unit
    takes part at fixed, public steps, any two of them at least ``separation`` >= ``bands`` apart.
    """

    noise_multiplier: float
    bands: int
    separation: int
    steps: int
    name: ClassVar[str] = "banded-gaussian"

    def __post_init__(self) -> None:
        _set_positive(self, "noise_multiplier")
        for count in ("bands", "separation", "steps"):
            _set_count(self, count)
        if self.bands > _MOST_BANDS:
            raise EventError(f"Expected at most {_MOST_BANDS} bands, got {self.bands}.")
        if self.separation < self.bands:
            raise EventError(
                f"Expected a unit to take part at most every {self.bands} steps, as many as there are "
                f"bands, got every {self.separation}: what it adds would overlap."
            )

    def sensitivity(self, relation: Relation) -> float:
        doubled = relation is Relation.REPLACE
        return (2.0 if doubled else 1.0) * math.sqrt(self._square())

    def _square(self) -> float:
        """The largest sum of squared columns of C among steps that are so far apart.

        Participations from the first step on are as many as there can be, and later columns are cut
        off at the end sooner, so no other pattern has more.
        """
        squares = [c * c for c in banded_coefficients(self.bands)]
        whole, rest = divmod(self.steps, self.separation)
        return math.fsum((whole * math.fsum(squares), math.fsum(squares[:rest])))


@lru_cache(maxsize=64)
def banded_coefficients(bands: int) -> tuple[float, ...]:
    """The first ``bands`` coefficients of the square root of (1, 1, 1, ...), scaled to length 1.

    The square root of the matrix of running sums is Toeplitz with binom(2i, i) / 4^i (Fichtenberger,
    Henzinger and Upadhyay 2023); cut off after some bands it is near the best (Kalinin and Lampert 2024).
    """
    found = [1.0]
    for i in range(1, bands):
        found.append(found[-1] * (2 * i - 1) / (2 * i))
    length = math.sqrt(math.fsum(c * c for c in found))
    return tuple(c / length for c in found)


@dataclass(frozen=True)
class SelfComposed(Event):
    """The same event ``count`` times on the same units, each possibly chosen after the last."""

    event: Event
    count: int
    name: ClassVar[str] = "self-composed"

    def __post_init__(self) -> None:
        _set_count(self, "count")
        _check_is_event(self.name, self.event)


@dataclass(frozen=True)
class Composed(Event):
    """Several events on the same units, one after the other."""

    events: tuple[Event, ...]
    name: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        if not isinstance(self.events, list | tuple):
            raise EventError(f"Expected a list of events to compose, got {self.events!r}.")
        object.__setattr__(self, "events", tuple(self.events))
        if not self.events:
            raise EventError("Expected at least one event to compose, got none.")
        for event in self.events:
            _check_is_event(self.name, event)


@dataclass(frozen=True)
class Group(Event):
    """The event seen by a group of ``size`` units that change together (one person's records)."""

    event: Event
    size: int
    name: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        _set_count(self, "size")
        _check_is_event(self.name, self.event)
        if isinstance(self.event, Group):
            raise EventError("A group of a group is one larger group: multiply the sizes.")

    def sensitivity(self, relation: Relation) -> float:
        return self.size * self.event.sensitivity(relation)


@dataclass(frozen=True)
class BestOf(Event):
    """``event`` run a random number of times on the same units, and only the best run shown.

    The number of runs is drawn from the truncated negative binomial distribution of Papernot and
    Steinke (2022) with ``shape`` eta and ``gamma``, in secret and before the first run; which run is
    best must follow from what the runs give out alone. Shape 0 is the logarithmic distribution,
    shape 1 the geometric one.
    """

    event: Event
    gamma: float
    shape: float
    name: ClassVar[str] = "best-of"

    def __post_init__(self) -> None:
        _set_probability(self, "gamma")
        shape = plain_number(self.shape)
        if not 0 <= shape <= 100:
            raise EventError(
                f"Expected shape of a best-of event from 0 to 100, got {self.shape!r}."
            )
        object.__setattr__(self, "shape", shape)
        if self.gamma >= 1:
            raise EventError("Expected gamma of a best-of event below 1, got 1: that is one run.")
        _check_is_event(self.name, self.event)

    @property
    def expected_runs(self) -> float:
        """The mean of the number of runs (Papernot and Steinke 2022, Definition 1)."""
        if self.shape == 0:
            return (1 / self.gamma - 1) / math.log(1 / self.gamma)
        return (
            self.shape
            * (1 - self.gamma)
            / (self.gamma * -math.expm1(self.shape * math.log(self.gamma)))
        )


_EVENTS: dict[str, type[Event]] = {
    kind.name: kind
    for kind in (
        NoAccess,
        Gaussian,
        Laplace,
        RandomizedResponse,
        ExponentialChoice,
        ApproximateRelease,
        PoissonSampled,
        SharedBatch,
        BandedGaussian,
        SelfComposed,
        Composed,
        Group,
        BestOf,
    )
}


def event_from_json(value: Mapping[str, Any]) -> Event:
    """Read an event back; an unknown name or field is refused, never guessed."""
    named = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(named, str) or named not in _EVENTS:
        known = ", ".join(sorted(_EVENTS))
        raise EventError(f"Expected an event of kind {known}, got {value!r}.")
    kind = _EVENTS[named]
    body = {key: item for key, item in value.items() if key != "kind"}
    expected = {field.name for field in fields(kind)}
    if set(body) != expected:
        raise EventError(
            f"Expected the fields {sorted(expected)} for a {kind.name} event, got {sorted(body)}."
        )
    return kind(**{key: _parsed(item) for key, item in body.items()})


def _parsed(item: Any) -> Any:
    if isinstance(item, Mapping):
        return event_from_json(item)
    return tuple(_parsed(part) for part in item) if isinstance(item, list) else item


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, StrEnum) else value


def _set_positive(event: Event, name: str) -> None:
    value = getattr(event, name)
    number = plain_number(value)
    if not _LEAST <= number <= _MOST:
        raise EventError(
            f"Expected {name} of a {event.name} event > 0 and finite (from {_LEAST:g} to {_MOST:g}), "
            f"got {value!r}."
        )
    object.__setattr__(event, name, number)


def _set_probability(event: Event, name: str) -> None:
    value = getattr(event, name)
    number = plain_number(value)
    if not _LEAST <= number <= 1:
        raise EventError(f"Expected {name} of a {event.name} event in (0, 1], got {value!r}.")
    object.__setattr__(event, name, number)


def _set_count(event: Event, name: str, least: int = 1) -> None:
    value = getattr(event, name)
    number = plain_count(value)
    if number is None or not least <= number <= _MOST_COUNT:
        raise EventError(
            f"Expected {name} of a {event.name} event as whole number from {least} to {_MOST_COUNT:g}, "
            f"got {value!r}."
        )
    object.__setattr__(event, name, number)


def is_real(value: object) -> bool:
    """A number that is neither a truth value nor NaN (what JSON holds may be anything)."""
    return not isinstance(value, bool) and isinstance(value, Real) and value == value


def plain_number(value: object) -> float:
    """Any real number as a plain float, in double precision; NaN for everything else."""
    try:
        return float(value) if is_real(value) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return math.nan


def plain_count(value: object) -> int | None:
    """Any whole number as a plain int; None for everything else, truth values too."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value)


def sampling_of(event: Event) -> str:
    """How the units of an event come to take part, in words."""
    match event:
        case SharedBatch():
            return "one Poisson batch for both streams"
        case PoissonSampled():
            return "Poisson sampling"
        case BandedGaussian():
            return "no sampling: fixed steps for every unit, correlated noise"
        case SelfComposed() | Group() | BestOf():
            return sampling_of(event.event)
        case Composed():
            return " and ".join(dict.fromkeys(sampling_of(each) for each in event.events))
        case _:
            return "no sampling"


def is_event(value: object) -> bool:
    """One of the events above itself: a subclass could say that it moves nothing."""
    return isinstance(value, Event) and _EVENTS.get(value.name) is type(value)


def _check_is_event(owner: str, value: object) -> None:
    if not is_event(value):
        raise EventError(f"Expected an event inside a {owner} event, got {value!r}.")
