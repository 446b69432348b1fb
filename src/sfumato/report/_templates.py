"""How every page is written: escaped throughout, without paths, and complete or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sfumato.ledger import epsilon_in_words
from sfumato.privacy import without_paths


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("sfumato.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # every value that is printed passes here
        finalize=_outgoing,
    )
    made.filters["number"] = _number
    made.filters["plain"] = _plain_value
    made.filters["epsilon"] = epsilon_in_words
    return made


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _plain_value(value: Any) -> str:
    """A value of a card or a table, for a cell."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return "; ".join(value) or "none"
        case list() | tuple() | Mapping():
            return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
        case _:
            return str(value)


def _outgoing(value: Any) -> Any:
    """Everything that is printed: our own markup as it is, text of others without paths."""
    if isinstance(value, Markup):
        return value
    return without_paths(value) if isinstance(value, str) else value
