"""``sfumato methods``: every release method with its guarantee and its settings."""

from __future__ import annotations

import typer
from rich.table import Table

from sfumato.cli._output import JSON, emit

app = typer.Typer()


@app.command()
def methods(as_json: bool = JSON) -> None:
    """List every release method: what it does, what it proves, what can be set."""
    from sfumato import protect

    table = Table("method", "what it does", "what it proves", "settings", box=None, pad_edge=False)
    payload = []
    for name, method in sorted((protect.methods() | protect.dataset_methods()).items()):
        settings = sorted(method.settings_schema().model_fields)
        table.add_row(name, method.summary, method.provides, ", ".join(settings))
        payload.append(
            {
                "name": name,
                "summary": method.summary,
                "provides": method.provides,
                "settings": settings,
            }
        )
    emit(as_json, {"methods": payload}, table)
