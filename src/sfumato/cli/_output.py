"""What every verb prints: words for people, or one JSON object for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console, RenderableType

JSON = typer.Option(False, "--json", help="Print one JSON object instead of words.")
FORCE = typer.Option(False, "--force", help="Replace outputs that are already there.")
DRY_RUN = typer.Option(
    False, "--dry-run", help="Say what would be done and what it proves; read nothing private."
)


def console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def emit(as_json: bool, payload: Mapping[str, Any], *words: RenderableType) -> None:
    """Print ``payload`` as JSON, or ``words`` for a person."""
    if as_json:
        print(json.dumps({"ok": True, **payload}, sort_keys=True, allow_nan=False))
        return
    out = console()
    for part in words:
        out.print(part)
