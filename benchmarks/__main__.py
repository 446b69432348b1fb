"""``python -m benchmarks TABLE``: one command for every table."""

from __future__ import annotations

from pathlib import Path

import typer

from benchmarks import A_LOOK, TABLES, keep_whole, publish
from sfumato.cli._output import emit
from sfumato.cli._verb import verb
from sfumato.cli.main import run
from sfumato.errors import SfumatoError
from sfumato.settings import checked, parse_pairs, schema_of, shown

app = typer.Typer(help="The papers' tables and the speed tables.")


@verb(app)
def bench(
    table: str = typer.Argument("", help=f"One of: {', '.join(TABLES)}."),
    options: list[str] = typer.Argument(None, help="Options of the table, as name=value."),
    out: Path | None = typer.Option(
        None, "--out", help="Write the numbers as JSON, with a Markdown page and figures beside it."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="A look: little of everything, to see that it runs."
    ),
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Run one table (or all) and print it."""
    if table not in TABLES:
        listed = "; ".join(f"{name}: {each.line}" for name, each in TABLES.items())
        raise SfumatoError(f"Expected a table, got {shown(table)}. There are: {listed}")
    from sfumato.files import refuse_overwrite

    chosen = (parse_pairs(TABLES[table].look) if quick else {}) | parse_pairs(options or [])
    quick = quick or chosen.get("quick") is True
    if out is not None:
        refuse_overwrite(out, force=force)
        if quick:
            keep_whole(out)
    module = TABLES[table].load()
    result = module.run(**checked(schema_of(module.run), chosen, f"the table {table}"))
    if quick:
        result["quick"] = True
    if out is not None:
        publish(module, result, out, force=force)
    failed = hasattr(module, "failed") and module.failed(result)
    words = (*([A_LOOK] if quick else ()), *module.words(result))
    emit(as_json, {"table": table, **result}, *words, ok=not failed)
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(app)
