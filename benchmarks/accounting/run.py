"""Table ``accounting``: what the five papers claim, and what their mechanisms as published give."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from rich.table import Table

from benchmarks.harness.cells import Cells, Row
from benchmarks.harness.figures import bars
from benchmarks.harness.markdown import markdown
from sfumato.privacy import PUBLISHED, truths

HEAD = ("setting", "what is true", "unit", "relation", "accountant", "delta", "claimed", "true")


def run(*, quick: bool = False, keep: str | None = None) -> dict[str, Any]:
    """Every published setting; ``quick`` takes one epsilon of each."""
    cells = Cells("accounting", {"quick": quick}, keep)
    parts = [cells.done(name, partial(_truths, name, quick)) for name in PUBLISHED]
    return {"rows": [row for part in parts for row in part["rows"]]}


def _truths(name: str, quick: bool) -> Row:
    rows, first = [], None
    for setting, claimed, truth in truths(name):
        first = claimed if first is None else first
        if quick and claimed != first:
            break
        rows.append({
            "setting": setting.name, "paper": setting.paper, "claim": setting.claim,
            "claimed": claimed, "what": truth.what, "unit": str(truth.unit),
            "relation": truth.relation.value, "delta": truth.delta, "accountant": truth.accountant,
            "epsilon": truth.epsilon if math.isfinite(truth.epsilon) else None,
            "stated": truth.stated,
        })  # fmt: skip
    return {"rows": rows}


def _line(row: Row) -> list[str]:
    return [
        row["setting"], row["what"], row["unit"], row["relation"], row["accountant"], f"{row['delta']:g}",
        f"{row['claimed']:g}" if row["claimed"] else "-", row["stated"],
    ]  # fmt: skip


def terminal(result: dict[str, Any]) -> list[Any]:
    table = Table(*HEAD, box=None, pad_edge=False)
    for row in result["rows"]:
        table.add_row(*_line(row))
    return [table]


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"claims": markdown(HEAD, [_line(row) for row in result["rows"]], left=5)}


def figures(result: dict[str, Any]) -> dict[str, str]:
    """The smallest and the largest claim of every setting, beside the first thing that is true."""
    shown: dict[str, tuple[float, float]] = {}
    for setting in dict.fromkeys(row["setting"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["setting"] == setting and row["epsilon"]]
        claims = sorted({row["claimed"] for row in rows})
        for claim in sorted({claims[0], claims[-1]}) if claims else ():
            first = next(row for row in rows if row["claimed"] == claim)
            shown[f"{setting}, {claim:g}"] = (claim, first["epsilon"])
    series = {"claimed": [claim for claim, _ in shown.values()],
              "true": [true for _, true in shown.values()]}  # fmt: skip
    return {
        "claims": bars("Claimed and true epsilon", "epsilon", list(shown), series, logarithmic=True)
    }
