"""A training as one job: from a configuration to a model file with its privacy card."""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.files import for_owner_only, refuse_overwrite, write_json, write_text
from sfumato.learn._methods import METHODS, plan_for
from sfumato.learn._plan import Plan, steps_for, usual_delta
from sfumato.learn._saved import save_model
from sfumato.learn._starting_weights import StartingWeights
from sfumato.learn._tensorboard import EventFile
from sfumato.learn._trainer import Progress, Run, SpendHook, train
from sfumato.learn.config._from_config import (
    build_model,
    load_records,
    loss_of,
    made_up_records,
    optimizer_of,
    preparation,
    public_view,
    speed_of,
    starting_weights,
    subspace,
    unit_count,
    what_a_record_is,
)
from sfumato.learn.config._pose_job import what_was_wrong
from sfumato.learn.config._schema import ConfigError, TrainConfig
from sfumato.learn.engine._probe import route_of
from sfumato.learn.engine._ranks import Team
from sfumato.learn.engine._step import StepEngine
from sfumato.learn.engine._streams import Streams
from sfumato.models import choose_device
from sfumato.privacy import SEEDED, Guarantee, NoGuarantee, Randomness, counted_under

MODEL, CHECKPOINT, CONFIG, HISTORY, EVENTS = (
    "model.safetensors", "checkpoint.safetensors", "config.yaml", "history.json", "tensorboard",
)  # fmt: skip

# what a trial step tells apart; no recording is opened, so nobody knows how many there are
_SOME_CLASSES = 4


@dataclass(frozen=True)
class Job:
    """A configuration with everything it leaves open decided, and said in ``chosen``."""

    config: TrainConfig
    plan: Plan
    chosen: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.config.out

    @cached_property
    def start(self) -> StartingWeights:
        """Where the model starts; reads the file of weights and the card beside it."""
        return starting_weights(self.config)

    @property
    def record(self) -> str:
        return what_a_record_is(self.config).strip(" ()")

    @property
    def promise(self) -> Guarantee | NoGuarantee:
        """What will be said of the model: the plan's promise, and what its first weights carry."""
        own = self.plan.guarantee
        if self.config.seed is not None:
            own = replace(own, randomness=SEEDED)
        return self.start.together(own, self.record)


def make_job(config: TrainConfig) -> Job:
    """Decide what was left open, strictly; reads nothing private."""
    if config.tune is not None:
        raise ConfigError(
            "Expected a file without the section tune for one training, got one with it: choose "
            "settings with sfumato tune."
        )
    chosen: list[str] = []
    settings = config.training
    records = unit_count(config)
    if (settings.steps is None) == (settings.epochs is None):
        raise ConfigError("Expected either training.steps or training.epochs, got both or neither.")
    steps = settings.steps or steps_for(settings.epochs or 0, records, settings.batch)
    view = public_view(config)
    clips = settings.clips if config.pose is None else config.pose.people
    more: dict[str, Any] = {
        "records": records, "batch": settings.batch, "steps": steps, "clips": clips,
        "public_view": view, "projector": subspace(config), "bands": settings.bands,
    }  # fmt: skip
    if config.method != "sgd":
        relation = config.privacy.relation
        if relation is None:
            relation = "replace"
            chosen.append("relation replace, the strictest")
        more["relation"] = relation
        if config.privacy.unit is not None:
            more["unit"] = config.privacy.unit
        elif view is None and not METHODS[config.method].person:
            more["unit"] = "record"
            chosen.append(f"unit record{what_a_record_is(config)}: people with several records are "
                          "not covered as a whole")  # fmt: skip
    if METHODS[config.method].private:
        if config.privacy.epsilon is None:
            raise ConfigError(f"Expected privacy.epsilon with {config.method}, got none.")
        delta = config.privacy.delta
        if delta is None:
            delta = usual_delta(records)
            chosen.append(f"delta {delta:g}, at most a tenth of 1/records")
        more.update(
            epsilon=config.privacy.epsilon, delta=delta, clip_norm=config.privacy.clip_norm,
            as_published=config.privacy.as_published,
        )  # fmt: skip
    return Job(config, plan_for(config.method, **more), tuple(chosen))


def run_job(
    job: Job,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[Progress], None] | None = None,
    spend: SpendHook | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[Run, Path | None]:
    """Train, then write model, card, history and settings; the card's path is None off rank 0.

    ``tell`` is told which annotations could not be used: for the operator, never for an output.

    ``spend`` is entered with the promise and the run's id before any noise is drawn and left before
    the model can be seen (the ledger's reservation and commit). ``force`` begins a new run, which is
    a new reservation, whatever became of the one before.
    """
    config, folder, team = job.config, job.folder, Team()
    target, checkpoint = folder / MODEL, folder / CHECKPOINT
    _ = job.promise  # refuses starting weights before anything private is opened
    if team.is_rank_zero:
        # without a checkpoint nothing is continued, and a model would be replaced by another one
        refuse_overwrite(target, force=force or (resume and checkpoint.exists()))
        folder.mkdir(parents=True, exist_ok=True)
    records = load_records(config.data, config)
    wrong = what_was_wrong(records)
    if tell is not None and wrong is not None:
        tell(wrong)
    held_out = None if config.held_out is None else load_records(config.held_out, config)
    if held_out is not None and tuple(held_out.classes) != tuple(records.classes):
        raise ConfigError(
            "Expected held-out records with the classes of the training, in the same order, got others: "
            "name them in both (data.classes, held_out.classes)."
        )
    device = choose_device(config.device)
    model = build_model(config, len(records.classes), here=True).to(device)
    start = time.monotonic()
    log = _OperatorLog(config.operator_log) if config.operator_log and team.is_rank_zero else None
    anew = force and not resume
    counted: dict[str, str] = {}

    @contextmanager
    def counting(*promise: Any, **more: Any) -> Iterator[None]:
        assert spend is not None
        with spend(*promise, **more) as held:
            counted.update(counted_under(held))
            yield

    with _board(job, progress, anew=anew) if team.is_rank_zero else nullcontext(progress) as show:
        run = train(
            model, records, job.plan, speed=speed_of(config), optimizer=optimizer_of(config),
            checkpoint=checkpoint, resume=resume, force=force,
            checkpoint_every=config.training.checkpoint_every,
            loss=loss_of(config), prepare=preparation(config), held_out=held_out,
            evaluate_every=config.training.evaluate_every, progress=show,
            operator=log, show_private_loss=config.private_loss != "hidden",
            shared_records=config.shared_records, randomness=Randomness(config.seed),
            start=job.start, what_a_record_is=job.record,
            spend=None if spend is None else counting,
        )  # fmt: skip
    if not team.is_rank_zero:
        return run, None
    return run, write_run(job, run, time.monotonic() - start, counted)


@contextmanager
def _board(
    job: Job, progress: Callable[[Progress], None] | None, *, anew: bool
) -> Iterator[Callable[[Progress], None]]:
    """What is shown, written to TensorBoard's files as well; the private loss only if asked.

    With the first step of a run that begins ``anew``, the files of the one before it go.
    """
    board: EventFile | None = None

    def show(shown: Progress) -> None:
        nonlocal board
        if board is None:
            if anew:
                for events in (job.folder / EVENTS).glob("events.out.tfevents.*"):
                    events.unlink()
            board = EventFile(job.folder / EVENTS)
        logged = job.config.private_loss == "logged"
        board.add(shown.step, _scalars(shown, job.plan, private=logged))
        if progress is not None:
            progress(shown)

    try:
        yield show
    finally:
        if board is not None:
            board.close()


def _scalars(shown: Progress, plan: Plan, *, private: bool) -> dict[str, float]:
    found = {
        f"privacy/epsilon_spent ({plan.terms})": shown.epsilon,
        "training/learning_rate": shown.rate,
        "public/loss": shown.public_loss,
        "private/loss_not_accounted": shown.private_loss if private else None,
    }
    if shown.scores is not None:
        found |= {
            "held_out/accuracy": shown.scores.accuracy,
            "held_out/mean_class_accuracy": shown.scores.mean_class_accuracy,
            "held_out/loss": shown.scores.loss,
        }
    return {tag: value for tag, value in found.items() if value is not None}


def write_run(job: Job, run: Run, seconds: float | None, more: Mapping[str, Any]) -> Path:
    """Model, card, history and settings of a finished run; ``more`` stands among the card's settings.

    ``seconds`` is None where the time taken must not be told.
    """
    folder = job.folder
    target = folder / MODEL
    # it names the folders of private recordings
    write_text(folder / CONFIG, job.config.to_yaml(), force=True, private=True)
    time_taken = {} if seconds is None else {"seconds": seconds}
    write_json(folder / HISTORY, {"history": run.history, **time_taken,
                                  "lost_steps": run.lost_steps}, force=True)  # fmt: skip
    plan, config = job.plan, job.config
    return save_model(
        run, plan, target,
        method=config.method,
        done=f"A {config.model.title} model was trained with {plan.mechanism}. {job.start.sentence}".strip(),
        settings={
            "precision": speed_of(job.config).precision,
            "trainable": config.model.trainable, "optimizer": config.training.optimizer,
            "private_loss": config.private_loss,
            **({} if config.pose is None else {"record": job.record}),
            **more,
        },
        temporary_files=("checkpoints and, with a frozen trunk, a cache of features (mode 0600)",),
        force=True,
    )  # fmt: skip


def describe(job: Job) -> dict[str, Any]:
    """What would be done and what it proves; no recording is opened. Time and memory are measured
    on one step with made-up clips."""
    plan, config = job.plan, job.config
    said: dict[str, Any] = {
        "method": config.method, "mechanism": plan.mechanism, "unit": str(plan.unit),
        "relation": plan.relation.value, "steps": plan.steps, "batch": plan.batch,
        "records": plan.records, "sampling_rate": plan.sampling_rate, "chosen": list(job.chosen),
        "noise_multiplier": plan.noise_multiplier, "promise": job.promise.to_json(),
        "precision": speed_of(config).precision,
    }  # fmt: skip
    model = build_model(config, _classes_of(config), here=True)
    # arrays are so quick that eight of them say nothing about thousands
    size = min(plan.batch, 512 if config.input.shape else 8)
    made_up = made_up_records(config, size)
    trial = Plan(
        **{
            **_fields(plan),
            "records": size,
            "batch": size,
            "projector": None,
            "bands": min(plan.bands, 1),
        }
    )
    streams = Streams(model, made_up, trial, preparation(config))
    units: list[tuple[int, ...]] = [(index,) for index in range(size)]
    step = StepEngine(model, loss_of(config), trial, streams, units, size,
                       randomness=Randomness(), speed=speed_of(config))  # fmt: skip
    step.take()
    start = time.perf_counter()
    step.take()
    seconds = (time.perf_counter() - start) * plan.batch / size
    choice = route_of(model)
    said["expected_seconds"] = seconds * plan.steps
    if choice is not None:
        batch = min(speed_of(config).memory, plan.batch * plan.clips * choice.bytes_per_record)
        said["expected_megabytes"] = batch / 1e6
        said["route"] = choice.route.value
    return said


def _classes_of(config: TrainConfig) -> int:
    """As far as the file says; a model of one's own may have as few as it likes in a trial."""
    if config.data.classes is not None:
        return len(config.data.classes)
    return _SOME_CLASSES if config.model.import_ is None else 1


def format_plan(job: Job, said: dict[str, Any]) -> list[str]:
    """``describe`` for a person."""
    plan = job.plan
    lines = [str(job.promise)]
    if job.chosen:
        lines.append("Chosen for you: " + "; ".join(job.chosen) + ".")
    noise = "none" if not plan.is_private else f"{plan.noise_multiplier:.4g}"
    lines.append(
        f"{plan.steps} steps, sampling rate {plan.sampling_rate:.4g}, noise multiplier {noise}; "
        f"about {said['expected_seconds']:.0f} s and {said.get('expected_megabytes', 0):.0f} MB "
        "for a micro-batch."
    )
    if job.config.speed.mixed_precision:
        lines.append(f"Mixed precision: {said['precision']}.")
    return lines


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


class _OperatorLog:
    """Private batch sizes and norms, one JSON line a step, readable by the operator alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        for_owner_only(handle)
        os.close(handle)

    def __call__(self, values: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(values) + "\n")


def init_distributed() -> int:
    """Join the other processes when torchrun started several; this one's number among them."""
    import torch
    import torch.distributed as dist

    try:
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return 0
        # each tensor goes the way of its device: nccl sends nothing that lies in the CPU's memory
        both = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if both else "gloo")
    except (ValueError, dist.DistError) as error:
        raise ConfigError(
            "Expected WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT as torchrun sets them, got others "
            f"({type(error).__name__}): start several processes with torchrun, or unset WORLD_SIZE."
        ) from error
    atexit.register(_leave_distributed)
    return dist.get_rank()


def _leave_distributed() -> None:
    """Gloo's threads that outlive the interpreter abort the process, whose work was done."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
