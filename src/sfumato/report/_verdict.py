"""The verdict of ``sfumato audit guarantee``, read by its documented keys and no others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.privacy import Card, Guarantee, format_epsilon


class VerdictError(SfumatoError):
    """A verdict that cannot be read, so it neither supports nor refutes anything."""


@dataclass(frozen=True)
class Bound:
    """One certified lower limit of epsilon."""

    at_least: float
    confidence: float | None
    method: str
    trials: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What an audit certified about one promise."""

    promised: float | None
    bounds: tuple[Bound, ...]
    checks: tuple[tuple[str, bool], ...]
    refuted: bool
    words: str | None

    @property
    def best(self) -> Bound | None:
        """The limit that proves most."""
        return max(self.bounds, key=lambda bound: bound.at_least, default=None)

    def outcome(self, card: Card) -> tuple[str, str]:
        """Tone (good, bad, plain) and the sentence about this card's promise."""
        promise = card.promise
        if not isinstance(promise, Guarantee):
            return "plain", "There is no promise on the card that an audit could test."
        limit = format_epsilon(promise.epsilon)
        if self.promised is not None and not math.isclose(
            self.promised, promise.epsilon, rel_tol=1e-3
        ):
            return "bad", "The verdict is about another promise than the card's: audit it again."
        failed = [name for name, passed in self.checks if not passed]
        best = self.best
        if self.refuted or (best is not None and best.at_least > promise.epsilon):
            found = "" if best is None else f": epsilon is at least {best.at_least:.3g}"
            return "bad", f"REFUTED{found}, but {limit} was promised. Do not rely on this release."
        if failed:
            return (
                "bad",
                f"A check of the mechanism failed ({', '.join(failed)}). Do not rely on it.",
            )
        if best is None:
            return "plain", "The audit ran no attack that certifies anything about this promise."
        return (
            "good",
            f"Not refuted: the best attack certifies epsilon of at least {best.at_least:.3g}; "
            f"{limit} was promised.",
        )


def parse_verdict(value: Any) -> Verdict:
    """Read a verdict; unknown keys are left alone, a verdict without any result is refused."""
    if not isinstance(value, Mapping):
        raise VerdictError("Expected a verdict with keys, got another kind of JSON.")
    bounds = tuple(_bounds(value))
    checks = tuple(_checks(value))
    refuted = any(
        value.get(key) is outcome
        for key, outcome in (("refuted", True), ("holds", False), ("consistent", False))
    )
    words = next(
        (value[k] for k in ("words", "verdict", "summary") if _is_text(value.get(k))), None
    )
    if not bounds and not checks and words is None and not refuted:
        raise VerdictError(
            "Expected a verdict with a certified lower bound, its method and confidence, "
            "got none of these: run sfumato audit guarantee CARD again."
        )
    return Verdict(_promised(value.get("promised")), bounds, checks, refuted, words)


_LIMIT_KEYS = (
    "certified_lower_bound",
    "lower_bound",
    "epsilon_at_least",
    "certified",
    "epsilon_lower_bound",
)
_LIST_KEYS = ("bounds", "attacks", "audits", "lower_bounds", "results", "methods")


def _bounds(value: Mapping[str, Any]) -> list[Bound]:
    found: list[Bound] = []
    for key in _LIMIT_KEYS:
        limit = value.get(key)
        if isinstance(limit, Mapping):
            found += _bounds(limit)
        elif _is_number(limit):
            found.append(_bound(float(limit), value))  # type: ignore[arg-type]
            break
    for key in _LIST_KEYS:
        listed = value.get(key)
        if isinstance(listed, list):
            for each in listed:
                if isinstance(each, Mapping):
                    found += _bounds(each)
    return found


def _bound(limit: float, value: Mapping[str, Any]) -> Bound:
    method, trials, confidence = (value.get(k) for k in ("method", "trials", "confidence"))
    return Bound(
        at_least=limit,
        confidence=float(confidence) if _is_number(confidence) else None,  # type: ignore[arg-type]
        method=method if isinstance(method, str) and method else "method not stated",
        trials=trials if isinstance(trials, int) and not isinstance(trials, bool) else None,
    )


def _checks(value: Mapping[str, Any]) -> list[tuple[str, bool]]:
    listed = value.get("checks", value.get("conformance"))
    if isinstance(listed, Mapping):
        return [(str(name), passed) for name, passed in listed.items() if isinstance(passed, bool)]
    found = []
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and _is_text(each.get("name")):
            passed = each.get("passed", each.get("ok", each.get("holds")))
            if isinstance(passed, bool):
                found.append((each["name"], passed))
    return found


def _promised(value: Any) -> float | None:
    if isinstance(value, Mapping):
        value = value.get("epsilon")
    return float(value) if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
