"""The verdict of ``sfumato audit guarantee``: one form for whoever writes it and whoever reads it.

An alarm is raised by one rule and at one confidence, here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.privacy._card import Card
from sfumato.privacy._guarantee import Guarantee, NoGuarantee, format_epsilon

# An alarm says "do not rely on it". An audit makes about five tests and a table audits seventeen methods,
# so that at 99.9 % one table in twelve would accuse somebody by chance; at 99.99 %, one in a hundred.
ALARM = 0.9999
CONFIDENCES = (0.95, 0.99, ALARM)


class VerdictError(SfumatoError):
    """A verdict that cannot be read, so it neither supports nor refutes anything."""


def alarm_threshold(
    confidence: float, limit: float, beside: Sequence[tuple[float, float]] = ()
) -> float:
    """The certified limit that an alarm is raised by: the one at the confidence of alarms.

    A mechanism that attains its epsilon exceeds it at 95 % in one audit out of twenty. Where nobody
    stated a limit at the confidence of alarms, the stated one decides: silence must not reassure.
    """
    sure = [value for level, value in ((confidence, limit), *beside) if level >= ALARM]
    return max(sure) if sure else limit


@dataclass(frozen=True)
class LowerBound:
    """Epsilon is at least ``epsilon``, unless something of probability 1 - ``confidence`` happened.

    ``beside`` has the limits at other confidences. ``gaussian_fit`` is a diagnostic that assumes
    Gaussian scores. It certifies nothing.
    """

    epsilon: float
    confidence: float
    delta: float | None
    method: str
    trials: int | None
    beside: tuple[tuple[float, float], ...] = ()
    gaussian_fit: float | None = None

    def exceeds(self, promised: float) -> bool:
        """True when the limit lies above ``promised`` at this confidence."""
        return self.epsilon > promised

    @property
    def surest(self) -> float:
        """The limit that an alarm is raised by, at the confidence of alarms."""
        return alarm_threshold(self.confidence, self.epsilon, self.beside)

    def __str__(self) -> str:
        more = "".join(f"; {value:.3g} at {100 * level:g} %" for level, value in self.beside)
        runs = f", {self.trials} runs a side" if self.trials and self.trials > 1 else ""
        return (
            f"epsilon is at least {self.epsilon:.3g} with {100 * self.confidence:g} % confidence"
            f"{more} ({self.method}{runs}, delta {self.delta:g})"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon_at_least": _stated(self.epsilon),
            "confidence": self.confidence,
            "beside": [{"confidence": c, "epsilon_at_least": _stated(e)} for c, e in self.beside],
            "delta": self.delta,
            "method": self.method,
            "trials": self.trials,
            "gaussian_fit_diagnostic": _stated(self.gaussian_fit),
        }


@dataclass(frozen=True)
class Attack:
    """A certified lower limit of epsilon beside the one it must not exceed.

    That one may be smaller than the card's epsilon: a long training is attacked by its first steps.
    """

    target: str
    promised: float
    bound: LowerBound

    @property
    def refutes(self) -> bool:
        return self.bound.surest > self.promised

    def to_json(self) -> dict[str, Any]:
        stated = {"target": self.target, "promised": self.promised, "refutes": self.refutes}
        return stated | self.bound.to_json()


@dataclass(frozen=True)
class CurvePoint:
    """Certified delta at a small epsilon beside the promised one: the most sensitive certificate."""

    epsilon: float
    certified: float
    promised: float

    @property
    def refutes(self) -> bool:
        return self.certified > self.promised * (1 + 1e-9) + 1e-12

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"refutes": self.refutes}


@dataclass(frozen=True)
class VerdictFile:
    """What an audit certified about one promise, as ``OUTPUT.audit.json`` has it."""

    promise: Mapping[str, Any]
    refuted: bool
    attacks: tuple[Attack, ...]
    curve: tuple[CurvePoint, ...] = ()
    curve_confidence: float | None = None
    checks: tuple[tuple[str, bool, str], ...] = ()
    not_run: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        promise: Guarantee | NoGuarantee,
        attacks: Sequence[Attack],
        curve: Sequence[CurvePoint],
        checks: Sequence[tuple[str, bool, str]],
        not_run: Sequence[str],
    ) -> VerdictFile:
        """What an audit found, judged."""
        made = cls(
            promise.to_json(), False, tuple(attacks), tuple(curve), ALARM, tuple(checks),
            tuple(not_run),
        )  # fmt: skip
        return cls(**(vars(made) | {"refuted": made.contradicted}))

    @property
    def contradicted(self) -> bool:
        """True when anything in it contradicts the promise, whatever it says of itself."""
        return (
            self.refuted
            or any(attack.refutes for attack in self.attacks)
            or any(point.refutes for point in self.curve)
            or any(not conforms for _, conforms, _ in self.checks)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "promise": dict(self.promise),
            "falsifiable": self.promise["type"] == "guarantee",
            "refuted": self.contradicted,
            "attacks": [attack.to_json() for attack in self.attacks],
            "delta_curve": [point.to_json() for point in self.curve],
            "delta_curve_confidence": self.curve_confidence,
            "conformance": [
                {"check": name, "conforms": conforms, "detail": detail}
                for name, conforms, detail in self.checks
            ],
            "not_run": list(self.not_run),
        }

    def outcome(self, card: Card) -> tuple[str, str]:
        """Tone (good, bad, plain) and the sentence about this card's promise."""
        promise = card.promise
        if not _same_promise(self.promise, promise.to_json()):
            return "bad", "The verdict is about another promise than the card's: audit it again."
        if not isinstance(promise, Guarantee):
            return "plain", "There is no promise on the card that an audit could refute."
        limit = format_epsilon(promise.epsilon)
        best = max((attack.bound.epsilon for attack in self.attacks), default=None)
        failed = [name for name, passed, _ in self.checks if not passed]
        if self.contradicted or any(
            attack.bound.surest > promise.epsilon for attack in self.attacks
        ):
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


def parse_verdict(value: Any) -> VerdictFile:
    """Read a verdict. What is missing or of another kind is refused: silence must not reassure."""
    try:
        return VerdictFile(
            promise=_object(value["promise"]),
            refuted=_truth(value["refuted"]),
            attacks=tuple(_attack(_object(each)) for each in value["attacks"]),
            curve=tuple(
                CurvePoint(*(_number(each[key]) for key in ("epsilon", "certified", "promised")))
                for each in value.get("delta_curve", ())
            ),
            curve_confidence=_optional(value.get("delta_curve_confidence")),
            checks=tuple(
                (str(each["check"]), _truth(each["conforms"]), str(each.get("detail", "")))
                for each in value.get("conformance", ())
            ),
            not_run=tuple(str(each) for each in value.get("not_run", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise VerdictError(
            "Expected a verdict with promise, refuted and attacks (each with a certified lower "
            "bound, its method and confidence), got something else: run sfumato audit guarantee again."
        ) from None


def _attack(value: Mapping[str, Any]) -> Attack:
    trials = value.get("trials")
    bound = LowerBound(
        epsilon=_number(value["epsilon_at_least"]),
        confidence=_number(value["confidence"]),
        delta=_optional(value.get("delta")),
        method=str(value["method"]),
        trials=trials if isinstance(trials, int) else None,
        beside=tuple(
            (_number(each["confidence"]), _number(each["epsilon_at_least"]))
            for each in value.get("beside", ())
        ),
        gaussian_fit=_optional(value.get("gaussian_fit_diagnostic")),
    )
    return Attack(str(value["target"]), _number(value["promised"]), bound)


def _same_promise(audited: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    """Equal, but for what another version of an accountant may change in epsilon's last digits."""
    first, second = dict(audited), dict(stated)
    near = math.isclose(first.pop("epsilon", 0), second.pop("epsilon", 0), rel_tol=1e-3)
    return near and first == second


def _stated(value: float | None) -> Any:
    """JSON has no infinity."""
    return "inf" if value is not None and math.isinf(value) else value


def _number(value: Any) -> float:
    """A number, or the word that stands for infinity in JSON."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise TypeError
    return float(value)


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
