"""How much a trunk cache saves in table ``pose``: one epoch of each, and the first pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import torch

from benchmarks.pose.fit import SIZE, SPLIT
from benchmarks.pose.grid import EPOCHS, HEAD, LAST_STAGE, Task, starting_model
from benchmarks.pose.models import before_last_stage, fresh, train_after, train_norms
from sfumato.data import ArrayRecords
from sfumato.learn import PictureInput, PoseLoss, Sgd, Speed, keep_freed_memory, plan_for, train
from sfumato.models import PoseNet, cut, freeze_batchnorm, run

PAPERS_SIZE = (256, 192)
_FEW = 16


def speeds(task: Task, quick: bool = False) -> dict[str, Any]:
    """Seconds of the first pass, of an epoch with the cache, and of one without; DP-SGD.

    Seconds of the processor in one thread, so that a busy machine and waiting threads do not show.
    """
    keep_freed_memory()  # as ``sfumato train`` does
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {"rows": _rows(task, quick)}
    finally:
        torch.set_num_threads(threads)


def _rows(task: Task, quick: bool) -> list[dict[str, Any]]:
    many, few = (8, 4) if quick else (64, 16)
    small, large = (_first(task.private, many, size) for size in (SIZE, PAPERS_SIZE))
    strong, papers = "EfficientNet-Lite0", "TinyViT-5M"
    return [
        _row(f"head alone, {strong}", starting_model(task, HEAD), small),
        _row(f"last stage and head, {strong}", starting_model(task, LAST_STAGE), small),
        _row(f"last stage and head, {papers}", _last_of_tiny_vit(SIZE), small),
        _row(f"last stage and head, {papers}", _last_of_tiny_vit(PAPERS_SIZE), large),
        _row(
            f"as published: last stage, all layer norms and head, {papers}",
            _as_published(),
            _first(task.private, few, PAPERS_SIZE),
        ),
    ]


def _first(records: ArrayRecords, count: int, size: tuple[int, int]) -> ArrayRecords:
    """The first crops at another size; their joints stay where they are: it is time that counts."""
    x = [cv2.resize(picture, size[::-1]) for picture in records.x[:count]]
    return ArrayRecords(np.stack(x), records.y[:count])


def _as_published() -> PoseNet:
    """The first three stages frozen but for their layer norms: only stem and first stage cache."""
    model = _last_of_tiny_vit(PAPERS_SIZE)
    train_norms(model)
    return model


def _last_of_tiny_vit(size: tuple[int, int]) -> PoseNet:
    model = freeze_batchnorm(fresh("tiny-vit-5m", size=size)).eval()
    train_after(model, before_last_stage(model))
    return model


def _row(name: str, model: PoseNet, records: ArrayRecords) -> dict[str, Any]:
    """``at_most`` is what the cache would give if privacy were free: the part that trains would
    still take a plain forward and backward pass."""
    first = _first_pass(model, records)
    later = _epoch(model, records, cache=True)
    without = _epoch(model, records, cache=False)
    plain = _plain_epoch(model, records)
    return {
        "name": name,
        "size": list(records.x.shape[1:3]),
        "records": len(records),
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "cached_steps": len(cut(model)[0]),
        "first_pass": first,
        "epoch_with": later,
        "epoch_without": without,
        "epoch_plain": plain,
        "faster": EPOCHS * without / (first + EPOCHS * later),
        "at_most": EPOCHS * (without - later + plain) / (first + EPOCHS * plain),
    }


def _first_pass(model: PoseNet, records: ArrayRecords) -> float:
    """What filling the cache takes: the frozen beginning, one record at a time, as the cache does."""
    trunk, prepare = cut(model)[0], PictureInput()
    inputs = [prepare(x, 1)[None] for x in records.x]

    def fill() -> None:
        with torch.no_grad():
            for each in inputs:
                run(trunk, each)

    return _shorter(fill)


def _plain_epoch(model: PoseNet, records: ArrayRecords) -> float:
    """Forward and backward of the part that trains, without a promise, on features that are there; few
    records at a time, so that what they need stays in the processor's own memory."""
    trunk, tail = cut(model)
    prepare, loss = PictureInput(), _loss(records)
    with torch.no_grad():
        features = torch.cat([run(trunk, prepare(x, 1)[None]) for x in records.x])
    joints = torch.as_tensor(records.y)

    def learn() -> None:
        for some, theirs in zip(torch.split(features, _FEW), torch.split(joints, _FEW)):
            loss(run(tail, some), theirs).sum().backward()  # type: ignore[no-untyped-call]

    return _shorter(learn)


def _shorter(work: Callable[[], None]) -> float:
    """Seconds of the processor, the shorter of two times, after one that is not measured."""
    marks = []
    for _ in range(3):
        work()
        marks.append(time.process_time())
    return min(b - a for a, b in pairwise(marks))


def _loss(records: ArrayRecords) -> PoseLoss:
    return PoseLoss(round(SPLIT * records.x.shape[2]), SPLIT)


def _epoch(model: PoseNet, records: ArrayRecords, *, cache: bool) -> float:
    """The shorter of two epochs after a first one, which fills the cache and chooses a route. A batch
    is all records, so every record meets the cache in the first step."""
    plan = plan_for("dp-sgd", records=len(records), batch=len(records), steps=3, epsilon=8.0,
                    delta=1e-4, clip_norm=1.0, relation="replace", unit="record")  # fmt: skip
    marks: list[float] = []
    train(model, records, plan, optimizer=Sgd(1e-6), loss=_loss(records), prepare=PictureInput(),
          speed=Speed(trunk_cache=cache), progress=lambda _: marks.append(time.process_time()))  # fmt: skip
    return min(b - a for a, b in pairwise(marks))
