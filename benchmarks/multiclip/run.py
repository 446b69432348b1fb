"""Table ``multiclip``: noise in the training beside noise in the recordings (Video-DPRP, Table 2).

DP-SGD and MultiClip-DP keep the recordings and noise the gradients; Video-DPRP noises every recording
and trains without noise. Their promises are for different units (a record of a data set; a frame of a
recording), so every row says its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks import training_tasks
from benchmarks.cells import Cells, Row
from benchmarks.figures import Curve, curves
from benchmarks.summary import markdown, mean_and_error, shown
from benchmarks.training_tasks import PREPARE, Size, Task
from sfumato import protect
from sfumato.data import ArrayRecords
from sfumato.learn import Adam, Plan, plan_for, train
from sfumato.media import Frame
from sfumato.privacy import Guarantee, format_epsilon
from sfumato.protect import Shape
from sfumato.settings import Count

EPSILONS = (2.0, 5.0, 8.0)
DELTA = 1e-4  # the paper's
# as many numbers a frame as the paper keeps of its own: 3,072 of 230,400
_SHARE = 3072 / (320 * 240 * 3)


@dataclass(frozen=True)
class Way:
    """A row: training on noised recordings (``release``) or with noised gradients."""

    clips: int = 1
    release: dict[str, Any] | None = None
    # 004, Table 2: top-1 on UCF101 at the claimed epsilons 2, 5, 8
    paper: tuple[float, ...] = ()


_PUBLISHED = {"basis": "gaussian", "calibration": "published"}
WAYS = {
    "DP-SGD": Way(paper=(25.54, 37.24, 45.32)),
    "MultiClip-DP, 3 clips": Way(3, paper=(44.07, 70.03, 72.03)),
    "Video-DPRP as published": Way(1, _PUBLISHED, (55.16, 58.58, 61.69)),
    "Video-DPRP as published, 3 clips": Way(3, _PUBLISHED, (60.11, 70.87, 74.06)),
    "Video-DPRP, sound": Way(1, {}),
    "Video-DPRP, sound, 3 clips": Way(3, {}),
}
FREE = "no privacy"
START = "before: public people alone"


def run(
    *, data: str | None = None, quick: bool = False, seeds: Count = 3, keep: str | None = None
) -> dict[str, Any]:
    """Every row on staged clips, and on UTD-MHAD depth clips where ``data`` points to them."""
    size = training_tasks.QUICK if quick else training_tasks.WHOLE
    cells = Cells("multiclip", {**asdict(size), "delta": DELTA, "share": _SHARE}, keep)
    tasks, notes = training_tasks.tasks(size, cells.folder, data, quick)
    budgets = EPSILONS[-1:] if quick else EPSILONS
    grid = [(FREE, math.inf), *((way, epsilon) for way in WAYS for epsilon in budgets)]
    rounds = range(1 if quick else seeds)
    return {
        "delta": DELTA,
        "tasks": [
            {"task": task.name, "public": len(task.public), "private": len(task.private),
             "held_out": len(task.held_out), "actions": len(task.public.classes)}
            for task in tasks
        ],
        "cells": [
            *(cells.done(f"{task.name}/{START}", partial(_start, task, cells, size))
              for task in tasks),
            *(cells.done(f"{task.name}/{way}/{epsilon:g}/{seed}",
                         partial(_cell, task, cells, way, epsilon, seed, size))
              for task in tasks for way, epsilon in grid for seed in rounds),
        ],
        "notes": notes,
    }  # fmt: skip


def _start(task: Task, cells: Cells, size: Size) -> Row:
    """What the backbone knows before it sees anybody private."""
    model = training_tasks.backbone(task, size, cells.folder).eval()
    with torch.no_grad():
        scores = model(torch.stack([PREPARE(x, 1) for x in task.held_out.x]))
    right = scores.argmax(1).numpy() == task.held_out.y
    return {"task": task.name, "way": START, "seed": 0, "claimed": None,
            "top1": float(right.mean()), "unit": "none", "terms": "none", "epsilon": None}  # fmt: skip


def _cell(task: Task, cells: Cells, way: str, epsilon: float, seed: int, size: Size) -> Row:
    model = training_tasks.backbone(task, size, cells.folder)
    task.train_last_layers(model)
    how, records = WAYS.get(way, Way()), task.private
    promise: Guarantee | None = None
    if how.release is not None:
        records, promise = _released(task, how, epsilon)
    plan = _plan(task, way, epsilon, how, size)
    if isinstance(plan.guarantee, Guarantee):
        promise = plan.guarantee
    made = train(model, records, plan, optimizer=Adam(task.rate), prepare=PREPARE,
                 held_out=task.held_out, evaluate_every=plan.steps)  # fmt: skip
    true = promise.epsilon if promise is not None else math.inf
    return {
        "task": task.name, "way": way, "seed": seed,
        "claimed": epsilon if math.isfinite(epsilon) else None,
        "top1": made.history[-1]["held_out_accuracy"],
        "unit": str(promise.unit) if promise is not None else "none",
        "terms": "none" if promise is None else plan.terms if plan.is_private else (
            f"unit {promise.unit}, relation {promise.relation.value}, delta {promise.delta:g}, every "
            f"recording released once, accountant {promise.accountant}"),
        "epsilon": true if math.isfinite(true) else None,
    }  # fmt: skip


def _plan(task: Task, way: str, epsilon: float, how: Way, size: Size) -> Plan:
    settings: dict[str, Any] = {
        "records": len(task.private), "batch": task.batch, "steps": size.steps, "clips": how.clips,
    }  # fmt: skip
    if how.release is not None or way == FREE:
        return plan_for("sgd", **settings)
    name = "multiclip" if how.clips > 1 else "dp-sgd"
    return plan_for(name, **settings, epsilon=epsilon, delta=DELTA, clip_norm=1.0, unit="record",
                    relation="replace")  # fmt: skip


def _released(task: Task, how: Way, epsilon: float) -> tuple[ArrayRecords, Guarantee]:
    """All private clips through Video-DPRP at unit frame, and the promise of one of them."""
    frames, height, width, channels = task.private.x.shape[1:]
    assert how.release is not None
    settings = {
        "epsilon": epsilon,
        "delta": DELTA,
        "unit": "frame",
        "clips": how.clips,
        **how.release,
    }
    if "basis" in settings:
        settings["k"] = max(3, round(_SHARE * height * width * channels))
    else:
        settings |= {"kept_frames": min(4, frames // how.clips), "kept_size": 6}
    method = protect.make("dprp", settings)
    shape = Shape(height, width, frames)
    made = [
        np.stack([frame.image for frame in method.frames(iter(_frames(clip)), count=frames)])
        for clip in task.private.x
    ]
    promise = method.promise(shape)
    assert isinstance(promise, Guarantee)
    protected = ArrayRecords(np.stack(made), task.private.y, classes=task.private.classes)
    return protected, promise


def _frames(clip: Any) -> list[Frame]:
    return [Frame(image, number, Fraction(number, 10)) for number, image in enumerate(clip)]


def _lines(result: dict[str, Any], task: str) -> list[list[str]]:
    cells = [cell for cell in result["cells"] if cell["task"] == task]
    claims = sorted({cell["claimed"] for cell in cells if cell["claimed"] is not None})
    lines = []
    for way in (START, FREE):
        level = shown([cell for cell in cells if cell["way"] == way], "top1")
        lines.append([way, "none", *[level] * len(claims), "", ""])
    for way, how in WAYS.items():
        found = [[c for c in cells if c["way"] == way and c["claimed"] == e] for e in claims]
        unit = found[0][0]["unit"]
        true = ", ".join(
            "none" if f[0]["epsilon"] is None else format_epsilon(f[0]["epsilon"]) for f in found
        )
        paper = ", ".join(f"{value:g}" for value in how.paper)
        lines.append([way, unit, *(shown(f, "top1") for f in found), true, paper])
    return lines


def _head(result: dict[str, Any]) -> list[str]:
    claims = sorted({cell["claimed"] for cell in result["cells"] if cell["claimed"] is not None})
    return [
        "",
        "unit",
        *(f"epsilon {claim:g}" for claim in claims),
        "true epsilon",
        "the paper, UCF101",
    ]


def _tasks(result: dict[str, Any]) -> Sequence[str]:
    return list(dict.fromkeys(cell["task"] for cell in result["cells"]))


def words(result: dict[str, Any]) -> list[Any]:
    out: list[Any] = []
    for task in _tasks(result):
        table = Table(*_head(result), box=None, pad_edge=False, title=task)
        for line in _lines(result, task):
            table.add_row(*line)
        out.append(table)
    return [*out, _terms(result), *result["notes"]]


def _terms(result: dict[str, Any]) -> str:
    said: dict[str, list[str]] = {}
    for cell in result["cells"]:
        ways = said.setdefault(cell["terms"], []) if cell["claimed"] is not None else []
        if cell["way"] not in ways:
            ways.append(cell["way"])
    return "Epsilons: " + "; ".join(f"{', '.join(w)}: {terms}" for terms, w in said.items()) + "."


def verdict(result: dict[str, Any], task: str) -> str:
    """What several clips a recording bring, and what training on private people brings at all."""
    cells = [cell for cell in result["cells"] if cell["task"] == task]
    said = []
    for one, three in zip(list(WAYS)[::2], list(WAYS)[1::2]):
        found: dict[str, list[str]] = {"more": [], "nothing that can be told": [], "less": []}
        for claim in sorted({cell["claimed"] for cell in cells if cell["claimed"] is not None}):
            (a, doubt), (b, error) = (
                mean_and_error(
                    [c for c in cells if (c["way"], c["claimed"]) == (way, claim)], "top1"
                )
                for way in (one, three)
            )
            clear = abs(a - b) > math.hypot(doubt, error)
            sign = ("more" if b > a else "less") if clear else "nothing that can be told"
            found[sign].append(f"{claim:g}")
        told = "; ".join(f"{sign} at {', '.join(at)}" for sign, at in found.items() if at)
        said.append(f"three clips instead of one bring {one} {told}")
    start, free = (
        100 * mean_and_error([c for c in cells if c["way"] == way], "top1")[0]
        for way in (START, FREE)
    )
    return (
        f"Private people add {free - start:+.1f} points without privacy to what public people taught. "
        f"By epsilon, {'; '.join(said)}."
    )


def page(result: dict[str, Any]) -> str:
    parts = [
        f"Top-1 in per cent on raw clips of people never seen; delta {result['delta']:g} as in the paper. All rows "
        "start from the same backbone, which knows the actions from public people, and train its last layers on "
        "private ones. The units differ: DP-SGD and MultiClip-DP promise for a whole record of the training set, "
        "Video-DPRP for one frame of one recording, so equal epsilons are not equal privacy. As published, "
        "Video-DPRP's noise gives the true epsilon shown, not the claimed one; what is sound pays for its "
        "promise. A row below the first one has lost by training on noise. The paper trains large networks on "
        "UCF101: compare the pattern.",
    ]
    for task in result["tasks"]:
        name = task["task"]
        parts += [
            "",
            f"**{name}**: {task['actions']} actions (guessing: {100 / task['actions']:.1f}); {task['public']} public, "
            f"{task['private']} private and {task['held_out']} test clips. {verdict(result, name)}",
            "",
            markdown(_head(result), _lines(result, name), left=2),
        ]
    return "\n".join([*parts, "", _terms(result), *result["notes"]])


def _short(way: str) -> str:
    """A name that fits a legend."""
    changes = {"Video-": "", "as published": "published", ", sound": " sound", ", 3 clips": " (3)",
               "before: public people": "public people"}  # fmt: skip
    for long, short in changes.items():
        way = way.replace(long, short)
    return way


def figures(result: dict[str, Any]) -> dict[str, str]:
    drawn = {}
    for task in _tasks(result):
        cells = [cell for cell in result["cells"] if cell["task"] == task]
        lines = []
        for way in WAYS:
            claims = sorted({c["claimed"] for c in cells if c["way"] == way})
            points = [mean_and_error([c for c in cells if c["way"] == way and c["claimed"] == e], "top1")
                      for e in claims]  # fmt: skip
            lines.append(
                Curve(
                    _short(way), claims, [100 * p[0] for p in points], [100 * p[1] for p in points]
                )
            )
        levels = {
            _short(way): 100 * mean_and_error([c for c in cells if c["way"] == way], "top1")[0]
            for way in (FREE, START)
        }
        name = "staged" if task == training_tasks.STAGED else "depth"
        title = f"{task}; (3): three clips a recording"
        drawn[name] = curves(title, "claimed epsilon", "top-1, %", lines, levels=levels)
    return drawn
