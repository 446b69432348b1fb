"""Table ``pose-tiny-vit``: maps become places, and settings are chosen with the clipping that private pictures get."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.pose.tiny_vit import (
    CLIP_NORM,
    HIDDEN,
    SIZE,
    STRIDE,
    Head,
    _clipped_mean,
    centres,
    heat_loss,
    places,
)
from sfumato.data import LSP

ROWS, COLUMNS = SIZE[0] // STRIDE, SIZE[1] // STRIDE


def _people(count: int) -> torch.Tensor:
    draw = np.random.default_rng(0)
    y = np.ones((count, len(LSP), 3), np.float32)
    y[..., 0] = draw.uniform(20, SIZE[1] - 20, y.shape[:2])
    y[..., 1] = draw.uniform(20, SIZE[0] - 20, y.shape[:2])
    return torch.from_numpy(y)


def test_a_map_that_is_bright_around_a_joint_says_where_it_is() -> None:
    y = _people(3)
    columns, rows = centres()
    apart = (columns - y[..., 0, None, None]) ** 2 + (rows[:, None] - y[..., 1, None, None]) ** 2
    assert np.abs(places(-apart / (2 * 12.0**2)) - y[..., :2].numpy()).max() < 2
    assert np.abs(places(-(apart.flip(-1))) - y[..., :2].numpy()).max() > STRIDE


def test_the_loss_is_one_value_a_record_and_least_at_the_joints() -> None:
    y = _people(2)
    columns, rows = centres()
    apart = (columns - y[..., 0, None, None]) ** 2 + (rows[:, None] - y[..., 1, None, None]) ** 2
    right = -apart / (2 * 12.0**2)
    assert heat_loss(right, y).shape == (2,)
    assert (heat_loss(right, y) < heat_loss(right.flip(-1), y)).all()
    hidden = y.clone()
    hidden[:, 0, 2] = 0
    moved = right.clone()
    moved[:, 0] = 0
    torch.testing.assert_close(heat_loss(moved, hidden), heat_loss(right, hidden))


def test_settings_are_chosen_with_gradients_clipped_record_by_record() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4, HIDDEN, ROWS, COLUMNS), _people(4)
    layer = nn.Conv2d(HIDDEN, len(LSP), 1)
    expected = [torch.zeros_like(p) for p in layer.parameters()]
    clipped = 0
    for one, told in zip(x, y):
        own = torch.autograd.grad(
            heat_loss(layer(one[None]), told[None]).sum(), list(layer.parameters())
        )
        length = torch.sqrt(sum((g.square().sum() for g in own), torch.zeros(())))
        clipped += int(length > CLIP_NORM)
        for total, g in zip(expected, own):
            total += g * min(1.0, CLIP_NORM / float(length)) / len(x)
    assert clipped
    weight, bias = (p.detach() for p in layer.parameters())
    found = _clipped_mean(weight[..., 0, 0], bias, x, y)
    torch.testing.assert_close(found[0], expected[0][..., 0, 0], rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("records", [1, 3])
def test_the_hidden_map_is_all_that_the_last_layer_needs(records: int) -> None:
    head = Head().eval()
    x = torch.randn(records, 320, ROWS, COLUMNS)
    with torch.no_grad():
        assert torch.equal(head(x), head.last(head.hidden(x)))
