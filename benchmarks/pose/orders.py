"""Which of the paper's orderings hold in table ``pose``, by how much, and why the others do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.harness.markdown import markdown, mean_and_error
from benchmarks.pose.grid import CLIP_NORMS, DP_METHODS, EPSILONS

Result = dict[str, Any]
Rows = list[dict[str, Any]]
# what the paper says holds; each pair is (at least as good, as)
ORDERS = (("feature-projective", "feature"), ("feature", "dp-sgd"), ("projected", "dp-sgd"))


def chosen(rows: Iterable[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, float]]:
    """The scores of the rows that fit."""
    return [row["pck"] for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def number(scores: Sequence[Mapping[str, float]], name: str = "mean") -> str:
    if not scores:
        return "-"
    mean, error = mean_and_error(scores, name)
    return f"{mean:.1f}" + (f" ± {error:.1f}" if len(scores) > 1 else "")


def orders(result: Result) -> Rows:
    """Which of the paper's orderings hold: differences of means over seeds, and their 95 % interval."""
    found = []
    rows = result.get("grid", [])
    for epsilon in (EPSILONS[0], EPSILONS[-1]):
        for clip_norm in CLIP_NORMS:
            for better, worse in ORDERS:
                high, low = (chosen(rows, method=name, epsilon=epsilon, clip_norm=clip_norm)
                             for name in (better, worse))  # fmt: skip
                if high and low:
                    (one, e1), (two, e2) = (mean_and_error(each, "mean") for each in (high, low))
                    found.append({"epsilon": epsilon, "clip_norm": clip_norm, "better": better,
                                  "worse": worse, "gap": one - two, "error": math.hypot(e1, e2),
                                  "seeds": min(len(high), len(low))})  # fmt: skip
    return found


def orders_table(result: Result) -> str:
    lines = [[f"{r['better']} - {r['worse']}", f"{r['epsilon']:g}", f"{r['clip_norm']:g}",
              f"{r['gap']:+.2f}" + (f" ± {r['error']:.2f}" if r["seeds"] > 1 else ""), _verdict(r),
              str(r["seeds"])] for r in orders(result)]  # fmt: skip
    return markdown(["difference", "epsilon", "C", "points", "in the mean", "seeds"], lines)


def _verdict(row: Mapping[str, Any]) -> str:
    if row["gap"] >= 0:
        return "holds"
    within = row["seeds"] > 1 and -row["gap"] <= row["error"]
    return "does not hold, within the interval" if within else "does not hold"


def best_clip_norms(result: Result) -> str:
    """Every method at the clip norm that suits it, so that one rate for all does not decide."""
    lines = []
    for method in DP_METHODS:
        line = [method]
        for epsilon in (EPSILONS[0], EPSILONS[-1]):
            means = {c: mean_and_error(scores, "mean")[0] for c in CLIP_NORMS
                     if (scores := chosen(result["grid"], method=method, epsilon=epsilon,
                                          clip_norm=c))}  # fmt: skip
            best = max(means, key=lambda c: means[c], default=None)
            line.append("-" if best is None else f"{means[best]:.1f} (C {best:g})")
        lines.append(line)
    return markdown(["method", *(f"epsilon {e:g}" for e in (EPSILONS[0], EPSILONS[-1]))], lines)
