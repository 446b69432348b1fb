"""Small models and records for the tests of the private step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.data._records import ArrayRecords

warnings.filterwarnings("ignore", message="There is a performance drop")
torch.set_num_threads(1)


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output, y, reduction="none")


@pytest.fixture
def loss() -> Callable[[Any, Any], Tensor]:
    return cross_entropy


def vectors(count: int = 40, size: int = 6, classes: int = 3, seed: int = 0) -> ArrayRecords:
    """Separable points: a linear model learns them."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1234).normal(size=(classes, size)) * 2
    y = rng.integers(classes, size=count)
    x = (centres[y] + rng.normal(size=(count, size))).astype(np.float32)
    return ArrayRecords(x, y, classes=[str(c) for c in range(classes)])


@pytest.fixture
def points() -> Callable[..., ArrayRecords]:
    return vectors


def linear(size: int = 6, classes: int = 3, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, classes))


@pytest.fixture
def small_model() -> Callable[..., nn.Module]:
    return linear
