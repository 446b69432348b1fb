"""One private step with three switches: public view, clips, projector.

    private: poisson-sample -> gradients -> clip -> sum -> noise -> divide by q N -> (project)
    public:  an independent draw -> gradient of the public view -> mean
    step  =  private + public

Every method of the papers is this step with other switches, so there is one proof and one place
where noise is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.data import Records
from sfumato.learn._clipped import clipped_rows
from sfumato.learn._noise import GaussianNoise, flatten, unflatten
from sfumato.learn._persons import clipped_persons, mean_gradient
from sfumato.learn._plan import Plan
from sfumato.learn._projector import Projector
from sfumato.learn._routes import Loss, Rows, Sums, by_loop
from sfumato.learn._sampling import Indices, PoissonSampler, PublicSampler
from sfumato.learn._speed import Speed
from sfumato.learn._streams import Streams
from sfumato.learn._team import Team
from sfumato.learn._validate import check_layers, trainable
from sfumato.privacy import Randomness

# What must stay with the operator: realised batch size, norms (R4).
Operator = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Released:
    """What leaves the private scope in one step: the noised gradient and the noise's variance."""

    gradient: Sums
    noise_variance: Sums


class PrivateStep:
    """Draws, clips, sums, noises, divides and projects. Nothing else sees private gradients."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        plan: Plan,
        streams: Streams,
        units: list[tuple[int, ...]],
        records: int,
        *,
        randomness: Randomness,
        speed: Speed,
        team: Team | None = None,
        operator: Operator | None = None,
    ) -> None:
        """``units`` are the records of each sampled unit: one each, or all of a person."""
        self._model, self._loss, self._plan = model, loss, plan
        self._streams, self._units, self._speed = streams, units, speed
        self._team, self._operator = team or Team(), operator
        # one key each: private coins, public coins and noise never share a generator
        self._private = PoissonSampler(plan.sampling_rate, len(units), randomness)
        self._public = PublicSampler(plan.batch, records, randomness)
        self._noise = GaussianNoise(randomness)
        self._projector: Projector | None = None
        self._taken = 0
        check_layers(model)

    def take(self) -> Released:
        """The next step's gradient. The model's parameters are not moved."""
        plan, team = self._plan, self._team
        parameters = trainable(self._model)
        drawn = self._draw()
        gradient = torch.zeros(sum(p.numel() for p in parameters.values()))
        variance = torch.zeros(()).expand(gradient.shape)
        if plan.epsilon > 0:
            gradient = team.add_up(flatten(self._clipped(team.share(drawn))))
            if plan.is_private and team.leads:
                noise = self._noise.draw(gradient.numel())
                gradient = gradient.add_(noise, alpha=plan.noise_deviation)
            gradient = gradient.div_(plan.divisor)
            variance = torch.tensor((plan.noise_deviation / plan.divisor) ** 2).expand(
                gradient.shape
            )
            team.follow([gradient])
            if plan.projector is not None:
                projector = self._current_projector()
                gradient = projector(gradient)
                variance = variance * projector.energy()
        if plan.public_view is not None:
            gradient = gradient + self._public_mean(drawn)
        self._taken += 1
        return Released(unflatten(gradient, parameters), unflatten(variance, parameters))

    def _draw(self) -> Indices:
        """Rank 0's coins, known to every rank and to nobody else."""
        return self._team.agree(self._private.draw() if self._team.leads else None)

    def _clipped(self, drawn: Indices) -> Sums:
        """The sum of clipped gradients of the drawn units; zeros when nobody was drawn."""
        plan, model = self._plan, self._model
        clip_norm = plan.clip_norm if plan.is_private else math.inf
        if plan.by_person:
            persons = (self._streams.private(self._units[int(i)]) for i in drawn)
            sums, norms = clipped_persons(model, self._loss, persons, clip_norm, self._speed)
        else:
            rows = self._streams.private([self._units[int(i)][0] for i in drawn])
            if rows is None:
                sums = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
                norms = torch.zeros(0)
            else:
                sums, norms = clipped_rows(model, self._loss, rows, clip_norm, self._speed)
        if self._operator is not None:
            clipped = float((norms > clip_norm).float().mean()) if len(norms) else 0.0
            self._operator({"step": self._taken, "sampled": len(drawn), "clipped": clipped,
                            "mean_norm": float(norms.mean()) if len(norms) else 0.0})  # fmt: skip
        return sums

    def _public_mean(self, private: Indices) -> Tensor:
        """Mean gradient of the public view over an independent draw (or, as published, the same)."""
        team, plan = self._team, self._plan
        if plan.as_published:
            drawn = private
        else:
            drawn = team.agree(self._public.draw() if team.leads else None)
        own = team.share(drawn)
        rows = self._streams.public(own) if len(own) else None
        parameters = trainable(self._model)
        total = torch.zeros(sum(p.numel() for p in parameters.values()))
        if rows is not None:
            mean = mean_gradient(self._model, self._loss, rows, self._speed)
            total = flatten(mean) * (rows.records / max(1, len(drawn)))
        return team.add_up(total)

    def _current_projector(self) -> Projector:
        """Found from public records and the current parameters alone, every ``refresh`` steps."""
        subspace = self._plan.projector
        assert subspace is not None
        if self._projector is None or self._taken % subspace.refresh == 0:
            rows = self._streams.clear(subspace.public)
            assert rows is not None
            gradients = record_gradients(self._model, self._loss, rows)
            self._projector = Projector(gradients, subspace.rank)
        return self._projector


def record_gradients(model: nn.Module, loss: Loss, rows: Rows) -> Tensor:
    """(records, p): unclipped gradients of *public* records, one by one."""
    parameters = trainable(model)
    singles = [
        flatten(by_loop(model, loss, rows.some(i, i + 1), math.inf, parameters)[0])
        for i in range(rows.records)
    ]
    return torch.stack(singles)


def units_of(plan: Plan, records: Records, owners: list[tuple[int, ...]] | None) -> list[Any]:
    """What the coins are tossed for: records, or persons with their records."""
    if plan.by_person:
        assert owners is not None
        return owners
    return [(index,) for index in range(len(records))]
