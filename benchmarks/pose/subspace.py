"""Why projection helps or hurts in table ``pose``: how much of a private gradient a subspace keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.pose.fit import pose_loss, prepared
from benchmarks.pose.grid import HEAD, RANK, Task, starting_model
from sfumato.data import ArrayRecords
from sfumato.learn import Projector
from sfumato.models import cut, run


def captured(task: Task, count: int = 100) -> dict[str, Any]:
    """Shares of the energy of the mean private gradient that lie in the span of public gradients.

    ``staged`` people span it here; ``own`` is the paper's choice, other pictures of the private set,
    which would then have no protection. ``noise`` is the share of the noise that is left.
    """
    private, others = (
        ArrayRecords(task.private.x[start::2][:count], task.private.y[start::2][:count])
        for start in (0, 1)
    )
    mean = _gradients(task, private).mean(0)
    spans = {"staged": task.public, "own": others}
    found: dict[str, Any] = {"rank": RANK, "gradients": len(private)}
    for name, records in spans.items():
        gradients = _gradients(task, records)
        projector = Projector(gradients, min(RANK, len(gradients)))
        found[name] = float(projector(mean).square().sum() / mean.square().sum())
        found["noise"] = float(projector.energy().sum() / len(mean))
    return found


def _gradients(task: Task, records: ArrayRecords) -> Tensor:
    """(records, p): the head's gradient of each record before any private step."""
    model = starting_model(task, HEAD)
    trunk, parameters = cut(model)[0], list(model.head.parameters())
    rows = []
    for x, y in zip(records.x, records.y):
        with torch.no_grad():
            features = run(trunk, prepared(x[None]))
        loss = pose_loss(model.head(features), torch.from_numpy(y[None])).sum()
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]))
    return torch.stack(rows)
