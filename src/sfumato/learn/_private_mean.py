"""The mean of private records, as one noisy step: a cheap centre for features that came from elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sfumato.learn._optimizers import Sgd
from sfumato.learn._plan import Plan, PlanError
from sfumato.learn._trainer import Run, train


class _Centre(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.centre = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) - self.centre


def _half_square(output: Tensor, _: Tensor) -> Tensor:
    return 0.5 * output.square().sum(1)


def private_mean(records: Any, width: int, plan: Plan, **more: Any) -> tuple[Tensor, Run]:
    """(mean, run): the mean of records of ``width`` numbers, each clipped to ``plan.clip_norm``.

    It is one step of gradient descent on half the squared distance from zero, with every record in
    it, so plan, noise, units and guarantee are those of a training. Whoever goes on with the mean
    passes ``StartingWeights(run.trainings, known=True)`` as ``start``, and both are composed.
    """
    if plan.steps != 1 or plan.batch != plan.records or plan.public_view is not None:
        raise PlanError(
            "Expected a plan of one step with every record in it and no public view for a mean, got "
            f"{plan.steps} steps and a batch of {plan.batch} out of {plan.records}."
        )
    model = _Centre(width)
    run = train(model, records, plan, loss=_half_square, optimizer=Sgd(1.0), **more)
    return model.centre.detach().clone(), run
