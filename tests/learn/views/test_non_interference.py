"""Whatever private pixels hold, no model and no preparation that we ship lets them into the public view.

SOUNDNESS F8. The tables below must name every model of ``sfumato.models`` and every preparation of
``sfumato.learn``: a new one fails here until it has its row.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfumato import models
from sfumato.data import ArrayRecords, Record
from sfumato.learn import (
    AsIs,
    MaskedPixels,
    PictureInput,
    Pictures,
    Plan,
    Speed,
    VideoClips,
    ViewError,
    cross_entropy,
)
from sfumato.learn.engine._persons import mean_gradient
from sfumato.learn.engine._streams import Streams
from sfumato.learn.views import _prepare as prepare_module

CLASSES = 3
VIDEO = (
    9,
    40,
    36,
    3,
)  # no frame count and no size that a model asks for: all of them are resampled


def _pose_loss(output: Tensor, y: Tensor) -> Tensor:
    return models.simcc_loss(output, y[..., :2], y[..., 2], x_bins=128)


def _posenet() -> nn.Module:
    body = models.freeze_batchnorm(models.efficientnet_lite0(0))
    return models.PoseNet(body, models.SimCC(320, joints=4, input_size=(64, 64)))


def _clips(frames: int, size: int) -> VideoClips:
    return VideoClips(frames, size, size)


# name in sfumato.models -> (build, preparation, shape of a record as decoded)
Row = tuple[Callable[[], nn.Module], Any, tuple[int, ...]]
PICTURE = (3, 64, 64)
PHOTO = (64, 64, 3)
ROWS: dict[str, Row] = {
    "VideoViT": (
        lambda: models.VideoViT(CLASSES, clip=(3, 4, 16, 16), tubelet=(2, 4, 4), width=12, depth=2),
        _clips(4, 16),
        VIDEO,
    ),
    "mvit_v2_s": (
        lambda: models.mvit_v2_s(CLASSES, frames=4, spatial_size=(32, 32)),
        _clips(4, 32),
        VIDEO,
    ),
    "mvit_b": (
        lambda: models.mvit_b(CLASSES, frames=4, spatial_size=(32, 32)),
        _clips(4, 32),
        VIDEO,
    ),
    "i3d": (lambda: models.freeze_batchnorm(models.i3d(CLASSES)), _clips(9, 64), VIDEO),
    "tiny_vit": (
        lambda: models.freeze_batchnorm(models.tiny_vit("5m", CLASSES)),
        AsIs(),
        PICTURE,
    ),
    "mobile_sam_trunk": (
        lambda: nn.Sequential(
            models.freeze_batchnorm(models.mobile_sam_trunk()),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(320, CLASSES),
        ),
        AsIs(),
        PICTURE,
    ),
    "efficientnet_lite0": (
        lambda: models.freeze_batchnorm(models.efficientnet_lite0(CLASSES)),
        Pictures(48, 48),
        PHOTO,
    ),
    "PoseNet": (_posenet, AsIs(), PICTURE),
    "pose_net": (
        lambda: models.freeze_batchnorm(
            models.pose_net("efficientnet-lite0", 4, input_size=(64, 64))
        ),
        PictureInput(),
        PHOTO,
    ),
    "SimCC": (
        lambda: models.SimCC(8, joints=4, input_size=(64, 64), stride=16),
        AsIs(),
        (8, 4, 4),
    ),
    "SensorCNN": (lambda: models.SensorCNN(classes=CLASSES), AsIs(), (128, 2)),
    "MelCNN": (lambda: models.MelCNN(classes=CLASSES), AsIs(), (40, 32, 1)),
    "array_head": (
        lambda: models.array_head(40, CLASSES, 8),
        prepare_module.Arrays((20, 2), 0.1, 2.0),
        (30, 2),
    ),
    "feature_head": (
        lambda: models.feature_head("efficientnet-lite0", CLASSES),
        Pictures(48, 48),
        PHOTO,
    ),
    "RecordMLP": (lambda: models.RecordMLP(60, classes=CLASSES), AsIs(), (30, 2)),
}
# classes that are only built by the function beside them
BUILT_BY = {
    "MViT": "mvit_v2_s",
    "I3D": "i3d",
    "TinyViT": "tiny_vit",
    "EfficientNetLite0": "efficientnet_lite0",
    "TwoScales": "pose_net",
    "LinearProbe": "array_head",
}
# made of the store's weights, or never trained; what masks is the preparation, which the rows try
NOT_MASKED = {"JointsHead", "JointsNet", "MirrorTrunk", "MoveNetThunder", "movenet_thunder",
              "thunder_pose", "SpeakerEncoder"}  # fmt: skip


def _shipped() -> set[str]:
    """Names in ``sfumato.models`` that are a model or build one from nothing."""
    found = set()
    for name in models.__all__:
        value = getattr(models, name)
        if inspect.isclass(value):
            if issubclass(value, nn.Module):
                found.add(name)
        elif inspect.isfunction(value) and value.__module__.startswith("sfumato.models."):
            hints = typing.get_type_hints(value)
            made = hints.pop("return", None)
            takes = any(inspect.isclass(h) and issubclass(h, nn.Module) for h in hints.values())
            if inspect.isclass(made) and issubclass(made, nn.Module) and not takes:
                found.add(name)
    return found


def test_every_model_and_preparation_has_a_row() -> None:
    assert _shipped() == set(ROWS) | set(BUILT_BY) | NOT_MASKED
    assert set(BUILT_BY.values()) <= set(ROWS)
    kinds = {
        value
        for value in vars(prepare_module).values()
        if inspect.isclass(value)
        and value.__module__ == prepare_module.__name__
        and hasattr(value, "mask")
        and not getattr(value, "_is_protocol", False)
    }
    assert kinds == {type(prepare) for _, prepare, _ in ROWS.values()}


def _others(x: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    """The same record with other private values; the worst ones that its type can hold."""
    rng = np.random.default_rng(1)
    if x.dtype == np.uint8:
        values = [rng.integers(0, 256, x.shape), np.full(x.shape, 255), np.zeros(x.shape)]
    else:
        values = [rng.normal(size=x.shape) * 1e30, np.full(x.shape, np.nan)]
        values.append(np.where(rng.random(x.shape) < 0.5, np.inf, -np.inf))
    shown = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    return [np.where(shown, x, value.astype(x.dtype)) for value in values]


def _record(shape: tuple[int, ...], label: Any) -> Record:
    rng = np.random.default_rng(0)
    video = len(shape) == 4
    if shape == PHOTO:
        photo = rng.integers(0, 256, shape).astype(np.uint8)
        return Record(photo, label, rng.random(shape[:2]) < 0.5)
    mask = rng.random(shape[:3] if video else shape) < 0.5
    if video:
        mask[:, 3:37, 0:25] = True  # whole tokens as well as single pixels
        mask[2:3] = False
        return Record(rng.integers(0, 256, shape).astype(np.uint8), label, mask)
    return Record(rng.normal(size=shape).astype(np.float32), label, mask)


def _gradient(
    model: nn.Module, loss: Any, record: Record, prepare: Any, view: MaskedPixels
) -> dict[str, Tensor]:
    plan = Plan(
        epsilon=1.0, delta=1e-5, records=2, batch=1, steps=1, clip_norm=1.0, relation="replace",
        unit="masked-tokens", public_view=view,
    )  # fmt: skip
    assert record.mask is not None
    data = ArrayRecords(record.x[None], np.asarray(record.y)[None], mask=record.mask[None])
    rows = Streams(model, data, plan, prepare).public([0])
    assert rows is not None
    return mean_gradient(model, loss, rows, Speed())


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_public_view_and_its_gradient_ignore_private_values(name: str) -> None:
    build, prepare, shape = ROWS[name]
    torch.manual_seed(0)
    model = build().eval()
    pose = name in {"PoseNet", "SimCC", "pose_net"}
    label = np.full((4, 3), 20.0, dtype=np.float32) if pose else 1
    loss = _pose_loss if pose else cross_entropy
    record, view = _record(shape, label), MaskedPixels()
    seen = view.public_input(record, prepare, model, 1)
    first = _gradient(model, loss, record, prepare, view)
    assert any(bool(part.any()) for part in first.values()), "a gradient of zeros shows nothing"
    changed = _others(record.x, record.mask)  # type: ignore[arg-type]
    for index, x in enumerate(changed):
        assert not np.array_equal(x, record.x, equal_nan=x.dtype != np.uint8)
        other = Record(x, label, record.mask)
        again = view.public_input(other, prepare, model, 1)
        pairs = zip(again, seen) if isinstance(seen, tuple) else [(again, seen)]
        assert all(torch.equal(a, b) for a, b in pairs)
        if index and shape == VIDEO and name != "VideoViT":
            continue  # the gradient is a function of what was just found equal; once is enough
        second = _gradient(model, loss, other, prepare, view)
        assert all(torch.equal(part, second[key]) for key, part in first.items()), name


@pytest.mark.parametrize("clips", [1, 2, 3])
@pytest.mark.parametrize("size", [(9, 40, 36, 3), (4, 16, 16, 3), (1, 7, 90, 3)])
def test_resizing_scaling_and_choosing_frames_carry_nothing_over(
    size: tuple[int, ...], clips: int
) -> None:
    model, prepare = nn.Identity(), VideoClips(4, 16, 16, mean=0.5, deviation=0.1)
    record = _record(size, 0)
    seen = MaskedPixels().public_input(record, prepare, model, clips)
    assert bool((seen != seen.flatten()[0]).any())
    for x in _others(record.x, record.mask):  # type: ignore[arg-type]
        again = MaskedPixels().public_input(Record(x, 0, record.mask), prepare, model, clips)
        assert torch.equal(again, seen)


def test_crops_carry_no_mask_so_they_cannot_be_a_public_view_of_pixels() -> None:
    """Pose crops resize before a mask could act; the view is refused instead of leaking."""
    crop = Record(np.zeros((64, 48, 3), np.uint8), np.zeros((14, 3), np.float32))
    with pytest.raises(ViewError, match="mask"):
        MaskedPixels().public_input(crop, AsIs(), nn.Identity(), 1)
