"""EfficientNet-Lite0 whose map joins two scales: fine places beside what the deep layers make of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._efficientnet import EfficientNetLite0
from sfumato.models._steps import Step, run

# of its 16 blocks, those from here on work at stride 32; the map before them is at stride 16
_DEEP = 11


class TwoScales(nn.Module):
    """Pictures (records, 3, H, W) to maps (records, 432, H/16, W/16), for a pose head.

    A map at stride 32 of a crop of 128 x 96 pixels has 4 x 3 cells, too few to tell an elbow from
    a shoulder. Here the deep blocks still run there, and their map is enlarged and laid beside the
    one before them. The deep blocks are one step, so "last-stage" trains them together.
    """

    width = 432
    stride = 16

    def __init__(self, backbone: EfficientNetLite0) -> None:
        super().__init__()
        if backbone._fc is not None:
            raise ValueError("Expected a backbone without classes (classes=0), got one with.")
        self.backbone = backbone

    def steps(self) -> list[Step]:
        inner = self.backbone.steps()
        first, deep = inner[: _DEEP + 1], inner[_DEEP + 1 :]
        renamed = [Step(f"backbone.{step.name}", step.run, step.modules) for step in first]

        def join(x: Tensor) -> Tensor:
            large = functional.interpolate(
                run(deep, x), size=x.shape[2:], mode="bilinear", align_corners=False
            )
            return torch.cat((x, large), 1)

        modules = tuple(module for step in deep for module in step.modules)
        return [*renamed, Step("backbone.deep", join, modules)]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)
