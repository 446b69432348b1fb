"""Pose models by the name of their backbone, and the backbone that joins two scales of EfficientNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.errors import SfumatoError
from sfumato.models._efficientnet import EfficientNetLite0, efficientnet_lite0
from sfumato.models._simcc import PoseNet, SimCC
from sfumato.models._steps import Step, run
from sfumato.models._tiny_vit import MOBILE_SAM, mobile_sam_trunk, tiny_vit

_TINY = "tiny-vit-"
POSE_BACKBONES = ("tiny-vit-5m", "tiny-vit-11m", "tiny-vit-21m", MOBILE_SAM, "efficientnet-lite0")


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


def pose_net(
    backbone: str = "tiny-vit-5m",
    joints: int = 16,
    *,
    input_size: tuple[int, int] = (256, 192),
    split: float = 2.0,
    pretrained: bool = False,
    offline: bool = False,
) -> PoseNet:
    """A backbone with a SimCC head; ``input_size`` is height and width.

    ``mobile-sam`` is TinyViT-5M whose last stage stays at stride 16. ``pretrained`` takes weights from
    the model store, which has MobileSAM's for it and ImageNet's for EfficientNet-Lite0. BatchNorms are as published: freeze or replace them before private training.
    """
    if backbone not in POSE_BACKBONES:
        raise SfumatoError(
            f"Expected a backbone out of {', '.join(POSE_BACKBONES)}, got {backbone!r}."
        )
    if backbone.startswith(_TINY):
        if pretrained:
            raise SfumatoError(
                f"Expected a backbone whose weights the model store has, got {backbone}: load your "
                f"own with load_weights, or take {MOBILE_SAM} or efficientnet-lite0."
            )
        body = tiny_vit(backbone.removeprefix(_TINY), 0)
        return PoseNet(body, SimCC(body.width, joints, input_size=input_size, split=split))
    if backbone == MOBILE_SAM:
        trunk = mobile_sam_trunk(pretrained=pretrained, offline=offline)
        head = SimCC(trunk.width, joints, input_size=input_size, split=split, stride=trunk.stride,
                     upsample=1)  # fmt: skip
        return PoseNet(trunk, head)
    both = TwoScales(efficientnet_lite0(0, pretrained=pretrained, offline=offline))
    head = SimCC(both.width, joints, input_size=input_size, split=split, stride=both.stride,
                 upsample=1)  # fmt: skip
    return PoseNet(both, head)
