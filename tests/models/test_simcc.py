"""SimCC: targets, loss and decoding against slow oracles written out joint by joint."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import models

X_BINS, Y_BINS, SPLIT, SIGMA = 24, 32, 2.0, 1.5


def _slow_target(coordinate, bins):
    centre = min(max(round(coordinate * SPLIT), 0), bins - 1)
    weights = [math.exp(-((b - centre) ** 2) / (2 * SIGMA**2)) for b in range(bins)]
    return [w / sum(weights) for w in weights]


def _slow_loss(logits, joints, visible):
    losses = []
    for record, places, seen in zip(logits.tolist(), joints.tolist(), visible.tolist()):
        divergences = []
        for scores, place, here in zip(record, places, seen):
            if not here:
                continue
            for part, coordinate in ((scores[:X_BINS], place[0]), (scores[X_BINS:], place[1])):
                target = _slow_target(coordinate, len(part))
                log_total = math.log(sum(math.exp(s) for s in part))
                divergences.append(
                    sum(t * (math.log(t) - (s - log_total)) for t, s in zip(target, part) if t > 0)
                )
        losses.append(sum(divergences) / len(divergences) if divergences else 0.0)
    return torch.tensor(losses, dtype=torch.float64)


def test_loss_equals_the_slow_oracle_and_is_one_value_a_record():
    logits = torch.randn(4, 5, X_BINS + Y_BINS, dtype=torch.float64)
    # quarters avoid ties of rounding (Python rounds half to even, and so does torch)
    joints = torch.randint(0, 44, (4, 5, 2)).double() / 4 + 0.1
    visible = torch.rand(4, 5) > 0.3
    visible[2] = False
    loss = models.simcc_loss(logits, joints, visible, x_bins=X_BINS, split=SPLIT, sigma=SIGMA)
    assert loss.shape == (4,)
    torch.testing.assert_close(loss, _slow_loss(logits, joints, visible))
    assert float(loss[2]) == 0.0


def test_an_invisible_joint_has_no_gradient():
    logits = torch.randn(1, 2, X_BINS + Y_BINS, requires_grad=True)
    visible = torch.tensor([[True, False]])
    models.simcc_loss(logits, torch.rand(1, 2, 2) * 10, visible, x_bins=X_BINS).sum().backward()
    assert float(logits.grad[0, 0].abs().max()) > 0
    assert float(logits.grad[0, 1].abs().max()) == 0


@pytest.mark.usefixtures("double_precision")
def test_sigma_zero_is_one_hot_and_rows_sum_to_one():
    hard = models.soft_labels(torch.tensor([3.2]), 10, 2.0, 0.0)
    assert hard.argmax() == 6
    assert hard.sum() == 1
    soft = models.soft_labels(torch.tensor([3.2, 0.0, 99.0]), 10, 2.0, 2.0)
    torch.testing.assert_close(soft.sum(1), torch.ones(3))
    assert soft[2].argmax() == 9


@settings(max_examples=60, deadline=None)
@given(x=st.floats(1.5, 10.0), y=st.floats(1.5, 14.0), sigma=st.floats(0.8, 4.0))
def test_decoding_a_gaussian_gives_back_its_centre_finer_than_a_bin(x, y, sigma):
    parts = []
    for centre, bins in ((x, X_BINS), (y, Y_BINS)):
        distance = torch.arange(bins, dtype=torch.float64) - centre * SPLIT
        parts.append(-distance.square() / (2 * sigma**2))
    logits = torch.cat(parts)[None, None]
    joints, score = models.decode(logits, x_bins=X_BINS, split=SPLIT)
    torch.testing.assert_close(
        joints[0, 0], torch.tensor([x, y], dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert 0 < float(score) <= 1


def test_a_best_bin_at_the_border_and_a_flat_row_stay_finite():
    logits = torch.zeros(1, 2, X_BINS + Y_BINS)
    logits[0, 0, 0] = 5.0
    logits[0, 0, -1] = 5.0
    joints, _ = models.decode(logits, x_bins=X_BINS, split=SPLIT)
    assert joints.isfinite().all()
    assert joints[0, 0].tolist() == [0.0, (Y_BINS - 1) / SPLIT]


def test_head_learns_one_picture_to_a_pixel():
    """A head that mixed up axes, joints or bins could not place every joint."""
    head = models.SimCC(8, joints=3, input_size=(64, 32), split=2.0, stride=8, upsample=2)
    features = torch.randn(2, 8, 8, 4)
    joints = torch.tensor(
        [[[3.0, 50.0], [28.0, 9.0], [15.5, 30.0]], [[20.0, 5.0], [4.0, 60.0], [9.0, 31.5]]]
    )
    seen = torch.ones(2, 3)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss = models.simcc_loss(head(features), joints, seen, x_bins=head.x_bins, sigma=2.0)
        loss.sum().backward()
        optimizer.step()
    decoded, _ = models.decode(head(features), x_bins=head.x_bins, split=2.0)
    assert float((decoded - joints).abs().max()) < 0.5


def test_pose_net_on_both_backbones_gives_one_row_of_logits_a_joint():
    for backbone in (models.tiny_vit("5m", 0), models.efficientnet_lite0(0)):
        head = models.SimCC(backbone.width, joints=16, input_size=(64, 96))
        net = models.PoseNet(backbone, head).eval()
        with torch.no_grad():
            out = net(torch.randn(2, 3, 64, 96))
        assert out.shape == (2, 16, 192 + 128)
        assert models.split_axes(out, head.x_bins)[0].shape[-1] == 192


def test_sizes_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="divisible"):
        models.SimCC(8, input_size=(100, 96))
    with pytest.raises(ValueError, match="split factor"):
        models.SimCC(8, split=0.5)
