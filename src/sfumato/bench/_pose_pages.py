"""Table ``pose`` for a terminal, for docs/pose.md and docs/results.md, and as Figure 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from sfumato.bench._figures import Curve, curves
from sfumato.bench._pose_grid import CLIP_NORMS, DP_METHODS, EPSILONS
from sfumato.bench._summary import markdown, mean_and_error

Result = dict[str, Any]
Rows = list[dict[str, Any]]
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
# what the paper says holds; each pair is (at least as good, as)
ORDERS = (("feature-projective", "feature"), ("feature", "dp-sgd"), ("projected", "dp-sgd"))
# PCK@0.2 by torso on LSP that fine-tuning without a promise should pass, in per cent
AIM = 60
# whose rate may grow: the public stream of the others is unstable at a larger one
HELPED = ("dp-sgd", "projected")
_SAID = {"before": "staged people only", "public-only": "public view only (psi)",
         "sgd": "no privacy"}  # fmt: skip


def chosen(rows: Iterable[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, float]]:
    """The scores of the rows that fit."""
    return [row["pck"] for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def number(scores: Sequence[Mapping[str, float]], name: str = "mean") -> str:
    if not scores:
        return "-"
    mean, error = mean_and_error(scores, name)
    return f"{mean:.1f}" + (f" ± {error:.1f}" if len(scores) > 1 else "")


def orders(result: Result) -> Rows:
    """Which of the paper's orderings hold: differences of means where several seeds were run."""
    found = []
    rows = result.get("grid", [])
    for epsilon in (EPSILONS[0], EPSILONS[-1]):
        for clip_norm in CLIP_NORMS:
            for better, worse in ORDERS:
                high, low = (chosen(rows, method=name, epsilon=epsilon, clip_norm=clip_norm)
                             for name in (better, worse))  # fmt: skip
                if high and low:
                    gap = mean_and_error(high, "mean")[0] - mean_and_error(low, "mean")[0]
                    found.append({"epsilon": epsilon, "clip_norm": clip_norm, "better": better,
                                  "worse": worse, "gap": gap, "seeds": min(len(high), len(low))})  # fmt: skip
    return found


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
    lines += [_order_sentence(result)] if orders(result) else []
    lines += [f"{row['name']}: 25 epochs {row['faster']:.1f}x faster with the trunk cache."
              for row in result.get("speed", {}).get("rows", [])]  # fmt: skip
    return [*lines, *result["notes"]]


def _fine_tuned(result: Result) -> str:
    told = ", ".join(f"{row['pck']['mean']:.1f} % after {row['epochs']:g} epochs"
                     for row in result["fine_tuned"])  # fmt: skip
    return f"Fine-tuned without a promise, PCK@0.2 by torso: {told}."


def _order_sentence(result: Result) -> str:
    found = orders(result)
    wrong = [row for row in found if row["gap"] < 0]
    if not wrong:
        return f"All {len(found)} orderings of the paper hold in the mean."
    named = "; ".join(
        f"{row['better']} {-row['gap']:.1f} points below {row['worse']} at epsilon "
        f"{row['epsilon']:g}, C {row['clip_norm']:g}" for row in wrong
    )  # fmt: skip
    return f"{len(found) - len(wrong)} of {len(found)} orderings hold in the mean; not: {named}."


def page(result: Result) -> str:
    """Markdown: the paper's numbers beside ours, everything else computed from ``result``."""
    if "records" not in result:
        return " ".join(result["notes"])
    height, width = result["size"]
    parts = [
        f"Leeds Sports Pose, first {result['records']} pictures private, last {result['test']} test; "
        f"crops of {height} x {width} pixels; PCK@0.2 by torso in per cent, mean and 95 % interval "
        f"over seeds (one seed where none is shown). EfficientNet-Lite0 (ImageNet weights) with a SimCC head learned publicly from "
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
        _orders,
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
        [f"no privacy, stages 4 to 7 and head, {row['epochs']:g} epochs",
         *(number([row["pck"]], j) for j in JOINTS)]
        for row in result.get("fine_tuned", [])
    ]  # fmt: skip
    return (
        "### Without noise (Table 1)\n\n" + markdown(["", *JOINTS.values()], lines) + _aim(result)
    )


def _aim(result: Result) -> str:
    """Whether fine-tuning without a promise reaches what the data should give, and why not."""
    rows = result.get("fine_tuned", [])
    if not rows:
        return ""
    last = rows[-1]
    if last["pck"]["mean"] >= AIM:
        return f"\n\nWithout a promise the model passes {AIM} %, as it should."
    return (
        f"\n\nThe {AIM} % that a model without a promise should pass are not reached after "
        f"{last['epochs']:g} epochs of the private pictures: `rounds=` goes on from there, and every round "
        "is kept."
    )


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


def _orders(result: Result) -> str:
    found = orders(result)
    if not found:
        return ""
    public = chosen(result.get("baselines", []), method="public-only")
    said = [_order_sentence(result)]
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
    kept = result.get("subspace")
    if kept:
        said.append(
            f"Why: the subspace of {kept['rank']} directions of staged people keeps "
            f"{100 * kept['noise']:.2f} % of the noise and {100 * kept['staged']:.0f} % of the energy of the "
            f"mean private gradient ({100 * kept['own']:.0f} % if it came from private pictures, as in the "
            "paper). Where noise is what limits (large C at a fixed rate), that is a large gain; where "
            "rate x C is so small that noise does nothing, only the loss of signal is left."
        )
    lines = [[f"{r['better']} - {r['worse']}", f"{r['epsilon']:g}", f"{r['clip_norm']:g}",
              f"{r['gap']:+.1f}", str(r["seeds"])] for r in found]  # fmt: skip
    head = ["difference", "epsilon", "C", "points", "seeds"]
    return (
        "### Do the paper's orderings hold?\n\n" + " ".join(said) + "\n\n" + markdown(head, lines)
    )


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
    return "### What helps\n\n" + markdown(head, lines)


def _strategies(result: Result) -> str:
    rows = result.get("strategies", [])
    if not rows:
        return ""
    lines = [[row["strategy"], f"{row['trained']:,}", row["method"], f"{row['epsilon']:g}",
              f"{row['epochs']:g}", number([row["pck"]]), f"{row['seconds'] / 60:.0f}"]
             for row in rows]  # fmt: skip
    head = ["trained", "parameters", "method", "epsilon", "epochs", "mean", "minutes"]
    return "### Other strategies, C = 0.01\n\n" + markdown(head, lines)


def _second(result: Result) -> str:
    rows = result.get("second", [])
    if not rows:
        return ""
    lines = [[_SAID.get(row["method"], row["method"]),
              f"{row['epsilon']:g}" if row.get("epsilon") is not None else "-",
              number([row["pck"]])] for row in rows]  # fmt: skip
    return (
        "### TinyViT-5M, the paper's backbone\n\nNo package index carries its weights, so it knows "
        "staged people alone. C = 0.01, one seed.\n\n"
        + markdown(["method", "epsilon", "mean"], lines)
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
    lines = [[row["name"], f"{row['trained']:,}", str(row["cached_steps"]), str(row["records"]),
              f"{row['first_pass']:.2f} s", f"{row['epoch_with']:.2f} s",
              f"{row['epoch_without']:.2f} s", f"{row['faster']:.1f}x"] for row in found["rows"]]  # fmt: skip
    head = ["what trains", "parameters", "steps cached", "records", "first pass", "epoch with",
            "epoch without", "25 epochs"]  # fmt: skip
    return "### Trunk cache: seconds of the processor an epoch of DP-SGD\n\n" + markdown(
        head, lines
    )
