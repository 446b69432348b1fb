"""Table ``strength``: how much of a known epsilon the audits of guarantees certify.

The same as ``sfumato audit strength``, on simulated mechanisms whose epsilon is known.
"""

from __future__ import annotations

from typing import Any

from rich.table import Table

from benchmarks.harness.markdown import markdown
from sfumato.audit import strengths
from sfumato.settings import Count

HEAD = ("audit", "target", "trials", "certified share", "soundness notes")


def run(*, seeds: Count = 24) -> dict[str, Any]:
    """Means over ``seeds`` repetitions."""
    return {"strengths": [vars(row) for row in strengths(seeds)]}


def _lines(result: dict[str, Any]) -> list[list[str]]:
    return [
        [
            row["audit"],
            row["target"],
            row["trials"],
            f"{row['fraction']:.2f}",
            f"{row['reference']:.2f}",
        ]
        for row in result["strengths"]
    ]


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"strength": markdown(HEAD, _lines(result), left=3)}


def terminal(result: dict[str, Any]) -> list[Any]:
    table = Table(*HEAD, box=None, pad_edge=False)
    for line in _lines(result):
        table.add_row(*line)
    return [table]
