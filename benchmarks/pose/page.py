"""What table ``pose`` shows: for the terminal, as Markdown tables, and as Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.harness.figures import Curve, curves
from benchmarks.harness.markdown import markdown, mean_and_error
from benchmarks.pose.grid import CLIP_NORMS, DP_METHODS, EPSILONS, STRATEGIES
from benchmarks.pose.orders import Result, best_clip_norms, chosen, number, orders, orders_table

JOINTS = {"head_top": "Head", "upper_neck": "Neck", "shoulder": "Shoulder", "elbow": "Elbow",
          "wrist": "Wrist", "hip": "Hip", "knee": "Knee", "ankle": "Ankle", "mean": "Mean",
          "mean_at_0.1": "Mean@0.1"}  # fmt: skip
# Tables 1 to 5 of the paper: mean PCKh@0.5 on MPII, TinyViT fine-tuned from COCO, by C and epsilon
PAPER = {
    "dp-sgd": {1.0: (5.94, 8.36, 12.19, 12.53), 0.1: (28.46, 39.78, 45.18, 49.93),
               0.01: (63.85, 73.77, 76.85, 78.17)},
    "projected": {1.0: (10.34, 36.99, 37.90, 56.26), 0.1: (73.13, 77.17, 76.11, 77.41),
                  0.01: (78.48, 79.23, 79.89, 80.63)},
    "feature": {1.0: (9.32, 15.01, 18.37, 22.05), 0.1: (48.99, 61.73, 65.32, 67.60),
                0.01: (75.47, 78.60, 79.90, 80.41)},
    "feature-projective": {1.0: (54.75, 64.02, 67.02, 71.66), 0.1: (80.24, 81.60, 82.09, 82.62),
                           0.01: (82.50, 82.01, 82.01, 81.91)},
}  # fmt: skip
PAPER_FREE = {"public-only": 83.61, "sgd": 89.36}
# whose rate may grow: the public stream of the others is unstable at a larger one
HELPED = ("dp-sgd", "projected")
_SAID = {"before": "staged people only", "public-only": "public view only (psi)",
         "sgd": "no privacy"}  # fmt: skip


def figures(result: Result) -> dict[str, str]:
    """Figure 2: a picture for each clip norm, with the public-only line in every one."""
    rows = result.get("grid", [])
    if not rows:
        return {}
    free = result.get("baselines", [])
    levels = {
        said: mean_and_error(scores, "mean")[0]
        for name, said in _SAID.items()
        if (scores := chosen(free, method=name))
    }
    drawn = {}
    for clip_norm in CLIP_NORMS:
        lines = []
        for method in DP_METHODS:
            points = [(e, mean_and_error(scores, "mean")) for e in EPSILONS
                      if (scores := chosen(rows, method=method, epsilon=e, clip_norm=clip_norm))]  # fmt: skip
            if points:
                lines.append(Curve(method, [e for e, _ in points], [m for _, (m, _) in points],
                                   [error for _, (_, error) in points]))  # fmt: skip
        if lines:
            drawn[f"c-{clip_norm:g}"] = curves(
                f"LSP, head trained on cached features, C = {clip_norm:g}",
                "epsilon", "PCK@0.2 by torso, %", lines, levels=levels,
            )  # fmt: skip
    return drawn


def terminal(result: Result) -> Sequence[Any]:
    lines: list[Any] = []
    if "grid" in result or "baselines" in result:
        table = Table("method", "C", *(f"epsilon {e:g}" for e in EPSILONS), box=None,
                      pad_edge=False, title="Mean PCK@0.2 by torso, %")  # fmt: skip
        for name, said in _SAID.items():
            scores = chosen(result.get("baselines", []), method=name)
            if scores:
                table.add_row(said, "-", number(scores), "", "", "")
        for method in DP_METHODS:
            for clip_norm in CLIP_NORMS:
                each = [number(chosen(result.get("grid", []), method=method, epsilon=e,
                                      clip_norm=clip_norm)) for e in EPSILONS]  # fmt: skip
                if set(each) != {"-"}:
                    table.add_row(method, f"{clip_norm:g}", *each)
        lines += [table, f"Epsilons: unit one picture (dp-sgd, projected) or what psi leaves open of it, "
                  f"relation replace, delta {result['delta']:g}, Poisson sampling, accountant PLD."]  # fmt: skip
    lines += [f"Fine-tuned without a promise for {row['epochs']:g} epochs: {row['pck']['mean']:.1f} %."
              for row in result.get("fine_tuned", [])[-1:]]  # fmt: skip
    holding = [row["gap"] >= 0 for row in orders(result)]
    lines += (
        [f"{sum(holding)} of {len(holding)} orderings of the paper hold in the mean."]
        if holding
        else []
    )
    lines += [f"{row['name']}: 25 epochs {row['faster']:.1f}x faster with the trunk cache."
              for row in result.get("speed", {}).get("rows", [])]  # fmt: skip
    return [*lines, *result["notes"]]


def tables(result: Result) -> dict[str, str]:
    """Every part that was measured; the paper's numbers in brackets."""
    grid = bool(result.get("grid"))
    made = {
        "without-noise": _baselines(result),
        "fine-tuning": _fine_tuning(result),
        "grid": _grid(result),
        "orders": orders_table(result) if orders(result) else "",
        "best-clip-norms": best_clip_norms(result) if grid else "",
        "joints": _joints(result),
        "helps": _helps(result),
        "strategies": _strategies(result),
        "second-backbone": _second(result),
        "noise": _noise(result),
        "trunk-cache": _speed(result),
    }
    return {name: table for name, table in made.items() if table}


def _fine_tuning(result: Result) -> str:
    """PCK@0.2 by torso after each part of the training without a promise."""
    rows = result.get("fine_tuned", [])
    lines = [[f"{row['epochs']:g}", f"{row['pck']['mean']:.1f}"] for row in rows]
    if rows and (mirror := rows[-1].get("with_mirror")):
        lines.append(
            [f"{rows[-1]['epochs']:g}, averaged with the mirror image", f"{mirror['mean']:.1f}"]
        )
    return markdown(["epochs", "PCK@0.2, %"], lines) if rows else ""


def _baselines(result: Result) -> str:
    lines = []
    for name, said in _SAID.items():
        scores = chosen(result.get("baselines", []), method=name)
        if scores:
            paper = f" ({PAPER_FREE[name]:.1f})" if name in PAPER_FREE else ""
            lines.append([said, *(number(scores, j) for j in JOINTS)])
            lines[-1][1 + list(JOINTS).index("mean")] += paper
    lines += [
        [f"no privacy, the model fine-tuned for {row['epochs']:g} epochs",
         *(number([row["pck"]], j) for j in JOINTS)]
        for row in result.get("fine_tuned", [])[-1:]
    ]  # fmt: skip
    return markdown(["", *JOINTS.values()], lines) if lines else ""


def _grid(result: Result) -> str:
    rows = result.get("grid", [])
    if not rows:
        return ""
    lines = []
    for method in DP_METHODS:
        for clip_norm in CLIP_NORMS:
            line = [method, f"{clip_norm:g}"]
            for place, epsilon in enumerate(EPSILONS):
                scores = chosen(rows, method=method, epsilon=epsilon, clip_norm=clip_norm)
                paper = PAPER[method][clip_norm][place]
                line.append(f"{number(scores)} ({paper:.1f})" if scores else "-")
            if set(line[2:]) != {"-"}:
                lines.append(line)
    head = ["method", "C", *(f"epsilon {e:g}" for e in EPSILONS)]
    return markdown(head, lines)


def _joints(result: Result) -> str:
    """Per joint at the two ends of epsilon, as Tables 2 to 5 have it."""
    rows = result.get("grid", [])
    lines = []
    for method in DP_METHODS:
        for clip_norm in CLIP_NORMS:
            for epsilon in (EPSILONS[0], EPSILONS[-1]):
                scores = chosen(rows, method=method, epsilon=epsilon, clip_norm=clip_norm)
                if scores:
                    lines.append([method, f"{clip_norm:g}", f"{epsilon:g}",
                                  *(f"{mean_and_error(scores, j)[0]:.1f}" for j in JOINTS)])  # fmt: skip
    if not lines:
        return ""
    return markdown(["method", "C", "epsilon", *JOINTS.values()], lines)


def _helps(result: Result) -> str:
    rows = result.get("helps", [])
    if not rows:
        return ""
    ends = [(method, epsilon) for method in HELPED for epsilon in (EPSILONS[0], EPSILONS[-1])]
    lines = [
        [change, *(number(chosen(rows, change=change, method=m, epsilon=e)) for m, e in ends)]
        for change in dict.fromkeys(row["change"] for row in rows)
    ]
    head = ["change (from C = 1, one seed)", *(f"{m}, epsilon {e:g}" for m, e in ends)]
    return markdown(head, lines)


def _strategies(result: Result) -> str:
    rows = result.get("strategies", [])
    if not rows:
        return ""
    lines = []
    for strategy, method in dict.fromkeys((row["strategy"], row["method"]) for row in rows):
        own = [r for r in rows if (r["strategy"], r["method"]) == (strategy, method)]
        lines.append([strategy, f"{own[0]['trained']:,}", f"{own[0]['epochs']:g}", method,
                      *(number(chosen(own, epsilon=e)) for e in (EPSILONS[0], EPSILONS[-1]))])  # fmt: skip
    lines.sort(key=lambda line: (list(STRATEGIES).index(line[0]), DP_METHODS.index(line[3])))
    head = ["trained", "parameters", "epochs", "method",
            *(f"epsilon {e:g}" for e in (EPSILONS[0], EPSILONS[-1]))]  # fmt: skip
    return markdown(head, lines)


def _second(result: Result) -> str:
    rows = result.get("second", [])
    if not rows:
        return ""
    ends = (EPSILONS[0], EPSILONS[-1])
    strong = {"free": result.get("baselines", []), "private": result.get("grid", [])}
    lines = []
    for name, said in _SAID.items():
        scores = chosen(rows, method=name)
        if scores:
            lines.append(
                [said, "-", number(scores), "", number(chosen(strong["free"], method=name)), ""]
            )
    for method in DP_METHODS:
        for clip_norm in CLIP_NORMS:
            wanted = {"method": method, "clip_norm": clip_norm}
            each = [number(chosen(these, epsilon=e, **wanted))
                    for these in (rows, strong["private"]) for e in ends]  # fmt: skip
            if set(each[:2]) != {"-"}:
                lines.append([method, f"{clip_norm:g}", *each])
    head = ["method", "C", *(f"{name}, epsilon {e:g}" for name in ("TinyViT-5M", "EfficientNet-Lite0")
                             for e in ends)]  # fmt: skip
    return markdown(head, lines)


def _noise(result: Result) -> str:
    rows = result.get("noise", [])
    lines = [[f"{row['epsilon']:g}", *(f"{row[name]:.2f}" for name in
              ("used", "tenth", "rdp", "published"))] for row in rows]  # fmt: skip
    tenth = rows[0]["tenth_of_1/N"] if rows else 0.0
    head = ["epsilon", f"used: replace, PLD, delta {result['delta']:g}",
            f"delta 1/(10 N) = {tenth:g}", "RDP instead of PLD", "as published: add-remove, RDP"]  # fmt: skip
    return markdown(head, lines) if rows else ""


def _speed(result: Result) -> str:
    found = result.get("speed")
    if not found:
        return ""
    lines = [[row["name"], "x".join(map(str, row["size"])), f"{row['trained']:,}", *(
              f"{1000 * row[name] / row['records']:.1f} ms" for name in
              ("first_pass", "epoch_without", "epoch_with", "epoch_plain")),
              f"{row['faster']:.1f}x", f"{row['at_most']:.1f}x"] for row in found["rows"]]  # fmt: skip
    head = ["what trains", "input", "parameters", "first pass", "epoch without", "epoch with",
            "the same, plain", "25 epochs", "at most"]  # fmt: skip
    return markdown(head, lines)
