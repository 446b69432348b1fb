"""Which settings of a method a page may offer: values that somebody types, no files and no commands.

Whoever fills in a page must not be able to name a file of the machine or a program to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.privacy import Relation, Unit
from sfumato.protect._command import DEFAULT_DELTA
from sfumato.protect._method import ProtectError
from sfumato.protect._registry import get, names
from sfumato.settings import shown, typed_schema

_REGIONS = ("faces", "people", "background", "text")
# decided by looking at one recording, or for tests only
_ELSEWHERE = frozenset({"import_boxes", "leave_open", "cover", "public_mask", "seed"})
_PLAIN = frozenset({"string", "number", "integer", "boolean", "null"})
_CHOICES: dict[str, dict[str, Any]] = {
    "region": {"enum": [None, *_REGIONS], "default": None},
    "unit": {"type": "string", "default": str(Unit.video())},
    "relation": {"enum": [each.value for each in Relation], "default": Relation.REPLACE.value},
}


def form_schema(name: str) -> dict[str, Any]:
    """JSON schema of the settings of one method that a page may offer."""
    whole = typed_schema(get(name).settings_schema())
    offered = {
        setting: {**_CHOICES[setting], "title": shape.get("title", setting)}
        if setting in _CHOICES
        else shape
        for setting, shape in whole.get("properties", {}).items()
        if setting not in _ELSEWHERE and (setting in _CHOICES or _is_plain(shape))
    }
    missing = sorted(set(whole.get("required", ())) - set(offered))
    if missing:
        raise ProtectError(f"Expected a method for a page, got {name}, which needs {missing[0]}.")
    if "delta" in offered:
        offered["delta"] = {**offered["delta"], "default": DEFAULT_DELTA}
    # with_defaults() takes the strictest unit and a small delta where none is given
    required = [
        e for e in whole.get("required", ()) if e in offered and "default" not in offered[e]
    ]
    return {"type": "object", "properties": offered, "required": required}


def methods_with_forms() -> list[str]:
    """Every method of recordings that a page can offer."""
    found = []
    for name in names():
        try:
            form_schema(name)
        except ProtectError:
            continue
        found.append(name)
    return found


def check_form(name: str, settings: Mapping[str, Any]) -> None:
    """Raise unless a page may ask for these settings; the method itself checks their values."""
    offered = form_schema(name)["properties"]
    for setting, value in settings.items():
        if setting not in offered:
            raise ProtectError(
                f"Expected settings of {name} out of {', '.join(sorted(offered))}, got {shown(setting)}."
            )
        choices = offered[setting].get("enum")
        if choices is not None and value not in choices:
            raise ProtectError(
                f"Expected {setting} out of {', '.join(map(str, choices))}, got {shown(value)}."
            )


def _is_plain(shape: Mapping[str, Any]) -> bool:
    """Whether a setting is a number, a choice or a name, however it is nested."""
    if shape.get("description") in ("text", "the path of a file") or "format" in shape:
        return False
    if "anyOf" in shape:
        # an empty branch is an object of Python code, beside which a name can be typed, or nothing
        branches = [each for each in shape["anyOf"] if each and each.get("type") != "null"]
        return bool(branches) and all(map(_is_plain, branches))
    return "enum" in shape or "const" in shape or shape.get("type") in _PLAIN
