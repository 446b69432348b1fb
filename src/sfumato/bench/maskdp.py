"""Table ``maskdp``: accuracy against epsilon with and without avatars, with and without masks.

The papers' Tables 1 and 2 on staged people: as filmed ("real") or replaced by avatars ("rendered"),
trained with DP-SGD or MaskDP, tested on other people as filmed. Every private row promises the same
epsilon at unit masked-tokens under replace: DP-SGD promises it for the whole record, which is more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table

from sfumato.bench._cells import Cells, Row
from sfumato.bench._figures import Curve, bars, curves
from sfumato.bench._staged_pairs import Pairs
from sfumato.bench._staged_probe import BACKBONES, QUICK, Scale, StagedTask
from sfumato.bench._summary import markdown, mean_and_error, shown
from sfumato.errors import SfumatoError
from sfumato.learn import MaskedPixels, Plan, Schedule, Sgd, Speed, plan_for, train
from sfumato.privacy import Guarantee

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 5.0)
DELTA = 1e-5
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
_STEPS, _SAMPLED = 150, 0.1
_RATE = 4.0
# the share of clips that class k keeps in the imbalanced variant
_DECAY = 0.8


def run(
    *,
    quick: bool = False,
    backbone: str = "video-vit",
    seeds: int = 3,
    clips: int | None = None,
    keep: str | None = None,
) -> dict[str, Any]:
    """Every row; each cell is kept as soon as it is done. ``clips`` stages fewer private clips."""
    if backbone not in BACKBONES:
        raise SfumatoError(f"Expected backbone {' or '.join(BACKBONES)}, got {backbone!r}.")
    side = 112 if backbone == "i3d" else 64
    scale = QUICK if quick else Scale(private=clips or Scale.private, side=side)
    stated = {"steps": _STEPS, "sampled": _SAMPLED, "rate": _RATE, "delta": DELTA, "decay": _DECAY}
    cells = Cells("maskdp", {"backbone": backbone, **asdict(scale), **stated}, keep)
    task = StagedTask(cells.folder.parent / "staged", scale, backbone)
    rounds = range(1 if quick else seeds)
    epsilons = (0.5, 5.0) if quick else EPSILONS
    return {
        "backbone": backbone,
        "scale": asdict(scale),
        "classes": list(task.private.classes),
        "steps": _STEPS,
        "delta": DELTA,
        "cells": [_cell(cells, task, *each) for each in _grid(epsilons, rounds)],
        "imbalanced": [
            _cell(cells, task, *row, epsilon, seed, imbalanced=True)
            for row in ROWS[:3]
            for epsilon in ((0.5,) if quick else (0.5, 1.0, 5.0))
            for seed in rounds
        ],
        "relations": [
            _cell(cells, task, "rendered", method, 0.5, seed, relation=relation)
            for method, relation in (("dp-sgd", "add-remove"), ("maskdp", "zero-out"))
            for seed in rounds
        ],
        "published": [
            _cell(cells, task, "rendered", "maskdp", epsilon, 0, as_published=True)
            for epsilon in epsilons
        ],
        "notes": [
            "Rend.+Diff (avatars refined by video diffusion): not run: no weights. With your own, "
            "release the clips with `--method avatar --set refine=...` and train on them."
        ],
    }


def _grid(epsilons: Sequence[float], rounds: range) -> list[tuple[str, str, float | None, int]]:
    free = [
        (kind, method, None) for kind in ("real", "rendered") for method in ("sgd", "public-only")
    ]
    private = [(*row, epsilon) for row in ROWS for epsilon in epsilons]
    return [(*each, seed) for each in (*free, *private) for seed in rounds]


def _cell(
    cells: Cells, task: StagedTask, kind: str, method: str, epsilon: float | None, seed: int,
    *, relation: str = "replace", imbalanced: bool = False, as_published: bool = False,
) -> Row:  # fmt: skip
    what = {"kind": kind, "method": method, "asked": epsilon, "seed": seed, "relation": relation,
            "imbalanced": imbalanced, "as_published": as_published}  # fmt: skip
    key = "/".join(str(value) for value in what.values())

    def measure() -> Row:
        pairs = _unequal(task.private) if imbalanced else task.private
        plan = _plan(len(pairs), method, epsilon, relation, as_published)
        probe = task.probe()
        train(
            probe, pairs.records(kind), plan, prepare=task.prepare,
            optimizer=Sgd(_RATE, momentum=0.9, schedule=Schedule(kind="cosine")),
            speed=Speed(keep_cache=True, cache_folder=cells.folder / "trunk"),
        )  # fmt: skip
        promise = plan.guarantee if isinstance(plan.guarantee, Guarantee) else None
        return what | task.test(probe) | {
            "unit": str(promise.unit) if promise else "none",
            "terms": plan.terms if promise else "none",
            "epsilon": promise.epsilon if promise else None,
            "noise_multiplier": plan.noise_multiplier,
        }  # fmt: skip

    return cells.done(key, measure)


def _plan(count: int, method: str, epsilon: float | None, relation: str, published: bool) -> Plan:
    settings: dict[str, Any] = {
        "records": count, "batch": round(_SAMPLED * count), "steps": _STEPS,
    }  # fmt: skip
    if method in {"maskdp", "public-only"}:
        # people are smaller than a tubelet: what is not public is black, not dropped
        settings["public_view"] = MaskedPixels(drop=False)
    if method != "sgd":
        settings["relation"] = relation
    if method == "dp-sgd":
        settings["unit"] = "record"
    if epsilon is not None:
        settings |= {
            "epsilon": epsilon,
            "delta": DELTA,
            "clip_norm": 1.0,
            "as_published": published,
        }
    return plan_for(method, **settings)


def _unequal(pairs: Pairs) -> Pairs:
    """Class k keeps 0.8 to the k of its clips."""
    chosen = [
        np.flatnonzero(pairs.y == k)[: max(2, round(_DECAY**k * int((pairs.y == k).sum())))]
        for k in range(len(pairs.classes))
    ]
    return pairs.subset(np.sort(np.concatenate(chosen)))


def _where(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _grid_lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the main table, for the terminal and for the documentation."""
    cells = result["cells"]
    epsilons = sorted({row["asked"] for row in cells if row["asked"] is not None})
    head = ["data / privacy", *(f"{epsilon:g}" for epsilon in epsilons), "infinite"]
    lines = []
    for kind, method in ROWS:
        row = [NAMES[kind, method]]
        row += [shown(_where(cells, kind=kind, method=method, asked=e), "top1") for e in epsilons]
        lines.append([*row, shown(_where(cells, kind=kind, method="sgd"), "top1")])
        paper = dict(zip((*EPSILONS, math.inf), PAPER[kind, method]))
        lines.append(
            ["*the paper, NTU*", *(f"*{paper[e]:g}*" for e in epsilons), f"*{paper[math.inf]:g}*"]
        )
    for kind in ("rendered", "real"):
        level = shown(_where(cells, kind=kind, method="public-only"), "top1")
        lines.append([f"public pixels only ({kind})", *[level] * len(epsilons), ""])
    return head, lines


def words(result: dict[str, Any]) -> list[Any]:
    head, lines = _grid_lines(result)
    table = Table(*head, box=None, pad_edge=False)
    for line in lines:
        table.add_row(*(part.strip("*") for part in line))
    return [table, _terms(result), *result["notes"]]


def _terms(result: dict[str, Any]) -> str:
    said = {row["method"]: row["terms"] for row in result["cells"] if row["asked"] is not None}
    return "Epsilons: " + "; ".join(f"{method}: {terms}" for method, terms in said.items()) + "."


def verdict(result: dict[str, Any]) -> str:
    """Where MaskDP on avatars beats DP on real clips, said from the numbers."""
    cells = result["cells"]
    said = []
    for epsilon in sorted({row["asked"] for row in cells if row["asked"] is not None}):
        (mask, mask_error), (dp, dp_error) = (
            mean_and_error(_where(cells, kind=kind, method=method, asked=epsilon), "top1")
            for kind, method in (("rendered", "maskdp"), ("real", "dp-sgd"))
        )
        clear = abs(mask - dp) > math.hypot(mask_error, dp_error)
        sign = ("above" if mask > dp else "below") if clear else "not told apart from"
        said.append(f"{sign} at {epsilon:g} ({100 * mask:.1f} against {100 * dp:.1f})")
    return "MaskDP on avatars is, beside DP on real clips: " + "; ".join(said) + "."


def page(result: dict[str, Any]) -> str:
    scale, head_lines = result["scale"], _grid_lines(result)
    relations = [
        [f"{row['method']}, {row['relation']}", f"{row['noise_multiplier']:.3g}"]
        for row in (*result["relations"], *_where(result["cells"], kind="rendered", asked=0.5))
        if row["seed"] == 0
    ]
    published = [
        [f"{row['asked']:g}", f"{row['epsilon']:.3g}", shown([row], "top1"),
         shown(_where(result["cells"], kind="rendered", method="maskdp", asked=row["asked"]), "top1")]
        for row in result["published"]
    ]  # fmt: skip
    unequal = [
        [NAMES[kind, method], f"{epsilon:g}",
         shown(_where(result["imbalanced"], kind=kind, method=method, asked=epsilon), "mean_class")]
        for kind, method in ROWS[:3]
        for epsilon in sorted({row["asked"] for row in result["imbalanced"]})
    ]  # fmt: skip
    return "\n".join([
        f"Top-1 accuracy in per cent on {scale['held_out']} clips of people never seen, as filmed; "
        f"{len(result['classes'])} actions; {scale['private']} private clips of 16 frames at "
        f"{scale['side']}x{scale['side']}; backbone {result['backbone']}, public, only the head trains; "
        f"{result['steps']} steps, a tenth of the clips sampled in each; delta {result['delta']:g}. Mean of the "
        "repeats with the half-width of its 95 % interval. "
        f"{_terms(result)} A promise for a record holds for its masked tokens too. Data and model differ from the paper's, so compare the pattern.",
        "",
        markdown(*head_lines),
        "",
        verdict(result),
        "",
        "The paper's one batch for both streams, beside the sound two: what is claimed, what is true.",
        "",
        markdown(["claimed", "true", "published", "sound, at the claimed epsilon"], published),
        "",
        "Noise multipliers at epsilon 0.5:",
        "",
        markdown(["method, relation", "noise multiplier"], relations),
        "",
        f"With unequal classes (class k keeps {_DECAY:g}^k of its clips), mean per-class accuracy:",
        "",
        markdown(["data / privacy", "epsilon", "mPCA"], unequal),
        "",
        *result["notes"],
    ])  # fmt: skip


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
    series = {
        NAMES[row]: [
            100
            * float(
                np.mean(
                    [cell["per_class"][k] for cell in _where(unequal, kind=row[0], method=row[1])]
                )
            )
            for k in range(len(result["classes"]))
        ]
        for row in ROWS[:3]
    }
    return {
        "accuracy": curves("Accuracy against epsilon", "epsilon (masked tokens, replace)", "top-1, %",
                           lines, levels=levels, logarithmic=True),
        "classes": bars("Unequal classes, epsilon 0.5", "accuracy, %", result["classes"], series),
    }  # fmt: skip
