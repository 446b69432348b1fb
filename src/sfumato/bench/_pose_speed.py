"""How much a trunk cache saves in table ``pose``: one epoch of each, and the first pass."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from torch import nn

from sfumato.bench._pose_fit import pose_loss
from sfumato.bench._pose_grid import EPOCHS, HEAD, LAST_STAGE, Task, starting_model
from sfumato.bench._pose_models import fresh
from sfumato.data import ArrayRecords
from sfumato.learn import Pictures, Sgd, Speed, plan_for, train
from sfumato.models import PoseNet, cut, freeze_batchnorm


def speeds(task: Task, quick: bool = False) -> dict[str, Any]:
    """Seconds of a first epoch, of a later one with the cache, and of one without; DP-SGD."""
    count = 8 if quick else 64
    records = ArrayRecords(task.private.x[:count], task.private.y[:count])
    return {
        "records": count,
        "rows": [
            _row("head alone, EfficientNet-Lite0", starting_model(task, HEAD), records),
            _row("last stage and head, EfficientNet-Lite0", starting_model(task, LAST_STAGE), records),
            _row("as published: last stage, all layer norms and head, TinyViT-5M",
                 _as_published(), records),
        ],
    }  # fmt: skip


def _as_published() -> PoseNet:
    """The first three stages frozen but for their layer norms: only stem and first stage cache."""
    model = freeze_batchnorm(fresh("tiny-vit-5m")).eval()
    model.requires_grad_(False)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.requires_grad_(True)
    for step in model.steps():
        if step.name.startswith(("backbone.stages.3", "head")):
            for part in step.modules:
                part.requires_grad_(True)
    return model


def _row(name: str, model: PoseNet, records: ArrayRecords) -> dict[str, Any]:
    first, later = _epochs(model, records, cache=True, epochs=3)
    _, plain = _epochs(model, records, cache=False, epochs=2)
    with_cache, without = first + (EPOCHS - 1) * later, EPOCHS * plain
    return {
        "name": name,
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "cached_steps": len(cut(model)[0]),
        "first_epoch": first,
        "later_epoch": later,
        "epoch_without": plain,
        "faster": without / with_cache,
    }


def _epochs(
    model: PoseNet, records: ArrayRecords, *, cache: bool, epochs: int
) -> tuple[float, float]:
    """The first epoch's time, and the shortest later one's. A batch is all records, so that every
    record meets the cache in the first step."""
    plan = plan_for("dp-sgd", records=len(records), batch=len(records), steps=epochs, epsilon=8.0,
                    delta=1e-4, clip_norm=1.0, relation="replace", unit="record")  # fmt: skip
    marks = [time.monotonic()]
    train(model, records, plan, optimizer=Sgd(1e-6), loss=pose_loss, prepare=Pictures(),
          speed=Speed(trunk_cache=cache), progress=lambda _: marks.append(time.monotonic()))  # fmt: skip
    spans = [b - a for a, b in pairwise(marks)]
    return spans[0], min(spans[1:])
