"""Mixing that five made-up records cannot show is noticed on real batches, and nothing else is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.data import Record
from sfumato.learn import (
    ChangingBufferError,
    MixedRecordsError,
    Plan,
    Route,
    Speed,
    cross_entropy,
    route_of,
    train,
)
from sfumato.learn.engine import _step as step_module
from sfumato.learn.engine._clipped import check_rows, clipped_rows, lay_out
from sfumato.learn.engine._unwritten import unwritten
from sfumato.models import VideoViT
from sfumato.privacy import Randomness

FEW = 7  # records up to which the models below behave


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(checks.SIZE, 20)
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(20, checks.CLASSES)

    def mixed(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > FEW:
            x = self.mixed(x)
        return self.last(self.first(x).tanh())


class Centred(Base):
    def mixed(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class InGradientOnly(Base):
    """Outputs are each record's own; gradients are not."""

    def mixed(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        if len(x) <= FEW:
            return out
        mean = out.mean(0)
        return out + 3 * (mean - mean.detach())


class MixupBesideDropout(Base):
    """Only while training, where dropout hides a comparison with the loop."""

    def mixed(self, x: Tensor) -> Tensor:
        return 0.5 * x + 0.5 * x.roll(1, 0) if self.training else x

    def forward(self, x: Tensor) -> Tensor:
        x = self.mixed(x) if len(x) > FEW else x
        return self.last(self.drop(self.first(x).tanh()))


class Later(Base):
    """Keeps records apart for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += len(x) > FEW
        return self.last(self.first(x - x.mean(0) if self.calls > 40 else x).tanh())


def by_size(output: Tensor, y: Tensor) -> Tensor:
    """A loss that goes by how many records there are, and by nothing else of them."""
    return F.cross_entropy(output, y, reduction="none") * max(1, len(y) - FEW)


def _plan(**changes: Any) -> Plan:
    return checks.make_plan(**{"records": 10, "batch": 10, "clip_norm": 0.5, **changes})


def _train(model: nn.Module, data: Any, plan: Plan, **settings: Any) -> Any:
    return train(model, data, plan, randomness=Randomness(1), **settings)


@pytest.mark.parametrize("make", [Centred, InGradientOnly, MixupBesideDropout])
def test_mixing_of_larger_batches_stops_the_first_step(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    with pytest.raises(MixedRecordsError, match="leaving one out"):
        _train(make().train(), checks.separable(10), _plan())


def test_a_loss_that_goes_by_the_batch_size_stops_the_first_step() -> None:
    with pytest.raises(MixedRecordsError, match="how many there are"):
        _train(checks.make_model(), checks.separable(10), _plan(clip_norm=50.0), loss=by_size)


def test_mixing_above_any_number_is_found_when_it_first_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However rarely checks come: a batch that is clearly the largest yet is always compared."""
    monkeypatch.setattr(step_module, "_STEPS_BETWEEN_CHECKS", 1e9)
    step = checks.make_step(_plan(), checks.separable(40), model=Centred())
    draws = [[1, 2], [1], [1, 2, 3, 4], list(range(FEW)), list(range(4)), list(range(FEW + 2))]
    monkeypatch.setattr(step, "_draw", lambda: np.array(draws.pop(0)))
    for _ in range(5):
        step.take()
    with pytest.raises(MixedRecordsError, match="leaving one out"):
        step.take()


def test_a_buffer_that_larger_batches_write_stops_the_first_step() -> None:
    class Remembers(Base):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(checks.SIZE))

        def mixed(self, x: Tensor) -> Tensor:
            self.seen.add_(x.detach().mean(0))
            return x

    model = Remembers()
    with pytest.raises(ChangingBufferError, match="seen"):
        _train(model, checks.separable(10), _plan())
    assert not bool(model.seen.any())


class Writes(Base):
    """Copies a record into the model in some way, after a few passes."""

    def __init__(self, after: int = 30) -> None:
        super().__init__()
        self.after, self.passes = after, 0
        self.register_buffer("seen", torch.zeros(checks.SIZE))
        self.frozen = nn.Parameter(torch.zeros(checks.SIZE), requires_grad=False)

    def write(self, record: Tensor) -> None:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        if self.passes > self.after:
            with torch.no_grad():
                self.write(x.detach()[0])
        return self.last(self.first(x).tanh())


class IntoBuffer(Writes):
    def write(self, record: Tensor) -> None:
        self.seen.copy_(record)


class IntoFrozenParameter(Writes):
    def write(self, record: Tensor) -> None:
        self.frozen.data.copy_(record)


class IntoTrainedParameter(Writes):
    def write(self, record: Tensor) -> None:
        self.first.bias.data[0] += 1e-6 * record[0]


class IntoNewBuffer(Writes):
    def write(self, record: Tensor) -> None:
        self.register_buffer("another", record.clone())


class IntoNewParameter(Writes):
    def write(self, record: Tensor) -> None:
        self.first.bias = nn.Parameter(self.first.bias.detach() + record[0])


class IntoExtraState(Writes):
    kept = torch.zeros(1)

    def write(self, record: Tensor) -> None:
        self.kept = record

    def get_extra_state(self) -> Tensor:
        return self.kept


@pytest.mark.parametrize("after", [0, 30])
@pytest.mark.parametrize(
    "make",
    [IntoBuffer, IntoFrozenParameter, IntoTrainedParameter, IntoNewBuffer, IntoNewParameter,
     IntoExtraState],
)  # fmt: skip
def test_what_a_forward_pass_writes_never_leaves(make: Any, after: int) -> None:
    """Whatever place a model finds for it, and however late: the model is not handed out."""
    with pytest.raises((ChangingBufferError, MixedRecordsError)):
        _train(make(after), checks.separable(10), _plan(steps=30, unit="record"))


def test_a_model_that_has_diverged_is_not_taken_for_one_that_writes() -> None:
    model = checks.make_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)
    with unwritten(model):
        pass


def test_layers_that_change_later_go_one_record_at_a_time() -> None:
    """A parameter that is used otherwise than when it was looked at ends in the loop, not in a crash."""

    class Otherwise(Base):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls <= 40:
                return self.last(self.first(x).tanh())
            weight = self.first.weight[torch.arange(len(self.first.weight))]
            return self.last(F.linear(x, weight, self.first.bias).tanh())

    model = Otherwise()
    _train(model, checks.separable(10), _plan(steps=40))
    chosen = route_of(model)
    assert chosen is not None
    assert chosen.route is Route.LOOP, chosen.reason
    assert "a parameter is used by" in chosen.reason


def test_mixing_that_begins_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks come at random steps; here, at all of them."""
    monkeypatch.setattr(step_module, "_STEPS_BETWEEN_CHECKS", 1e-9)
    with pytest.raises(MixedRecordsError, match="leaving one out"):
        _train(Later(), checks.separable(10), _plan(steps=40))


class Dropping(nn.Module):
    """Dropout that evaluation does not switch off."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(checks.SIZE, checks.CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(F.dropout(x, 0.3, training=True))


@pytest.mark.parametrize("make", [checks.make_model, Base, Dropping])
@pytest.mark.parametrize("clips", [1, 3])
def test_models_that_keep_records_apart_pass(
    make: Callable[[], nn.Module], clips: int, loss: Any
) -> None:
    torch.manual_seed(2)
    shape = (6 // clips, checks.SIZE) if clips == 1 else (2, clips, checks.SIZE)
    x, y = torch.randn(shape), torch.arange(shape[0])
    for _ in range(5):
        check_rows(make().train(), loss, lay_out((x, y), clips), 0.5, Speed())


def test_dropped_tokens_beside_dropout_pass(loss: Any) -> None:
    """Records that see different numbers of tokens draw different numbers for dropout."""
    torch.manual_seed(3)
    model = nn.ModuleDict({"vit": VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 8, 8), width=12,
                                           depth=2, heads=2), "drop": nn.Dropout(0.5)})  # fmt: skip

    class WithDropout(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: Tensor, keep: Tensor) -> Tensor:
            noisy = self.parts["drop"](x)
            out: Tensor = self.parts["vit"](noisy, keep)
            return out

    x, y = torch.randn(6, 3, 4, 16, 16), torch.arange(6) % 3
    keep = torch.rand(6, 8) < 0.6
    for _ in range(4):
        assert check_rows(WithDropout().train(), loss, lay_out(((x, keep), y), 1), 0.5, Speed())


def test_extreme_records_are_not_taken_for_mixing() -> None:
    """Rounding decides what such a record adds, in a batch or alone: that is nobody else's fault."""

    class Still(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(40, 60)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            return ((h[:, 1:] - h[:, :-1]) * torch.linspace(0.3, 1.7, 5)[:, None]).sum(1)

    torch.manual_seed(4)
    x = torch.randn(8, 6, 40)
    x[:, 1:] = x[:, :1]
    for size in (1e4, 1e8, 1e12):
        for _ in range(4):
            rows = lay_out((size * x, torch.arange(8) % 3), 1)
            assert check_rows(Still(), cross_entropy, rows, 0.5, Speed())


def test_what_rounds_otherwise_in_a_batch_goes_one_record_at_a_time() -> None:
    """As a kernel for larger batches would: float32 alone sees a difference, and it is no mixture."""

    class AnotherKernel(Base):
        def mixed(self, x: Tensor) -> Tensor:
            return 1.01 * x if x.dtype == torch.float32 else x

    torch.manual_seed(5)
    model, rows = AnotherKernel(), lay_out((torch.randn(9, checks.SIZE), torch.arange(9)), 1)
    assert check_rows(model, cross_entropy, rows, 0.5, Speed())
    choice = route_of(model)
    assert choice is not None
    assert choice.route is Route.LOOP
    full, _ = clipped_rows(model, cross_entropy, rows, 0.5, Speed())
    rest, _ = clipped_rows(model, cross_entropy, rows.some(1, 9), 0.5, Speed())
    moved = torch.stack([(full[name] - rest[name]).norm() for name in full]).norm()
    assert float(moved) <= 0.5 * (1 + 1e-4)


def test_looking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit the same run, checked at every step or never, dropout included."""
    found = []
    for between in (1e-9, 1e9):
        monkeypatch.setattr(step_module, "_STEPS_BETWEEN_CHECKS", between)
        torch.manual_seed(5)
        model = Base()
        model.drop = nn.Dropout(0.5)
        model.first = nn.Sequential(model.first, model.drop)  # type: ignore[assignment]
        torch.manual_seed(6)
        _train(model.train(), checks.separable(6), _plan(records=6, batch=6, steps=4))
        found.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_a_run_is_checked_first_and_then_now_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    step = checks.make_step(_plan(steps=5000), checks.separable(10))
    monkeypatch.setattr(step_module, "check_rows", lambda *a: steps.append(step._taken) or True)
    monkeypatch.setattr(
        step_module, "clipped_rows", lambda *a: ({"w": torch.zeros(1)}, torch.zeros(1))
    )
    rows = lay_out((torch.zeros(2, checks.SIZE), torch.zeros(2, dtype=torch.long)), 1)
    for _ in range(5000):
        step._check(rows)
        step._taken += 1
    assert steps[0] == 0
    # 39 on average, and a Poisson number: neither rare nor regular
    assert 10 < len(steps) < 90
    assert len(set(np.diff(steps))) > 5


def test_what_is_not_promised_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_module, "check_rows", lambda *a: pytest.fail("checked"))
    plan = Plan(epsilon=float("inf"), delta=0.0, records=4, batch=4, steps=1,
                clip_norm=float("inf"), relation="add-remove", unit="record")  # fmt: skip
    data = checks.Listed([Record(np.ones(checks.SIZE, np.float32), 0) for _ in range(4)])
    train(checks.make_model(), data, plan)
