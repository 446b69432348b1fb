"""One private step with three switches: public view, clips, projector.

    private: poisson-sample -> gradients -> clip -> sum -> noise -> divide by q N -> (project)
    public:  an independent draw -> gradient of the public view -> mean
    step  =  private + public

Every method of the papers is this step with other switches, so there is one proof and one place
where noise is added.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.data import Records
from sfumato.learn._plan import Plan, PlanError, verified
from sfumato.learn._projector import Projector
from sfumato.learn.engine._banded import CorrelatedNoise, Turns, variance_of
from sfumato.learn.engine._clipped import check_rows, clipped_rows
from sfumato.learn.engine._noise import GaussianNoise, flatten, unflatten
from sfumato.learn.engine._persons import clipped_persons, mean_loss_and_gradient
from sfumato.learn.engine._ranks import Team
from sfumato.learn.engine._routes import Loss, Rows, Sums, by_loop, record_losses
from sfumato.learn.engine._sampling import Indices, PoissonSampler, PublicSampler
from sfumato.learn.engine._speed import Speed
from sfumato.learn.engine._streams import Streams
from sfumato.learn.engine._unwritten import unwritten
from sfumato.learn.engine._validate import check_layers, check_precision, trainable
from sfumato.models import device_of
from sfumato.privacy import Randomness

# What must stay with the operator: realised batch size, norms (R4).
Operator = Callable[[dict[str, Any]], None]
_RECORDS_AT_A_TIME = 16
# Steps between two comparisons of a real batch with the loop over records, on average; and how much
# larger than all before it a batch is that is compared whenever it comes.
_STEPS_BETWEEN_CHECKS, _LARGER = 128, 1.25


@dataclass(frozen=True)
class Released:
    """What leaves the private scope in one step: the noised gradient and the noise's variance.

    ``public_loss`` is the mean loss of the public view, where there is one.
    """

    gradient: Sums
    noise_variance: Sums
    public_loss: float | None = None


class StepEngine:
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
        tell_loss: Callable[[float], None] | None = None,
        first: int = 0,
    ) -> None:
        """``units`` are the records of each sampled unit: one each, or all of a person. ``first`` steps
        of the run were taken before.

        ``tell_loss`` is told the mean loss of the drawn private records: an unaccounted disclosure.
        """
        plan = verified(plan)
        if type(randomness) is not Randomness:
            raise PlanError(
                f"Expected a Randomness itself, got {type(randomness).__name__}: noise that another "
                "class makes is not covered by any guarantee."
            )
        self._model, self._loss, self._plan = model, loss, plan
        self._streams, self._units, self._speed = streams, units, speed
        self._team, self._operator, self._tell_loss = team or Team(), operator, tell_loss
        # one key each: private sampler, public sampler and noise never share a generator
        self._private: PoissonSampler | Turns = (
            Turns(plan.slots, len(units), first)
            if plan.bands
            else PoissonSampler(plan.sampling_rate, len(units), randomness)
        )
        self._public = PublicSampler(plan.batch, records, randomness)
        self._noise = (
            CorrelatedNoise(randomness, plan.bands) if plan.bands else GaussianNoise(randomness)
        )
        self._projector: Projector | None = None
        self._coming: Indices | None = None
        self._taken = self._next_check = self._largest_checked = 0
        check_layers(model)
        check_precision(trainable(model), speed.mixed_precision)

    def take(self) -> Released:
        """The next step's gradient. The model's parameters are not moved, not even by the model."""
        with unwritten(self._model, trainable_only=True):
            return self._take()

    def _take(self) -> Released:
        plan, team = self._plan, self._team
        parameters = trainable(self._model)
        drawn = self._draw()
        device = device_of(self._model)
        gradient = torch.zeros(sum(p.numel() for p in parameters.values()), device=device)
        variance = torch.zeros((), device=device).expand(gradient.shape)
        public_loss = None
        if plan.epsilon > 0:
            if self._tell_loss is not None:
                self._tell_loss(self._private_loss(drawn))
            gradient = team.add_up(flatten(self._clipped(team.share(drawn))))
            if plan.is_private and team.is_rank_zero:
                # drawn from the keystream by the CPU, whatever the device (R15)
                noise = self._noise.draw(gradient.numel()).to(device)
                gradient = gradient.add_(noise, alpha=plan.noise_deviation)
            gradient = gradient.div_(plan.divisor)
            spread = (plan.noise_deviation / plan.divisor) ** 2
            if plan.bands:
                spread *= variance_of(plan.bands, self._taken)
            variance = torch.tensor(spread, device=device).expand(gradient.shape)
            team.follow([gradient])
            if plan.projector is not None:
                projector = self._current_projector()
                gradient = projector(gradient)
                variance = variance * projector.energy()
        if plan.public_view is not None:
            public_loss, mean = self._public_mean(drawn)
            gradient = gradient + mean
        self._taken += 1
        return Released(
            unflatten(gradient, parameters), unflatten(variance, parameters), public_loss
        )

    def _draw(self) -> Indices:
        """Rank 0's sample, known to every rank and to nobody else.

        Where records are read ahead, the sample of the next step is drawn now: one sampler draws one
        sample a step, in the same order, so that nothing changes but when they are read.
        """
        drawn = self._coming if self._coming is not None else self._sample()
        if self._streams.reads_ahead and self._taken + 1 < self._plan.steps:
            self._coming = self._sample()
            for unit in self._team.share(self._coming):
                self._streams.expect(self._units[int(unit)])
        else:
            self._coming = None
        return drawn

    def _sample(self) -> Indices:
        return self._team.agree(self._private.draw() if self._team.is_rank_zero else None)

    def _clipped(self, drawn: Indices) -> Sums:
        """The sum of clipped gradients of the drawn units; zeros when nobody was drawn."""
        plan, model = self._plan, self._model
        clip_norm = plan.clip_norm if plan.is_private else math.inf
        if plan.by_person:
            # those with as many records one after the other: they share passes
            units = sorted((self._units[int(i)] for i in drawn), key=len)
            persons = (self._streams.private(unit) for unit in units)
            sums, norms = clipped_persons(
                model, self._loss, persons, clip_norm, self._speed, self._check
            )
        else:
            rows = self._streams.private([self._units[int(i)][0] for i in drawn])
            if rows is None:
                sums = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
                norms = torch.zeros(0)
            else:
                self._check(rows)
                sums, norms = clipped_rows(model, self._loss, rows, clip_norm, self._speed)
        if self._operator is not None:
            clipped = float((norms > clip_norm).float().mean()) if len(norms) else 0.0
            self._operator({"step": self._taken, "sampled": len(drawn), "clipped": clipped,
                            "mean_norm": float(norms.mean()) if len(norms) else 0.0})  # fmt: skip
        return sums

    def _check(self, rows: Rows) -> None:
        """At random steps, and where a batch is the largest yet: are its records kept apart?

        The look before the first step sees five made-up records; a layer may behave otherwise with
        more, later, or on other values.
        """
        plan = self._plan
        larger = rows.records > _LARGER * self._largest_checked
        if not plan.is_private or not (larger or self._taken >= self._next_check):
            return
        if check_rows(self._model, self._loss, rows, plan.clip_norm, self._speed):
            self._largest_checked = max(self._largest_checked, rows.records)
            pause = random.SystemRandom().expovariate(1 / _STEPS_BETWEEN_CHECKS)
            self._next_check = self._taken + 1 + int(pause)

    def _private_loss(self, drawn: Indices) -> float:
        """Mean loss of the drawn private records, from a forward pass of its own; NaN for nobody."""
        own = [index for unit in self._team.share(drawn) for index in self._units[int(unit)]]
        total, count = 0.0, 0
        with torch.no_grad():
            for start in range(0, len(own), _RECORDS_AT_A_TIME):
                rows = self._streams.private(own[start : start + _RECORDS_AT_A_TIME])
                if rows is not None:
                    total += float(record_losses(self._model, self._loss, rows).sum())
                    count += rows.records
        both = self._team.add_up(torch.tensor([total, float(count)], dtype=torch.float64))
        return float(both[0] / both[1])

    def _public_mean(self, private: Indices) -> tuple[float, Tensor]:
        """Mean loss and gradient of the public view over an independent draw.

        As published, the draw is the private one.
        """
        team, plan = self._team, self._plan
        if plan.as_published:
            drawn = private
        else:
            drawn = team.agree(self._public.draw() if team.is_rank_zero else None)
        own = team.share(drawn)
        rows = self._streams.public(own) if len(own) else None
        parameters = trainable(self._model)
        size = sum(p.numel() for p in parameters.values())
        total, loss = torch.zeros(size, device=device_of(self._model)), 0.0
        if rows is not None:
            loss, mean = mean_loss_and_gradient(self._model, self._loss, rows, self._speed)
            share = rows.records / max(1, len(drawn))
            total, loss = flatten(mean) * share, loss * share
        return float(team.add_up(torch.tensor([loss]))), team.add_up(total)

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
    """What is sampled: records, or persons with their records."""
    if plan.by_person:
        assert owners is not None
        return owners
    return [(index,) for index in range(len(records))]
