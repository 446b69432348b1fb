"""Pose models by name: two scales side by side, one step for the deep blocks."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from sfumato.errors import SfumatoError
from sfumato.models import (
    POSE_BACKBONES,
    EfficientNetLite0,
    TwoScales,
    cut,
    freeze_batchnorm,
    pose_net,
    select,
)

pytestmark = pytest.mark.usefixtures("double_precision")


def test_the_map_is_the_middle_one_beside_the_enlarged_deep_one() -> None:
    torch.manual_seed(0)
    inner = EfficientNetLite0(0).eval()
    x = torch.randn(2, 3, 64, 32)
    middle = inner._stem(x)
    for block in inner._blocks[:11]:
        middle = block(middle)
    deep = middle
    for block in inner._blocks[11:]:
        deep = block(deep)
    large = functional.interpolate(deep, size=(4, 2), mode="bilinear", align_corners=False)
    found = TwoScales(inner)(x)
    assert found.shape == (2, TwoScales.width, 4, 2)
    assert torch.allclose(found, torch.cat((middle, large), 1))


def test_presets_freeze_what_comes_before() -> None:
    model = freeze_batchnorm(pose_net("efficientnet-lite0", 14, input_size=(64, 32)))
    head = sum(p.numel() for p in model.head.parameters())
    assert select(model, "head") == head
    assert [step.name for step in cut(model)[1]] == ["head"]
    select(model, "last-stage")
    deep = next(step for step in model.steps() if step.name == "backbone.backbone.deep")
    assert all(p.requires_grad for part in deep.modules for p in part.parameters())
    conv = model.steps()[3].modules[0]._expand_conv  # type: ignore[union-attr]
    assert not conv.weight.requires_grad


@pytest.mark.parametrize("name", ["tiny-vit-5m", "mobile-sam", "efficientnet-lite0"])
def test_models_give_bins_for_every_joint(name: str) -> None:
    model = pose_net(name, 16, input_size=(64, 32)).eval()
    with torch.no_grad():
        assert model(torch.randn(1, 3, 64, 32)).shape == (1, 16, 2 * 32 + 2 * 64)


def test_wrong_names_get_one_sentence() -> None:
    with pytest.raises(SfumatoError, match=POSE_BACKBONES[0]):
        pose_net("resnet")
    with pytest.raises(SfumatoError, match="load_weights"):
        pose_net("tiny-vit-5m", pretrained=True)
    with pytest.raises(ValueError, match="classes=0"):
        TwoScales(EfficientNetLite0(3))
