"""The verdict of ``sfumato audit guarantee``, read by its documented keys; others are left alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.privacy import Card, Guarantee, format_epsilon

_SURE = 0.999


class VerdictError(SfumatoError):
    """A verdict that cannot be read, so it neither supports nor refutes anything."""


@dataclass(frozen=True)
class Attack:
    """A certified lower limit of epsilon beside the one it must not exceed.

    The limit may be smaller than the card's epsilon: a long training is attacked by its first steps.
    """

    target: str
    method: str
    at_least: float
    limit: float
    confidence: float
    beside: tuple[tuple[float, float], ...]
    trials: int | None

    @property
    def surest(self) -> float:
        """The limit that raises an alarm: at 99.9 % where that is stated.

        A mechanism that attains its epsilon exceeds it at 95 % in one audit out of twenty.
        """
        sure = [limit for confidence, limit in self.beside if confidence >= _SURE]
        return sure[-1] if sure else self.at_least


@dataclass(frozen=True)
class CurvePoint:
    """Certified delta at a small epsilon beside the promised one."""

    epsilon: float
    certified: float
    promised: float


@dataclass(frozen=True)
class Verdict:
    """What an audit certified about one promise."""

    promise: Mapping[str, Any]
    refuted: bool
    attacks: tuple[Attack, ...]
    curve: tuple[CurvePoint, ...]
    curve_confidence: float | None
    checks: tuple[tuple[str, bool, str], ...]
    not_run: tuple[str, ...]

    def outcome(self, card: Card) -> tuple[str, str]:
        """Tone (good, bad, plain) and the sentence about this card's promise."""
        promise = card.promise
        if not _same_promise(self.promise, promise.to_json()):
            return "bad", "The verdict is about another promise than the card's: audit it again."
        if not isinstance(promise, Guarantee):
            return "plain", "There is no promise on the card that an audit could refute."
        limit = format_epsilon(promise.epsilon)
        best = max((attack.at_least for attack in self.attacks), default=None)
        failed = [name for name, passed, _ in self.checks if not passed]
        exceeded = any(attack.surest > attack.limit for attack in self.attacks)
        exceeded = exceeded or any(attack.surest > promise.epsilon for attack in self.attacks)
        if self.refuted or failed or exceeded:
            why = f" ({', '.join(failed)})" if failed else ""
            return (
                "bad",
                f"REFUTED{why}: epsilon {limit} was promised, and the audit contradicts it. "
                "Do not rely on this release.",
            )
        if best is None:
            return "plain", "The audit ran no attack that certifies anything about this promise."
        return (
            "good",
            f"Yes, and it did not succeed: the best attack certifies epsilon of at least {best:.3g}; "
            f"{limit} was promised. An audit can refute a promise, never prove it.",
        )


def parse_verdict(value: Any) -> Verdict:
    """Read a verdict. What is missing or of another kind is refused: silence must not reassure."""
    try:
        return Verdict(
            promise=_object(value["promise"]),
            refuted=_truth(value["refuted"]),
            attacks=tuple(_attack(_object(each)) for each in value["attacks"]),
            curve=tuple(
                CurvePoint(*(_number(each[key]) for key in ("epsilon", "certified", "promised")))
                for each in value.get("delta_curve", ())
            ),
            curve_confidence=value.get("delta_curve_confidence"),
            checks=tuple(
                (str(each["check"]), _truth(each["conforms"]), str(each.get("detail", "")))
                for each in value.get("conformance", ())
            ),
            not_run=tuple(str(each) for each in value.get("not_run", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise VerdictError(
            "Expected a verdict with promise, refuted and attacks (each with a certified lower "
            "bound, its method and confidence), got something else: run sfumato audit guarantee again."
        ) from None


def _attack(value: Mapping[str, Any]) -> Attack:
    trials = value.get("trials")
    return Attack(
        target=str(value["target"]),
        method=str(value["method"]),
        at_least=_number(value["epsilon_at_least"]),
        limit=_number(value["promised"]),
        confidence=_number(value["confidence"]),
        beside=tuple(
            (_number(each["confidence"]), _number(each["epsilon_at_least"]))
            for each in value.get("beside", ())
        ),
        trials=trials if isinstance(trials, int) else None,
    )


def _same_promise(audited: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    """Equal, but for what another version of an accountant may change in epsilon's last digits."""
    first, second = dict(audited), dict(stated)
    near = math.isclose(first.pop("epsilon", 0), second.pop("epsilon", 0), rel_tol=1e-3)
    return near and first == second


def _number(value: Any) -> float:
    """A number, or the word that stands for infinity in JSON."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise TypeError
    return float(value)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
