"""A head on MoveNet's joints: it starts at their answer, turns with the body, and mirrors itself."""

from __future__ import annotations

import pytest
import torch

from sfumato.data import COCO, LSP, MPII, mirror_order
from sfumato.errors import SfumatoError
from sfumato.learn import PlaceLoss, clipped_gradient
from sfumato.models import JointsHead, JointsNet, MirrorTrunk, MoveNetThunder, cut
from sfumato.models._joints_head import COCO as OWN_ORDER
from sfumato.models._joints_head import merged, unmirrored


@pytest.fixture
def people() -> torch.Tensor:
    rows = torch.rand(5, 17, 3, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    return rows * torch.tensor([200.0, 200.0, 1.0])


def learned(joints: tuple[str, ...]) -> JointsHead:
    head = JointsHead(joints).double()
    with torch.no_grad():
        head.shares.normal_(0, 5, generator=torch.Generator().manual_seed(2))
    return head


def test_it_starts_at_the_trunks_own_answer(people):
    assert OWN_ORDER == COCO
    assert torch.equal(JointsHead(COCO).double()(people), people)
    for joints in (LSP, MPII):
        found = JointsHead(joints).double()(people)
        for place, name in enumerate(joints):
            if name in COCO:
                assert torch.equal(found[:, place], people[:, COCO.index(name)])
    middle = (people[:, COCO.index("left_hip"), :2] + people[:, COCO.index("right_hip"), :2]) / 2
    pelvis = JointsHead(MPII).double()(people)[:, MPII.index("pelvis"), :2]
    torch.testing.assert_close(pelvis, middle)


def test_a_body_that_turns_grows_and_moves_takes_its_joints_along(people):
    head, angle = learned(LSP), torch.tensor(0.7, dtype=torch.double)
    turn = 1.3 * torch.stack((torch.stack((angle.cos(), -angle.sin())),
                              torch.stack((angle.sin(), angle.cos()))))  # fmt: skip
    shift = torch.tensor([11.0, -4.0], dtype=torch.double)
    moved = torch.cat((people[..., :2] @ turn.t() + shift, people[..., 2:]), -1)
    torch.testing.assert_close(head(moved)[..., :2], head(people)[..., :2] @ turn.t() + shift)


def test_a_mirror_image_gives_mirrored_joints(people):
    head = learned(LSP)
    # neck and head have no side: what they learn to one is not the other's
    sided = [place for place, name in enumerate(LSP) if name.startswith(("left", "right"))]
    found = head(unmirrored(people))[:, sided]
    expected = head(people)[:, mirror_order(LSP)][:, sided]
    torch.testing.assert_close(found[..., 0], 255 - expected[..., 0])
    torch.testing.assert_close(found[..., 1], expected[..., 1])


def test_two_opinions_meet_where_they_agree_and_the_surer_wins_elsewhere():
    near = torch.tensor([[100.0, 50.0, 0.8]]), torch.tensor([[102.0, 50.0, 0.8]])
    assert merged(*near)[0, 0].item() == pytest.approx(101.0, abs=0.1)
    far = torch.tensor([[100.0, 50.0, 0.3]]), torch.tensor([[180.0, 50.0, 0.6]])
    torch.testing.assert_close(merged(*far), far[1])
    torch.testing.assert_close(merged(*far), merged(*reversed(far)))


def test_a_joint_far_off_pulls_at_nothing_and_every_gradient_is_the_records_own(people):
    head, loss = JointsHead(LSP).double(), PlaceLoss(joints=LSP)
    y = torch.cat((head(people)[..., :2].detach() + 3, torch.ones(5, 14, 1)), -1)
    y[4, :, :2] += 500
    sums, norms = clipped_gradient(head, loss, (people, y), 1e9)
    assert norms[4] < 1e-9
    slow = torch.zeros_like(head.shares)
    for row in range(5):  # one record after the other
        slow += torch.autograd.grad(
            loss(head(people[row : row + 1]), y[row : row + 1])[0], head.shares
        )[0]
    torch.testing.assert_close(sums["shares"], slow)


def test_only_the_head_trains_and_unknown_joints_are_one_sentence():
    net = JointsNet(MirrorTrunk(MoveNetThunder()), LSP)
    net.trunk.requires_grad_(False)
    trunk, rest = cut(net)
    assert [step.name for step in (*trunk, *rest)] == ["trunk", "head"]
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == 96
    with pytest.raises(SfumatoError, match="tail"):
        JointsHead(("nose", "tail"))
