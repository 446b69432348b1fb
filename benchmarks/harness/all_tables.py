"""Table ``all``: every other table in order, each in a process of its own.

A table that stops does not stop the rest; run ``all`` again and every table resumes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from benchmarks.harness.cells import bench_folder
from benchmarks.tables import TABLES, Table, refuse_replacing_whole, results_path
from sfumato.errors import SfumatoError


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    results: str | None = None,
    only: str | None = None,
) -> dict[str, Any]:
    """Write every table into the folder ``results``, or each beside its code; ``data`` is the root of
    the real recordings."""
    among = [name for name, table in TABLES.items() if name != "all" and not table.alone]
    names = only.split(",") if only else among
    unknown = [name for name in names if name not in among]
    if unknown:
        raise SfumatoError(f"Expected tables out of {', '.join(among)}, got {unknown[0]!r}.")
    folder = Path(results or "results-quick") if results or quick else None
    outputs = {name: folder / f"{name}.json" if folder else results_path(name) for name in names}
    root = None if data is None else Path(data).expanduser()
    if root is not None and not root.is_dir():
        raise SfumatoError(f"Expected data= to be a folder, got {data!r}.")
    if quick:
        for out in outputs.values():
            refuse_replacing_whole(out)
    console = Console(stderr=True, highlight=False)
    minutes = {
        name: TABLES[name].quick_minutes if quick else TABLES[name].minutes for name in names
    }
    console.print(f"{len(names)} tables, about {sum(minutes.values()):.0f} min on two cores.")
    rows = []
    for name in names:
        table = TABLES[name]
        console.print(f"{name}: {table.line} About {minutes[name]:g} min.")
        found = "" if root is None else _found(table, root)
        missing = [part for part in table.data if root is None or not (root / part).is_dir()]
        if missing:
            console.print(f"{name}: without {', '.join(missing)}: pass data=FOLDER that has them.")
        if table.data and not found and not quick:
            # without its recordings it would write less over what was measured with them
            console.print(f"{name}: not run.")
            rows.append(_row(name, missing))
            continue
        began, used = time.monotonic(), _used()
        ended = subprocess.run(_command(name, found, quick, outputs[name]))
        failed = ended.returncode != 0
        if failed:
            console.print(f"{name}: failed; the others go on.", style="bold")
        spent = {"seconds": round(time.monotonic() - began), "cpu_seconds": round(_used() - used)}
        rows.append(_row(name, missing) | {"written": not failed, "failed": failed} | spent)
    return {"rows": rows, "folder": folder.name if folder else "benchmarks"}


def failed(result: dict[str, Any]) -> bool:
    """Whether a table that was run was not written."""
    return any(row["failed"] for row in result["rows"])


def _row(name: str, missing: list[str]) -> dict[str, Any]:
    return {"table": name, "written": False, "failed": False, "without": missing,
            "seconds": 0, "cpu_seconds": 0}  # fmt: skip


def _used() -> float:
    """Processor seconds of all tables so far: a busy machine does not lengthen them."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _command(name: str, found: str, quick: bool, out: Path) -> list[str]:
    options = [f"data={found}"] if found else []
    if TABLES[name].work:
        options.append(f"work={bench_folder() / name}{'-quick' if quick else ''}")
    flags = ["--quick"] if quick else []
    return [sys.executable, "-m", "benchmarks", name, *options, *flags,
            "--out", str(out), "--force"]  # fmt: skip


def _found(table: Table, root: Path) -> str:
    return ",".join(str(root / part) for part in table.data if (root / part).is_dir())


def terminal(result: dict[str, Any]) -> list[Any]:
    grid = Grid("table", "written", "seconds", "processor seconds", "not run for want of data")
    for row in result["rows"]:
        said = "FAILED" if row["failed"] else "yes" if row["written"] else "no"
        grid.add_row(row["table"], said, str(row["seconds"]), str(row["cpu_seconds"]),
                     ", ".join(row["without"]))  # fmt: skip
    clock, used = (
        sum(row[key] for row in result["rows"]) / 60 for key in ("seconds", "cpu_seconds")
    )
    return [grid, f"{clock:.1f} minutes in all, {used:.1f} of the processor."]
