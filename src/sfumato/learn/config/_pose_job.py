"""What a training file says about pose, made into records, a model and a loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from sfumato.data import (
    ArrayRecords,
    DataRequest,
    JointRecords,
    PersonCrops,
    Records,
    load_dataset,
    vocabulary,
)
from sfumato.devices import device_for
from sfumato.learn._pose import PlaceLoss, PoseLoss, SkeletonFinder
from sfumato.learn._scores import Scores
from sfumato.learn.config._schema import ConfigError, PoseConfig, TrainConfig, read_config
from sfumato.learn.views._prepare import PictureInput
from sfumato.models import (
    THUNDER,
    choose_device,
    freeze_batchnorm,
    load_weights,
    pose_net,
    replace_batchnorm,
    select,
    thunder_pose,
)
from sfumato.progress import track


def pose_model(config: TrainConfig) -> nn.Module:
    """A pose model with the chosen layers trainable and no layer that mixes records."""
    asked, chosen = _asked(config), config.model
    names = vocabulary(asked.joints)
    if chosen.name == THUNDER:
        thunder = thunder_pose(names, pretrained=chosen.pretrained)
        if chosen.weights is not None:
            load_weights(thunder, chosen.weights, new_head=True)
        return thunder
    model: nn.Module = pose_net(
        chosen.name, len(names), pretrained=chosen.pretrained,
        input_size=(config.input.height, config.input.width), split=asked.split,
    )  # fmt: skip
    model = freeze_batchnorm(model) if chosen.norms == "frozen" else replace_batchnorm(model)
    if chosen.weights is not None:
        load_weights(model, chosen.weights, new_head=True)
    select(model, chosen.trainable)
    return model


def pose_loss(config: TrainConfig) -> PoseLoss | PlaceLoss:
    asked = _asked(config)
    if config.model.name == THUNDER:
        return PlaceLoss(people=asked.people, joints=vocabulary(asked.joints))
    return PoseLoss(
        round(config.input.width * asked.split), asked.split, asked.sigma, asked.people,
        vocabulary(asked.joints),
    )  # fmt: skip


def made_up_people(config: TrainConfig, count: int) -> ArrayRecords:
    """Noise with joints, for a trial step that opens no recording."""
    asked, rng = _asked(config), np.random.default_rng(0)
    size = _size(config)
    lead = (count,) if asked.people == 1 else (count, asked.people)
    y = rng.uniform(0, min(size), (*lead, len(vocabulary(asked.joints)), 3)).astype(np.float32)
    y[..., 2] = 1
    return ArrayRecords(rng.integers(0, 256, (*lead, *size, 3)).astype(np.uint8), y)


def what_was_wrong(records: Records) -> str | None:
    """Annotations that were left out or mended, counted by sentence; for the operator alone."""
    inner = getattr(records, "records", records)
    problems = getattr(inner, "problems", None)
    return str(problems) if problems is not None and len(problems) else None


def read_skeleton_finder(folder: Path, device: str = "cpu") -> SkeletonFinder:
    """The pose model that ``sfumato train`` wrote to ``folder``, on ``device``."""
    model, config = _trained(folder)
    model.to(choose_device(device))
    loss = pose_loss(config)
    return SkeletonFinder(model, _size(config), loss.joints, loss.places)


def evaluate_pose(folder: Path, kind: str, data: Path, split: str) -> tuple[int, Scores]:
    """How many people were scored, and how the model in ``folder`` did on them.

    The split that it was trained on is refused where the training file names it: its scores would be
    shown without noise (R4).
    """
    model, config = _trained(folder)
    model.to(device := device_for("pose model"))
    trained_on = config.data
    same = trained_on.path is not None and trained_on.path.resolve() == data.resolve()
    if same and trained_on.kind == kind and trained_on.split == split:
        raise ConfigError(
            f"Expected another split than {split}, which the model was trained on: scores are shown "
            "without noise."
        )
    asked = _asked(config)
    request = DataRequest(
        kind=kind, path=data, split=split, joints=asked.joints, per_person=True,
    )  # fmt: skip
    records = PersonCrops(cast(JointRecords, load_dataset(request)), _size(config))
    loss, prepare = replace(pose_loss(config), people=1), PictureInput()
    outputs, labels, facts = [], [], []
    with torch.no_grad():
        for index in track(range(len(records)), "people", len(records)):
            record = records[index]
            outputs.append(model(prepare(record.x, 1)[None].to(device)).cpu())
            labels.append(torch.from_numpy(np.asarray(record.y))[None])
            facts.append(record.attributes)
    return len(records), loss.scores(torch.cat(outputs), torch.cat(labels), facts)


def _trained(folder: Path) -> tuple[nn.Module, TrainConfig]:
    settings = folder / "config.yaml"
    if not settings.is_file():
        raise ConfigError(
            f"Expected a folder written by sfumato train, found no {settings.name} in {folder.name!r}."
        )
    blank = ["model.weights=null", "model.weights_saw=null", "model.pretrained=false"]
    config = read_config(settings, blank)
    if config.pose is None:
        raise ConfigError(
            "Expected a pose model, got one that was trained to tell classes: train with the "
            "section pose."
        )
    model = pose_model(config)
    load_weights(model, folder / "model.safetensors")
    return model.eval(), config


def _size(config: TrainConfig) -> tuple[int, int]:
    return config.input.height, config.input.width


def _asked(config: TrainConfig) -> PoseConfig:
    assert config.pose is not None
    return config.pose
