"""What may stand on a card: no path, nothing that changes what a screen shows, words that fit numbers."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from sfumato.errors import SfumatoError

_DEEPEST = 100
_FRACTION = re.compile(r"\d+/\d+")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
# Words are derived from numbers that may differ between machines by their last shown digit.
_LAST_DIGIT = 0.02
# Directions and line ends that make a terminal or an editor show another text than the stored one.
_MISLEADING = frozenset(
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


class CardError(SfumatoError):
    """A card that cannot be written, read or trusted."""


def refuse_paths(where: str, value: Any) -> None:
    match value:
        case None | bool() | int():
            return
        case float():
            if not math.isfinite(value):
                raise CardError(f"Expected finite numbers in {where}, got {value!r}.")
        case str():
            if ("/" in value or "\\" in value) and not _FRACTION.fullmatch(value):
                raise CardError(
                    f"The card's {where} would show a path, and paths name people: leave it out."
                )
        case Mapping():
            for key, item in value.items():
                refuse_paths(f"{where}.{key}", item)
        case list() | tuple():
            for item in value:
                refuse_paths(where, item)
        case _:
            raise CardError(f"Expected plain values in {where}, got {type(value).__name__}.")


def control_character(text: str) -> str:
    """The first character of ``text`` that no card may hold; empty where there is none."""
    return next(
        (
            character
            for character in text
            if unicodedata.category(character) in {"Cc", "Cs"} or character in _MISLEADING
        ),
        "",
    )


def refuse_control_characters(value: Any, depth: int = 0) -> None:
    """Whoever prints a card must not run what somebody else wrote into it."""
    if depth > _DEEPEST:
        raise CardError("Expected a card as sfumato writes it, got one that is nested too deeply.")
    match value:
        case str():
            if character := control_character(value):
                raise CardError(
                    "Expected plain text on the card, got a control character (code "
                    f"{ord(character):#06x}): it could change what a screen shows. Do not trust "
                    "a card like this."
                )
        case Mapping():
            for key, item in value.items():
                refuse_control_characters(key, depth + 1)
                refuse_control_characters(item, depth + 1)
        case list() | tuple():
            for item in value:
                refuse_control_characters(item, depth + 1)


def same_words(first: str, second: str) -> bool:
    """Equal, but for the last digit of a number: another machine may round it the other way."""
    one, two = _NUMBER.split(first), _NUMBER.split(second)
    return one[::2] == two[::2] and all(
        math.isclose(float(a), float(b), rel_tol=_LAST_DIGIT)
        for a, b in zip(one[1::2], two[1::2], strict=True)
    )
