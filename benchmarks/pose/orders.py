"""Which of the paper's orderings hold in table ``pose``, by how much, and why the others do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.pose.grid import CLIP_NORMS, DP_METHODS, EPSILONS
from benchmarks.summary import markdown, mean_and_error

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


def order_sentence(result: Result) -> str:
    found = orders(result)
    wrong = [row for row in found if row["gap"] < 0]
    if not wrong:
        return f"All {len(found)} orderings of the paper hold in the mean."
    named = "; ".join(
        f"{row['better']} {-row['gap']:.2f} points below {row['worse']} at epsilon "
        f"{row['epsilon']:g}, C {row['clip_norm']:g}" for row in wrong
    )  # fmt: skip
    within = sum(-row["gap"] <= row["error"] for row in wrong if row["seeds"] > 1)
    told = (
        f" {within} of these {len(wrong)} lie within the 95 % interval over seeds."
        if within else ""
    )  # fmt: skip
    return (
        f"{len(found) - len(wrong)} of {len(found)} orderings hold in the mean; not: {named}.{told}"
    )


def orders_page(result: Result) -> str:
    found = orders(result)
    if not found:
        return ""
    public = chosen(result.get("baselines", []), method="public-only")
    said = [order_sentence(result)]
    best = max(result["grid"], key=lambda row: row["pck"]["mean"])
    said.append(
        f"The best of {len(result['grid'])} private cells is {best['method']} at epsilon {best['epsilon']:g}, C "
        f"{best['clip_norm']:g}: {best['pck']['mean']:.1f} %."
    )
    if public:
        level = mean_and_error(public, "mean")[0]
        relation = "below" if best["pck"]["mean"] < level else "above"
        said.append(
            f"That is {relation} training on the public view alone ({level:.1f} %), which costs nothing "
            "at that unit and promises nothing for the picture; in the paper it is below "
            "(82.6 against 83.6)."
        )  # fmt: skip
    said += [*_at_best(result), *_lengths(result), *_why(result)]
    lines = [[f"{r['better']} - {r['worse']}", f"{r['epsilon']:g}", f"{r['clip_norm']:g}",
              f"{r['gap']:+.1f}" + (f" ± {r['error']:.1f}" if r["seeds"] > 1 else ""),
              str(r["seeds"])] for r in found]  # fmt: skip
    head = ["difference", "epsilon", "C", "points", "seeds"]
    return (
        "### Do the paper's orderings hold?\n\n" + " ".join(said) + "\n\n" + markdown(head, lines)
    )


def _at_best(result: Result) -> list[str]:
    """Every method at the clip norm that suits it, so that one rate for all does not decide."""
    said = []
    for epsilon in (EPSILONS[0], EPSILONS[-1]):
        best = {}
        for method in DP_METHODS:
            means = {c: mean_and_error(scores, "mean")[0] for c in CLIP_NORMS
                     if (scores := chosen(result["grid"], method=method, epsilon=epsilon,
                                          clip_norm=c))}  # fmt: skip
            if means:
                best[method] = max(means.items(), key=lambda pair: pair[1])
        told = ", ".join(f"{name} {mean:.1f} (C {c:g})" for name, (c, mean) in best.items())
        said.append(f"at epsilon {epsilon:g} {told}")
    return [f"Each at its own best clip norm, by these test scores: {'; '.join(said)}."]


def _lengths(result: Result) -> list[str]:
    """How long the noise of a step is beside the longest mean gradient that clipping lets through."""
    noise = {row["epsilon"]: row["used"] for row in result.get("noise", [])}
    trained = next((row["trained"] for row in result["grid"] if "trained" in row), None)
    kept = result.get("subspace")
    if not noise or trained is None:
        return []
    batch = result["scale"]["batch"]
    told = [
        f"{math.sqrt(trained) * noise[e] / batch:.1f} C at epsilon {e:g}"
        + (f" ({math.sqrt(kept['rank']) * noise[e] / batch:.2f} C in the subspace)" if kept else "")
        for e in (EPSILONS[0], EPSILONS[-1])
    ]  # fmt: skip
    return [
        f"Why: a mean of clipped gradients is at most C long; the noise of a step over {trained:,} "
        f"parameters is {' and '.join(told)}."
    ]


def _why(result: Result) -> list[str]:
    kept = result.get("subspace")
    if not kept:
        return []
    text = (
        f"The subspace of {kept['rank']} directions of staged people keeps {100 * kept['noise']:.2f} % "
        f"of the noise and {100 * kept['staged']:.0f} % of the energy of the mean private gradient "
        f"({100 * kept['own']:.0f} % if it came from private pictures, as in the paper). Where noise is "
        "what limits (large C at a fixed rate), that is a large gain; where rate x C is so small that "
        "noise does little, only the loss of signal is left."
    )
    small = [abs(row["gap"]) for row in orders(result)
             if row["clip_norm"] == CLIP_NORMS[-1] and row["worse"] != "dp-sgd"]  # fmt: skip
    if small:
        text += (
            f" At C = {CLIP_NORMS[-1]:g} the private stream moves the head so little that "
            f"feature-projective and feature differ by at most {max(small):.1f} points: the public view "
            "does the work of both."
        )
    return [text]
