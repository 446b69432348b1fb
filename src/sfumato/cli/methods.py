"""``sfumato methods``: every release method with its guarantee and its settings."""

from __future__ import annotations

from rich.table import Table

from sfumato.cli._output import emit
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(
    app,
    "sfumato methods",
    "sfumato methods --json",
    "sfumato schema protect     # every setting with its bounds",
)
def methods(*, as_json: bool) -> None:
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
