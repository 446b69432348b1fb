"""Table ``pose-public``: what private pictures add to a network that the public already has.

MoveNet thunder finds COCO's joints in LSP's pictures; a head of 96 numbers learns LSP's from the first
1,000 by every method, epsilon and clip norm, and the last 1,000 are the test. The head starts at the
network's own answer, so epsilon 0 is zero-shot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from benchmarks.harness.cells import Cells, Row
from benchmarks.pose.fit import score
from benchmarks.pose.grid import CLIP_NORMS, DELTA, DP_METHODS, EPSILONS, PUBLIC_SAMPLES, RANK
from benchmarks.pose.public_page import tables, terminal
from benchmarks.pose.trunk import TRUNKS, KeptAnswers
from sfumato.data import LSP, ArrayRecords, PersonCrops, lsp, pck, staged_people, torso_size
from sfumato.learn import (
    METHODS,
    LowFrequency,
    PlaceLoss,
    Plan,
    Sgd,
    Speed,
    Subspace,
    plan_for,
    train,
)
from sfumato.models import JointsHead
from sfumato.privacy import Guarantee, Randomness
from sfumato.settings import Amount, Count

__all__ = ["run", "tables", "terminal"]

SIDE = 256
# Chosen on 200 staged people with the noise of 1,000 records (10 or 30 steps, four rates): whole batches,
# ten steps, and rate x C = 3.
STEPS, PRODUCT = 10, 3.0
ONE_RATE = 30.0  # as published: the same for every C; it fits C = 0.1
FREE_STEPS = 200
KEPT = 36  # coefficients a side: 2 % of a crop's, as in table pose
RESAMPLED = 2000
ZERO_SHOT = "zero-shot"


@dataclass(frozen=True)
class KeptPsi(LowFrequency):
    """psi of crops whose answers were kept: a record's x is (answers, answers about psi of the crop).

    The trunk is public and does not train, so what it says about psi(x) is a function of psi(x).
    """

    def public_input(self, record: Any, prepare: Any, model: nn.Module, clips: int) -> Tensor:
        return prepare(record.x[1:], clips)  # type: ignore[no-any-return]

    def check(self, shape: tuple[int, ...]) -> None:
        super().check((SIDE, SIDE, 3))


PSI = KeptPsi(KEPT, 16.0)


class First:
    """The first of a record's kept answers, as the head's input."""

    def __call__(self, x: npt.NDArray[Any], clips: int) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x[0]))

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        return torch.from_numpy(mask)


@dataclass(frozen=True)
class Setting:
    """What one cell is; ``rate`` is None where it follows from C."""

    method: str
    epsilon: float | None = None
    clip_norm: float | None = None
    seed: int = 0
    rate: float | None = None

    @property
    def key(self) -> str:
        return "/".join(f"{n} {v}" for n, v in asdict(self).items() if v is not None)


@dataclass(frozen=True, eq=False)
class Task:
    """A trunk's answers about private, public and test crops, with the joints of each."""

    trunk: str
    private: ArrayRecords
    public: ArrayRecords
    test: ArrayRecords

    def answers(self, head: JointsHead) -> npt.NDArray[np.float32]:
        with torch.no_grad():
            return np.asarray(head(torch.from_numpy(self.test.x[:, 0])).numpy()[..., :2])


def crops_of(part: str, data: str, count: int) -> PersonCrops:
    if part == "staged":
        return PersonCrops(staged_people(min(count, PUBLIC_SAMPLES), seed=0), (SIDE, SIDE))
    return PersonCrops(lsp(data, "test" if part == "test" else "train"), (SIDE, SIDE))


def task_of(trunk: str, data: str, folder: Path, count: int) -> Task:
    """Every crop is looked at once; what was said is kept in the table's folder."""
    kept = KeptAnswers(folder, trunk)

    def records(part: str) -> ArrayRecords:
        crops = crops_of(part, data, count)
        rows = [crops[i] for i in range(min(count, len(crops)))]
        with_psi = part == "train"
        x = kept.about(part, [row.x for row in rows])
        seen = kept.about("psi", [PSI(row.x) for row in rows]) if with_psi else x
        return ArrayRecords(np.stack([x, seen], 1), np.stack([row.y for row in rows]))

    return Task(trunk, records("train"), records("staged"), records("test"))


def plan_of(setting: Setting, task: Task) -> Plan:
    """Unit: one picture, or what psi leaves open of it; relation replace; every record in every step."""
    kind, count = METHODS[setting.method], len(task.private)
    steps = STEPS if kind.private else FREE_STEPS
    settings: dict[str, Any] = {"records": count, "batch": count, "steps": steps}
    if setting.method in {"feature", "feature-projective", "public-only"}:
        settings["public_view"] = PSI
    if kind.projector:
        settings["projector"] = Subspace(task.public, rank=min(RANK, len(task.public)))
    if setting.method != "sgd":
        settings["relation"] = "replace"
        if "public_view" not in settings:
            settings["unit"] = "record"
    if kind.private:
        settings |= {"epsilon": setting.epsilon, "delta": DELTA, "clip_norm": setting.clip_norm}
    return plan_for(setting.method, **settings)


def measure(setting: Setting, task: Task) -> Row:
    """Train and score. A seeded run is labelled not private; here it only measures."""
    began = time.process_time()
    head, plan = JointsHead(LSP), plan_of(setting, task)
    rate = setting.rate or PRODUCT / (setting.clip_norm or 1.0)
    done = train(
        head, task.private, plan, optimizer=Sgd(rate), loss=_loss(setting), prepare=First(),
        speed=Speed(trunk_cache=False), randomness=Randomness(1000 + setting.seed),
    )  # fmt: skip
    promise = done.guarantee
    return {
        **asdict(setting), "used_rate": rate, "trained": head.shares.numel(), "steps": plan.steps,
        "noise_multiplier": plan.noise_multiplier,
        "promise": promise.terms if isinstance(promise, Guarantee) else "none",
        "shares": head.shares.detach().flatten().tolist() if setting.seed == 0 else None,
        "seconds": time.process_time() - began, **scored(head, task),
    }  # fmt: skip


def _loss(setting: Setting) -> Callable[[Tensor, Tensor], Tensor]:
    """Where a public stream, which nothing clips, trains at a rate tied to 1/C, the loss is tied to C:
    else that stream would run off."""
    plain, public = PlaceLoss(joints=LSP), setting.method in {"feature", "feature-projective"}
    scale = setting.clip_norm if public and setting.rate is None and setting.clip_norm else 1.0
    return lambda output, y: scale * plain(output, y)


def scored(head: JointsHead, task: Task) -> Row:
    """PCK, and what the head adds to zero-shot: the mean over test pictures of the difference, with
    the 95 % interval over draws of as many pictures (paired)."""
    found, start = task.answers(head), task.answers(JointsHead(LSP))
    gains = {}
    for threshold in (0.2, 0.1):
        after, before = (right(each, task.test.y, threshold) for each in (found, start))
        drawn = np.random.default_rng(0).integers(0, len(after), (RESAMPLED, len(after)))
        means = 100 * (after - before)[drawn].mean(1)
        low, high = np.quantile(means, (0.025, 0.975))
        gains[f"{threshold:g}"] = [100 * float((after - before).mean()), float(low), float(high)]
    return {"pck": score(found, task.test.y), "gain": gains}


def right(
    found: npt.NDArray[np.floating], truth: npt.NDArray[np.floating], threshold: float
) -> npt.NDArray[np.float64]:
    """The share of joints of each picture that are right."""
    size = torso_size(truth, LSP)
    return np.array([
        np.nanmean(pck(found[i : i + 1], truth[i : i + 1], size[i : i + 1], threshold))
        for i in range(len(found))
    ])  # fmt: skip


def grid(seeds: int) -> list[Setting]:
    """Rates tied to 1/C, from the largest epsilon down, seed by seed."""
    return [
        Setting(method, epsilon, clip_norm, seed)
        for seed in range(seeds)
        for epsilon in sorted(EPSILONS, key=lambda e: (e not in (EPSILONS[0], EPSILONS[-1]), -e))
        for clip_norm in CLIP_NORMS
        for method in DP_METHODS
    ]


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    seeds: Count = 3,
    trunks: str = TRUNKS[0],
    minutes: Amount | None = None,
) -> dict[str, Any]:
    """``data`` is LSP's folder. Every cell is kept as soon as it is done; after ``minutes`` no further
    cell is begun; ``trunks`` are some of movenet-thunder, blazepose-full."""
    result: dict[str, Any] = {"delta": DELTA, "psi": PSI.name, "steps": STEPS, "notes": [],
                              "psi_keeps": PSI.invertibility((SIDE, SIDE, 3)).sentence}  # fmt: skip
    if data is None:
        result["notes"].append("Nothing was measured: pass data=FOLDER with Leeds Sports Pose.")
        return result
    count, repeats = (24, 1) if quick else (1000, int(seeds))
    cells = Cells("pose-public", {"steps": STEPS, "product": PRODUCT, "records": count}, keep)
    deadline = time.monotonic() + 60 * (math.inf if minutes is None else minutes)
    for trunk in trunks.split(","):
        # built when a cell is to be measured: a table whose cells are all kept needs no picture
        task = cache(partial(task_of, trunk, data, cells.folder, count))
        every: Sequence[Setting | None] = [
            None,
            *(Setting(m, seed=s) for m in ("sgd", "public-only") for s in range(repeats)),
            *grid(repeats),
            *(Setting(one.method, one.epsilon, one.clip_norm, one.seed, ONE_RATE) for one in grid(1)),
        ]  # fmt: skip
        rows, left = [], 0
        for setting in every[:7] if quick else every:
            key = f"{trunk}/{setting.key if setting else ZERO_SHOT}"
            if time.monotonic() > deadline and not cells.path(key).is_file():
                left += 1
                continue
            rows.append(cells.done(key, partial(_cell, setting, task)))
        result[trunk] = rows
        if left:
            result["notes"].append(
                f"{trunk}: {left} cells are not measured yet: run the table again."
            )
    return result


def _cell(setting: Setting | None, task: Callable[[], Task]) -> Row:
    if setting is None:
        return {"method": ZERO_SHOT, "seed": 0, **scored(JointsHead(LSP), task())}
    return measure(setting, task())
