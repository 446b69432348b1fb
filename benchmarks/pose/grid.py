"""One training of table ``pose``: a method at an epsilon and a clip norm, scored on the test half."""

from __future__ import annotations

import copy
import hashlib
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchmarks.pose.fit import People, pose_loss, predict, score
from benchmarks.pose.models import before_last_stage, fresh, train_after, train_norms
from sfumato.data import ArrayRecords
from sfumato.learn import (
    METHODS,
    LowFrequency,
    PictureInput,
    Plan,
    Sgd,
    Speed,
    Subspace,
    plan_for,
    train,
)
from sfumato.models import PoseNet, cut, replace_batchnorm, run
from sfumato.privacy import Guarantee, Randomness

EPSILONS = (0.2, 0.4, 0.6, 0.8)
CLIP_NORMS = (1.0, 0.1, 0.01)
DP_METHODS = ("dp-sgd", "projected", "feature", "feature-projective")
# As published. It is also at most a tenth of 1/N here: N is 1,000.
DELTA = 4e-5
EPOCHS = 25
PUBLIC_SAMPLES, RANK = 100, 50
# 2 % of the coefficients of a crop, rounded: about what the published blur leaves, and many-to-one
PSI = LowFrequency(16, 16.0)

# what trains, and how many steps of the model stay frozen in front of it
HEAD, LAST_STAGE, NORMS = "head", "last stage", "last stage and norms"
EVERYTHING, SCRATCH = "everything", "from scratch"
STRATEGIES = (HEAD, LAST_STAGE, NORMS, EVERYTHING, SCRATCH)


@dataclass(frozen=True)
class Setting:
    """What one cell is. ``averaged`` is the decay of a moving average of the weights, 0 for none."""

    method: str
    epsilon: float | None = None
    clip_norm: float | None = None
    seed: int = 0
    strategy: str = HEAD
    batch: int = 250
    rate: float = 0.1
    momentum: float = 0.0
    averaged: float = 0.0
    epochs: float = EPOCHS
    refresh: int = 8

    @property
    def key(self) -> str:
        plain = Setting(self.method)
        told = {n: v for n, v in asdict(self).items() if v != getattr(plain, n) or n == "seed"}
        return "/".join([self.method, *(f"{name} {value}" for name, value in told.items()
                                        if name != "method")])  # fmt: skip


@dataclass(frozen=True, eq=False)
class Task:
    """One public model, private crops, public crops for the projector, and the test half."""

    model: PoseNet
    backbone: str
    private: ArrayRecords
    public: ArrayRecords
    test: ArrayRecords
    folder: Path

    @cached_property
    def _test_features(self) -> dict[int, Tensor]:
        return {}

    def features(self, model: PoseNet, frozen: int) -> Tensor:
        """Test crops after the first ``frozen`` steps, computed once: they do not train."""
        if frozen not in self._test_features:
            steps = model.steps()[:frozen]
            path = self.folder / f"test-{self.backbone}-{frozen}.safetensors"
            if not path.is_file():
                with torch.no_grad():
                    found = [run(steps, self._prepared(at)) for at in range(0, len(self.test), 50)]
                save_file({"features": torch.cat(found).contiguous()}, path)
            self._test_features[frozen] = load_file(path)["features"]
        return self._test_features[frozen]

    def _prepared(self, at: int) -> Tensor:
        return torch.stack([PictureInput()(x, 1) for x in self.test.x[at : at + 50]])

    def score(self, model: PoseNet) -> dict[str, float]:
        """PCK of a model whose frozen beginning is the public model's."""
        model.eval()
        frozen = len(cut(model)[0])
        if frozen:
            inputs = self.features(model, frozen)
        else:
            inputs = torch.cat([self._prepared(at) for at in range(0, len(self.test), 50)])
        rest = model.steps()[frozen:]
        return score(predict(lambda x: run(rest, x), inputs), self.test.y)


def starting_model(task: Task, strategy: str) -> PoseNet:
    """The public model with the strategy's layers trainable; from scratch: nothing learned yet."""
    if strategy == SCRATCH:
        model = replace_batchnorm(fresh(task.backbone))
        model.requires_grad_(True)
        return model
    model = copy.deepcopy(task.model)
    last = before_last_stage(model)
    frozen = {HEAD: len(model.steps()) - 1, LAST_STAGE: last, NORMS: last, EVERYTHING: 0}
    train_after(model, frozen[strategy])
    if strategy == NORMS:
        train_norms(model)
    return model


def plan_of(setting: Setting, task: Task) -> Plan:
    """The unit is the record (one picture) or what psi leaves open of it; relation replace."""
    kind = METHODS[setting.method]
    count = len(task.private)
    settings: dict[str, Any] = {
        "records": count, "batch": min(setting.batch, count),
        "steps": max(1, round(setting.epochs * count / min(setting.batch, count))),
    }  # fmt: skip
    if setting.method in {"feature", "feature-projective", "public-only"}:
        settings["public_view"] = PSI
    if kind.projector:
        settings["projector"] = Subspace(
            task.public, rank=min(RANK, len(task.public)), refresh=setting.refresh
        )
    if setting.method != "sgd":
        settings["relation"] = "replace"
        if "public_view" not in settings:
            settings["unit"] = "record"
    if kind.private:
        settings |= {
            "epsilon": setting.epsilon, "delta": DELTA, "clip_norm": setting.clip_norm,
        }  # fmt: skip
    return plan_for(setting.method, **settings)


def measure(setting: Setting, task: Task) -> dict[str, Any]:
    """Train and score. A seeded run is labelled not private; here it only measures."""
    began = time.monotonic()
    model, plan = starting_model(task, setting.strategy), plan_of(setting, task)
    average = _Average(model, setting.averaged) if setting.averaged else None
    done = train(
        model,
        task.private,
        plan,
        optimizer=Sgd(setting.rate, setting.momentum),
        loss=pose_loss,
        prepare=PictureInput(),
        # the features of private crops stay in the table's folder, so that every cell finds them
        speed=Speed(cache_folder=task.folder, keep_cache=True),
        progress=average,
        randomness=Randomness(1000 + setting.seed),
    )
    if average is not None:
        average.put_back()
    if setting.strategy == HEAD and setting.seed == 0:
        save_file(model.head.state_dict(), head_path(setting, task))
    promise = done.guarantee
    return {
        **asdict(setting),
        "backbone": task.backbone,
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "steps": plan.steps,
        "noise_multiplier": plan.noise_multiplier,
        "unit": str(promise.unit) if isinstance(promise, Guarantee) else "none",
        "promised": promise.epsilon if isinstance(promise, Guarantee) else "inf",
        "delta": promise.delta if isinstance(promise, Guarantee) else 0.0,
        "pck": task.score(model),
        "seconds": time.monotonic() - began,
    }


def head_path(setting: Setting, task: Task) -> Path:
    """Where a cell leaves its trained head, for pictures of what it predicts."""
    mark = hashlib.sha256(f"{task.backbone}/{setting.key}".encode()).hexdigest()[:12]
    return task.folder / f"head-{mark}.safetensors"


class _Average:
    """A moving average of the released weights: post-processing, so it costs no privacy."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._trained = [p for p in model.parameters() if p.requires_grad]
        self._mean = [p.detach().clone() for p in self._trained]
        self._decay = decay

    def __call__(self, _: object) -> None:
        for mean, p in zip(self._mean, self._trained):
            mean.mul_(self._decay).add_(p.detach(), alpha=1 - self._decay)

    def put_back(self) -> None:
        with torch.no_grad():
            for mean, p in zip(self._mean, self._trained):
                p.copy_(mean)


def some_public(people: People, count: int = PUBLIC_SAMPLES) -> ArrayRecords:
    """Crops of public people for the projector, spread over all there are."""
    chosen = np.linspace(0, len(people) - 1, min(count, len(people))).astype(int)
    return People([people.pictures[i] for i in chosen], people.joints[chosen]).crops()


def grid(
    seeds: int, methods: tuple[str, ...] = DP_METHODS, strategy: str = HEAD, **more: Any
) -> list[Setting]:
    """The paper's grid: both ends of epsilon with every seed first, then what lies between."""
    ends = (EPSILONS[-1], EPSILONS[0])
    rounds = [(seed, some) for some in (ends, EPSILONS[1:-1]) for seed in range(seeds)]
    return [
        Setting(method, epsilon, clip_norm, seed, strategy, **more)
        for seed, epsilons in rounds
        for clip_norm in CLIP_NORMS
        for epsilon in epsilons
        for method in methods
    ]
