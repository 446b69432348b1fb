"""Models and losses without a bounded record gradient are refused, with the remedy."""

from __future__ import annotations

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
    clipped_gradient,
)
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


def test_a_frozen_model_is_refused(loss: Any) -> None:
    with pytest.raises(ModelError, match="frozen entirely"):
        clipped_gradient(nn.Linear(6, 3).requires_grad_(False), loss, (X, Y), 1.0)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan")])
def test_a_clip_norm_that_bounds_nothing_is_refused(clip_norm: float, loss: Any) -> None:
    with pytest.raises(ModelError, match="clip_norm > 0"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y), clip_norm)


def test_batches_with_wrong_axes_are_refused(loss: Any) -> None:
    with pytest.raises(ModelError, match="4 records"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y[:3]), 1.0)
    with pytest.raises(ModelError, match="2 clips"):
        clipped_gradient(nn.Linear(6, 3), loss, (X, Y), 1.0, clips=2)
