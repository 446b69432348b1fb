"""``sfumato examples``: files to begin with, as they ship."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from sfumato.cli._output import emit
from sfumato.cli._verb import verb, verbs
from sfumato.errors import UsageMistakeError, did_you_mean

app = verbs()


@verb(
    app,
    "sfumato examples",
    "sfumato examples first.yaml > first.yaml",
    "sfumato examples own-people.yaml > own-people.yaml",
)
def examples(
    name: str | None = typer.Argument(None, help="The file to print; without it, all names."),
) -> None:
    """List the example files, or print one of them."""
    known = {each.name: each.read_text(encoding="utf-8") for each in sorted(_files(), key=str)}
    if name is None:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for each, text in known.items():
            table.add_row(Text(each, style="bold"), Text(text.splitlines()[0].lstrip("# ")))
        emit(False, {}, table, "Print one with: sfumato examples NAME > NAME")
        return
    if name not in known:
        raise UsageMistakeError(f"Expected an example, got {name!r}{did_you_mean(name, known)}")
    print(known[name], end="")


def _files() -> list[Any]:
    folder = files("sfumato.cli") / "example_files"
    return [each for each in folder.iterdir() if each.name.endswith(".yaml")]
