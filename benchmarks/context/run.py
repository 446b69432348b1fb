"""Table ``context``: what the person and the room each say about the action (the papers' Table 3)."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from rich.table import Table

from benchmarks.harness.cells import Cells, Row
from benchmarks.harness.figures import bars
from benchmarks.harness.markdown import markdown, mean_and_error, shown
from benchmarks.tasks.staged_pairs import BY_WHOM
from benchmarks.tasks.staged_probe import QUICK, Scale, StagedTask
from sfumato.learn import Schedule, Sgd, plan_for, train
from sfumato.settings import Count

# what the clips show -> (name, 000 Table 3 on NTU RGB+D, on Toyota Smarthome)
KINDS = {
    "real": ("Real", 83.8, 52.7),
    "avatar": ("Avatar alone", 54.8, 8.8),
    "background": ("Background alone", 9.9, 10.6),
    "rendered": ("Avatar on background", 68.3, 26.7),
}
_STEPS, _RATE = 150, 16.0


def run(
    *,
    quick: bool = False,
    seeds: Count = 3,
    keep: str | None = None,
    people: Literal["truth", "detectors"] = "truth",
) -> dict[str, Any]:
    """Train a head on every kind of clip without privacy; test on people never seen.

    Avatars stand for people whom the ``detectors`` find, as in a recording, or for the stage's ``truth``.
    """
    scale = QUICK if quick else Scale()
    stated: dict[str, Any] = {**asdict(scale), "steps": _STEPS, "rate": _RATE}
    if people != "truth":
        stated["people"] = people
    cells = Cells("context", stated, keep)
    task = StagedTask(cells.folder.parent / "staged", scale, "video-vit", people)
    return {
        "people": people,
        "scale": asdict(scale),
        "classes": list(task.classes),
        "cells": [
            cells.done(f"{kind}/{seed}", partial(_cell, task, kind, seed))
            for kind in KINDS
            for seed in range(1 if quick else seeds)
        ],
    }


def _cell(task: StagedTask, kind: str, seed: int) -> Row:
    records, head = task.records(kind), task.head()
    plan = plan_for("sgd", records=len(records), batch=len(records) // 10, steps=_STEPS)
    train(head, records, plan,
          optimizer=Sgd(_RATE, momentum=0.9, schedule=Schedule(kind="cosine")))  # fmt: skip
    on_real, on_same = task.test(head), task.test(head, kind)
    return {"kind": kind, "seed": seed, "real": on_real["top1"], "same": on_same["top1"]}


def _lines(result: dict[str, Any]) -> list[list[str]]:
    return [
        [name, shown(found, "real"), shown(found, "same"), f"{ntu:g}", f"{toyota:g}"]
        for kind, (name, ntu, toyota) in KINDS.items()
        for found in [[cell for cell in result["cells"] if cell["kind"] == kind]]
    ]


HEAD = ("trained on", "tested as filmed", "tested alike", "the paper: NTU", "the paper: Toyota")


def terminal(result: dict[str, Any]) -> list[Any]:
    table = Table(*HEAD, box=None, pad_edge=False)
    for line in _lines(result):
        table.add_row(*line)
    return [table, BY_WHOM[result.get("people", "truth")]]


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"kinds": markdown(HEAD, _lines(result))}


def figures(result: dict[str, Any]) -> dict[str, str]:
    rows = {kind: [c for c in result["cells"] if c["kind"] == kind] for kind in KINDS}
    series, errors = {}, {}
    for name, column in (("tested as filmed", "real"), ("tested alike", "same")):
        found = [mean_and_error(each, column) for each in rows.values()]
        series[name], errors[name] = [100 * m for m, _ in found], [100 * e for _, e in found]
    names = [
        name.replace(" alone", "\nalone").replace(" on ", "\non ") for name, *_ in KINDS.values()
    ]
    return {"kinds": bars("What says what is done", "top-1, %", names, series, errors=errors)}
