"""Every model goes through the private engine: sums and norms equal a loop over single records."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from sfumato import models
from sfumato.learn import Route, clipped_gradient, route_of

pytestmark = pytest.mark.usefixtures("double_precision")

CLIP = 0.5


def _cross_entropy(out, y):
    return functional.cross_entropy(out, y, reduction="none")


def _pose_loss(out, y):
    return models.simcc_loss(out, y[..., :2], y[..., 2], x_bins=128)


def _slow(model, loss, x, y):
    total, norms = {}, []
    for i in range(len(x)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).sum().backward()
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        gradient = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in named}
        norm = torch.stack([g.square().sum() for g in gradient.values()]).sum().sqrt()
        norms.append(norm)
        for name, g in gradient.items():
            total[name] = total.get(name, 0) + g * min(1.0, CLIP / float(norm))
    model.zero_grad()
    return total, torch.stack(norms)


def _mvit():
    return models.mvit_v2_s(5, frames=4, spatial_size=(32, 32)), (3, 4, 32, 32)


def _tiny_vit():
    return models.freeze_batchnorm(models.tiny_vit("5m", 5)), (3, 64, 64)


def _pose():
    body = models.freeze_batchnorm(models.efficientnet_lite0(0))
    return models.PoseNet(body, models.SimCC(320, joints=14, input_size=(64, 64))), (3, 64, 64)


@pytest.mark.parametrize(
    ("build", "preset"),
    [
        (_mvit, "last-norms"),
        (_tiny_vit, "last-stage"),
        (_tiny_vit, "everything"),
        (_pose, "last-stage"),
        (lambda: (models.SensorCNN(classes=5), (128, 2)), "everything"),
        (lambda: (models.MelCNN(classes=5), (40, 32, 1)), "everything"),
    ],
)
def test_clipped_gradients_of_the_models_equal_a_loop(build, preset):
    model, shape = build()
    model.eval()
    models.select(model, preset)
    x = torch.randn(3, *shape)
    pose = isinstance(model, models.PoseNet)
    y = torch.rand(3, 14, 3) * 60 if pose else torch.tensor([0, 3, 4])
    loss = _pose_loss if pose else _cross_entropy
    total, norms = clipped_gradient(model, loss, (x, y), CLIP)
    choice = route_of(model)
    assert choice is not None
    assert choice.route is Route.BOOK_KEEPING, choice.reason
    expected, expected_norms = _slow(model, loss, x, y)
    torch.testing.assert_close(norms, expected_norms, atol=0, rtol=1e-9)
    assert total.keys() == expected.keys()
    scale = max(float(g.abs().max()) for g in expected.values())
    assert scale > 0
    for name, gradient in expected.items():
        torch.testing.assert_close(total[name] / scale, gradient / scale, atol=1e-9, rtol=0)
