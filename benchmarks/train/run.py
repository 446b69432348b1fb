"""Table ``train``: every training method, accuracy on held-out people against epsilon.

Staged clips are made on the spot; UTD-MHAD depth clips are read where ``data=`` points. Both follow
the same course: a model learns from public people, then its last layers learn from private people
under each method, and people whom it has never seen are the test.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.table import Table

from benchmarks.harness.cells import Cells
from benchmarks.harness.markdown import markdown
from benchmarks.tasks import action_clips
from benchmarks.tasks.action_clips import PREPARE, Size, Task
from sfumato.audit.measure._scores import wilson
from sfumato.data import ArrayRecords
from sfumato.errors import SfumatoError
from sfumato.learn import (
    METHODS,
    Adam,
    MaskedPixels,
    Plan,
    PublicView,
    Subspace,
    plan_for,
    train,
)
from sfumato.privacy import Guarantee
from sfumato.settings import Amount, Numbers

DELTA = 1e-5
BEFORE = "public people only"


def run(
    *,
    data: str | None = None,
    epsilons: Numbers | Amount = "0.5,2,8",
    methods: str | None = None,
    quick: bool = False,
    keep: str | None = None,
) -> dict[str, Any]:
    """Every method on every task; each cell is kept below ``keep`` as soon as it is done."""
    size = action_clips.QUICK if quick else action_clips.WHOLE
    try:
        budgets = [float(part) for part in str(epsilons).split(",")]
    except ValueError:
        raise SfumatoError(f"Expected epsilons such as 0.5,2,8, got {epsilons!r}.") from None
    names = methods.split(",") if methods else list(METHODS)
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise SfumatoError(f"Expected methods out of {', '.join(METHODS)}, got {unknown[0]!r}.")
    cells = Cells("train", asdict(size), keep)
    tasks, notes = action_clips.tasks(size, cells.folder, data, quick)
    measured = [
        cell
        for task in tasks
        for cell in _fill(task, names, [8.0] if quick else budgets, size, cells)
    ]
    return {
        "people": {
            task.name: {"classes": len(task.private.classes), "public": len(task.public),
                        "private": len(task.private), "held_out": len(task.held_out),
                        "chance": 1 / len(task.private.classes), "mask": task.mask,
                        "psi": task.psi.name}
            for task in tasks
        },
        "cells": measured,
        "notes": notes,
    }  # fmt: skip


def _fill(
    task: Task, names: list[str], budgets: list[float], size: Size, cells: Cells
) -> list[dict[str, Any]]:
    return [
        cells.done(f"{task.name}/{method}/{epsilon}",
                   partial(_cell, task, cells, method, epsilon, size))
        for method, epsilon in _cells(names, budgets)
    ]  # fmt: skip


def _cells(names: list[str], budgets: list[float]) -> Iterator[tuple[str, float | None]]:
    yield BEFORE, None
    for name in names:
        if METHODS[name].private:
            yield from ((name, epsilon) for epsilon in budgets)
        elif name == "public-only":
            yield from ((f"public-only, {view}", None) for view in ("pixels", "features"))
        else:
            yield name, None


def _cell(
    task: Task, cells: Cells, method: str, epsilon: float | None, size: Size
) -> dict[str, Any]:
    start = time.monotonic()
    model = action_clips.backbone(task, size, cells.folder)
    task.train_last_layers(model)
    if method == BEFORE:
        plan = plan_for("sgd", records=len(task.private), batch=1, steps=1)
        rate = 1e-12
    else:
        plan, rate = _plan(task, method, epsilon, size), task.rate
    run = train(model, task.private, plan, optimizer=Adam(rate), prepare=PREPARE,
                held_out=task.held_out, evaluate_every=plan.steps)  # fmt: skip
    row = run.history[-1]
    cell: dict[str, Any] = {
        "task": task.name, "method": method, "asked": epsilon,
        "top1": row["held_out_accuracy"], "mean_class": row["held_out_mean_class_accuracy"],
        "per_class": row["held_out_per_class"], "steps": plan.steps, "batch": plan.batch,
        "seconds": time.monotonic() - start,
    }  # fmt: skip
    return cell | ({} if method == BEFORE else _promised(run.guarantee, plan))


def _promised(promise: object, plan: Plan) -> dict[str, Any]:
    """The promise at its own unit, and what it says about a whole record: a unit all can share."""
    if not isinstance(promise, Guarantee):
        return {"unit": "none", "epsilon": "inf", "record_epsilon": "inf", "delta": 0.0}
    return {
        "unit": str(promise.unit),
        "relation": promise.relation.value,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        # a person's promise holds for each of the person's records; a view shows the record
        "record_epsilon": promise.epsilon if plan.public_view is None else "inf",
        "noise_multiplier": plan.noise_multiplier,
    }


def _plan(task: Task, method: str, epsilon: float | None, size: Size) -> Plan:
    name, _, shown = method.partition(", ")
    kind = METHODS[name]
    view: PublicView | None = None
    if name == "maskdp" or shown == "pixels":
        view = MaskedPixels()
    elif name in {"feature", "feature-projective"} or shown == "features":
        view = task.psi
    settings: dict[str, Any] = {
        "records": len(task.private), "batch": task.batch, "steps": size.steps,
        "public_view": view, "clips": 2 if kind.clips else 1,
    }  # fmt: skip
    if kind.person:
        persons = len({owner for owners in task.private.owners or [] for owner in owners})
        settings |= {"records": persons, "batch": persons}
    if kind.projector:
        few = range(0, len(task.public), max(1, len(task.public) // size.projector))
        public = ArrayRecords(task.public.x[few], task.public.y[few], classes=task.public.classes)
        settings["projector"] = Subspace(public, rank=min(24, len(public)), refresh=20)
    if name != "sgd":
        settings["relation"] = "replace"
        if view is None and not kind.person:
            settings["unit"] = "record"
    if kind.private:
        settings |= {"epsilon": epsilon, "delta": DELTA, "clip_norm": 1.0}
    return plan_for(name, **settings)


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    lines: list[Any] = []
    for name, facts in result["people"].items():
        lines.append(f"{name}: {_about(facts)}")
        table = Table("method", "unit", "epsilon", "for the record", "top-1", "mean class",
                      box=None, pad_edge=False)  # fmt: skip
        for cell in result["cells"]:
            if cell["task"] == name:
                table.add_row(*columns(cell, facts))
        lines.append(table)
    return [*lines, *result["notes"]]


def tables(result: dict[str, Any]) -> dict[str, str]:
    head = ("method", "unit", "epsilon", "for the record", "top-1", "mean class")
    return {
        name: markdown(
            head, [columns(cell, facts) for cell in result["cells"] if cell["task"] == name], left=2
        )
        for name, facts in result["people"].items()
    }


def _about(facts: dict[str, Any]) -> str:
    return (
        f"{facts['classes']} classes (chance {100 * facts['chance']:.1f} %); {facts['public']} "
        f"public, {facts['private']} private and {facts['held_out']} held-out clips of different "
        f"people, so a standard error is about {100 * error(facts):.0f} points. Mask: "
        f"{facts['mask']}. psi: {facts['psi']}. Epsilons: the unit beside them, relation replace, "
        f"delta {DELTA:g}, Poisson sampling, accountant pld."
    )


def columns(cell: dict[str, Any], facts: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table, as the terminal and the documentation show it; the interval is Wilson's,
    over held-out clips."""
    count = facts["held_out"]
    low, high = (100 * each for each in wilson(round(cell["top1"] * count), count))
    unit = cell.get("unit", "-").partition("(")[0]
    return (
        cell["method"], unit, _number(cell.get("epsilon")),
        _number(cell.get("record_epsilon")),
        f"{100 * cell['top1']:.1f} % ({low:.0f} to {high:.0f})",
        f"{100 * cell['mean_class']:.1f} %",
    )  # fmt: skip


def error(facts: dict[str, Any]) -> float:
    """At most this is the standard error of an accuracy, from the number of held-out clips."""
    return 0.5 / math.sqrt(facts["held_out"])


def _number(value: float | str | None) -> str:
    if value is None:
        return "-"
    return "infinite" if value == "inf" or math.isinf(float(value)) else f"{float(value):.3g}"
