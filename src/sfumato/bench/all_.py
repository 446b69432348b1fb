"""Table ``all``: every other table in order, each in a process of its own.

A table that stops does not stop the rest; run ``all`` again and every table goes on where it was.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from sfumato.bench._tables import TABLES, Table
from sfumato.errors import SfumatoError


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    results: str | None = None,
    only: str | None = None,
) -> dict[str, Any]:
    """Write every table into the folder ``results``; ``data`` is the root of the real recordings."""
    names = only.split(",") if only else [name for name in TABLES if name != "all"]
    unknown = [name for name in names if name not in TABLES or name == "all"]
    if unknown:
        raise SfumatoError(f"Expected tables out of {', '.join(TABLES)}, got {unknown[0]!r}.")
    folder = Path(results or ("results-quick" if quick else "results"))
    root = None if data is None else Path(data)
    if root is not None and not root.is_dir():
        raise SfumatoError(f"Expected data= to be a folder, got {data!r}.")
    console = Console(stderr=True, highlight=False)
    rows = []
    for name in names:
        table = TABLES[name]
        console.print(
            f"{name}: {table.line} About {table.quick_minutes if quick else table.minutes} min."
        )
        found = "" if root is None else _found(table, root)
        if table.data and not found and not quick:
            # without its recordings it would write less over what was measured with them
            console.print(f"{name}: not run, it reads recordings: pass data=FOLDER.")
            rows.append({"table": name, "written": False, "seconds": 0, "failed": False})
            continue
        began = time.monotonic()
        ended = subprocess.run(_command(name, table, found, quick, folder / f"{name}.json"))
        failed = ended.returncode != 0
        seconds = round(time.monotonic() - began)
        rows.append({"table": name, "written": not failed, "seconds": seconds, "failed": failed})
    return {"rows": rows, "folder": folder.name}


def failed(result: dict[str, Any]) -> bool:
    """Whether a table that was run was not written."""
    return any(row["failed"] for row in result["rows"])


def _command(name: str, table: Table, found: str, quick: bool, out: Path) -> list[str]:
    options = [f"data={found}"] if found else []
    if quick and "quick" in inspect.signature(table.load().run).parameters:
        options.append("quick=true")
    return [sys.executable, "-m", "sfumato", "bench", name, *options, "--out", str(out), "--force"]


def _found(table: Table, root: Path) -> str:
    return ",".join(str(root / part) for part in table.data if (root / part).is_dir())


def words(result: dict[str, Any]) -> list[Any]:
    grid = Grid("table", "written", "seconds")
    for row in result["rows"]:
        grid.add_row(row["table"], "yes" if row["written"] else "no", str(row["seconds"]))
    return [grid]
