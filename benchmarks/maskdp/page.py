"""The words, page and figures of the table ``maskdp``, computed from its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.cells import Row
from benchmarks.figures import Curve, bars, curves
from benchmarks.staged.pairs import BY_TRUTH
from benchmarks.summary import markdown, mean_and_error, shown
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


def words(result: dict[str, Any]) -> list[Any]:
    said: list[Any] = []
    for part in _parts(result):
        head, lines = _grid_lines(part)
        table = Table(*head, box=None, pad_edge=False, title=part["backbone"])
        for line in lines:
            table.add_row(*(text.strip("*") for text in line))
        said += [table, verdict(part)]
    return [*said, _terms(result), BY_TRUTH, *result["notes"]]


def _parts(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The grid of every backbone there is."""
    return [result, *([result["i3d"]] if "i3d" in result else [])]


def _terms(result: dict[str, Any]) -> str:
    said = {row["method"]: row["terms"] for row in result["cells"] if row["asked"] is not None}
    return "Epsilons: " + "; ".join(f"{method}: {terms}" for method, terms in said.items()) + "."


def verdict(result: dict[str, Any]) -> str:
    """Where MaskDP on avatars beats the other rows, said from the numbers."""
    cells = result["cells"]
    said = []
    for kind, method, name in (
        ("real", "dp-sgd", "DP on real clips"),
        ("rendered", "dp-sgd", "DP on avatars"),
        ("rendered", "public-only", "the avatars' pixels alone"),
    ):
        found: dict[str, list[str]] = {"above": [], "not told apart": [], "below": []}
        for epsilon in sorted({row["asked"] for row in cells if row["asked"] is not None}):
            ours = _where(cells, kind="rendered", method="maskdp", asked=epsilon)
            asked = None if method == "public-only" else epsilon
            other = _where(cells, kind=kind, method=method, asked=asked)
            (mean, error), (level, doubt) = (mean_and_error(each, "top1") for each in (ours, other))
            clear = abs(mean - level) > math.hypot(error, doubt)
            sign = ("above" if mean > level else "below") if clear else "not told apart"
            found[sign].append(f"{epsilon:g} ({100 * mean:.1f}, {100 * level:.1f})")
        told = "; ".join(f"{sign} at {', '.join(at)}" for sign, at in found.items() if at)
        said.append(f"Beside {name}, MaskDP on avatars is {told}.")
    return " ".join(said)


def page(result: dict[str, Any]) -> str:
    scale, several = result["scale"], len(result["classes"])
    relations = [
        [name, shown(_where(rows, method=method, relation=relation, asked=0.5), "top1"),
         f"{_where(rows, method=method, relation=relation, asked=0.5)[0]['noise_multiplier']:.3g}"]
        for rows in [[*result["relations"], *_where(result["cells"], kind="rendered")]]
        for name, method, relation in (
            ("DP, replace a record", "dp-sgd", "replace"),
            ("DP, add or remove a record", "dp-sgd", "add-remove"),
            ("MaskDP, replace what is masked", "maskdp", "replace"),
            ("MaskDP, black out what is masked", "maskdp", "zero-out"),
        )
    ]  # fmt: skip
    published = [
        [f"{row['asked']:g}", format_epsilon(row['epsilon']), shown([row], "top1"),
         shown(_where(result["cells"], kind="rendered", method="maskdp", asked=row["asked"]), "top1")]
        for row in result["published"]
    ]  # fmt: skip
    budgets = sorted({row["asked"] for row in result["imbalanced"]})
    unequal = [
        [NAMES[kind, method], *(
            shown(_where(result["imbalanced"], kind=kind, method=method, asked=each), "mean_class")
            for each in budgets
        )]
        for kind, method in ROWS[:3]
    ]  # fmt: skip
    return "\n".join([
        f"Top-1 accuracy in per cent on {scale['held_out']} clips of people never seen, as filmed; "
        f"{several} actions, so guessing gives {100 / several:.1f}. {scale['private']} private clips of 16 frames at "
        f"{scale['side']}x{scale['side']}: staged people as filmed (real), and the same clips with avatars in their "
        f"place (rendered). The backbone is a VideoViT that learnt where joints are from {scale['public']} clips of other "
        "people who do other things in other rooms; only a linear head on it is trained here, "
        f"{result['steps']} steps, a tenth of the clips sampled in each. Mean of the repeats with the half-width "
        "of its 95 % interval. MaskDP takes the person or the avatar as public, and what is around as private.",
        "",
        BY_TRUTH,
        "",
        f"{_terms(result)} A promise for a record holds for its masked tokens too, so all columns compare equal "
        "epsilons for what is masked. In the row Real / MaskDP the person is public: nothing is promised to them.",
        "",
        f"Every row chose its own learning rate and clip norm at every epsilon, out of the same {len(result['choices'])}: trained on three "
        "quarters of the private people, tested on the others. The candidates were found by hand on the same people; neither that nor the choice is counted in epsilon, for any row, "
        "and the people of this test had no say in it. A small clip norm suits MaskDP at small epsilons, because noise "
        "grows with it and the public stream, which is not clipped, does not shrink.",
        "",
        markdown(*_grid_lines(result)),
        "",
        f"{verdict(result)} In brackets: MaskDP's accuracy and the other's. Where it is not told apart from the avatars' pixels alone, what it gains over DP is theirs. Data and model are not the paper's, so compare the pattern.",
        "",
        *_i3d(result),
        "The paper draws one batch for both streams, which shows who is in it: what it claims, what is "
        "true of it, and its accuracy beside ours with two batches at the claimed epsilon (avatars):",
        "",
        markdown(["claimed epsilon", "true epsilon", "accuracy as published", "sound"], published),
        "",
        "What neighbouring data sets are, at epsilon 0.5 (avatars):",
        "",
        markdown(["method, relation", "accuracy", "noise multiplier"], relations),
        "",
        f"With unequal classes (class k keeps {DECAY:g}^k of its clips), mean per-class accuracy at these epsilons:",
        "",
        markdown(["data / privacy", *(f"{each:g}" for each in budgets)], unequal),
        "",
        *result["notes"],
    ])  # fmt: skip


def _i3d(result: dict[str, Any]) -> list[str]:
    if "i3d" not in result:
        return []
    part = result["i3d"]
    scale = part["scale"]
    return [
        f"With I3D, trained on Kinetics-400, in the place of the VideoViT: {scale['private']} of the same private "
        f"clips filmed at {scale['side']}x{scale['side']}, {scale['held_out']} for the test. A step samples about "
        f"{scale['private'] // 10} clips and adds the noise that hides one of them, which is much for so few: private "
        "rows are low for that reason, and more clips (`i3d_clips=N`) raise them.",
        "",
        markdown(*_grid_lines(part, paper=False)),
        "",
        verdict(part),
        "",
    ]


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
