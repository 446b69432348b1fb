"""``sfumato methods``: every release method with its guarantee and its settings."""

from __future__ import annotations

from typing import Any

import typer
from rich.table import Table

from sfumato.cli._output import emit
from sfumato.cli._verb import verb, verbs
from sfumato.errors import UsageMistakeError, did_you_mean

app = verbs()


@verb(
    app,
    "sfumato methods",
    "sfumato methods blur",
    "sfumato schema protect     # every setting with its bounds",
)
def methods(
    name: str | None = typer.Argument(None, help="One method, with its settings."), *, as_json: bool
) -> None:
    """List every release method: what it does, what it proves, what can be set."""
    from sfumato import protect

    known = dict(sorted((protect.methods() | protect.dataset_methods()).items()))
    if name is not None and name not in known:
        raise UsageMistakeError(f"Expected a method, got {name!r}{did_you_mean(name, known)}")
    shown = known if name is None else {name: known[name]}
    table = Table("method", "what it does, and what it proves", box=None, pad_edge=False)
    for each, method in shown.items():
        table.add_row(f"[bold]{each}[/]", f"{method.summary}; [dim]{method.provides}[/]")
    rows: list[dict[str, Any]] = [
        {
            "name": each,
            "summary": method.summary,
            "provides": method.provides,
            "settings": sorted(method.settings_schema().model_fields),
        }
        for each, method in shown.items()
    ]
    then = "Settings of one: sfumato methods NAME"
    if name is not None:
        then = f"Settings (--set name=value): {', '.join(rows[0]['settings'])}"
    emit(as_json, {"methods": rows}, table, then)
