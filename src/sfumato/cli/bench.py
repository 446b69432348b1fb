"""``sfumato bench TABLE``: one command for every table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sfumato.bench import A_LOOK, TABLES, keep_whole, publish
from sfumato.cli._output import FORCE, JSON, emit
from sfumato.errors import SfumatoError

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
    out: Path | None = typer.Option(
        None, "--out", help="Write the numbers as JSON, with a Markdown page and figures beside it."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="A look: little of everything, to see that it runs."
    ),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Run one table (or all) and print it."""
    if table not in TABLES:
        listed = "; ".join(f"{name}: {each.line}" for name, each in TABLES.items())
        raise SfumatoError(f"Expected a table, got {table!r}. There are: {listed}")
    from sfumato.files import refuse_overwrite

    chosen = (_options(list(TABLES[table].look)) if quick else {}) | _options(options or [])
    quick = quick or chosen.get("quick") is True
    if out is not None:
        refuse_overwrite(out, force=force)
        if quick:
            keep_whole(out)
    module = TABLES[table].load()
    try:
        result = module.run(**chosen)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise SfumatoError(f"Expected options that table {table} has: {error}.") from None
    if quick:
        result["quick"] = True
    if out is not None:
        publish(module, result, out, force=force)
    emit(as_json, {"table": table, **result}, *([A_LOOK] if quick else ()), *module.words(result))
    if hasattr(module, "failed") and module.failed(result):
        raise typer.Exit(1)
