"""``python -m benchmarks TABLE``: one command for every table."""

from __future__ import annotations

from pathlib import Path

import typer

from benchmarks.tables import QUICK_NOTE, TABLES, publish, refuse_replacing_whole
from sfumato.cli._output import emit
from sfumato.cli._verb import verb
from sfumato.cli.main import run
from sfumato.errors import SfumatoError
from sfumato.settings import checked, parse_pairs, schema_of, shown

app = typer.Typer(help="The papers' tables and the speed tables.")
# \b: typer keeps the lines of the paragraph as they are
LISTED = "\n".join(f"{name:<17} {table.line}" for name, table in TABLES.items())


@verb(app, help=f"Run one table (or all) and print it.\n\n\b\n{LISTED}")
def bench(
    table: str = typer.Argument("", help=f"One of: {', '.join(TABLES)}."),
    options: list[str] = typer.Argument(None, help="Options of the table, as name=value."),
    out: Path | None = typer.Option(
        None, "--out", help="Write the numbers as JSON, with Markdown tables and figures beside it."
    ),
    quick: bool = typer.Option(False, "--quick", help="Little of everything, to see that it runs."),
    *,
    force: bool,
    as_json: bool,
) -> None:
    if table not in TABLES:
        listed = "; ".join(f"{name}: {each.line}" for name, each in TABLES.items())
        raise SfumatoError(f"Expected a table, got {shown(table)}. There are: {listed}")
    from sfumato.files import refuse_overwrite

    chosen = (parse_pairs(TABLES[table].quick) if quick else {}) | parse_pairs(options or [])
    quick = quick or chosen.get("quick") is True
    if out is not None:
        refuse_overwrite(out, force=force)
        if quick:
            refuse_replacing_whole(out)
    module = TABLES[table].load()
    result = module.run(**checked(schema_of(module.run), chosen, f"the table {table}"))
    if quick:
        result["quick"] = True
    if out is not None:
        publish(module, result, out, force=force)
    failed = hasattr(module, "failed") and module.failed(result)
    lines = (*([QUICK_NOTE] if quick else ()), *module.terminal(result))
    emit(as_json, {"table": table, **result}, *lines, ok=not failed)
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(app)
