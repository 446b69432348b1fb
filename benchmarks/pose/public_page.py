"""What table ``pose-public`` shows: for the terminal and as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.harness.markdown import markdown, mean_and_error
from benchmarks.pose.grid import CLIP_NORMS, DP_METHODS, EPSILONS
from benchmarks.pose.orders import chosen, number
from benchmarks.pose.page import JOINTS
from benchmarks.pose.trunk import TRUNKS

Result = dict[str, Any]
_FREE = {"zero-shot": "zero-shot: the trunk and a guess for neck and head", "public-only":
         "public view only (psi)", "sgd": "no privacy"}  # fmt: skip
_TERMS = "relation replace, delta {delta:g}, every record in each of {steps} steps, accountant PLD"


def terminal(result: Result) -> Sequence[Any]:
    lines: list[Any] = []
    for trunk in TRUNKS:
        rows = result.get(trunk, [])
        if rows:
            table = Table("method", "C", *(f"epsilon {e:g}" for e in EPSILONS), box=None,
                          pad_edge=False, title=f"{trunk}: mean PCK@0.2 by torso, %")  # fmt: skip
            for line in _lines(rows):
                table.add_row(*line)
            unit = "Unit one picture, or what psi leaves open of it; "
            lines += [table, unit + _TERMS.format(**result) + "."]
    return [*lines, *result["notes"]]


def tables(result: Result) -> dict[str, str]:
    made = {}
    for trunk in TRUNKS:
        rows = result.get(trunk, [])
        if rows:
            short = trunk.partition("-")[0]
            head = ["method", "C", *(f"epsilon {e:g}" for e in EPSILONS)]
            made[f"{short}-grid"] = markdown(head, _lines(rows))
            made[f"{short}-gains"] = _gains(rows)
            made[f"{short}-joints"] = _joints(rows)
            if any(row.get("rate") for row in rows):
                made[f"{short}-one-rate"] = markdown(head, _lines(rows, one_rate=True))
    return made


def _tied(rows: Sequence[dict[str, Any]], *, one_rate: bool = False) -> list[dict[str, Any]]:
    return [row for row in rows if bool(row.get("rate")) == one_rate]


def _lines(rows: Sequence[dict[str, Any]], *, one_rate: bool = False) -> list[list[str]]:
    """Baselines in the first column of numbers, then each method by C and epsilon."""
    own, lines = _tied(rows, one_rate=one_rate), []
    for name, said in _FREE.items():
        if scores := chosen(own, method=name):
            lines.append([said, "-", number(scores), *[""] * (len(EPSILONS) - 1)])
    for method in DP_METHODS:
        for clip_norm in CLIP_NORMS:
            each = [number(chosen(own, method=method, epsilon=e, clip_norm=clip_norm))
                    for e in EPSILONS]  # fmt: skip
            if set(each) != {"-"}:
                lines.append([method, f"{clip_norm:g}", *each])
    return lines


def _gains(rows: Sequence[dict[str, Any]]) -> str:
    """What private pictures add to zero-shot at C = 0.1: seeds, and the least and largest end of
    the intervals over test pictures among them."""
    lines = []
    for method, epsilon in [("public-only", None), *((m, e) for m in DP_METHODS for e in EPSILONS),
                            ("sgd", None)]:  # fmt: skip
        fitting = [row for row in _tied(rows) if row["method"] == method
                   and row.get("epsilon") == epsilon and row.get("clip_norm") in (None, 0.1)]  # fmt: skip
        if fitting:
            line = [method, "-" if epsilon is None else f"{epsilon:g}"]
            for threshold in ("0.2", "0.1"):
                found = [{"gain": row["gain"][threshold][0]} for row in fitting]
                mean, error = mean_and_error(found, "gain")
                low = min(row["gain"][threshold][1] for row in fitting)
                high = max(row["gain"][threshold][2] for row in fitting)
                line += [f"{mean:+.2f} ± {error:.2f}", f"{low:+.2f} to {high:+.2f}"]
            lines.append(line)
    head = ["method", "epsilon", "points at 0.2, seeds", "over test pictures",
            "points at 0.1, seeds", "over test pictures"]  # fmt: skip
    return markdown(head, lines)


def _joints(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    own = _tied(rows)
    for name, said in _FREE.items():
        if scores := chosen(own, method=name):
            lines.append([said, "-", *(number(scores, j) for j in JOINTS)])
    for method in DP_METHODS:
        for epsilon in (EPSILONS[0], EPSILONS[-1]):
            scores = chosen(own, method=method, epsilon=epsilon, clip_norm=0.1)
            if scores:
                lines.append(
                    [f"{method}, C 0.1", f"{epsilon:g}", *(number(scores, j) for j in JOINTS)]
                )
    return markdown(["method", "epsilon", *JOINTS.values()], lines)
