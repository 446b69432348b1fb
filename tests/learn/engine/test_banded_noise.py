"""Training with banded noise: turns that are kept, noise that is what the event says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sfumato.audit import AuditError
from sfumato.audit.certify import check_training
from sfumato.data import ArrayRecords, Record
from sfumato.learn import Plan, PlanError, PrivateStep, Progress, Sgd, Speed, TrainingError, train
from sfumato.learn.engine._banded import CorrelatedNoise, Turns, variance_of
from sfumato.privacy import Guarantee, Randomness, banded_coefficients

RNG = np.random.default_rng(0)


def _plan(**changes: object) -> Plan:
    usual = {"epsilon": 2.0, "delta": 1e-5, "records": 12, "batch": 3, "steps": 10, "clip_norm": 1.0,
             "relation": "replace", "unit": "record", "bands": 4}  # fmt: skip
    return Plan(**usual | changes)  # type: ignore[arg-type]


def _records(count: int = 12) -> ArrayRecords:
    return ArrayRecords(RNG.standard_normal((count, 5)).astype(np.float32), np.arange(count) % 2)


class _Noted(ArrayRecords):
    """Remembers which records were asked for."""

    def __init__(self, count: int = 12) -> None:
        super().__init__(RNG.standard_normal((count, 5)).astype(np.float32), np.arange(count) % 2)
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> Record:
        self.asked.append(index)
        return super().__getitem__(index)


def test_bands_undo_the_noise_to_independent_normal_values() -> None:
    bands, steps, width = 3, 12, 20_000
    source = CorrelatedNoise(Randomness(7), bands)
    drawn = []
    for _ in range(steps):
        noise = source.draw(width)
        drawn.append(noise.double().numpy().copy())
        noise.zero_()  # whoever gets it may change it
    c = banded_coefficients(bands)
    n = np.stack(drawn)
    z = np.stack([sum(c[i] * n[t - i] for i in range(min(bands, t + 1))) for t in range(steps)])
    covariance = z @ z.T / width
    assert np.abs(covariance - np.eye(steps)).max() < 0.05
    for step in (0, 1, 5):
        assert n[step].var() == pytest.approx(variance_of(bands, step), rel=0.05)
    assert np.abs(np.cumsum(n, 0)[-1]).mean() < np.sqrt(steps) * np.abs(z).mean()


def test_every_unit_has_its_turn_and_none_before_its_time() -> None:
    turns = Turns(4, 10, 0)
    steps = [set(turns.draw().tolist()) for _ in range(9)]
    for unit in range(10):
        own = [t for t, who in enumerate(steps) if unit in who]
        assert own == list(range(unit % 4, 9, 4))
    later = Turns(4, 10, 3)
    assert [set(later.draw().tolist()) for _ in range(6)] == steps[3:]


def test_neighbours_move_what_is_noised_by_at_most_the_sensitivity() -> None:
    """The sums of both data sets, multiplied by C: the length of their difference."""
    plan, other = _plan(epsilon=1e6), RNG.standard_normal((12, 5)).astype(np.float32) * 9
    x = RNG.standard_normal((12, 5)).astype(np.float32) * 9
    y = np.arange(12) % 2
    moved = 0.0
    for unit in range(12):
        changed, told = x.copy(), y.copy()
        changed[unit], told[unit] = other[unit], 1 - y[unit]
        sums = []
        for data, labels in ((x, y), (changed, told)):
            rows = []
            for t in range(plan.steps):
                drawn = np.arange(t % plan.slots, 12, plan.slots)
                error = np.where(labels[drawn] == 1, -0.5, 0.5)
                g = error[:, None] * data[drawn]
                rows.append((g / np.maximum(1, np.linalg.norm(g, axis=1))[:, None]).sum(0))
            sums.append(np.stack(rows))
        difference = sums[0] - sums[1]
        c = banded_coefficients(plan.bands)
        mixed = [sum(c[i] * difference[t - i] for i in range(min(plan.bands, t + 1)))
                 for t in range(plan.steps)]  # fmt: skip
        moved = max(moved, float(np.linalg.norm(mixed)))
    event = plan.event
    assert 0.2 * event.sensitivity(plan.relation) < moved <= event.sensitivity(plan.relation)


def test_the_plan_has_the_noise_that_its_promise_needs() -> None:
    for changes in ({}, {"bands": 1}, {"relation": "zero-out"}, {"steps": 4}, {"unit": "person"}):
        plan = _plan(**changes)
        promise = plan.guarantee
        assert isinstance(promise, Guarantee)
        assert 1.999 < promise.epsilon <= 2.0 + 1e-9
        assert "every 4th step" in str(promise.assumptions)
    assert _plan().mechanism == "dp-sgd, noise correlated over 4 steps"
    assert _plan().digest != _plan(bands=3).digest
    assert "bands" not in _plan(bands=0).to_json(), "older runs can still be resumed"
    # a turn in every fourth step, three times in ten: the columns of C that a record meets
    c = banded_coefficients(4)
    square = 2 + c[0] ** 2 + c[1] ** 2
    one = _plan(bands=1, batch=12, steps=1).noise_multiplier
    assert _plan().noise_multiplier == pytest.approx(one * math.sqrt(square), rel=1e-6)


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"bands": 5}, "at most 4 bands"), ({"bands": -1}, "bands as a whole number"),
    ({"bands": 2.0}, "bands as a whole number"), ({"relation": "add-remove"}, "move theirs"),
    ({"epsilon": math.inf}, "a private plan"),
])  # fmt: skip
def test_plans_that_would_not_be_true_are_refused(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(PlanError, match=sentence):
        _plan(**changes)


def test_what_has_no_turns_or_no_check_refuses_them() -> None:
    with pytest.raises(TrainingError, match="a plan without bands"):
        PrivateStep(nn.Linear(5, 2), plan=_plan())
    with pytest.raises(AuditError, match="banded noise"):
        check_training(_plan())


def test_a_training_takes_everybody_in_turn_and_goes_on_after_a_crash(tmp_path: Path) -> None:
    """Turns counted anew after a restart would come too early, and move the sums too far."""
    records = _Noted()
    plan, speed = _plan(steps=6), Speed(read_ahead=0)
    model = nn.Linear(5, 2)

    def crash(shown: Progress) -> None:
        if shown.step == 2:
            raise KeyboardInterrupt

    path = tmp_path / "run.safetensors"
    settings = {"optimizer": Sgd(0.1), "checkpoint": path, "checkpoint_every": 1, "speed": speed}
    with pytest.raises(KeyboardInterrupt):
        train(model, records, plan, progress=crash, **settings)  # type: ignore[arg-type]
    records.asked.clear()
    run = train(model, records, plan, resume=True, **settings)  # type: ignore[arg-type]
    read = [index for index in records.asked if index]  # the first is looked at for its shape
    assert read[:3] == [2, 6, 10], "two steps were taken, so the third turn is next"
    assert isinstance(run.guarantee, Guarantee)
    assert run.guarantee.epsilon <= 2.0 + 1e-9
    assert torch.isfinite(model.weight).all()
