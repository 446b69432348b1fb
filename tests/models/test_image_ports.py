"""TinyViT and EfficientNet-Lite0 against timm; weights of the store; norms that mix no records."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sfumato import models

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.mark.parametrize(
    ("size", "picture"),
    [
        ("5m", (128, 96)),  # every window hangs over an edge
        ("5m", (256, 192)),  # some do
        ("5m", (224, 224)),  # none does
        ("11m", (128, 96)),
        ("21m", (128, 96)),
    ],
)
def test_tiny_vit_equals_timms(timm, shake, size, picture):
    oracle = timm.create_model(f"tiny_vit_{size}_224", num_classes=11).eval()
    shake(oracle)
    model = models.tiny_vit(size, 11).eval()
    model.load_state_dict(oracle.state_dict(), strict=True)
    pictures = torch.randn(2, 3, *picture)
    with torch.no_grad():
        expected = oracle(pictures)
        assert expected.std() > 1e-3
        torch.testing.assert_close(model(pictures), expected)
        features = oracle.forward_features(pictures)
        torch.testing.assert_close(model.features(pictures), features)
        model.requires_grad_(False)  # frozen, all windows share one bias
        torch.testing.assert_close(model.features(pictures), features)


@pytest.mark.parametrize("picture", [(128, 96), (256, 192)])
def test_a_last_stage_that_stays_at_stride_16_equals_timms_without_that_step(timm, shake, picture):
    oracle = timm.create_model("tiny_vit_5m_224", num_classes=0).eval()
    oracle.stages[-1].downsample.conv2.conv.stride = (1, 1)  # as MobileSAM's encoder has it
    shake(oracle)
    model = models.mobile_sam_trunk()
    model.load_state_dict({n: t for n, t in oracle.state_dict().items() if n in model.state_dict()})
    pictures = torch.randn(2, 3, *picture)
    with torch.no_grad():
        found = model(pictures)
        assert found.shape == (2, 320, picture[0] // 16, picture[1] // 16)
        torch.testing.assert_close(found, oracle.forward_features(pictures))


def test_mobile_sams_names_fill_the_trunk():
    """Its stages end with the step to the next one, ours begin with it; neck, masks and tables stay out."""
    own = models.mobile_sam_trunk().state_dict()
    theirs = {}
    for number, name in enumerate(own):
        old = name.replace(".conv.weight", ".c.weight")
        old = old.replace("patch_embed.conv1.", "patch_embed.seq.0.")
        old = old.replace("patch_embed.conv2.", "patch_embed.seq.2.")
        if old.startswith("stages."):
            _, stage, rest = old.split(".", 2)
            old = f"layers.{int(stage) - rest.startswith('downsample.')}.{rest}"
        theirs[f"image_encoder.{old}"] = np.full(own[name].shape, number)
    theirs["image_encoder.neck.0.weight"] = np.zeros(3)
    theirs["image_encoder.layers.1.blocks.0.attn.attention_bias_idxs"] = np.zeros(3)
    theirs["mask_decoder.layers.0.weight"] = np.zeros(3)
    found = models.mobile_sam_state(theirs)
    assert set(found) == set(own)
    for number, name in enumerate(own):
        assert (found[name] == number).all(), name


def test_mobile_sams_encoder_tells_two_places_apart_and_one_from_itself_not(pretrained):
    """Its weights were trained: two alike patches of a picture look more alike than two different ones."""
    net = pretrained(models.mobile_sam_trunk)
    picture = torch.zeros(1, 3, 256, 256)
    picture[..., 32:96, 32:96] = picture[..., 32:96, 160:224] = 2.0
    with torch.no_grad():
        seen = torch.nn.functional.normalize(net(picture)[0], dim=0)
    one, other, ground = seen[:, 4, 4], seen[:, 4, 12], seen[:, 12, 8]
    assert one @ other > one @ ground


def test_tiny_vit_parameter_counts_are_the_published_ones():
    with torch.device("meta"):
        built = [models.tiny_vit(size) for size in ("5m", "11m", "21m")]
    counts = [sum(p.numel() for p in model.parameters()) for model in built]
    assert counts == [5_392_764, 10_996_972, 21_198_568]


def test_an_unknown_size_is_named():
    with pytest.raises(ValueError, match="5m, 11m, 21m"):
        models.tiny_vit("6m")


def test_efficientnet_lite0_equals_timms(timm, shake):
    model = models.efficientnet_lite0(13)
    shake(model)
    oracle = timm.create_model("tf_efficientnet_lite0", num_classes=13).eval()
    ours, theirs = model.state_dict(), oracle.state_dict()
    assert len(ours) == len(theirs)
    oracle.load_state_dict(dict(zip(theirs, ours.values())))  # same order, other names
    for size in ((224, 224), (96, 70)):  # an odd size makes SAME padding asymmetric
        pictures = torch.randn(1, 3, *size)
        with torch.no_grad():
            expected = oracle(pictures)
            torch.testing.assert_close(model(pictures), expected)


@pytest.mark.models
def test_pretrained_efficientnet_sees_the_soccer_ball(pretrained, real_data):
    import av

    model = pretrained(models.efficientnet_lite0)
    with av.open(str(real_data / "clips" / "soccer_juggling.avi")) as container:
        frame = next(f for i, f in enumerate(container.decode(video=0)) if i == 30)
    picture = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)[None] / 255
    picture = nn.functional.interpolate(picture, (224, 224), mode="bilinear", antialias=True)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    picture = (picture - mean[:, None, None]) / deviation[:, None, None]
    with torch.no_grad():
        assert int(model(picture).argmax()) == 805  # "soccer ball" of ImageNet-1k


@pytest.mark.parametrize(
    "build", [lambda: models.tiny_vit("5m", 3), lambda: models.efficientnet_lite0(3)]
)
@pytest.mark.parametrize("treat", [models.freeze_batchnorm, models.replace_batchnorm])
def test_treated_norms_keep_records_apart_even_in_training_mode(build, treat):
    model = build().train()
    pictures = torch.randn(3, 3, 64, 64)
    with torch.no_grad():
        together, alone = model(pictures)[0], model(pictures[:1])[0]
        assert not torch.allclose(together, alone, atol=1e-4)  # plain BatchNorm mixes them
        before = dict(model.state_dict())
        assert treat(model) is model
        model.train()
        together, alone = model(pictures)[0], model(pictures[:1])[0]
        torch.testing.assert_close(together, alone)
    running = [n for n in model.state_dict() if "running" in n or "tracked" in n]
    for name in running:  # statistics of a frozen norm do not move
        torch.testing.assert_close(model.state_dict()[name], before[name])
    assert bool(running) is (treat is models.freeze_batchnorm)
    assert [n for n, _ in model.named_parameters()] == [
        n for n in before if "running" not in n and "tracked" not in n
    ]


def test_replaced_norms_take_over_scale_shift_and_divide_the_channels():
    norm = nn.Sequential(nn.BatchNorm2d(20))
    nn.init.normal_(norm[0].weight)
    weight = norm[0].weight.clone()
    replaced = models.replace_batchnorm(norm, groups=16)
    assert isinstance(replaced[0], nn.GroupNorm)
    assert replaced[0].num_groups == 10
    torch.testing.assert_close(replaced[0].weight, weight)


def test_a_frozen_model_survives_copying():
    import copy

    model = models.freeze_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))
    pictures = torch.randn(2, 3, 4, 4)
    for other in (model, copy.deepcopy(model)):
        other.train()
        assert not other[1].training
        torch.testing.assert_close(other(pictures), model(pictures))
        assert not other[1].running_mean.any()
