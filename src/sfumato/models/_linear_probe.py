"""A linear layer, or one with a hidden layer before it, on fixed features of unit length.

Private training likes few parameters and gradients of one size: features are scaled to length 1, so
that a record's gradient is never longer than its error.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._efficientnet import EfficientNetLite0, efficientnet_lite0
from sfumato.models._i3d import I3D, i3d
from sfumato.models._norms import freeze_batchnorm
from sfumato.models._steps import Step, run

# of EfficientNet-Lite0: the stem and eleven blocks, averaged over a grid of 4 by 4. A face's parts are
# still in place there; the last map is made for ImageNet's classes.
_STEPS, _GRID, _CHANNELS = 12, 4, 112
FEATURE_NETWORKS = ("i3d", "efficientnet-lite0")


class _Values(nn.Module):
    """The values of a record, without their mean."""

    def forward(self, x: Tensor) -> Tensor:
        values = x.flatten(1)
        return values - values.mean(1, keepdim=True)


class _ClipFeatures(nn.Module):
    def __init__(self, network: I3D) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network.features(x)


class _PictureFeatures(nn.Module):
    def __init__(self, network: EfficientNetLite0) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(run(self.network.steps()[:_STEPS], x), _GRID)


class LinearProbe(nn.Module):
    """What a frozen ``trunk`` gives, scaled to length 1, then ``hidden`` units if any, then classes.

    The last layer starts at zero, so that the first step of whole batches is one of class means.
    """

    def __init__(self, trunk: nn.Module, width: int, classes: int, hidden: int = 0) -> None:
        super().__init__()
        self.trunk = freeze_batchnorm(trunk).requires_grad_(False)
        self.hidden = nn.Linear(width, hidden) if hidden else None
        self.head = nn.Linear(hidden or width, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def _scaled(self, x: Tensor) -> Tensor:
        return functional.normalize(self.trunk(x).flatten(1), dim=1)

    def _hide(self, x: Tensor) -> Tensor:
        assert self.hidden is not None
        return torch.relu(self.hidden(x))

    def steps(self) -> list[Step]:
        parts = [Step("trunk", self._scaled, (self.trunk,))]
        if self.hidden is not None:
            parts.append(Step("hidden", self._hide, (self.hidden,)))
        return [*parts, Step("head", self.head, (self.head,))]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


def array_head(inputs: int, classes: int, hidden: int = 0) -> LinearProbe:
    """Windows, log-mel pictures, or features of one's own, of ``inputs`` numbers a record."""
    return LinearProbe(_Values(), inputs, classes, hidden)


def feature_head(
    name: str, classes: int, *, pretrained: bool = False, hidden: int = 0, offline: bool = False
) -> LinearProbe:
    """``i3d`` on clips (Kinetics-400) or ``efficientnet-lite0`` on pictures (ImageNet), frozen."""
    if name == "i3d":
        clips = _ClipFeatures(i3d(pretrained=pretrained, offline=offline))
        return LinearProbe(clips, 1024, classes, hidden)
    pictures = _PictureFeatures(efficientnet_lite0(pretrained=pretrained, offline=offline))
    return LinearProbe(pictures, _CHANNELS * _GRID**2, classes, hidden)
