"""BatchNorm mixes the records of a batch, which private training forbids: freeze or replace it."""

from __future__ import annotations

from typing import Self, TypeVar

import torch
from torch import nn

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
Model = TypeVar("Model", bound=nn.Module)


class _Frozen:
    """Mixed into a BatchNorm: stays in evaluation mode, whatever ``train()`` says."""

    training: bool

    def train(self, mode: bool = True) -> Self:
        self.training = False
        return self


class FrozenBatchNorm1d(_Frozen, nn.BatchNorm1d):
    """BatchNorm with fixed statistics: an affine map per channel, each record by itself."""


class FrozenBatchNorm2d(_Frozen, nn.BatchNorm2d):
    """BatchNorm with fixed statistics: an affine map per channel, each record by itself."""


class FrozenBatchNorm3d(_Frozen, nn.BatchNorm3d):
    """BatchNorm with fixed statistics: an affine map per channel, each record by itself."""


_FROZEN: dict[type, type[nn.Module]] = {
    nn.BatchNorm1d: FrozenBatchNorm1d,
    nn.BatchNorm2d: FrozenBatchNorm2d,
    nn.BatchNorm3d: FrozenBatchNorm3d,
}


def freeze_batchnorm(model: Model) -> Model:
    """Keep the statistics of every BatchNorm fixed, whatever ``train()`` says; returns the model.

    The layers then act on each record alone, as an affine map per channel. Scale and shift stay
    trainable if they were.
    """
    for module in model.modules():
        if type(module) in _FROZEN:
            module.eval()
            # the layer itself is kept, so that names, hooks and references to it stay valid
            module.__class__ = _FROZEN[type(module)]
    return model


def replace_batchnorm(model: Model, groups: int = 16) -> Model:
    """Replace every BatchNorm by a GroupNorm with the same scale and shift; returns the model.

    Parameter names stay. The number of groups is the largest divisor of the channels up to
    ``groups``. The outputs change: train the model, publicly if you can, before using it.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BATCH_NORMS):
                setattr(parent, name, _group_norm(child, groups))
    return model


def _group_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d, most: int) -> nn.GroupNorm:
    channels = norm.num_features
    groups = max(g for g in range(1, min(most, channels) + 1) if channels % g == 0)
    replacement = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        with torch.no_grad():
            replacement.weight.copy_(norm.weight)
            replacement.bias.copy_(norm.bias)
        replacement.weight.requires_grad_(norm.weight.requires_grad)
        replacement.bias.requires_grad_(norm.bias.requires_grad)
        replacement.to(norm.weight.device)
    return replacement
