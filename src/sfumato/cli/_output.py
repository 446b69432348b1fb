"""What every verb prints: words for people, or one JSON object for machines."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType

_NARROWEST, _USUAL_WIDTH = 20, 80
JSON = typer.Option(False, "--json", help="Print one JSON object instead of words.")
FORCE = typer.Option(False, "--force", help="Replace outputs that are already there.")
DRY_RUN = typer.Option(
    False, "--dry-run", help="Say what would be done and what it proves; read nothing private."
)


def shown_path(path: Path) -> str:
    """Where something was written, as seen from here."""
    return os.path.relpath(path)


def finite(value: float | None) -> float | None:
    """Options with a range let NaN pass: it is neither too small nor too large."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a finite number, got {value}")
    return value


def console() -> Console:
    made = Console(highlight=False, soft_wrap=True)
    if made.width < _NARROWEST:
        # COLUMNS=0, as some schedulers set it, would print nothing at all
        made.width = _USUAL_WIDTH
    return made


def emit(
    as_json: bool, payload: Mapping[str, Any], *words: RenderableType, ok: bool = True
) -> None:
    """Print ``payload`` as JSON, or ``words`` for a person.

    ``ok`` is what the exit code says: false beside anything that failed.
    """
    if as_json:
        print(json.dumps({**payload, "ok": ok}, sort_keys=True, allow_nan=False))
        return
    out = console()
    for part in words:
        out.print(part)
