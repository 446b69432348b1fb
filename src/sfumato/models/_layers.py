"""Layers that several ports share."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class StochasticDepth(nn.Module):
    """Drops a residual branch for whole records, and scales the rest so that the mean is kept."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if self.rate == 0.0 or not self.training:
            return x
        kept = torch.rand(x.shape[:1] + (1,) * (x.ndim - 1), device=x.device) >= self.rate
        return x * kept / (1.0 - self.rate)


def pad_same(
    x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], value: float = 0.0
) -> Tensor:
    """TensorFlow's SAME padding: outputs = ceil(inputs / stride), the odd pixel at the far end."""
    padding: list[int] = []
    for n, k, s in zip(reversed(x.shape[2:]), reversed(kernel), reversed(stride)):
        total = max((-(-n // s) - 1) * s + k - n, 0)
        padding += [total // 2, total - total // 2]
    return functional.pad(x, padding, value=value) if any(padding) else x
