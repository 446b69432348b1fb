"""A training loop of one's own: the private step as an object, everything around it is yours.

    step = PrivateStep(model, loss, plan)
    for batch in step.batches(records):
        step(batch)
    print(step.guarantee)

A batch is a ticket and holds nobody: who takes part is drawn inside, by the plan's own coins, when
the step is taken. So there is no way to pass a batch of one's own, to learn its size, or to take
more steps than the plan has noise for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from torch import nn

from sfumato.learn._as_records import Owners, as_records
from sfumato.learn._optimizers import Sgd
from sfumato.learn._past_of_models import remember, with_past
from sfumato.learn._plan import Plan, verified
from sfumato.learn._sampled_units import (
    TrainingError,
    assumed_about,
    sampled_units,
    usual_preparation,
)
from sfumato.learn._starting_weights import PastTraining, StartingWeights
from sfumato.learn._trainer import Progress, Run, cross_entropy
from sfumato.learn._updates import AnyOptimizer, SchedulerFactory, updates_for
from sfumato.learn.engine._ranks import Team
from sfumato.learn.engine._routes import Loss
from sfumato.learn.engine._speed import Speed
from sfumato.learn.engine._step import StepEngine
from sfumato.learn.engine._streams import Streams
from sfumato.learn.engine._unwritten import unwritten
from sfumato.learn.engine._validate import check_layers, check_precision, trainable
from sfumato.learn.views._prepare import Preparation
from sfumato.privacy import (
    SEEDED,
    Guarantee,
    NoGuarantee,
    Randomness,
    epsilon_of,
    new_run_id,
    plain_count,
)

_OWN_PROGRAM = (
    "between steps the program moved parameters by released gradients and public data alone, and "
    "showed or kept nothing else about the records"
)
_RESUMED = "the run went on from its last saved state, and from that only once"


@dataclass(frozen=True, eq=False)
class DrawnBatch:
    """A ticket for one step. Who was drawn stays inside, and so does how many."""

    step: PrivateStep
    number: int

    def __iter__(self) -> NoReturn:
        raise TrainingError(
            "Expected step(batch) with the batch as it is, got an attempt to read it: who was drawn, and how "
            "many, stays inside the private step."
        )


@dataclass
class _Tally:
    """What a model has been through in this program, kept for as long as the model lives."""

    plan: Plan
    run: str
    record: str
    taken: int = 0
    seeded: bool = False

    @property
    def promise(self) -> Guarantee | NoGuarantee:
        own = self.plan.guarantee
        return replace(own, randomness=SEEDED) if self.seeded else own

    def past(self) -> PastTraining | None:
        return PastTraining(self.run, self.promise, self.record) if self.taken else None


class PrivateStep:
    """Takes the plan's steps one by one, each when it is called with a batch of ``batches``.

    **Guarantee** (``.guarantee``): that of the whole plan, from the first step on. It holds however
    the program comes to stop: a run that is cut short by what its model shows is a part of the whole
    run, while an epsilon of the steps taken so far (``epsilon_so_far``) is true only where their
    number was fixed beforehand.

    | case | result |
    | --- | --- |
    | a batch that ``batches`` did not give, or one used twice | refused |
    | more steps than the plan has, through however many iterators | refused |
    | other records than the first time | refused |
    | an error in the middle of a step | the step counts |
    | several PrivateSteps on one model | their epsilons are composed |
    | a copy, or a fork of the process | refused: it would draw the same noise |
    | a seeded ``randomness``, also behind a resumed state | not private |
    | a model that writes into its parameters or buffers, batch norm that was switched on | refused |

    ``optimizer`` and ``scheduler`` are as in ``train``; with ``optimizer=None`` the released gradient
    is left in each parameter's ``.grad`` for the program's own. ``on_step`` is told what is public.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss = cross_entropy,
        plan: Plan | None = None,
        *,
        optimizer: AnyOptimizer | None = Sgd(),  # noqa: B008 - frozen
        scheduler: SchedulerFactory | None = None,
        on_step: Callable[[Progress], None] | None = None,
        prepare: Preparation | None = None,
        speed: Speed = Speed(),  # noqa: B008 - frozen
        randomness: Randomness | None = None,
        start: StartingWeights = StartingWeights(),  # noqa: B008 - frozen
        what_a_record_is: str = "",
    ) -> None:
        if plan is None:
            raise TrainingError("Expected a plan, got none: PrivateStep(model, loss, plan).")
        if plan.bands:
            raise TrainingError(
                "Expected a plan without bands in a loop of one's own, got one with: turns are kept "
                "through restarts by train()."
            )
        self._model, self._loss, self._plan = model, loss, verified(plan)
        self._prepare, self._speed, self._on_step = prepare, speed, on_step
        self._randomness = randomness or Randomness()
        self._start, self._team = start, Team()
        if optimizer is None and scheduler is not None:
            raise TrainingError(
                "Expected a scheduler with an optimizer, got one alone: step your own after step(batch)."
            )
        self._updates = None if optimizer is None else updates_for(model, optimizer, scheduler)
        self._tally = _Tally(self._plan, new_run_id(), what_a_record_is)
        self._tally.seeded = not self._randomness.private
        self._given: tuple[Any, ...] | None = None
        self._engine: StepEngine | None = None
        self._assumed: tuple[str, ...] = ()
        self._issued: set[DrawnBatch] = set()
        self._numbers, self._process = 0, os.getpid()
        _ = self.guarantee  # refuses starting weights before anything private is opened
        remember(model, self._tally.past)

    def batches(
        self, records: Any, owners: Owners | None = None, *, shared_records: str = "refuse"
    ) -> Iterator[DrawnBatch]:
        """The steps that are left, one ticket each; ``records`` and ``owners`` are as in ``train``."""
        given = tuple(records) if isinstance(records, (tuple, list)) else (records,)
        if self._given is None:
            self._open(as_records(records, owners), shared_records)
            self._given = given
        elif len(given) != len(self._given) or any(a is not b for a, b in zip(given, self._given)):
            raise TrainingError(
                "Expected the records that the first batches came from, got others: make another "
                "PrivateStep for them."
            )
        if self.steps_left == 0:
            raise self._all_taken()
        return self._tickets()

    def _open(self, records: Any, shared_records: str) -> None:
        plan, model, team = self._plan, self._model, self._team
        units = sampled_units(plan, records, team, shared=shared_records)
        prepare = self._prepare or usual_preparation(records)
        self._engine = StepEngine(
            model, self._loss, plan, Streams(model, records, plan, prepare), units, len(records),
            randomness=self._randomness, speed=self._speed, team=team,
        )  # fmt: skip
        self._assumed += assumed_about(records)
        team.follow(p.data for p in (*model.parameters(), *model.buffers()))

    def _tickets(self) -> Iterator[DrawnBatch]:
        while self.steps_left > 0:
            self._numbers += 1
            ticket = DrawnBatch(self, self._numbers)
            self._issued.add(ticket)
            yield ticket

    def __call__(self, batch: DrawnBatch) -> Progress:
        """Take one step: draw, clip, sum, add noise, move the parameters; what of it is public."""
        if not isinstance(batch, DrawnBatch) or batch not in self._issued:
            raise TrainingError(
                "Expected a batch that step.batches(records) gave and that was not used yet, got "
                f"{'a used or foreign one' if isinstance(batch, DrawnBatch) else type(batch).__name__}: "
                "epsilon counts on how batches are drawn, so each is drawn inside, for one step."
            )
        if self.steps_left == 0:
            raise self._all_taken()
        assert self._engine is not None
        if os.getpid() != self._process:
            raise TrainingError(
                "Expected a step in the process that made its PrivateStep, got a fork of it: both "
                "would draw the same noise. Make it where it is used."
            )
        check_layers(self._model)
        check_precision(trainable(self._model))
        self._issued.discard(batch)
        number = self._tally.taken
        self._tally.taken += 1  # before anything is drawn: what fails half-way counts
        with unwritten(self._model):
            released = self._engine.take()
        rate = None
        if self._updates is not None:
            gradient, noise = released.gradient, released.noise_variance
            rate = self._updates.follow(gradient, noise, number, self._plan.steps)
        else:
            for parameter in self._model.parameters():
                parameter.grad = None
            for name, parameter in trainable(self._model).items():
                parameter.grad = released.gradient[name].to(parameter.dtype)
        shown = Progress(number + 1, self._plan.steps, rate=rate, public_loss=released.public_loss)
        if self._on_step is not None and self._team.is_rank_zero:
            self._on_step(shown)
        return shown

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """A copy would draw the same noise again and count its steps for itself."""
        raise TrainingError(
            "Expected one PrivateStep for a run, got a request to copy it: copy the model, or save "
            "state_dict() to go on later."
        )

    @property
    def steps_taken(self) -> int:
        return self._tally.taken

    @property
    def steps_left(self) -> int:
        return max(0, self._plan.steps - self._tally.taken)

    @property
    def epsilon_so_far(self) -> float | None:
        """Epsilon of the steps taken, if their number was fixed beforehand; None without noise.

        With what the model went through before. Not for a run that was stopped by looking: see
        ``guarantee``.
        """
        if not self._plan.is_private:
            return None
        event = self._whole.before(self._plan.event_after(self._tally.taken))
        return epsilon_of(event, self._plan.delta, self._plan.relation, "pld")

    @property
    def guarantee(self) -> Guarantee | NoGuarantee:
        """What may be said about the model as it is now."""
        return self._whole.together(self._own, self._tally.record)

    @property
    def run(self) -> Run:
        """For ``save_model``: the model with everything that it has been through."""
        start = self._whole
        made = PastTraining(self._tally.run, start.alone(self._own), self._tally.record)
        return Run(self._model, self.guarantee, (*start.trainings, made))

    @property
    def _own(self) -> Guarantee | NoGuarantee:
        promise, tally = self._tally.promise, self._tally
        if isinstance(promise, Guarantee):
            steps = (
                f"that {tally.taken} of {self._plan.steps} steps were taken (epsilon is that of all, so "
                "it holds however the program came to stop)"
            )
            promise = replace(promise, public=(*promise.public, steps))
        return replace(promise, assumptions=(*promise.assumptions, _OWN_PROGRAM, *self._assumed))

    @property
    def _whole(self) -> StartingWeights:
        """The starting weights, and what other steps of this program have made of the model."""
        return with_past(self._start, self._model, without=self._tally.run)

    # -- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """How far the plan is spent; to be saved beside the model's and the optimizer's own state."""
        told = self._tally
        return {
            "plan": told.plan.digest, "run": told.run, "taken": told.taken, "seeded": told.seeded,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a saved run stopped: steps that were taken stay taken, a seed stays a seed."""
        if state.get("plan") != self._plan.digest:
            raise TrainingError(
                "Expected the state of a run with this plan, got another's: a resumed run keeps its "
                "promise only with the same plan."
            )
        taken, run = plain_count(state.get("taken")), state.get("run")
        if taken is None or taken < 0 or not isinstance(run, str) or not run:
            raise TrainingError(
                "Expected the state that state_dict() gave, got something else: what the run has spent "
                "is unknown, so it cannot go on."
            )
        self._tally.run, self._tally.taken = run, self._tally.taken + taken
        self._tally.seeded = self._tally.seeded or state.get("seeded") is not False
        if _RESUMED not in self._assumed:
            self._assumed = (*self._assumed, _RESUMED)

    def _all_taken(self) -> TrainingError:
        return TrainingError(
            f"Expected at most {self._plan.steps} steps, as the plan says, got another: its noise is "
            "measured for that many. Plan more steps from the start, or train further from a saved "
            "model (StartingWeights), which composes both."
        )
