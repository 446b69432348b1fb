"""Table ``maskdp-gap``: avatars that the tool's own finder places, where recordings are no renderings.

Private and test clips are filmed badly (``rough_filming``): other bodies, patterns, clutter, something in front,
a shaking hand, blur, noise, compression. I3D with its Kinetics weights describes them; a linear head learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from benchmarks.harness.cells import Cells
from benchmarks.harness.markdown import markdown, shown
from benchmarks.maskdp.run import CHOICES, DELTA, _cell
from benchmarks.tasks.staged_probe import IN_PUBLIC_ROOMS, Scale, StagedTask
from sfumato.settings import Count

EPSILONS = (0.5, 1.0, 5.0)
# what clips show, method: name
ROWS = {
    ("real", "dp-sgd"): "Real / DP",
    ("rendered", "dp-sgd"): "Rendered / DP",
    ("rendered", "maskdp"): "Rendered / MaskDP, public pixels on black",
    (IN_PUBLIC_ROOMS, "maskdp"): "Rendered / MaskDP, public pixels in public rooms",
}
ENDS = {
    ("real", "sgd"): "real clips, no privacy",
    ("rendered", "sgd"): "avatars by the finder, no privacy",
    ("rendered", "public-only"): "the avatars' pixels on black, alone",
    (IN_PUBLIC_ROOMS, "public-only"): "the avatars' pixels in public rooms, alone",
}


def run(
    *, quick: bool = False, clips: Count = 600, held_out: Count = 300, seeds: Count = 3,
    keep: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Each cell is kept as soon as it is done, and so is every hundred clips."""
    scale = Scale(private=24, held_out=12, side=64) if quick else Scale(clips, held_out, side=112)
    stated = {"choices": CHOICES, "delta": DELTA, "rough": 1, **asdict(scale)}
    cells = Cells("maskdp-gap", stated, keep)
    task = StagedTask(cells.folder.parent / "staged", scale, "i3d", rough=True)
    epsilons = EPSILONS[-1:] if quick else EPSILONS
    asked: list[tuple[str, str, float | None]] = [(*end, None) for end in ENDS]
    asked += [(*row, epsilon) for row in ROWS for epsilon in epsilons]
    found = [
        _cell(cells, task, *each, seed) for each in asked for seed in range(1 if quick else seeds)
    ]
    return {"quick": quick, "scale": asdict(scale), "seeds": 1 if quick else seeds,
            "classes": list(task.classes), "epsilons": list(epsilons), "cells": found}  # fmt: skip


def _where(result: dict[str, Any], kind: str, method: str, epsilon: float | None) -> list[Any]:
    return [
        cell for cell in result["cells"]
        if (cell["kind"], cell["method"], cell["asked"]) == (kind, method, epsilon)
    ]  # fmt: skip


def _end_lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    lines = [[name, shown(_where(result, *end, None), "top1")] for end, name in ENDS.items()]
    return ["learnt from", "top-1 on people as filmed"], lines


def _grid_lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    lines = [
        [name, *(shown(_where(result, *row, epsilon), "top1") for epsilon in result["epsilons"])]
        for row, name in ROWS.items()
    ]
    return ["data / privacy", *(f"{epsilon:g}" for epsilon in result["epsilons"])], lines


_PARTS = {"ends": _end_lines, "grid": _grid_lines}


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    said: list[Any] = []
    for part in _PARTS.values():
        head, lines = part(result)
        table = Table(*head, box=None, pad_edge=False)
        for line in lines:
            table.add_row(*line)
        said += [table, ""]
    terms = {cell["method"]: cell["terms"] for cell in result["cells"] if cell["asked"]}
    return [*said, "Epsilons: " + "; ".join(f"{name}: {each}" for name, each in terms.items())]


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {name: markdown(*part(result)) for name, part in _PARTS.items()}
