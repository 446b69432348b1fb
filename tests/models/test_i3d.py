"""I3D: the published weights on a real clip, SAME padding against a slow loop, the head's average."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from sfumato import models
from sfumato.models._layers import pad_same


@pytest.mark.models
def test_the_juggling_clip_is_called_juggling_soccer_ball(pretrained, real_data):
    import av

    model = pretrained(models.i3d)
    with av.open(str(real_data / "clips" / "soccer_juggling.avi")) as container:
        frames = [
            f.to_ndarray(format="rgb24") for f, _ in zip(container.decode(video=0), range(48))
        ]
    clip = torch.from_numpy(np.stack(frames)[:, :, 40:280]).permute(0, 3, 1, 2) / 127.5 - 1
    clip = nn.functional.interpolate(clip, (112, 112), mode="bilinear", antialias=True)
    with torch.no_grad():
        probability = model(clip.transpose(0, 1)[None]).softmax(1)[0]
    best = int(probability.argmax())
    assert models.kinetics400_classes()[best] == "juggling soccer ball"
    assert float(probability[best]) > 0.9


@pytest.mark.models
def test_another_number_of_classes_keeps_the_body(pretrained):
    whole, part = pretrained(models.i3d), pretrained(models.i3d, classes=5)
    clip = torch.randn(1, 3, 9, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(part.features(clip), whole.features(clip))
        assert part(clip).shape == (1, 5)


def test_same_padding_gives_ceil_of_size_over_stride_and_puts_the_odd_one_last():
    for size in range(1, 12):
        for kernel in (1, 2, 3, 7):
            for stride in (1, 2, 3):
                x = torch.arange(1, size + 1.0)[None, None]
                padded = pad_same(x, (kernel,), (stride,), value=-1.0)[0, 0]
                outputs = math.ceil(size / stride)
                if kernel >= stride:  # otherwise some inputs are skipped and nothing is padded
                    assert (len(padded) - kernel) // stride + 1 == outputs
                front = int((torch.cumprod((padded == -1).int(), 0)).sum())
                back = len(padded) - size - front
                assert back - front in (0, 1)


@pytest.mark.usefixtures("double_precision")
def test_logits_are_the_published_average_over_two_frame_windows():
    """Published: average over (2, H, W) with stride 1, a 1x1 convolution, then the mean over time."""
    model = models.i3d(4)
    maps = torch.randn(2, 1024, 5, 3, 3)
    windows = nn.functional.avg_pool3d(maps, (2, 3, 3), stride=1)[..., 0, 0]
    expected = torch.stack([model.logits(windows[:, :, t]) for t in range(4)]).mean(0)
    torch.testing.assert_close(model._classify(maps), expected)


def test_names_of_the_published_checkpoint_cover_the_model():
    model = models.i3d()
    published = {}
    for name, tensor in model.state_dict().items():
        if name.startswith("logits."):
            kind, shape = ("kernel", (1, 1, 1, 1024, 400)) if "weight" in name else ("bias", (400,))
            published[f"params/Logits/Conv3d_0c_1x1/Conv_0/{kind}"] = np.zeros(shape, np.float32)
            continue
        _, layer, *rest = name.replace(".layer.", ".").split(".")
        if rest[0].startswith("branch"):
            branch, index = rest[0].capitalize(), int(rest[1])
            unit = (
                "Conv3d_0b_3x3" if index else f"Conv3d_0{'b' if branch == 'Branch_3' else 'a'}_1x1"
            )
            layer += f"/{branch}/{unit}"
        if name.endswith("conv.weight"):
            shape = tuple(tensor.permute(2, 3, 4, 1, 0).shape)
            published[f"params/{layer}/Conv_0/kernel"] = np.zeros(shape, np.float32)
        elif name.endswith("bn.bias"):
            published[f"params/{layer}/BatchNorm_0/bias"] = np.zeros(tensor.shape, np.float32)
        elif "running" in name:
            kind = "mean" if "mean" in name else "var"
            shape = (1, 1, 1, 1, len(tensor))
            published[f"batch_stats/{layer}/BatchNorm_0/{kind}"] = np.ones(shape, np.float32)
    model.load_state_dict(models.i3d_state(published), strict=True)
    assert float(model.layers["Conv3d_1a_7x7"].conv.weight.detach().abs().max()) == 0.0


def test_there_are_400_class_names():
    names = models.kinetics400_classes()
    assert len(set(names)) == 400
    assert names[171] == "juggling soccer ball"
