"""What a training file says, made into records, a model, a public view and an optimizer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np
from torch import nn

from sfumato.data import (
    ArrayRecords,
    DataRequest,
    JointRecords,
    PersonCrops,
    Records,
    find_dataset,
    load_dataset,
)
from sfumato.learn._methods import METHODS, PRESETS
from sfumato.learn._optimizers import Adam, Optimizer, Schedule, Sgd
from sfumato.learn._projector import Subspace
from sfumato.learn._starting_weights import StartingWeights
from sfumato.learn._trainer import cross_entropy
from sfumato.learn.config._imported_model import imported_model
from sfumato.learn.config._pose_job import made_up_people, pose_loss, pose_model
from sfumato.learn.config._schema import ConfigError, DataConfig, TrainConfig
from sfumato.learn.engine._routes import Loss
from sfumato.learn.engine._speed import Speed
from sfumato.learn.views._prepare import Arrays, PictureInput, Pictures, VideoClips
from sfumato.learn.views._public_view import PublicView
from sfumato.learn.views._registry import make_view
from sfumato.models import (
    FEATURE_NETWORKS,
    MOBILE_SAM,
    THUNDER,
    LinearProbe,
    VideoViT,
    array_head,
    feature_head,
    load_weights,
    mvit_b,
    mvit_v2_s,
    select,
)


def build_model(config: TrainConfig, classes: int, *, here: bool = False) -> nn.Module:
    """A fresh model (weights drawn from no private thing), with the chosen layers trainable.

    ``here`` also looks for a class of one's own in the folder where the command was started: for
    the operator's own training file, never for a file that came with a model.
    """
    if config.pose is not None:
        if config.model.name == THUNDER and not (config.model.pretrained or config.model.weights):
            raise ConfigError(
                f"Expected model.pretrained: true with {THUNDER}, whose trunk does not train, got "
                "neither that nor model.weights."
            )
        return pose_model(config)
    if config.model.import_ is not None:
        return imported_model(
            config, classes, made_up_records(config, 2), preparation(config), here
        )
    chosen, seen = config.model, config.input
    if chosen.name == "video-vit":
        model: nn.Module = VideoViT(
            classes, clip=(3, seen.frames, seen.height, seen.width), tubelet=chosen.tubelet,
            width=chosen.width, depth=chosen.depth, heads=chosen.heads,
        )  # fmt: skip
    elif chosen.name in FEATURE_NETWORKS:
        hidden = chosen.width if "width" in chosen.model_fields_set else 0
        model = feature_head(chosen.name, classes, pretrained=chosen.pretrained, hidden=hidden)
    elif seen.shape is not None:
        hidden = chosen.width if chosen.name == "mlp" else 0
        model = array_head(math.prod(seen.shape), classes, hidden)
    else:
        make = {"mvit_v2_s": mvit_v2_s, "mvit_b": mvit_b}[chosen.name]
        model = make(classes, frames=seen.frames, spatial_size=(seen.height, seen.width))
    if chosen.weights is not None:
        load_weights(model, chosen.weights, new_head=True)
    if not isinstance(model, LinearProbe):  # whose trunk never trains
        select(model, chosen.trainable)
    elif chosen.trainable == "head" and model.hidden is not None:
        model.hidden.requires_grad_(False)
    return model


def starting_weights(config: TrainConfig) -> StartingWeights:
    """Where the parameters of ``build_model`` come from, and what they have seen."""
    chosen = config.model
    # nobody knows what a class of one's own loads when it is made
    start = StartingWeights.fresh() if chosen.import_ is None else StartingWeights()
    if chosen.pretrained:
        known = {
            THUNDER: "COCO and fitness videos", "i3d": "Kinetics-400",
            MOBILE_SAM: "SA-1B, after SAM's encoder",
        }  # fmt: skip
        saw = known.get(chosen.name, "ImageNet")
        start = StartingWeights.from_store(chosen.name, saw)
    if chosen.weights is None:
        return start
    found = StartingWeights.of_file(chosen.weights, other_data=chosen.weights_saw == "other-data")
    return replace(found, public=start.public)


def load_records(data: DataConfig, config: TrainConfig) -> Records:
    """Recordings with labels, or people with joints."""
    frames = config.input.frames
    if not find_dataset(data.kind).generated:
        frames *= config.training.clips
    pose = {} if config.pose is None else config.pose.model_dump(include={"joints", "per_person"})
    asked = DataRequest(**data.model_dump(), frames=frames, side=config.input.height, **pose)
    records = load_dataset(asked)
    if config.pose is None:
        return records
    size = (config.input.height, config.input.width)
    return PersonCrops(cast(JointRecords, records), size, config.pose.people)


def loss_of(config: TrainConfig) -> Loss:
    return cross_entropy if config.pose is None else pose_loss(config)


def what_a_record_is(config: TrainConfig) -> str:
    if config.pose is None:
        return ""
    if config.pose.per_person:
        return " (one person box: other boxes of its picture may show the person too)"
    return " (one picture with all its people)"


def preparation(config: TrainConfig) -> VideoClips | PictureInput | Pictures | Arrays:
    if config.pose is not None:
        return PictureInput()
    seen = config.input
    if seen.shape is not None:
        return Arrays(tuple(seen.shape), seen.mean, seen.deviation)
    if config.model.name == "i3d" and config.model.import_ is None:
        # as it was trained: RGB in [-1, 1]
        return VideoClips(seen.frames, seen.height, seen.width, 0.5, 0.5)
    if seen.kind == "picture":
        return Pictures(seen.height, seen.width, seen.mean, seen.deviation)
    return VideoClips(seen.frames, seen.height, seen.width, seen.mean, seen.deviation)


def unit_count(config: TrainConfig) -> int:
    """How many units the plan counts on: a declared constant, never the length of private data."""
    if config.privacy.records is not None:
        return config.privacy.records
    if find_dataset(config.data.kind).generated:
        person = METHODS[config.method].person and config.pose is None
        return config.data.people if person else config.data.clips
    raise ConfigError(
        "Expected privacy.records, the number of records (persons, with unit person) that the plan "
        "counts on, got none: it is a public constant, so it is not read from the data."
    )


def public_view(config: TrainConfig) -> PublicView | None:
    asked = config.view
    if asked is None:
        return None
    return make_view(asked.kind, asked.settings)


def subspace(config: TrainConfig) -> Subspace | None:
    asked = config.projector
    if asked is None:
        return None
    return Subspace(load_records(asked.public, config), asked.rank, asked.refresh)


def speed_of(config: TrainConfig) -> Speed:
    return Speed(**config.speed.model_dump())


def optimizer_of(config: TrainConfig) -> Optimizer:
    chosen = config.training
    warmup = chosen.warmup
    if not warmup and config.preset is not None:
        warmup = round(PRESETS[config.preset].warmup_epochs * unit_count(config) / chosen.batch)
    schedule = Schedule(warmup, chosen.schedule)
    if chosen.optimizer == "adam":
        return Adam(chosen.rate, schedule=schedule)
    return Sgd(chosen.rate, chosen.momentum, schedule=schedule)


def made_up_records(config: TrainConfig, count: int) -> ArrayRecords:
    if config.pose is not None:
        return made_up_people(config, count)
    seen = config.input
    if seen.shape is not None:
        values = np.random.default_rng(0).standard_normal((count, *seen.shape))
        return ArrayRecords(values.astype(np.float32), np.zeros(count, dtype=np.int64))
    frames = () if seen.kind == "picture" else (seen.frames,)
    shape = (count, *frames, seen.height, seen.width)
    x = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    mask = np.zeros(shape, dtype=bool)
    mask[..., : seen.height // 2, :] = True
    return ArrayRecords(x, np.zeros(count, dtype=np.int64), mask=mask)
