"""What table ``maskdp`` shows: for the terminal, as Markdown tables, and as figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.harness.cells import Row
from benchmarks.harness.figures import Curve, bars, curves
from benchmarks.harness.markdown import markdown, mean_and_error, shown
from benchmarks.tasks.staged_pairs import BY_WHOM
from sfumato.privacy import format_epsilon

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 5.0)
# (what the clips show, method): the rows of the papers' tables
ROWS = (("real", "dp-sgd"), ("rendered", "dp-sgd"), ("rendered", "maskdp"), ("real", "maskdp"))
NAMES = {
    ("real", "dp-sgd"): "Real / DP",
    ("rendered", "dp-sgd"): "Rendered / DP",
    ("rendered", "maskdp"): "Rendered / MaskDP",
    ("real", "maskdp"): "Real / MaskDP (no promise for the person)",
}
# 000, Table 1, NTU RGB+D, MViTv2-S: accuracy at the claimed epsilons and without privacy
PAPER = {
    ("real", "dp-sgd"): (1.9, 2.43, 15.9, 49.9, 55.2, 70.8, 83.8),
    ("rendered", "dp-sgd"): (1.7, 2.29, 14.3, 30.65, 39.2, 52.9, 68.3),
    ("rendered", "maskdp"): (4.2, 16.18, 35.5, 48.3, 51.0, 58.0, 68.3),
    ("real", "maskdp"): (4.6, 26.6, 60.8, 61.0, 72.1, 77.3, 83.8),
}
# the share of clips that class k keeps in the imbalanced variant
DECAY = 0.8


def _where(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _grid_lines(result: dict[str, Any], *, paper: bool = True) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the main table, for the terminal and for the documentation."""
    cells = result["cells"]
    epsilons = sorted({row["asked"] for row in cells if row["asked"] is not None})
    head = ["data / privacy", *(f"{epsilon:g}" for epsilon in epsilons), "infinite"]
    lines = []
    for kind, method in ROWS:
        row = [NAMES[kind, method]]
        row += [shown(_where(cells, kind=kind, method=method, asked=e), "top1") for e in epsilons]
        lines.append([*row, shown(_where(cells, kind=kind, method="sgd"), "top1")])
        if paper:
            told = dict(zip((*EPSILONS, math.inf), PAPER[kind, method]))
            lines.append(
                ["*the paper, NTU*", *(f"*{told[each]:g}*" for each in (*epsilons, math.inf))]
            )
    for kind in ("rendered", "real"):
        level = shown(_where(cells, kind=kind, method="public-only"), "top1")
        lines.append([f"public pixels only ({kind})", *[level] * len(epsilons), ""])
    return head, lines


def terminal(result: dict[str, Any]) -> list[Any]:
    said: list[Any] = []
    for part in _parts(result).values():
        for head, lines in (_grid_lines(part), _beside_lines(part)):
            table = Table(*head, box=None, pad_edge=False, title=part["backbone"])
            for line in lines:
                table.add_row(*(text.strip("*") for text in line))
            said.append(table)
    return [*said, _terms(result), BY_WHOM[result.get("people", "truth")], *result["notes"]]


def _parts(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The grid of every backbone there is."""
    return {"grid": result, **({"i3d": result["i3d"]} if "i3d" in result else {})}


def _terms(result: dict[str, Any]) -> str:
    said = {row["method"]: row["terms"] for row in result["cells"] if row["asked"] is not None}
    return "Epsilons: " + "; ".join(f"{method}: {terms}" for method, terms in said.items()) + "."


def beside(result: dict[str, Any], kind: str, method: str, epsilon: float) -> str:
    """MaskDP on avatars beside another row: above or below it, or not told apart by 95 % intervals."""
    cells = result["cells"]
    asked = None if method == "public-only" else epsilon
    ours = _where(cells, kind="rendered", method="maskdp", asked=epsilon)
    other = _where(cells, kind=kind, method=method, asked=asked)
    (mean, error), (level, doubt) = (mean_and_error(each, "top1") for each in (ours, other))
    clear = abs(mean - level) > math.hypot(error, doubt)
    sign = ("above" if mean > level else "below") if clear else "not told apart"
    return f"{sign} ({100 * mean:.1f}, {100 * level:.1f})"


def _beside_lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    epsilons = sorted({row["asked"] for row in result["cells"] if row["asked"] is not None})
    others = (
        ("real", "dp-sgd", "DP on real clips"),
        ("rendered", "dp-sgd", "DP on avatars"),
        ("rendered", "public-only", "the avatars' pixels alone"),
    )
    lines = [
        [name, *(beside(result, kind, method, epsilon) for epsilon in epsilons)]
        for kind, method, name in others
    ]
    return ["MaskDP on avatars, beside", *(f"{epsilon:g}" for epsilon in epsilons)], lines


def tables(result: dict[str, Any]) -> dict[str, str]:
    made = {
        "relations": _relations(result),
        "published": _published(result),
        "unequal": _unequal(result),
    }
    for name, part in _parts(result).items():
        made[name] = markdown(*_grid_lines(part, paper=name == "grid"))
        made[f"{name}-beside"] = markdown(*_beside_lines(part))
    return made


def _relations(result: dict[str, Any]) -> str:
    """What neighbouring data sets are, at epsilon 0.5, on avatars."""
    rows = [*result["relations"], *_where(result["cells"], kind="rendered")]
    lines = []
    for name, method, relation in (
        ("DP, replace a record", "dp-sgd", "replace"),
        ("DP, add or remove a record", "dp-sgd", "add-remove"),
        ("MaskDP, replace what is masked", "maskdp", "replace"),
        ("MaskDP, black out what is masked", "maskdp", "zero-out"),
    ):
        found = _where(rows, method=method, relation=relation, asked=0.5)
        lines.append([name, shown(found, "top1"), f"{found[0]['noise_multiplier']:.3g}"])
    return markdown(["method, relation", "accuracy", "noise multiplier"], lines)


def _published(result: dict[str, Any]) -> str:
    """One batch for both streams, as the paper draws it, beside two."""
    sound = _where(result["cells"], kind="rendered", method="maskdp")
    lines = [
        [f"{row['asked']:g}", format_epsilon(row["epsilon"]), shown([row], "top1"),
         shown(_where(sound, asked=row["asked"]), "top1")]
        for row in result["published"]
    ]  # fmt: skip
    return markdown(["claimed epsilon", "true epsilon", "accuracy as published", "sound"], lines)


def _unequal(result: dict[str, Any]) -> str:
    """Mean accuracy over classes where class k keeps ``DECAY``^k of its clips."""
    rows = result["imbalanced"]
    budgets = sorted({row["asked"] for row in rows})
    lines = [
        [NAMES[kind, method],
         *(shown(_where(rows, kind=kind, method=method, asked=each), "mean_class") for each in budgets)]
        for kind, method in ROWS[:3]
    ]  # fmt: skip
    return markdown(["data / privacy", *(f"{each:g}" for each in budgets)], lines)


def figures(result: dict[str, Any]) -> dict[str, str]:
    cells = result["cells"]
    lines = []
    for kind, method in ROWS:
        points = []
        for epsilon in sorted({row["asked"] for row in cells if row["asked"] is not None}):
            mean, error = mean_and_error(
                _where(cells, kind=kind, method=method, asked=epsilon), "top1"
            )
            points.append((epsilon, 100 * mean, 100 * error))
        lines.append(Curve(NAMES[kind, method].partition(" (")[0], *zip(*points)))
    levels = {
        f"public pixels only ({kind})": 100
        * mean_and_error(_where(cells, kind=kind, method="public-only"), "top1")[0]
        for kind in ("rendered", "real")
    }
    unequal = _where(result["imbalanced"], asked=0.5)
    series: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for row in ROWS[:3]:
        found = _where(unequal, kind=row[0], method=row[1])
        each = [
            mean_and_error([{"share": cell["per_class"][k]} for cell in found], "share")
            for k in range(len(result["classes"]))
        ]
        series[NAMES[row]] = [100 * mean for mean, _ in each]
        errors[NAMES[row]] = [100 * error for _, error in each]
    return {
        "accuracy": curves("Accuracy against epsilon", "epsilon (masked tokens, replace)", "top-1, %",
                           lines, levels=levels, logarithmic=True),
        "classes": bars("Unequal classes, epsilon 0.5", "accuracy, %", result["classes"], series,
                        errors=errors),
    }  # fmt: skip
