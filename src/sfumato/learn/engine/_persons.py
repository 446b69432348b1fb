"""Unit person: all records of a sampled owner are one contribution, clipped together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from sfumato.learn.engine._clipped import micro_batch
from sfumato.learn.engine._probe import choose
from sfumato.learn.engine._routes import Loss, Rows, Sums, add_clipped, record_losses
from sfumato.learn.engine._speed import Route, Speed
from sfumato.learn.engine._validate import check_layers, check_precision, trainable


def mean_gradient(
    model: nn.Module, loss: Loss, rows: Rows, speed: Speed, *, checked: bool = False
) -> Sums:
    """Gradient of the mean loss over records, a few at a time: nothing is clipped."""
    return mean_loss_and_gradient(model, loss, rows, speed, checked=checked)[1]


def mean_loss_and_gradient(
    model: nn.Module, loss: Loss, rows: Rows, speed: Speed, *, checked: bool = False
) -> tuple[float, Sums]:
    """The mean loss over records as well, from the same passes."""
    parameters = trainable(model)
    check_precision(parameters)
    if not checked:
        check_layers(model)
    choice = choose(model, loss, rows, parameters, Route.LOOP)
    size = micro_batch(choice, speed)
    total, mean = [torch.zeros_like(p) for p in parameters.values()], 0.0
    for start in range(0, rows.records, size):
        piece = rows.some(start, min(start + size, rows.records))
        with torch.enable_grad():
            value = record_losses(model, loss, piece).sum() / rows.records
            found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        mean += float(value.detach())
        for whole, part in zip(total, found):
            if part is not None:
                whole += part
    return mean, dict(zip(parameters, total))


def clipped_persons(
    model: nn.Module, loss: Loss, persons: Iterable[Rows | None], clip_norm: float, speed: Speed
) -> tuple[Sums, Tensor]:
    """Sum over persons of the mean gradient over their records, clipped to ``clip_norm``.

    A person's whole gradient is formed before it is clipped, so a person with a thousand records
    moves the sum no further than a person with one. A person whose gradient is not finite adds
    nothing.
    """
    sums = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
    norms = []
    for rows in persons:
        if rows is None:
            continue
        own = mean_gradient(model, loss, rows, speed)
        norms.append(add_clipped(sums.values(), list(own.values()), clip_norm))
    return sums, torch.stack(norms) if norms else torch.zeros(0)
