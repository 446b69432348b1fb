"""Models and losses without a bounded record gradient are refused, with the remedy."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.learn import (
    BatchNormError,
    ChangingBufferError,
    LossError,
    MixedRecordsError,
    ModelError,
    ReducedLossError,
    Route,
    clipped_gradient,
    route_of,
)
from sfumato.learn.engine import _probe as probe
from sfumato.models import freeze_batchnorm, replace_batchnorm

X, Y = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])


class Centred(nn.Module):
    """Mixes records without any layer whose name would tell."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x - x.mean(0, keepdim=True))


class OverRecords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(6, 2)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x[:, None], x[:, None], x[:, None])[0][:, 0])


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.detach().mean(0))
        return self.inner(x)


def test_batch_norm_in_training_mode_offers_two_remedies(loss: Any) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with pytest.raises(BatchNormError, match=r"freeze_batchnorm.*replace_batchnorm"):
        clipped_gradient(model, loss, (X, Y), 1.0)
    replace_batchnorm(model, groups=2)
    assert isinstance(model[1], nn.GroupNorm)
    clipped_gradient(model, loss, (X, Y), 1.0)


def test_a_frozen_batch_norm_stays_frozen(loss: Any) -> None:
    model = freeze_batchnorm(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)))
    model.train()
    before = model[1].running_mean.clone()
    sums, _ = clipped_gradient(model, loss, (X, Y), 1.0)
    assert torch.equal(before, model[1].running_mean)
    assert "1.weight" in sums


@pytest.mark.parametrize("make", [Centred, OverRecords])
def test_mixing_records_is_found_by_behaviour(make: Any, loss: Any) -> None:
    with pytest.raises(MixedRecordsError, match="GroupNorm"):
        clipped_gradient(make(), loss, (X, Y), 1.0)


def test_a_buffer_that_remembers_is_refused_and_restored(loss: Any) -> None:
    model = Remembers()
    with pytest.raises(ChangingBufferError, match="seen"):
        clipped_gradient(model, loss, (X, Y), 1.0)
    assert not bool(model.seen.any())


def test_a_reduced_loss_is_refused() -> None:
    with pytest.raises(ReducedLossError, match='reduction="none"'):
        clipped_gradient(nn.Linear(6, 3), F.cross_entropy, (X, Y), 1.0)


def test_a_loss_that_averages_and_repeats_is_found_by_behaviour() -> None:
    def sly(output: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(output, y).expand(len(y))

    with pytest.raises(ReducedLossError, match="averages"):
        clipped_gradient(nn.Linear(6, 3), sly, (X, Y), 1.0)


def test_a_loss_with_too_many_values_is_refused() -> None:
    with pytest.raises(LossError, match="one a record"):
        clipped_gradient(nn.Linear(6, 3), lambda o, y: o, (X, Y), 1.0)


class Mixup(nn.Module):
    """Averages every record with another one, drawn anew in each pass of training."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = 0.5 * x + 0.5 * x[torch.randperm(len(x))]
        return self.inner(x)


class WholeNumbers(nn.Module):
    """Normalises by statistics that have no gradient and that keep still if values change places."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        counts = x.round().to(torch.int64)
        return self.inner(x.float() - counts.sum() // len(counts))


class CentredAbove(nn.Module):
    """Keeps records apart until there are more than ``few`` of them."""

    def __init__(self, few: int) -> None:
        super().__init__()
        self.few, self.inner = few, nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x - x.mean(0, keepdim=True) if len(x) > self.few else x)


def test_mixup_is_found_whatever_the_seed(loss: Any) -> None:
    for seed in range(8):
        torch.manual_seed(seed)
        with pytest.raises(MixedRecordsError, match="mixup"):
            clipped_gradient(Mixup().train(), loss, (X, Y), 1.0)


@pytest.mark.parametrize("integers", [False, True])
def test_statistics_of_whole_numbers_are_found(integers: bool, loss: Any) -> None:
    x = torch.randint(9, (4, 6)) if integers else 5 * X
    with pytest.raises(MixedRecordsError, match="GroupNorm"):
        clipped_gradient(WholeNumbers(), loss, (x, Y), 1.0)


def test_mixing_above_three_records_is_found_before_the_first_step(loss: Any) -> None:
    """Whatever the size of the first batch."""
    with pytest.raises(MixedRecordsError, match="GroupNorm"):
        clipped_gradient(CentredAbove(3), loss, (X[:2], Y[:2]), 1.0)


def test_a_loss_that_reads_other_labels_is_found() -> None:
    """Weights by how frequent a class is in the batch."""

    def balanced(output: Tensor, y: Tensor) -> Tensor:
        shares = torch.bincount(y, minlength=3)[y] / len(y)
        return F.cross_entropy(output, y, reduction="none") / shares

    for labels in (Y, torch.zeros_like(Y)):
        with pytest.raises(ReducedLossError, match="labels of others"):
            clipped_gradient(nn.Linear(6, 3), balanced, (X, labels), 1.0)


def test_each_loss_is_looked_at_for_itself() -> None:
    """Two closures share their code, and only one of them keeps records apart."""

    def closure(mixes: bool) -> Any:
        def loss(output: Tensor, y: Tensor) -> Tensor:
            values = F.cross_entropy(output, y, reduction="none")
            return values.mean().expand(len(y)) if mixes else values

        return loss

    class Switch:
        def __init__(self, mixes: bool) -> None:
            self.inner = closure(mixes)

        def loss(self, output: Tensor, y: Tensor) -> Tensor:
            value: Tensor = self.inner(output, y)
            return value

    model, good = nn.Linear(6, 3), closure(False)
    clipped_gradient(model, good, (X, Y), 1.0)
    with pytest.raises(ReducedLossError):
        clipped_gradient(model, closure(True), (X, Y), 1.0)
    clipped_gradient(model, Switch(False).loss, (X, Y), 1.0)
    with pytest.raises(ReducedLossError):
        clipped_gradient(model, Switch(True).loss, (X, Y), 1.0)


def test_a_loss_is_looked_at_once_and_not_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    real = probe.check_independence
    monkeypatch.setattr(probe, "check_independence", lambda *a: looks.append(1) or real(*a))
    model, criterion = nn.Linear(6, 3), nn.CrossEntropyLoss(reduction="none")
    for _ in range(3):
        clipped_gradient(model, criterion, (X, Y), 1.0)
        clipped_gradient(model, criterion.forward, (X, Y), 1.0)
    assert len(looks) == 2
    gone = weakref.ref(criterion)
    del criterion
    gc.collect()
    assert gone() is None


def test_layers_that_were_exchanged_are_looked_at_again(loss: Any) -> None:
    class Centring(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x - x.mean(0))

    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
    clipped_gradient(model, loss, (X, Y), 1.0)
    model[0] = Centring(6, 6)
    with pytest.raises(MixedRecordsError):
        clipped_gradient(model, loss, (X, Y), 1.0)


@pytest.mark.parametrize("first", [float("nan"), 1e30])
def test_the_look_does_not_depend_on_extreme_records(first: float, loss: Any) -> None:
    x = X.clone()
    x[0] = first
    with pytest.raises(MixedRecordsError):
        clipped_gradient(Centred(), loss, (x, Y), 1.0)
    model = nn.Linear(6, 3)
    clipped_gradient(model, loss, (x, Y), 1.0)
    assert route_of(model).route is Route.BOOK_KEEPING  # type: ignore[union-attr]


def test_what_cannot_be_judged_goes_one_record_at_a_time(loss: Any) -> None:
    """A model that is not a number on made-up records: nothing is known, so nothing can mix."""

    class Logarithm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(torch.log(x - 1e6))

    model = Logarithm()
    clipped_gradient(model, loss, (X + 2e6, Y), 1.0)
    choice = route_of(model)
    assert choice is not None
    assert choice.route is not Route.BOOK_KEEPING


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_coarse_parameters_are_refused_in_one_sentence(dtype: torch.dtype, loss: Any) -> None:
    model = nn.Linear(6, 3).to(dtype)
    with pytest.raises(ModelError, match=r"float32, got .*float16.*model\.float\(\)"):
        clipped_gradient(model, loss, (X.to(dtype), Y), 1.0)


def test_autocast_is_refused_around_and_followed_inside(loss: Any) -> None:
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ModelError, match="autocast"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y), 1.0)

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
            self.head = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                x = self.second(self.inner(x))
            return self.head(x.float())

    model = Inside()
    sums, norms = clipped_gradient(model, loss, (X, Y), 0.01)
    assert route_of(model).route is not Route.BOOK_KEEPING  # type: ignore[union-attr]
    assert {part.dtype for part in sums.values()} == {torch.float32}
    total = torch.stack([part.norm() for part in sums.values()]).norm()
    assert bool((norms > 0.01).all())
    assert 0 < float(total) <= 0.01 * len(X) * (1 + 1e-6)


def test_records_of_another_type_are_refused_in_one_sentence(loss: Any) -> None:
    with pytest.raises(ModelError, match="check their type"):
        clipped_gradient(nn.Linear(6, 3), loss, (X.half(), Y), 1.0)


def test_a_frozen_model_is_refused(loss: Any) -> None:
    with pytest.raises(ModelError, match="frozen entirely"):
        clipped_gradient(nn.Linear(6, 3).requires_grad_(False), loss, (X, Y), 1.0)


@pytest.mark.parametrize("clip_norm", [1e-25, 1e-10, 1e20])
def test_a_clip_norm_that_float32_cannot_hold_is_refused(clip_norm: float, loss: Any) -> None:
    with pytest.raises(ModelError, match="between 1e-09 and 1e\\+09"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y), clip_norm)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan")])
def test_a_clip_norm_that_bounds_nothing_is_refused(clip_norm: float, loss: Any) -> None:
    with pytest.raises(ModelError, match="clip_norm > 0"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y), clip_norm)


def test_batches_with_wrong_axes_are_refused(loss: Any) -> None:
    with pytest.raises(ModelError, match="4 records"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y[:3]), 1.0)
    with pytest.raises(ModelError, match="2 clips"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y), 1.0, clips=2)
