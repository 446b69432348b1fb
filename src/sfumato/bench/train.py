"""Table ``train``: every training method, accuracy on held-out people against epsilon.

Staged clips are made on the spot; UTD-MHAD depth clips are read where ``data=`` points. Both follow
the same course: a model learns from public people, then its last layers learn from private people
under each method, and people whom it has never seen are the test.
"""

from __future__ import annotations

import copy
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from torch import nn

from sfumato.data import ArrayRecords, Sampling, UtdMhad, staged, utd_mhad
from sfumato.errors import SfumatoError
from sfumato.files import atomic_output, write_json
from sfumato.learn import (
    METHODS,
    Adam,
    FeatureMap,
    LowFrequency,
    MaskedPixels,
    Plan,
    PublicView,
    Subspace,
    VideoClips,
    plan_for,
    train,
)
from sfumato.models import MLP, VideoViT
from sfumato.privacy import Guarantee
from sfumato.stage import Staging

PREPARE = VideoClips(frames=8, height=32, width=32)
DELTA = 1e-5
BEFORE = "public people only"
STAGED, DEPTH = "staged clips", "UTD-MHAD depth"
# UTD-MHAD: whose clips are declared public, whose are private, and who is never seen in training.
PUBLIC_SUBJECTS, PRIVATE_SUBJECTS, TEST_SUBJECTS = {1, 2}, {3, 4, 5, 6}, {7, 8}
ACTORS = 60


@dataclass(frozen=True)
class Task:
    """Three groups of people who share nobody, and what may be shown of the private ones."""

    name: str
    public: ArrayRecords
    private: ArrayRecords
    held_out: ArrayRecords
    psi: FeatureMap
    mask: str
    batch: int
    persons: int
    rate: float

    def model(self) -> nn.Module:
        """Clips of rooms need attention to find the person; a person alone in the middle does not."""
        classes = len(self.public.classes)
        if self.name == DEPTH:
            inputs = 3 * PREPARE.frames * PREPARE.height * PREPARE.width
            return MLP(inputs, (128,), 128, classes)
        clip = (3, PREPARE.frames, PREPARE.height, PREPARE.width)
        return VideoViT(classes, clip=clip, tubelet=(2, 8, 8), width=96, depth=3, heads=3)

    def train_last_layers(self, model: nn.Module) -> None:
        """Freeze all but the last norm (or layer) and the head: the trunk runs once a record."""
        steps = model.steps()  # type: ignore[operator]
        model.requires_grad_(False)
        for step in steps[-2:] if isinstance(model, MLP) else steps[-1:]:
            for part in step.modules:
                part.requires_grad_(True)


@dataclass(frozen=True)
class _Size:
    """How much is done: a look, or the table."""

    clips: tuple[int, int, int]
    pretraining: int
    steps: int
    projector: int


_QUICK = _Size((160, 240, 80), 60, 15, 16)
_WHOLE = _Size((240, 800, 160), 120, 50, 40)


def run(
    *,
    data: str | None = None,
    epsilons: str | float = "0.5,2,8",
    methods: str | None = None,
    quick: bool = False,
    save: str | None = None,
) -> dict[str, Any]:
    """Every method on every task; each cell is kept in the folder ``save`` as soon as it is done."""
    size = _QUICK if quick else _WHOLE
    budgets = [float(part) for part in str(epsilons).split(",")]
    names = methods.split(",") if methods else list(METHODS)
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise SfumatoError(f"Expected methods out of {', '.join(METHODS)}, got {unknown[0]!r}.")
    default = Path(tempfile.gettempdir()) / f"sfumato-bench-train-{'quick' if quick else 'whole'}"
    kept = _Kept(Path(save) if save else default)
    tasks, notes = [_staged(size, kept)], []
    if data is None:
        notes.append("UTD-MHAD was not measured: pass data=FOLDER.")
    else:
        tasks.append(_utd(data, quick))
    for task in tasks:
        _fill(task, names, [8.0] if quick else budgets, size, kept)
    return {
        "people": {
            task.name: {"classes": len(task.private.classes), "public": len(task.public),
                        "private": len(task.private), "held_out": len(task.held_out),
                        "chance": 1 / len(task.private.classes), "mask": task.mask,
                        "psi": task.psi.name}
            for task in tasks
        },
        "cells": [cell for cell in kept.cells if cell["task"] in {task.name for task in tasks}],
        "notes": notes,
    }  # fmt: skip


class _Kept:
    """Cells that are done, on disk, so that a stopped table goes on where it was."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._path = folder, folder / "cells.json"
        self.cells: list[dict[str, Any]] = []
        if self._path.is_file():
            self.cells = json.loads(self._path.read_text(encoding="utf-8"))["cells"]

    def records(self, name: str, staging: Staging) -> ArrayRecords:
        """Staged clips, made once."""
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            made = staged(staging)
            assert made.mask is not None
            owners = [each[0] for each in made.owners or ()]
            with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
                np.savez(stream, x=made.x, y=made.y, mask=made.mask, owners=owners,
                         classes=made.classes)  # fmt: skip
        with np.load(path, allow_pickle=False) as stored:
            return ArrayRecords(
                stored["x"], stored["y"], mask=stored["mask"],
                owners=stored["owners"].tolist(), classes=stored["classes"].tolist(),
            )  # fmt: skip

    def has(self, task: str, method: str, epsilon: float | None) -> bool:
        return any(
            (cell["task"], cell["method"], cell["asked"]) == (task, method, epsilon)
            for cell in self.cells
        )

    def add(self, cell: dict[str, Any]) -> None:
        self.cells.append(cell)
        write_json(self._path, {"cells": self.cells}, force=True)


def _staged(size: _Size, kept: _Kept) -> Task:
    groups = zip(("public", "private", "held-out"), size.clips, (12, ACTORS, 12), (101, 202, 303))
    public, private, held_out = (
        kept.records(f"staged-{name}-{clips}", _staging(clips, actors, seed))
        for name, clips, actors, seed in groups
    )
    mask = "the rendered person is public, the room is private"
    return Task(STAGED, public, private, held_out, LowFrequency(6, 16.0), mask,
                size.clips[1] // 4, ACTORS, 1e-3)  # fmt: skip


def _staging(clips: int, actors: int, seed: int) -> Staging:
    return Staging(
        clips=clips, actors=actors, rooms=18, frames=16, fps=16.0, width=32, height=32,
        actions=("wave", "sit", "walk", "jump"), habit=0.8, seed=seed,
    )  # fmt: skip


def _utd(data: str, quick: bool) -> Task:
    found = utd_mhad(data, "depth")
    assert isinstance(found, UtdMhad)
    groups = [
        _depth_clips(found, subjects, 3 if quick else 1)
        for subjects in (PUBLIC_SUBJECTS, PRIVATE_SUBJECTS, TEST_SUBJECTS)
    ]
    mask = "fixed beforehand: the lower half of the picture is public, the upper half private"
    public, private, held_out = groups
    return Task(DEPTH, public, private, held_out, LowFrequency(6, 16.0), mask,
                len(private) // 2, len(PRIVATE_SUBJECTS), 3e-4)  # fmt: skip


def _depth_clips(found: UtdMhad, subjects: set[int], every: int) -> ArrayRecords:
    """Sixteen frames of the middle of the picture, where people stand, at half the size.

    The mask is the same for everyone (R9): the outline of a person, which the loader gives, would
    itself be private.
    """
    chosen = [i for i, (_, subject, _) in enumerate(found.keys) if subject in subjects][::every]
    x, y = [], []
    for index in chosen:
        record = found[index]
        x.append(record.x[Sampling(16).places(len(record.x)), 16:120:2, 44:116:2])
        y.append(record.y)
    clips = np.stack(x)
    mask = np.zeros(clips.shape[:4], dtype=bool)
    mask[:, :, clips.shape[2] // 2 :] = True
    owners = [found.owners[index] for index in chosen]
    return ArrayRecords(clips, y, mask=mask, owners=owners, classes=found.classes)


def _fill(task: Task, names: list[str], budgets: list[float], size: _Size, kept: _Kept) -> None:
    backbone: nn.Module | None = None
    for method, epsilon in _cells(names, budgets):
        if kept.has(task.name, method, epsilon):
            continue
        if backbone is None:
            backbone = _backbone(task, size, kept)
        kept.add(_cell(task, backbone, method, epsilon, size))


def _cells(names: list[str], budgets: list[float]) -> Iterator[tuple[str, float | None]]:
    yield BEFORE, None
    for name in names:
        if METHODS[name].private:
            yield from ((name, epsilon) for epsilon in budgets)
        elif name == "public-only":
            yield from ((f"public-only, {view}", None) for view in ("pixels", "features"))
        else:
            yield name, None


def _backbone(task: Task, size: _Size, kept: _Kept) -> nn.Module:
    """Trained on public people alone; kept beside the cells, so that all of them start from it."""
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)  # the first weights are public
    model = task.model()
    path = kept.folder / f"{task.name.replace(' ', '-')}.safetensors"
    if path.is_file():
        model.load_state_dict(load_file(path))
    else:
        count = len(task.public)
        plan = plan_for("sgd", records=count, batch=min(64, count), steps=size.pretraining)
        train(model, task.public, plan, optimizer=Adam(task.rate), prepare=PREPARE)
        save_file(model.state_dict(), path)
    return model


def _cell(
    task: Task, backbone: nn.Module, method: str, epsilon: float | None, size: _Size
) -> dict[str, Any]:
    start = time.monotonic()
    model = copy.deepcopy(backbone)
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


def _plan(task: Task, method: str, epsilon: float | None, size: _Size) -> Plan:
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
        settings |= {"records": task.persons, "batch": task.persons}
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


def words(result: dict[str, Any]) -> Sequence[Any]:
    lines: list[Any] = []
    for name, facts in result["people"].items():
        lines.append(
            f"{name}: {facts['classes']} classes (chance {100 * facts['chance']:.1f} %), "
            f"{facts['public']} public, {facts['private']} private, {facts['held_out']} held-out "
            f"clips of different people; a standard error is about {100 * error(facts):.0f} points. "
            f"Mask: {facts['mask']}. psi: {facts['psi']}."
        )
        table = Table("method", "unit", "epsilon", "for the record", "top-1", "mean class",
                      box=None, pad_edge=False)  # fmt: skip
        for cell in result["cells"]:
            if cell["task"] == name:
                table.add_row(*columns(cell))
        lines.append(table)
    return [*lines, *result["notes"]]


def columns(cell: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table, as the terminal and the documentation show it."""
    unit = cell.get("unit", "-").partition("(")[0]
    return (
        cell["method"], unit, _number(cell.get("epsilon")),
        _number(cell.get("record_epsilon")), f"{100 * cell['top1']:.1f} %",
        f"{100 * cell['mean_class']:.1f} %",
    )  # fmt: skip


def error(facts: dict[str, Any]) -> float:
    """At most this is the standard error of an accuracy, from the number of held-out clips."""
    return 0.5 / math.sqrt(facts["held_out"])


def _number(value: float | str | None) -> str:
    if value is None:
        return "-"
    return "infinite" if value == "inf" or math.isinf(float(value)) else f"{float(value):.3g}"
