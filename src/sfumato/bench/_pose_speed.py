"""How much a trunk cache saves in table ``pose``: one epoch of each, and the first pass."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch

from sfumato.bench._pose_fit import pose_loss
from sfumato.bench._pose_grid import EPOCHS, HEAD, LAST_STAGE, Task, starting_model
from sfumato.bench._pose_models import before_last_stage, fresh, train_after, train_norms
from sfumato.data import ArrayRecords
from sfumato.learn import Pictures, Sgd, Speed, plan_for, train
from sfumato.models import PoseNet, cut, freeze_batchnorm, run


def speeds(task: Task, quick: bool = False) -> dict[str, Any]:
    """Seconds of the first pass, of an epoch with the cache, and of one without; DP-SGD.

    Seconds of the processor, so that a busy machine does not show in them.
    """
    many, few = (
        ArrayRecords(task.private.x[:count], task.private.y[:count])
        for count in ((8, 4) if quick else (32, 8))
    )
    return {
        "rows": [
            _row("head alone, EfficientNet-Lite0", starting_model(task, HEAD), many),
            _row("last stage and head, EfficientNet-Lite0", starting_model(task, LAST_STAGE), many),
            _row("last stage and head, TinyViT-5M", _last_of_tiny_vit(), many),
            _row("as published: last stage, all layer norms and head, TinyViT-5M",
                 _as_published(), few),
        ],
    }  # fmt: skip


def _as_published() -> PoseNet:
    """The first three stages frozen but for their layer norms: only stem and first stage cache."""
    model = _last_of_tiny_vit()
    train_norms(model)
    return model


def _last_of_tiny_vit() -> PoseNet:
    model = freeze_batchnorm(fresh("tiny-vit-5m")).eval()
    train_after(model, before_last_stage(model))
    return model


def _row(name: str, model: PoseNet, records: ArrayRecords) -> dict[str, Any]:
    first = _first_pass(model, records)
    later = _epoch(model, records, cache=True)
    plain = _epoch(model, records, cache=False)
    return {
        "name": name,
        "records": len(records),
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "cached_steps": len(cut(model)[0]),
        "first_pass": first,
        "epoch_with": later,
        "epoch_without": plain,
        "faster": EPOCHS * plain / (first + EPOCHS * later),
    }


def _first_pass(model: PoseNet, records: ArrayRecords) -> float:
    """What filling the cache takes: the frozen beginning, one record at a time, as the cache does."""
    trunk, prepare = cut(model)[0], Pictures()
    inputs = [prepare(x, 1)[None] for x in records.x]
    with torch.no_grad():
        run(trunk, inputs[0])  # once before, so that nothing is measured cold
        began = time.process_time()
        for each in inputs:
            run(trunk, each)
    return time.process_time() - began


def _epoch(model: PoseNet, records: ArrayRecords, *, cache: bool) -> float:
    """The shorter of two epochs after a first one, which fills the cache and chooses a route. A batch
    is all records, so every record meets the cache in the first step."""
    plan = plan_for("dp-sgd", records=len(records), batch=len(records), steps=3, epsilon=8.0,
                    delta=1e-4, clip_norm=1.0, relation="replace", unit="record")  # fmt: skip
    marks: list[float] = []
    train(model, records, plan, optimizer=Sgd(1e-6), loss=pose_loss, prepare=Pictures(),
          speed=Speed(trunk_cache=cache), progress=lambda _: marks.append(time.process_time()))  # fmt: skip
    return min(b - a for a, b in pairwise(marks))
