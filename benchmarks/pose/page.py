"""Table ``pose`` for a terminal, for docs/pose.md and docs/results.md, and as Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.figures import Curve, curves
from benchmarks.pose.grid import CLIP_NORMS, DP_METHODS, EPSILONS, STRATEGIES
from benchmarks.pose.orders import Result, Rows, chosen, number, order_sentence, orders, orders_page
from benchmarks.summary import markdown, mean_and_error

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
# PCK@0.2 by torso on LSP that fine-tuning without a promise should pass, in per cent
AIM = 60
_FASTER = 8  # what the trunk cache should give
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


def words(result: Result) -> Sequence[Any]:
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
    if "fine_tuned" in result:
        lines.append(_fine_tuned(result))
    lines += [order_sentence(result)] if orders(result) else []
    lines += [f"{row['name']}: 25 epochs {row['faster']:.1f}x faster with the trunk cache."
              for row in result.get("speed", {}).get("rows", [])]  # fmt: skip
    return [*lines, *result["notes"]]


def _fine_tuned(result: Result) -> str:
    told = ", ".join(f"{row['pck']['mean']:.1f} % after {row['epochs']:g} epochs"
                     for row in result["fine_tuned"])  # fmt: skip
    return f"Fine-tuned without a promise, PCK@0.2 by torso: {told}."


def page(result: Result) -> str:
    """Markdown: the paper's numbers beside ours, everything else computed from ``result``."""
    if "records" not in result:
        return " ".join(result["notes"])
    height, width = result["size"]
    parts = [
        f"Leeds Sports Pose, first {result['records']} pictures private, last {result['test']} test; "
        f"crops of {height} x {width} pixels; PCK@0.2 by torso in per cent, mean and 95 % interval "
        f"over up to three seeds (one seed where none is shown). EfficientNet-Lite0 (ImageNet weights) with a SimCC head learned publicly from "
        f"{result['scale']['staged']} staged people; then the head alone trains on cached features, "
        f"{result['scale']['epochs']:g} epochs (the paper: 25), batch {result['scale']['batch']}, plain SGD. Unit: one "
        f"picture (dp-sgd, projected), or what psi leaves open of it (feature methods); relation "
        f"replace; delta {result['delta']:g}, as published and at most 1/(10 N); Poisson sampling; accountant PLD. psi: "
        f"{result['psi']}, which {result['psi_keeps']}; joints are public under it. The paper's numbers "
        f"(in brackets) are PCKh@0.5 on MPII with TinyViT after COCO: orderings compare, values do not.",
    ]  # fmt: skip
    for build in (
        _baselines,
        _grid,
        orders_page,
        _joints,
        _helps,
        _strategies,
        _second,
        _noise,
        _speed,
    ):
        text = build(result)
        if text:
            parts.append(text)
    return "\n\n".join([*parts, *result["notes"]])


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
    return (
        "### Without noise (Table 1)\n\n" + markdown(["", *JOINTS.values()], lines) + _aim(result)
    )


def _aim(result: Result) -> str:
    """Whether fine-tuning without a promise reaches what the data should give, and how it got there."""
    rows = result.get("fine_tuned", [])
    if not rows:
        return ""
    last = rows[-1]
    told = (
        f"\n\nWithout a promise: pictures are mirrored, turned, scaled and lit anew each time; AdamW, "
        f"batch 16, {_cycles(result)}; the statistics of BatchNorm stay. {_fine_tuned(result)}"
    )
    mirror = last.get("with_mirror")
    if mirror:
        told += f" Averaged with what it says of the mirror image: {mirror['mean']:.1f} %."
    if last["pck"]["mean"] >= AIM:
        return told + f" It passes {AIM} %, as it should."
    took = sum(row.get("seconds_of_processor", 0.0) for row in rows)
    pace = f" They took {took / 60:.0f} minutes of one core." if took else ""
    return (
        told + f" The {AIM} % that such a model should pass are not reached in {last['epochs']:g} "
        f"epochs.{pace}"
    )


def _cycles(result: Result) -> str:
    told = "one cycle of the rate over {} epochs of stages 4 to 7 without their depthwise kernels"
    more = ", then one over {} epochs of everything"
    return "".join((more if cycle["everything"] else told).format(f"{cycle['epochs']:g}")
                   for cycle in result["scale"]["cycles"])  # fmt: skip


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
    return "### Mean over joints (Tables 2 to 5, Figure 2)\n\n" + markdown(head, lines)


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
    return "### Joint by joint\n\n" + markdown(["method", "C", "epsilon", *JOINTS.values()], lines)


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
    return "### What helps\n\n" + _best_changes(rows, ends) + markdown(head, lines)


def _best_changes(rows: Rows, ends: Sequence[tuple[str, float]]) -> str:
    said = []
    for method, epsilon in ends:
        own = [r for r in rows if (r["method"], r["epsilon"]) == (method, epsilon)]
        plain = [r["pck"]["mean"] for r in own if r["change"] == "as in the grid"]
        others = [r for r in own if r["change"] != "as in the grid"]
        if plain and others:
            best = max(others, key=lambda r: r["pck"]["mean"])
            said.append(f"{method} at epsilon {epsilon:g}: {best['change']} "
                        f"({best['pck']['mean'] - plain[0]:+.1f} points, of {len(others)} tried)")  # fmt: skip
    if not said:
        return ""
    return (
        f"The best of the changes for {'; for '.join(said)}. A change that gains nothing says that rate x C "
        "is too large already: a smaller product, as at the smaller C of the grid, is what helps there.\n\n"
    )


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
    said = (
        f"One seed, C = {rows[0]['clip_norm']:g}, the grid's rate. The last stage and the head train on cached "
        "features, as long as in the paper. When all norms train, nothing can be cached whole, and one epoch "
        "takes as long as a whole cell of the grid: those rows have fewer epochs, of "
        f"{rows[0]['steps'] / rows[0]['epochs']:g} steps each. Statistics of BatchNorm are frozen; from scratch, "
        "GroupNorm takes their place.\n\n"
    )
    return "### Other strategies\n\n" + said + markdown(head, lines)


def _second(result: Result) -> str:
    rows = result.get("second", [])
    if not rows:
        return ""
    ends = (EPSILONS[0], EPSILONS[-1])
    seen = [row["seen"] for row in rows if "seen" in row]
    told = f"{seen[0]:,} pictures of staged people" if seen else "staged people"
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
    return (
        "### TinyViT-5M, the paper's backbone, beside EfficientNet-Lite0\n\nNo package index carries "
        f"TinyViT's weights, so it knows {told} alone. Its head trains as in the grid, one seed.\n\n"
        + markdown(head, lines)
    )


def _noise(result: Result) -> str:
    rows = result.get("noise", [])
    lines = [[f"{row['epsilon']:g}", *(f"{row[name]:.2f}" for name in
              ("used", "tenth", "rdp", "published"))] for row in rows]  # fmt: skip
    tenth = rows[0]["tenth_of_1/N"] if rows else 0.0
    head = ["epsilon", f"used: replace, PLD, delta {result['delta']:g}",
            f"delta 1/(10 N) = {tenth:g}", "RDP instead of PLD", "as published: add-remove, RDP"]  # fmt: skip
    return "### Noise multipliers\n\n" + markdown(head, lines) if rows else ""


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
    below = [row for row in found["rows"] if row["at_most"] < _FASTER]
    said = (
        "\n\nThe cache takes the frozen part out of every epoch but the first; what trains still costs its "
        'forward pass, backward pass and norms. "The same, plain" is that part alone, trained by torch '
        'without a promise on features that are there: "at most" is what the cache would give if privacy '
        "cost nothing."
    )
    if below:
        said += f" So {_FASTER} times as fast cannot be had for " + " and ".join(
            f"{row['name']} at {'x'.join(map(str, row['size']))} (at most {row['at_most']:.1f}x, of which "
            f"{row['faster']:.1f}x are reached)" for row in below
        ) + ": there the part that trains is too large a share of the model."  # fmt: skip
    return "### Trunk cache: time of the processor a record and epoch of DP-SGD\n\n" + markdown(
        head, lines
    ) + said  # fmt: skip
