"""``sfumato names``: which output of a released folder is which source, for whoever made it."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from sfumato.cli._output import emit, ending, shown_path
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(
    app,
    "sfumato names released",
    "sfumato names released --json",
    "sfumato names released | grep walk",
)
def names(
    folder: Path = typer.Argument(help="The folder that sfumato protect FOLDER OUT wrote."),
    *,
    as_json: bool,
) -> None:
    """Print which output of FOLDER is which source, from the private list beside it."""
    from sfumato.jobs import name_list, names_of

    found = names_of(folder)
    width = max([len("output"), *map(len, found)])
    # lines, not a table: a table breaks long names, and grep would not find them
    lines = [f"{'output':<{width}}  source"]
    lines += [f"{out:<{width}}  {shown_path(Path(source))}" for out, source in found.items()]
    last = ending(
        f"{len(found)} outputs, from {shown_path(name_list(folder))}.",
        "this list says who is who: keep it apart from the release, or delete it.",
        f"sfumato verify {folder}",
    )
    emit(as_json, {"names": found}, *map(escape, lines), *last)
