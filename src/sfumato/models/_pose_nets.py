"""Pose models by the name of their backbone."""

from __future__ import annotations

from sfumato.errors import SfumatoError
from sfumato.models._efficientnet import efficientnet_lite0
from sfumato.models._simcc import PoseNet, SimCC
from sfumato.models._tiny_vit import tiny_vit
from sfumato.models._two_scales import TwoScales

_TINY = "tiny-vit-"
POSE_BACKBONES = ("tiny-vit-5m", "tiny-vit-11m", "tiny-vit-21m", "efficientnet-lite0")


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

    ``pretrained`` takes ImageNet weights from the model store, which has them for EfficientNet-Lite0
    alone. BatchNorms are as published: freeze or replace them before private training.
    """
    if backbone not in POSE_BACKBONES:
        raise SfumatoError(
            f"Expected a backbone out of {', '.join(POSE_BACKBONES)}, got {backbone!r}."
        )
    if backbone.startswith(_TINY):
        if pretrained:
            raise SfumatoError(
                f"Expected a backbone whose weights the model store has, got {backbone}: load your "
                "own with load_weights, or take efficientnet-lite0."
            )
        body = tiny_vit(backbone.removeprefix(_TINY), 0)
        return PoseNet(body, SimCC(body.width, joints, input_size=input_size, split=split))
    both = TwoScales(efficientnet_lite0(0, pretrained=pretrained, offline=offline))
    head = SimCC(both.width, joints, input_size=input_size, split=split, stride=both.stride,
                 upsample=1)  # fmt: skip
    return PoseNet(both, head)
