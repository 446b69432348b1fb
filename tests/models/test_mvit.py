"""MViT against torchvision: names, outputs, gradients, and what the shortcuts leave unchanged."""

from __future__ import annotations

import pytest
import torch

from sfumato import models

pytestmark = pytest.mark.usefixtures("double_precision")

CASES = [("mvit_v2_s", "mvit_v2_s"), ("mvit_b", "mvit_v1_b")]


def _oracle_at(torchvision_mvit, theirs, classes, frames, size):
    """torchvision's model at another input size, through its own private constructor."""
    original = torchvision_mvit._mvit

    def at_size(**settings):
        return original(**{**settings, "temporal_size": frames, "spatial_size": size})

    torchvision_mvit._mvit = at_size
    try:
        build = getattr(torchvision_mvit, theirs)
        return build(num_classes=classes, dropout=0.0, stochastic_depth_prob=0.0)
    finally:
        torchvision_mvit._mvit = original


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_outputs_and_gradients_equal_torchvisions(torchvision_mvit, shake, ours, theirs):
    oracle = _oracle_at(torchvision_mvit, theirs, 7, 4, (48, 64))
    shake(oracle)
    model = getattr(models, ours)(7, frames=4, spatial_size=(48, 64))
    model.load_state_dict(oracle.state_dict(), strict=True)
    oracle.eval()
    model.eval()
    clips = torch.randn(2, 3, 4, 48, 64)
    expected = oracle(clips)
    scale = expected.abs().max()
    assert scale > 0.1
    with torch.no_grad():  # the path of prediction and of the trunk cache
        torch.testing.assert_close(model(clips), expected, atol=1e-9, rtol=1e-9)
    actual = model(clips)  # the path of training
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)

    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (actual * weight).sum().backward()
    gradients = dict(oracle.named_parameters())
    for name, parameter in model.named_parameters():
        want = gradients[name].grad
        assert want is not None
        tolerance = 1e-9 * max(1.0, float(want.abs().max()))
        torch.testing.assert_close(parameter.grad, want, atol=tolerance, rtol=0, msg=name)


def test_published_sizes_have_torchvisions_parameter_counts():
    with torch.device("meta"):
        counts = [
            sum(p.numel() for p in build().parameters())
            for build in (models.mvit_v2_s, models.mvit_b)
        ]
    assert counts == [34_537_744, 36_610_672]


@pytest.mark.parametrize("ours", ["mvit_v2_s", "mvit_b"])
def test_steps_run_one_after_the_other_are_the_model(shake, ours):
    model = getattr(models, ours)(5, frames=4, spatial_size=(32, 32)).eval()
    shake(model)
    clips = torch.randn(1, 3, 4, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(models.run(model.steps(), clips), model(clips))
    owned = {id(p) for step in model.steps() for m in step.modules for p in m.parameters()}
    assert owned == {id(p) for p in model.parameters()}


def test_gradient_of_the_tail_is_the_same_with_one_query_as_with_all(shake):
    """Training norms only lets the last block run with the class token alone: same gradients."""
    model = models.mvit_v2_s(5, frames=4, spatial_size=(64, 64)).eval()
    shake(model)
    clips = torch.randn(2, 3, 4, 64, 64)
    gradients = []
    for everything in (True, False):
        model.requires_grad_(everything)
        models.select(model, "last-norms")
        if everything:  # a trainable query parameter makes the last block run all its rows
            model.blocks[-1].attn.rel_pos_h.requires_grad_(True)
        assert model.blocks[-1].attn.queries_train is everything
        model.zero_grad()
        model(clips).square().sum().backward()
        gradients.append(
            {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        )
    assert float(gradients[0].pop("blocks.15.attn.rel_pos_h").abs().max()) == 0.0
    assert gradients[0].keys() == gradients[1].keys()
    # one scale for all: the shift of the keys' norm has gradient zero, as softmax ignores it
    scale = max(float(gradient.abs().max()) for gradient in gradients[0].values())
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name] / scale, gradient / scale, atol=1e-9, rtol=0)


def test_per_record_gradients_by_vmap_equal_a_loop(shake):
    model = models.mvit_v2_s(3, frames=4, spatial_size=(32, 32)).eval()
    shake(model)
    models.select(model, "last-norms")
    clips = torch.randn(3, 3, 4, 32, 32)
    trained = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    rest = {n: p.detach() for n, p in model.named_parameters() if not p.requires_grad}

    def loss(parameters, clip):
        out = torch.func.functional_call(model, {**rest, **parameters}, (clip[None],))
        return out.square().sum()

    together = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(trained, clips)
    for i, clip in enumerate(clips):
        alone = torch.func.grad(loss)(trained, clip)
        scale = max(float(gradient.abs().max()) for gradient in alone.values())
        for name, gradient in alone.items():
            torch.testing.assert_close(
                together[name][i] / scale, gradient / scale, atol=1e-9, rtol=0
            )


def test_clips_of_another_size_are_refused_with_a_remedy():
    model = models.mvit_v2_s(5, frames=4, spatial_size=(32, 32))
    with pytest.raises(ValueError, match="frames= and spatial_size="):
        model(torch.randn(1, 3, 4, 64, 64))
