"""Training: the private step, repeated as often as the plan says and never more often."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.data import ReadAhead, Records
from sfumato.learn import _checkpoint as checkpoints
from sfumato.learn._as_records import Owners, as_records
from sfumato.learn._checkpoint import CheckpointError, Facts, Journal, TrainingState
from sfumato.learn._held_out import refuse_shared
from sfumato.learn._optimizers import Sgd
from sfumato.learn._past_of_models import remember, with_past
from sfumato.learn._plan import Plan, verified
from sfumato.learn._sampled_units import (
    TrainingError,
    assumed_about,
    sampled_units,
    usual_preparation,
)
from sfumato.learn._scores import Scores, score
from sfumato.learn._starting_weights import PastTraining, StartingWeights
from sfumato.learn._updates import AnyOptimizer, SchedulerFactory, Updates, updates_for
from sfumato.learn.engine._ranks import Team
from sfumato.learn.engine._routes import Loss
from sfumato.learn.engine._speed import Speed
from sfumato.learn.engine._step import Operator, StepEngine
from sfumato.learn.engine._streams import Streams
from sfumato.learn.engine._trunk import TrunkCache, open_trunk
from sfumato.learn.engine._unwritten import FixedState
from sfumato.learn.engine._validate import trainable
from sfumato.learn.views._prepare import Preparation
from sfumato.privacy import SEEDED, Guarantee, NoGuarantee, Randomness, epsilon_of

_GENERATORS_PER_START = 6
_LOG = "the operator's own log of private batch sizes and norms"
_LOSS = "the loss on private records, which the operator asked to see: it is not accounted"


@dataclass(frozen=True)
class Progress:
    """What may be shown while training: steps, epsilon spent, held-out scores, public loss.

    ``private_loss`` is None unless the operator asked for it.
    """

    step: int
    steps: int
    epsilon: float | None = None
    scores: Scores | None = None
    rate: float | None = None
    public_loss: float | None = None
    private_loss: float | None = None

    @property
    def held_out_accuracy(self) -> float | None:
        return None if self.scores is None else self.scores.accuracy


@dataclass
class Run:
    """A finished training: the model, what may be promised about it, and its public history.

    ``trainings`` are all that the model has been through, this one last; ``guarantee`` is about
    the model, so it covers those before as well.
    """

    model: nn.Module
    guarantee: Guarantee | NoGuarantee
    trainings: tuple[PastTraining, ...]
    history: list[dict[str, Any]] = field(default_factory=list)
    lost_steps: int = 0


class SpendHook(Protocol):
    """What counts a training before any noise is drawn (the ledger), and commits it afterwards."""

    def __call__(
        self,
        promise: Guarantee | NoGuarantee,
        run: str,
        *,
        draws: bool,
        earlier: tuple[PastTraining, ...],
    ) -> contextlib.AbstractContextManager[object]:
        """``run`` is the id in the run's journal, ``draws`` is False when nothing is left to draw,
        and ``earlier`` are the trainings of the starting weights, which are counted too."""


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    """One value a record."""
    return F.cross_entropy(output, y, reduction="none")


def train(
    model: nn.Module,
    records: Any,
    plan: Plan,
    *,
    owners: Owners | None = None,
    speed: Speed = Speed(),  # noqa: B008 - frozen
    optimizer: AnyOptimizer = Sgd(),  # noqa: B008 - frozen
    scheduler: SchedulerFactory | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    checkpoint_every: int = 50,
    loss: Loss = cross_entropy,
    prepare: Preparation | None = None,
    held_out: Any = None,
    evaluate_every: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    operator: Operator | None = None,
    show_private_loss: bool = False,
    shared_records: str = "refuse",
    randomness: Randomness | None = None,
    start: StartingWeights = StartingWeights(),  # noqa: B008 - frozen
    what_a_record_is: str = "",
    spend: SpendHook | None = None,
) -> Run:
    """Train ``model`` on ``records`` as ``plan`` says; the model is changed in place.

    ``records`` are records of ``sfumato.data``, a map-style torch data set of pairs, or a pair of
    arrays; for the latter two, ``owners`` names the person of each. ``optimizer`` is one of ours, a
    new one of torch's, or a function of the parameters that makes one, ``scheduler`` a function of
    that; their state is kept in checkpoints.

    Only public things leave: the noised parameters, held-out scores, public loss, the step count.
    Private batch sizes and norms go to ``operator`` alone, and the private loss is shown with
    ``show_private_loss`` alone; both are off by default and named in the guarantee when on.

    With ``checkpoint`` a run survives SIGKILL: call again with ``resume=True``. ``force`` throws
    away an earlier run's checkpoint instead: a new run, with an id and a reservation of its own.
    ``randomness`` with a seed marks the run as not private, through every resume. ``start`` says
    where the model's parameters come from; unsaid, the guarantee assumes that they saw none of
    these records. What this program trained into the model before is composed. ``spend`` is entered
    before any noise is drawn and left before this returns.
    """
    plan, team = verified(plan), Team()
    source = randomness or Randomness()
    if checkpoint_every < 1:
        raise TrainingError(f"Expected checkpoint_every >= 1, got {checkpoint_every}.")
    records = as_records(records, owners)
    prepare = prepare or usual_preparation(records)
    with_past(start, model).together(plan.guarantee, what_a_record_is)
    units = sampled_units(plan, records, team, shared=shared_records)
    if held_out is not None:
        held_out = as_records(held_out)
        refuse_shared(held_out, records, by_person=plan.by_person)
    updates = updates_for(model, optimizer, scheduler)
    with contextlib.ExitStack() as stack:
        path = None if checkpoint is None else Path(checkpoint)
        facts = Facts(plan.digest, with_past(start, model).identity, not source.private)
        anew = force and not resume
        journal, state, memory = _begin(stack, model, start, facts, path, resume, anew, team)
        start = with_past(start, model, without=state.run)
        updates.restore(memory)
        own = replace(plan.guarantee, randomness=SEEDED) if state.seeded else plan.guarantee

        def made(promise: Guarantee | NoGuarantee) -> PastTraining:
            return PastTraining(state.run, start.alone(promise), what_a_record_is)

        if spend is not None and team.is_rank_zero:
            left = state.spent < plan.steps
            stack.enter_context(
                spend(start.alone(own), state.run, draws=left, earlier=start.counted)
            )
        # only now: a budget that refuses this start leaves the run before it as it was
        if anew and path is not None and journal is not None:
            path.unlink(missing_ok=True)
            journal.start(facts)
        if state.seeded and journal is not None:
            journal.mark_seeded()
        for _ in range(_GENERATORS_PER_START * state.starts if not source.private else 0):
            source.generator()  # a seeded run that resumes must not repeat its noise either
        state.starts += 1
        lost = state.spent - state.updates
        cache = stack.enter_context(open_trunk(model, records, plan, prepare, speed))
        ahead = stack.enter_context(ReadAhead(records, speed.read_ahead))
        streams = Streams(model, records, plan, prepare, cache, ahead)
        told: list[float] = []
        # what stops half-way is in the model all the same
        remember(model, lambda: made(own) if state.spent else None)
        step = StepEngine(
            cache.tail if cache else model, loss, plan, streams, units, len(records),
            randomness=source, speed=speed, team=team, operator=operator,
            tell_loss=told.append if show_private_loss else None, first=state.spent,
        )  # fmt: skip
        fixed = FixedState(model)
        team.follow(p.data for p in (*model.parameters(), *model.buffers()))
        every = evaluate_every or max(1, plan.steps // 10)
        asked = {_LOG: operator is not None, _LOSS: show_private_loss}
        state.disclosed = sorted({*state.disclosed, *(said for said, on in asked.items() if on)})
        if state.disclosed and path is not None and team.is_rank_zero:
            # on disk before the first disclosure: a later start names it too, whatever happens
            checkpoints.write(path, {**_named(model), **_prefixed(updates.memory)}, state)
        for number in range(state.spent, plan.steps):
            if journal is not None:
                journal.begin(number + 1)
            public_loss, rate = _update(updates, step, number, plan, cache)
            state.spent, state.updates = number + 1, state.updates + 1
            last = state.spent == plan.steps
            shown = Progress(state.spent, plan.steps)
            if state.spent % every == 0 or last:
                fixed.check()
                shown = _look(model, plan, state.spent, streams, held_out, loss, start)
                state.history.append(_row(shown, public_loss))
            shown = replace(
                shown, rate=rate, public_loss=public_loss, private_loss=told[-1] if told else None
            )
            told.clear()
            if (
                path is not None
                and team.is_rank_zero
                and (last or state.spent % checkpoint_every == 0)
            ):
                checkpoints.write(path, {**_named(model), **_prefixed(updates.memory)}, state)
            if progress is not None and team.is_rank_zero:
                progress(shown)
    own = _with_gaps(own, held_out, state.disclosed, cache)
    own = replace(own, assumptions=(*own.assumptions, *assumed_about(records)))
    trainings = (*start.trainings, made(own))
    return Run(model, start.together(own, what_a_record_is), trainings, state.history, lost)


def _begin(
    stack: contextlib.ExitStack,
    model: nn.Module,
    start: StartingWeights,
    facts: Facts,
    path: Path | None,
    resume: bool,
    anew: bool,
    team: Team,
) -> tuple[Journal | None, TrainingState, dict[str, Tensor]]:
    """A fresh start or an exact continuation; rank 0 alone owns the journal.

    ``anew`` looks at nothing that an earlier run left, and leaves it there for now.
    """
    state = TrainingState(facts.plan, facts.run, facts.seeded)
    memory: dict[str, Tensor] = {}
    if path is None:
        return None, state, memory
    journal, spent = stack.enter_context(Journal(path)) if team.is_rank_zero else None, 0
    if anew:
        return journal, state, memory
    if path.exists() and not resume:
        raise CheckpointError(
            f"Expected no checkpoint at {str(path)!r}, got one: pass resume=True (--resume) to "
            "continue it, or choose another name."
        )
    if journal is not None:
        if path.exists() and journal.facts() is None:
            raise CheckpointError(
                "Expected the journal of steps beside the checkpoint, got none: the budget spent is "
                "unknown, so this run cannot be resumed."
            )
        facts, spent = _same_run(journal, facts, resume, start, model)
        state.run, state.seeded = facts.run, facts.seeded
    if path.exists():
        tensors, state = checkpoints.read(path)
        if state.plan != facts.plan:
            raise _another_plan()
        if team.is_rank_zero and state.run != facts.run:
            raise CheckpointError(
                "Expected the checkpoint of the run that the journal names, got another run's: the "
                "budget spent is unknown, so this run cannot be resumed."
            )
        state.seeded = state.seeded or facts.seeded
        memory = _load(model, tensors)
    state.spent = max(state.spent, spent)
    counts = torch.tensor([state.spent, state.updates, state.starts, state.seeded])
    team.follow([counts])
    state.spent, state.updates, state.starts = (int(value) for value in counts[:3])
    state.seeded = bool(counts[3])
    return journal, state, memory


def _same_run(
    journal: Journal, facts: Facts, resume: bool, start: StartingWeights, model: nn.Module
) -> tuple[Facts, int]:
    """The run that goes on here, with its count of steps; a new one where nothing was drawn yet.

    What a run is cannot change while it lasts: its id, its plan and its starting weights; and once
    seeded, it stays so.
    """
    held, spent = journal.facts(), journal.spent()
    if held is None or (spent == 0 and not resume):
        journal.start(facts)
        return facts, 0
    if not resume:
        raise CheckpointError(
            "Expected no journal of steps, got one: a run that was killed early left it. Pass "
            "resume=True (--resume) to count its steps, or choose another name."
        )
    if held.plan != facts.plan:
        raise _another_plan()
    if held.start != with_past(start, model, without=held.run).identity:
        raise CheckpointError(
            "Expected the starting weights that this run began with, got others, or another word "
            "about what they saw: a resumed run keeps its promise only with the same."
        )
    held.seeded = held.seeded or facts.seeded
    return held, spent


def _another_plan() -> CheckpointError:
    return CheckpointError(
        "Expected the plan that the checkpoint was made with, got another: a resumed run keeps its "
        "promise only with the same plan."
    )


def _update(
    updates: Updates, step: StepEngine, number: int, plan: Plan, cache: TrunkCache | None
) -> tuple[float | None, float]:
    """Take a step and follow it; the public loss and the learning rate of that step."""
    released = step.take()
    gradient, noise = released.gradient, released.noise_variance
    if cache is not None:
        gradient, noise = cache.own_names(gradient), cache.own_names(noise)
    return released.public_loss, updates.follow(gradient, noise, number, plan.steps)


def _look(
    model: nn.Module,
    plan: Plan,
    spent: int,
    streams: Streams,
    held_out: Records | None,
    loss: Loss,
    start: StartingWeights,
) -> Progress:
    """Held-out scores and the epsilon of the model so far: nothing about the private records."""
    epsilon = None
    if plan.is_private:
        event = start.before(plan.event_after(spent))
        epsilon = epsilon_of(event, plan.delta, plan.relation, "pld")
    scores = None if held_out is None else score(model, held_out, streams, loss)
    return Progress(spent, plan.steps, epsilon, scores)


def _row(shown: Progress, public_loss: float | None) -> dict[str, Any]:
    """One line of the public history."""
    row: dict[str, Any] = {"step": shown.step, "epsilon": shown.epsilon}
    if shown.scores is not None:
        row |= shown.scores.to_json()
    if public_loss is not None:
        row["public_loss"] = public_loss
    return row


def _named(model: nn.Module) -> dict[str, Tensor]:
    return {f"model.{name}": p for name, p in trainable(model).items()}


def _prefixed(memory: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"optimizer.{name}": tensor for name, tensor in memory.items()}


def _load(model: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    own = _named(model)
    stored = {name for name in tensors if name.startswith("model.")}
    if stored != set(own) or any(tensors[name].shape != own[name].shape for name in stored):
        raise CheckpointError(
            "Expected a checkpoint of this model with the same trainable layers, got another."
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])
    prefix = "optimizer."
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _with_gaps(
    promise: Guarantee | NoGuarantee,
    held_out: Records | None,
    disclosed: list[str],
    cache: TrunkCache | None,
) -> Guarantee | NoGuarantee:
    """The promise with what this run let out beside the model, which is said first."""
    more = list(disclosed)
    if cache is not None and cache.kept:
        more.append("the cache of private features that was kept on disk on purpose")
    if held_out is not None:
        more.append("the held-out records, whose accuracy was shown")
    return replace(promise, not_covered=(*more, *promise.not_covered))
