"""Conformance checks of the private step: each raises AssertionError when a promise is broken.

The tests run them on the real step (they must pass) and on seeded mistakes (they must not).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from sfumato.data import ArrayRecords, Record, Records
from sfumato.learn import AsIs, Plan, Speed, cross_entropy
from sfumato.learn.engine import _step as step_module
from sfumato.learn.engine._sampling import PoissonSampler, PublicSampler, records_by_owner
from sfumato.learn.engine._streams import Streams
from sfumato.privacy import Randomness

ALARM = 1e-6
SIZE, CLASSES = 30, 20


class Listed:
    """Records from a list."""

    classes: tuple[str, ...] = ()

    def __init__(self, items: Sequence[Record]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Record:
        return self.items[index]


@lru_cache
def make_plan(**changes: Any) -> Plan:
    """Plans are frozen, so equal ones share one calibration."""
    settings: dict[str, Any] = {
        "epsilon": 2.0, "delta": 1e-5, "records": 10, "batch": 10, "steps": 1, "clip_norm": 1.0,
        "relation": "add-remove", "unit": "record",
    }  # fmt: skip
    return Plan(**{**settings, **changes})


def make_model(seed: int = 0) -> nn.Module:
    """Four blocks, large enough for a chi-square on each."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(SIZE, 40), nn.Tanh(), nn.Linear(40, CLASSES))


def make_step(
    plan: Plan,
    records: Records,
    seed: int = 0,
    model: nn.Module | None = None,
    speed: Speed | None = None,
) -> step_module.StepEngine:
    model = model or make_model()
    owners = records_by_owner(records, most=plan.unit.max_records) if plan.by_person else None
    return step_module.StepEngine(
        model, cross_entropy, plan, Streams(model, records, plan, AsIs()),
        step_module.units_of(plan, records, owners), len(records),
        randomness=Randomness(seed), speed=speed or Speed(),
    )  # fmt: skip


def flat(released: Any) -> Tensor:
    return torch.cat([part.flatten() for part in released.gradient.values()])


def silent() -> Any:
    """No noise, so that sums can be seen."""
    return mock.patch.object(
        step_module.GaussianNoise, "draw", lambda self, count: torch.zeros(count)
    )


def wild_records(count: int, clips: int = 1, seed: int = 0, owners: int = 0) -> Listed:
    """Records whose gradients are large and often opposed: what a worst case is made of."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=SIZE)
    made = []
    for i in range(count):
        shape = (clips, SIZE) if clips > 1 else (SIZE,)
        scale = 10.0 ** rng.uniform(-1, 3)
        x = scale * (rng.choice([-1, 1]) * base + 0.3 * rng.normal(size=shape))
        owner = (f"person {i % owners}",) if owners else ()
        made.append(Record(x.astype(np.float32), int(rng.integers(CLASSES)), owners=owner))
    return Listed(made)


def check_sensitivity(
    clip_norm: float = 1.0, clips: int = 1, plan: Plan | None = None, owners: int = 0
) -> None:
    """Neighbours' un-noised sums differ by at most C (add-remove, zero-out) or 2 C (replace)."""
    plan = plan or make_plan(clip_norm=clip_norm, clips=clips)
    with silent():
        for seed in range(6):
            data = wild_records(plan.records * max(1, 3 * bool(owners)), clips, seed, owners)
            full = flat(make_step(plan, data).take())
            gone = data[0].owners
            rest = [r for i, r in enumerate(data.items) if (r.owners != gone if gone else i != 0)]
            without = flat(make_step(plan, Listed(rest)).take())
            moved = float((full - without).norm()) * plan.batch
            assert moved <= plan.clip_norm * (1 + 1e-4), f"{moved} > C = {plan.clip_norm}"
            assert moved > 0
            other = wild_records(1, clips, seed + 100)[0]
            fresh = Record(-other.x, other.y, owners=gone)
            replaced = flat(make_step(plan, Listed([fresh, *rest])).take())
            moved = float((full - replaced).norm()) * plan.batch
            assert moved <= 2 * plan.clip_norm * (1 + 1e-4), f"{moved} > 2 C"


def check_noise(clip_norm: float, *, empty: bool, steps: int = 8) -> None:
    """Variance of the noise in every block, and no correlation from step to step."""
    records, batch = (1000, 2) if empty else (20, 10)
    plan = make_plan(clip_norm=clip_norm, records=records, batch=batch)
    data = wild_records(1 if empty else 20)  # one coin at 0.002: nobody comes
    noisy, quiet = make_step(plan, data, 3), make_step(plan, data, 3)
    found = []
    for _ in range(steps):
        with_noise = noisy.take()
        with silent():
            without = quiet.take()
        if empty:
            assert all(not bool(part.any()) for part in without.gradient.values())
        found.append({
            name: (part - without.gradient[name]).double().numpy().ravel()
            for name, part in with_noise.gradient.items()
        })  # fmt: skip
    deviation = plan.noise_multiplier * clip_norm * (1 + 2**-8) / batch
    for name in found[0]:
        block = np.stack([each[name] for each in found])
        # float32 rounding of the sum blurs the difference a little; far below what is tested
        energy = float(((block / deviation) ** 2).sum())
        tail = stats.chi2(block.size)
        p_value = 2 * min(tail.cdf(energy), tail.sf(energy))
        assert p_value > ALARM, f"{name}: {energy / block.size} times the variance"
        lag = float((block[1:] * block[:-1]).mean()) / deviation**2
        assert abs(lag) < 6 / np.sqrt(block[1:].size), f"{name}: noise repeats ({lag})"


def check_sampler(make: Callable[[float, int, Randomness], Any] = PoissonSampler) -> None:
    """Batch sizes and participations have the mean *and* the variance of independent coins."""
    rate, count, steps = 0.1, 200, 3000
    sampler = make(rate, count, Randomness(5))
    taken = np.zeros((steps, count))
    for row in taken:
        row[sampler.draw()] = 1
    for sums, length in ((taken.sum(1), count), (taken.sum(0), steps)):
        mean, variance = length * rate, length * rate * (1 - rate)
        error = np.sqrt(variance / len(sums))
        assert abs(sums.mean() - mean) < 5 * error + 1e-9
        energy = ((sums - mean) ** 2).sum() / variance
        tail = stats.chi2(len(sums))
        assert 2 * min(tail.cdf(energy), tail.sf(energy)) > ALARM, energy / len(sums)
    pairs = (taken[1:] * taken[:-1]).mean()
    assert abs(pairs - rate**2) < 6 * rate / np.sqrt(taken.size)


def check_independent_streams() -> None:
    """Whether a record is in the private batch says nothing about the public batch."""
    source = Randomness(6)
    rate, count, steps = 0.2, 50, 2000
    private, public = PoissonSampler(rate, count, source), PublicSampler(10, count, source)
    both = np.zeros((2, steps, count))
    for step in range(steps):
        both[0, step, private.draw()] = 1
        both[1, step, public.draw()] = 1
    centred = both - both.mean((1, 2), keepdims=True)
    correlation = (centred[0] * centred[1]).mean() / (centred[0].std() * centred[1].std())
    assert abs(correlation) < 6 / np.sqrt(steps * count), correlation


def separable(count: int, seed: int = 0) -> ArrayRecords:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(CLASSES, SIZE))
    y = rng.integers(CLASSES, size=count)
    return ArrayRecords((centres[y] + rng.normal(size=(count, SIZE))).astype(np.float32), y)
