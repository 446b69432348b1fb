"""Choosing settings privately: a random number of trials, the best one released, the choice paid for.

Papernot and Steinke (2022): if the number of trials is drawn from a truncated negative binomial
distribution, in secret and before the first one, then showing the best trial costs little more than
showing one, however many there were (event ``BestOf``, R27). Every trial draws its settings at random out of
the choices, trains under the same plan, and is scored on held-out records, which are not private.
"""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sfumato.files import refuse_overwrite
from sfumato.learn._starting_weights import PastTraining
from sfumato.learn._trainer import Run, SpendHook
from sfumato.learn.config._job import MODEL, Job, make_job, run_job, write_run
from sfumato.learn.config._schema import ConfigError, TrainConfig, TuneConfig, parse_config
from sfumato.learn.engine._ranks import Team
from sfumato.privacy import (
    SEEDED,
    BestOf,
    Guarantee,
    NoGuarantee,
    Randomness,
    calibrate_event,
    counted_under,
    dpsgd_event,
    epsilon_of,
    new_run_id,
)
from sfumato.progress import ProgressStep, listening

ACCOUNTANT = "rdp"  # the choice is bounded by Renyi divergences alone
_SHAPES = {"logarithmic": 0.0, "geometric": 1.0}
_CHOSEN_BY_EYE = "settings, classes or checkpoints chosen by looking at private data"
_MOST_CHOICES = 10_000
_TRIAL = ".sfumato-tune-"
# what a trial may differ in: how it learns, never what it reads, what it starts from or what it promises
_TUNABLE = ("training.", "privacy.clip_norm", "model.trainable", "model.norms", "model.tubelet",
            "model.width", "model.depth", "model.heads", "model.args.")  # fmt: skip


@dataclass(frozen=True)
class Tuning:
    """The trials that may come, one job for every combination of the choices, and what all promise."""

    config: TrainConfig
    choices: tuple[dict[str, Any], ...]
    jobs: tuple[Job, ...]
    runs: BestOf

    @property
    def own(self) -> Guarantee:
        """What is promised about the chosen model, whatever its starting weights saw."""
        plan = self.jobs[0].plan
        one = plan.guarantee
        assert isinstance(one, Guarantee)
        kept = tuple(each for each in one.not_covered if each != _CHOSEN_BY_EYE)
        return replace(
            one,
            mechanism=f"the best of several runs of {one.mechanism}",
            event=self.runs,
            accountant=ACCOUNTANT,
            randomness=one.randomness if self.config.seed is None else SEEDED,
            assumptions=(
                *one.assumptions,
                "how many trials there were stays unknown, and no other trial is shown to anybody",
                "the held-out records that trials are scored on are not protected",
            ),
            not_covered=(
                *kept,
                "settings that were chosen beforehand by looking at private data",
                "how long the tuning took",
            ),
        )

    @property
    def promise(self) -> Guarantee | NoGuarantee:
        """With what the starting weights carry."""
        return self.jobs[0].start.together(self.own, self.jobs[0].record)


def make_tuning(config: TrainConfig) -> Tuning:
    """Every combination of the choices as a job, with noise that pays for the choice; reads nothing private."""
    asked = config.tune
    if asked is None:
        raise ConfigError(
            "Expected the section tune with choices, such as {training.rate: [0.1, 1]}, got none: one "
            "training is sfumato train."
        )
    if config.held_out is None:
        raise ConfigError("Expected held_out records to score trials on, got none.")
    choices = tuple(_combinations(asked))
    target = make_job(_chosen(config, choices[0]))
    plan = target.plan
    if not plan.is_private or plan.as_published or plan.epsilon == 0 or plan.bands:
        raise ConfigError(
            f"Expected a private method whose choice can be paid for, got {plan.mechanism}: choose "
            "by hand where nothing private is noised, or by sampled batches."
        )
    gamma, shape = _gamma(asked.trials, _SHAPES[asked.distribution]), _SHAPES[asked.distribution]
    noise = calibrate_event(
        lambda z: BestOf(dpsgd_event(z, plan.sampling_rate, plan.steps), gamma, shape),
        plan.epsilon, plan.delta, plan.relation, ACCOUNTANT, guess=2 * plan.noise_multiplier,
    )  # fmt: skip
    run = dpsgd_event(noise, plan.sampling_rate, plan.steps)
    each = epsilon_of(run, plan.delta, plan.relation)
    jobs = tuple(make_job(_chosen(config, one, epsilon=each, delta=plan.delta)) for one in choices)
    said = {_as_text(job.promise) for job in jobs}
    if len(said) > 1:
        raise ConfigError(
            "Expected choices that leave the promise as it is (rates, schedules, clip norms, sizes of "
            "the model), got some that change it: batch, steps, unit, data and starting weights "
            "must be one for all trials."
        )
    return Tuning(config, choices, jobs, BestOf(jobs[0].plan.event, gamma, shape))


def run_tuning(
    tuning: Tuning,
    *,
    force: bool = False,
    spend: SpendHook | None = None,
) -> tuple[Run, dict[str, Any], Path]:
    """Run the trials; write the best model with its card: the run, its settings, the card's path.

    Nothing is shown of a trial while it runs, not even that there is one more. A tuning that was
    stopped cannot be resumed, and counts in the ledger all the same: what it would have shown next
    depends on what it has seen.
    """
    config = tuning.config
    if Team().size > 1:
        raise ConfigError("Expected one process for a tuning, got several: leave torchrun out.")
    target = config.out / MODEL
    refuse_overwrite(target, force=force)
    promise, run_id = tuning.promise, new_run_id()
    counted: dict[str, str] = {}
    config.out.mkdir(parents=True, exist_ok=True)
    for left in config.out.glob(f"{_TRIAL}*"):  # of a tuning that was killed
        shutil.rmtree(left, ignore_errors=True)
    with _counting(spend, tuning, run_id, counted):
        best, run = _best(tuning)
        # the file beside the model says what was asked for: a trial's own epsilon is another
        asked = _chosen(config, tuning.choices[best])
        job = replace(tuning.jobs[best], config=_with(asked, out=config.out))
        own = PastTraining(run_id, tuning.own, job.record)
        gaps = tuple(e for e in run.guarantee.not_covered if e not in promise.not_covered)
        final = replace(
            run,
            guarantee=replace(promise, not_covered=(*promise.not_covered, *_unless_by_eye(gaps))),
            trainings=(*run.trainings[:-1], own),
            # a trial's own epsilon says nothing about a model that was chosen
            history=[{k: v for k, v in row.items() if k != "epsilon"} for row in run.history],
        )
    more = {"tuned": dict(tuning.choices[best]), "expected_trials": tuning.runs.expected_runs}
    # no time: it tells how many trials there were
    card = write_run(job, final, None, counted | more)
    return final, tuning.choices[best], card


def _best(tuning: Tuning) -> tuple[int, Run]:
    """The number of the best trial's choice, and its run. The first of equals stays: trials are
    exchangeable, so that is any of them."""
    randomness = Randomness(tuning.config.seed)
    generator = randomness.generator()
    trials = draw_runs(tuning.runs, generator)
    kept: tuple[float, int, Run] | None = None
    for number in range(trials):
        chosen = int(generator.integers(len(tuning.jobs)))
        seed = tuning.config.seed
        with _own_folder(tuning.config.out) as folder, listening(_nobody):
            changed = _with(
                tuning.jobs[chosen].config,
                out=folder,
                seed=None if seed is None else seed + number,
                operator_log=None,
            )
            run, _ = run_job(replace(tuning.jobs[chosen], config=changed))
        score = run.history[-1].get("held_out_accuracy", math.nan) if run.history else math.nan
        value = float(score) if score == score else -math.inf
        if kept is None or value > kept[0]:
            kept = value, chosen, run
    assert kept is not None, "at least one trial is drawn"
    return kept[1], kept[2]


@contextmanager
def _own_folder(out: Path) -> Iterator[Path]:
    """For one trial, gone with it: neither its model nor the number of such folders is left behind."""
    with tempfile.TemporaryDirectory(prefix=_TRIAL, dir=out) as folder:
        yield Path(folder)


def _nobody(step: ProgressStep) -> None:
    """Whoever sees the trials begin can count them."""


def draw_runs(event: BestOf, generator: np.random.Generator) -> int:
    """A number of runs from the distribution of the event, by its cumulative probabilities."""
    left, runs = float(generator.random()), 1
    mass = _first_mass(event)
    while left >= mass:
        left -= mass
        mass *= (1 - event.gamma) * (runs + event.shape) / (runs + 1)
        runs += 1
        if mass == 0:  # below the smallest double: no draw gets here but by rounding
            break
    return runs


def _first_mass(event: BestOf) -> float:
    """P(K = 1): Papernot and Steinke 2022, Definition 1."""
    if event.shape == 0:
        return (1 - event.gamma) / math.log(1 / event.gamma)
    return (1 - event.gamma) * event.shape / math.expm1(-event.shape * math.log(event.gamma))


def _gamma(trials: float, shape: float) -> float:
    """The gamma at which so many trials are expected: it falls as they grow."""
    low, high = 1e-12, 1 - 1e-12
    for _ in range(200):
        middle = math.sqrt(low * high)
        runs = BestOf(dpsgd_event(1.0, 0.5, 1), middle, shape).expected_runs
        low, high = (middle, high) if runs > trials else (low, middle)
    return high


def _combinations(asked: TuneConfig) -> Iterator[dict[str, Any]]:
    count = math.prod(len(values) for values in asked.choices.values())
    if count > _MOST_CHOICES:
        raise ConfigError(f"Expected at most {_MOST_CHOICES} combinations to tune, got {count}.")
    for values in itertools.product(*asked.choices.values()):
        yield dict(zip(asked.choices, values, strict=True))


def _chosen(config: TrainConfig, choice: dict[str, Any], **privacy: Any) -> TrainConfig:
    """The file with the settings of one trial."""
    values = yaml.safe_load(config.to_yaml())
    values.pop("tune"), values.pop("preset", None)
    for key, value in choice.items():
        if not key.startswith(_TUNABLE):
            raise ConfigError(
                f"Expected a setting of the training, the model's size or the clip norm to tune, got {key!r}: "
                "data, starting weights, seeds and promises must be one for all trials."
            )
        *path, last = key.split(".")
        section = values
        for part in path:
            section = section.get(part) if isinstance(section, dict) else None
        if not isinstance(section, dict) or last not in section:
            raise ConfigError(f"Expected a setting of the training file to tune, got {key!r}.")
        section[last] = value
    values["privacy"] |= privacy
    return parse_config(values)


def _with(config: TrainConfig, **changes: Any) -> TrainConfig:
    return config.model_copy(update=changes)


def _as_text(promise: Guarantee | NoGuarantee) -> str:
    return repr(promise.to_json())


def _unless_by_eye(gaps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in gaps if each != _CHOSEN_BY_EYE)


@contextmanager
def _counting(
    spend: SpendHook | None, tuning: Tuning, run_id: str, counted: dict[str, str]
) -> Iterator[None]:
    """Entered before the first trial, with what is promised of the choice."""
    if spend is None:
        yield
        return
    start = tuning.jobs[0].start
    entered: AbstractContextManager[object] = spend(
        start.alone(tuning.own), run_id, draws=True, earlier=start.counted
    )
    with entered as held:
        counted.update(counted_under(held))
        yield
