"""Table ``real``: linear heads on fixed features of real recordings, per record and per person.

``python -m benchmarks real data=ROOT``, with audiomnist, fsdd, sisfall, utd_mhad, utkface and lsp below ROOT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rich.table import Table

from benchmarks.harness.cells import Cells
from benchmarks.harness.markdown import markdown, shown
from benchmarks.harness.recordings import recordings
from benchmarks.real import features as made
from benchmarks.real.features import Features
from benchmarks.real.private_head import (
    DELTA,
    MORE_STEPS,
    RELATION,
    SHARE,
    STEPS,
    Settings,
    choose,
    measured,
    with_public_head,
    without_privacy,
)
from sfumato.errors import SfumatoError

EPSILONS = (0.1, 0.5, 1.0, 8.0)
GOALS = (75, 92, 94, 96)
RANK = 60
RUNS = 3
_FOLDERS = ("audiomnist", "fsdd", "sisfall", "utd_mhad", "utkface", "lsp")
AUDIO = "AudioMNIST digits"
_CLASSES = {AUDIO: 10, "SisFall activity": 6, "UTKFace gender": 2, "UTKFace age group": 4}
# what a grid without more than 25 steps had chosen on FSDD: the changes are to these
_FIRST = {
    0.1: Settings(60, 10, 10.0, 0.5),
    1.0: Settings(60, 10, 30.0, 1.0),
    8.0: Settings(60, 10, 100.0, 0.5),
}
_SHORT, _TAKES = "at most 25 steps", "more steps, and takes held back instead of speakers"
# one thing changed at a time, on AudioMNIST at record level
_CHANGES: dict[str, dict[str, Any]] = {
    _SHORT: {},
    "head from zero, not FSDD's": {"public_head": False},
    "FSDD's mean, not the private one": {"centre": False},
    "mean of the last half of the iterates": {"average": 0.5},
    "every gradient clipped (normalised: C 0.05, rate to match)": {"clip_norm": 0.05},
    "a tenth sampled in each of ten times as many steps": {"batch": 0.1},
    "a tenth in turn, ten times as many steps, ten bands": {"batch": 0.1, "bands": 10},
    "a tenth in turn, ten times as many steps, one band": {"batch": 0.1, "bands": 1},
    _TAKES: {},
}


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    only: str | None = None,
    more: bool = True,
) -> dict[str, Any]:
    """Every cell, each kept below ``keep`` as soon as it is measured; ``only`` names one task.

    With ``more=false`` nothing is measured: the table has what earlier runs kept.
    """
    if data is None:
        raise SfumatoError("Expected data= with the folder of real recordings, got none.")
    folders = recordings(data, *_FOLDERS)
    missing = [name for name in _FOLDERS if name not in folders]
    if missing:
        raise SfumatoError(
            f"Expected folders {', '.join(_FOLDERS)} below data=, got no {missing[0]}."
        )
    most, runs = (600, 1) if quick else (None, RUNS)
    cells = (Cells if more else _Kept)(
        "real", {"rank": RANK, "quick": quick, "share": SHARE, "version": 5}, keep
    )
    made_of: dict[str, Callable[[], Features]] = {
        AUDIO: partial(made.spoken_digits, folders["audiomnist"], folders["fsdd"], RANK, most),
        "SisFall activity": partial(made.motions, folders["sisfall"], folders["utd_mhad"], RANK),
        "UTKFace gender": partial(made.faces, folders["utkface"], folders["lsp"], RANK, most),
    }  # fmt: skip
    public = made.kept(cells.folder, AUDIO, made_of[AUDIO])
    epsilons = EPSILONS[2:] if quick else EPSILONS
    found: list[dict[str, Any]] = []
    for task in _CLASSES:
        if only is not None and only != task:
            continue
        source = "UTKFace gender" if task.startswith("UTKFace") else task
        if not more and not made.kept_path(cells.folder, source).is_file():
            continue
        features = made.kept(cells.folder, source, made_of[source])
        if task == "UTKFace age group":
            features = made.by_age(features, folders["utkface"])
        found += _task(task, features, public, epsilons, runs, cells)
    changes = _changes(public, epsilons, runs, cells) if only in (None, AUDIO) else []
    found = [cell for cell in found if "accuracy" in cell]
    changes = [cell for cell in changes if "accuracy" in cell]
    return {"quick": quick, "cells": found, "changes": changes, "runs": runs,
            "terms": {"delta": DELTA, "relation": RELATION, "rank": RANK, "share": SHARE}}  # fmt: skip


class _Kept(Cells):
    """What was measured before; nothing else."""

    def done(self, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return super().done(key, measure) if self.path(key).is_file() else {}


def _task(
    task: str, features: Features, public: Features, epsilons: Sequence[float], runs: int, cells: Cells
) -> list[dict[str, Any]]:  # fmt: skip
    classes, warm = _CLASSES[task], features.public_y is not None
    rows = [cells.done(f"{task}/no privacy, converged", lambda: {
        "accuracy": without_privacy(features, classes)}) | {"task": task, "row": "no privacy"}]  # fmt: skip
    if warm:
        alone = cells.done(
            f"{task}/public", lambda: {"accuracy": with_public_head(features, classes)}
        )
        rows.append(alone | {"task": task, "row": "public data alone"})
    for person in (False, True) if features.owners else (False,):
        unit = "person" if person else "record"
        count = len(set(features.owners)) if person else len(features.y)
        for epsilon in epsilons:
            chosen = _chosen(public, epsilon, count, cells, person=person, warm=warm,
                             steps=MORE_STEPS if task == AUDIO else STEPS)  # fmt: skip
            for number in range(runs):
                cell = cells.done(
                    f"{task}/{unit}/{epsilon}/{number}" + (", mean or not" if person else ""),
                    partial(measured, features, classes, epsilon, chosen, person=person),
                )
                rows.append({"task": task, "row": unit, "asked": epsilon, "settings": asdict(chosen)}
                            | cell)  # fmt: skip
    return rows


def _chosen(
    public: Features, epsilon: float, count: int, cells: Cells, *, person: bool, warm: bool,
    steps: Sequence[int] = STEPS, takes: bool = False,
) -> Settings:  # fmt: skip
    """By FSDD alone; tasks with as many units share them."""
    unit = "person, mean or not" if person else "record"
    key = f"settings/{unit}/{count}/{epsilon}/{warm}" + ("/takes" if takes else "")
    found = cells.done(
        key,
        lambda: asdict(
            choose(public, epsilon, count, person=person, warm=warm, steps=steps, takes=takes)
        ),
    )
    return Settings(**found) if found else Settings(RANK, 1, 1.0, 1.0)


def _changes(
    features: Features, epsilons: Sequence[float], runs: int, cells: Cells
) -> list[dict[str, Any]]:
    rows = []
    for epsilon in sorted((e for e in epsilons if e in _FIRST), reverse=True):
        usual = _FIRST[epsilon]
        for name, change in _CHANGES.items():
            if epsilon == 8.0 and change:
                continue
            chosen = replace(usual, **change)
            if name == _TAKES:
                chosen = _chosen(features, epsilon, len(features.y), cells, person=False, warm=True,
                                 steps=MORE_STEPS, takes=True)  # fmt: skip
            if name.startswith("every"):
                chosen = replace(chosen, rate=usual.rate * usual.clip_norm / 0.05)
            if name.startswith("a tenth"):
                chosen = replace(chosen, steps=10 * usual.steps, rate=usual.rate / 10)
            for number in range(runs):
                cell = cells.done(
                    f"{name}/{epsilon}/{number}",
                    partial(measured, features, 10, epsilon, chosen, person=False),
                )
                rows.append({"change": name, "asked": epsilon, "settings": asdict(chosen)} | cell)
    return rows


def _lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    cells = result["cells"]
    epsilons = sorted({cell["asked"] for cell in cells if "asked" in cell})
    lines = []
    for task in dict.fromkeys(cell["task"] for cell in cells):
        own = [cell for cell in cells if cell["task"] == task]
        whole = [c for c in own if c["row"] == "no privacy"]
        alone = [c for c in own if c["row"] == "public data alone"]
        for unit in dict.fromkeys(cell["row"] for cell in own if "asked" in cell):
            rows = [c for c in own if c["row"] == unit]
            lines.append([
                task, f"{unit} ({rows[0]['units']:,})",
                *(shown([c for c in rows if c["asked"] == e], "accuracy") for e in epsilons),
                shown(whole, "accuracy"), shown(alone, "accuracy"),
            ])  # fmt: skip
    head = ["task", "unit (how many)", *(f"epsilon {e:g}" for e in epsilons), "no privacy",
            "public data alone"]  # fmt: skip
    return head, lines


def _change_lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = result["changes"]
    epsilons = sorted({row["asked"] for row in rows})
    lines = [
        [name, *(shown([r for r in rows if r["change"] == name and r["asked"] == e], "accuracy")
                 for e in epsilons)]
        for name in _CHANGES
        if any(row["change"] == name for row in rows)
    ]  # fmt: skip
    return ["AudioMNIST, record", *(f"epsilon {e:g}" for e in epsilons)], lines


def _setting_lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    lines: dict[tuple[str, str], list[str]] = {}
    for cell in result["cells"]:
        if "asked" in cell:
            s = cell["settings"]
            lines[cell["task"] + cell["row"], str(cell["asked"])] = [
                cell["task"], cell["row"], f"{cell['asked']:g}", f"{s['rank']}", f"{s['steps']}", f"{s['rate']:g}",
                f"{s['clip_norm']:g}", "yes" if s["centre"] else "no", f"{cell['epsilon']:.4g}",
            ]  # fmt: skip
    head = [
        "task",
        "unit",
        "epsilon",
        "components",
        "steps",
        "rate",
        "clip norm",
        "private mean",
        "epsilon on the card",
    ]
    return head, list(lines.values())


_PARTS = {"accuracy": _lines, "changes": _change_lines, "settings": _setting_lines}


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    shown_tables: list[Any] = []
    for part in _PARTS.values():
        head, lines = part(result)
        table = Table(*head, box=None, pad_edge=False)
        for line in lines:
            table.add_row(*line)
        shown_tables += [table, ""]
    return shown_tables


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {
        name: markdown(*part(result), left=1 if name == "changes" else 2)
        for name, part in _PARTS.items()
    }
