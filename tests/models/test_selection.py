"""Presets of trainable parameters, the cut, devices, weights from a user's file, small encoders."""

from __future__ import annotations

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sfumato import models
from sfumato.errors import SfumatoError
from sfumato.models import Preset

pytestmark = pytest.mark.usefixtures("double_precision")

NORM_TYPES = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm2d, nn.BatchNorm3d)


@pytest.mark.parametrize(
    ("build", "preset", "numbers"),
    [
        (lambda: models.mvit_v2_s(51), "head", 768 * 51 + 51),
        (lambda: models.mvit_v2_s(51), "last-norms", 47_283),  # "about 50k"
        (lambda: models.mvit_b(101), "norms", 110_885),  # "about 110k"
        (lambda: models.mvit_v2_s(51), "everything", 34_537_744 - 349 * 769),
    ],
)
def test_parameter_counts_of_the_papers(build, preset, numbers):
    with torch.device("meta"):
        model = build()
    assert models.select(model, preset) == numbers
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == numbers


def test_last_norms_are_the_norms_of_the_last_two_blocks_the_final_norm_and_the_head():
    with torch.device("meta"):
        model = models.mvit_v2_s(51)
    models.select(model, Preset.LAST_NORMS)
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    expected = {
        f"{name}.{parameter}"
        for name, module in model.named_modules()
        if isinstance(module, nn.LayerNorm)
        and name.startswith(("blocks.14.", "blocks.15.", "norm"))
        for parameter in ("weight", "bias")
    }
    assert trained == expected | {"head.1.weight", "head.1.bias"}


@pytest.mark.parametrize(
    ("build", "stage"),
    [
        (lambda: models.mvit_v2_s(7), ("blocks.14.", "blocks.15.")),
        (lambda: models.tiny_vit("5m", 7), ("stages.3.",)),
        (lambda: models.efficientnet_lite0(7), ("_blocks.15.", "_conv_head", "_fc")),
        (
            lambda: models.PoseNet(models.tiny_vit("5m", 0), models.SimCC(320)),
            ("backbone.stages.3.",),
        ),
    ],
)
def test_last_stage_is_the_last_stage_all_norms_and_the_head(build, stage):
    with torch.device("meta"):
        model = build()
    models.select(model, "last-stage")
    norms = {
        f"{name}.{parameter}"
        for name, module in model.named_modules()
        if isinstance(module, NORM_TYPES)
        for parameter, _ in module.named_parameters()
    }
    for name, parameter in model.named_parameters():
        wanted = name.startswith((*stage, "head", "norm.")) or name in norms
        assert parameter.requires_grad is wanted, name


def test_everything_in_i3d_leaves_the_scale_that_the_published_norm_lacks():
    with torch.device("meta"):
        model = models.I3D(5)
    assert models.select(model, "everything") < sum(p.numel() for p in model.parameters())
    assert not any(p.requires_grad for n, p in model.named_parameters() if n.endswith("bn.weight"))


def test_last_stage_of_i3d_is_both_mixed_5():
    with torch.device("meta"):
        model = models.I3D(5)
    models.select(model, "last-stage")
    convolutions = {n for n, p in model.named_parameters() if p.requires_grad and "conv." in n}
    assert {name.split(".")[1] for name in convolutions} == {"Mixed_5b", "Mixed_5c"}


def test_presets_fit_the_video_transformer():
    with torch.device("meta"):
        model = models.VideoViT(classes=10)
    counts = [models.select(model, preset) for preset in Preset]
    assert 0 < counts[0] < counts[1] < counts[2] < counts[3] < counts[4]
    assert counts[-1] == sum(p.numel() for p in model.parameters())


def test_cut_gives_the_frozen_beginning_and_the_rest():
    model = models.tiny_vit("5m", 3).eval()
    models.select(model, "head")
    frozen, rest = models.cut(model)
    assert [step.name for step in rest] == ["head"]
    pictures = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(models.run(rest, models.run(frozen, pictures)), model(pictures))
    models.select(model, "norms")
    assert models.cut(model)[0] == []  # a norm of the stem trains
    with pytest.raises(SfumatoError, match="without the trunk cache"):
        models.cut(nn.Linear(2, 2))


def test_wrong_presets_and_models_are_named():
    with pytest.raises(SfumatoError, match="last-norms"):
        models.select(models.RecordMLP(3), "tail")
    with pytest.raises(SfumatoError, match="Linear"):
        models.select(nn.Linear(2, 2), "head")


def test_devices_are_explicit(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert models.choose_device("cpu") == models.choose_device() == torch.device("cpu")
    with pytest.raises(SfumatoError, match="torch sees none"):
        models.choose_device("cuda")
    for wrong in ("gpu", "cuda:x", ""):
        with pytest.raises(SfumatoError, match="auto, cpu, cuda"):
            models.choose_device(wrong)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert models.choose_device("auto") == torch.device("cuda:0")
    with pytest.raises(SfumatoError, match="below 1"):
        models.choose_device("cuda:1")


def test_weights_load_from_safetensors_and_pth_and_may_bring_another_head(tmp_path):
    source = models.SensorCNN(classes=4)
    save_file(source.state_dict(), tmp_path / "a.safetensors")
    torch.save({"state_dict": source.state_dict(), "epoch": 3}, tmp_path / "a.pth")
    windows = torch.randn(2, 128, 2)
    for name in ("a.safetensors", "a.pth"):
        model = models.SensorCNN(classes=4)
        assert models.load_weights(model, tmp_path / name) == []
        torch.testing.assert_close(model(windows), source(windows))
        other = models.SensorCNN(classes=9)
        with pytest.raises(models.WeightsError, match="new_head=True"):
            models.load_weights(other, tmp_path / name)
        assert models.load_weights(other, tmp_path / name, new_head=True) == [
            "head.weight",
            "head.bias",
        ]
        torch.testing.assert_close(other.embed.weight, source.embed.weight)


class _Trap:
    def __reduce__(self):
        return (print, ("executed",))


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path, capsys):
    torch.save({"a": _Trap()}, tmp_path / "trap.pth")
    with open(tmp_path / "plain.pth", "wb") as file:
        pickle.dump(_Trap(), file)
    (tmp_path / "cut.safetensors").write_bytes(b"\x00" * 4)
    (tmp_path / "note.txt").write_text("x")
    torch.save([1, 2], tmp_path / "list.pth")
    for name in ("trap.pth", "plain.pth", "cut.safetensors", "note.txt", "list.pth", "absent.pth"):
        with pytest.raises(models.WeightsError, match="Expected"):
            models.read_weights(tmp_path / name)
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: models.SensorCNN(2, embedding=512), (3, 128, 2)),
        (lambda: models.MelCNN(embedding=64), (3, 40, 32, 1)),
        (lambda: models.RecordMLP(40 * 32, embedding=512), (3, 40, 32)),
    ],
)
def test_encoders_embed_each_record_by_itself(build, shape):
    model, x = build(), torch.randn(shape)
    embedding = model(x)
    assert embedding.shape == (3, model.embed.out_features)
    torch.testing.assert_close(embedding[1:2], model(x[1:2]))
    assert not torch.allclose(embedding[0], embedding[1])
