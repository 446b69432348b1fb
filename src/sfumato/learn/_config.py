"""What ``sfumato train`` reads: one YAML file, every key known, every value checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sfumato.errors import SfumatoError
from sfumato.learn._methods import METHODS, PRESETS
from sfumato.models import POSE_BACKBONES


class ConfigError(SfumatoError):
    """A training file that cannot be followed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(_Strict):
    """Where recordings come from; ``synthetic`` makes its own."""

    kind: Literal[
        "synthetic", "stage", "folder", "utd-mhad", "ucf101", "hmdb51",
        "ntu-rgbd", "toyota-smarthome",
        "staged-people", "lsp", "coco", "mpii", "human-art",
    ] = "synthetic"  # fmt: skip
    path: Path | None = None
    masks: Path | None = None
    # what `sfumato protect` wrote from path: its videos and exact masks instead of the originals
    release: Path | None = None
    split: str | None = None
    clips: int = Field(default=200, ge=1)
    people: int = Field(default=20, ge=1)
    seed: int = 0


class ViewConfig(_Strict):
    """What trains without noise."""

    kind: Literal["masked-pixels", "low-frequency", "pixelate", "blur"]
    private: Literal["whole", "rest"] = "whole"
    size: int | None = None
    step: float | None = None
    block: int | None = None
    sigma: float | None = None


class ProjectorConfig(_Strict):
    """A subspace of gradients of public records."""

    public: DataConfig
    rank: int = Field(default=50, ge=1)
    refresh: int = Field(default=1, ge=1)


class ModelConfig(_Strict):
    name: Literal[
        "video-vit", "mvit_v2_s", "mvit_b",
        "tiny-vit-5m", "tiny-vit-11m", "tiny-vit-21m", "efficientnet-lite0",
    ] = "video-vit"  # fmt: skip
    weights: Path | None = None
    # ImageNet weights from the model store, where it has them
    pretrained: bool = False
    # BatchNorm mixes records: its statistics stay fixed, or GroupNorm takes its place
    norms: Literal["frozen", "group"] = "frozen"
    trainable: Literal["everything", "head", "last-norms", "norms", "last-stage"] = "everything"
    tubelet: tuple[int, int, int] = (2, 8, 8)
    width: int = 48
    depth: int = 2
    heads: int = 3


class PoseConfig(_Strict):
    """Joints instead of classes: which ones, how many people of a picture, and SimCC's bins."""

    joints: Literal["lsp", "mpii", "coco"] = "mpii"
    # crops of a picture's largest people; they are one record, and clipped together
    people: int = Field(default=1, ge=1)
    # one record a person box: a weaker promise, which the card names
    per_person: bool = False
    split: float = Field(default=2.0, ge=1)
    sigma: float = Field(default=6.0, ge=0)


class InputConfig(_Strict):
    frames: int = Field(default=8, ge=1)
    height: int = Field(default=32, ge=1)
    width: int = Field(default=32, ge=1)
    mean: float = 0.45
    deviation: float = Field(default=0.225, gt=0)


class PrivacyConfig(_Strict):
    """The promise. Unit, relation and delta are chosen strictly, and said, where left out."""

    epsilon: float | None = Field(default=None, gt=0)
    delta: float | None = Field(default=None, gt=0, lt=1)
    clip_norm: float = Field(default=1.0, gt=0)
    records: int | None = Field(default=None, ge=1)
    unit: str | None = None
    relation: Literal["add-remove", "replace", "zero-out"] | None = None
    as_published: bool = False


class TrainingConfig(_Strict):
    batch: int = Field(default=32, ge=1)
    steps: int | None = Field(default=None, ge=1)
    epochs: float | None = Field(default=None, gt=0)
    clips: int = Field(default=1, ge=1)
    optimizer: Literal["sgd", "adam"] = "sgd"
    rate: float = Field(default=0.5, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    warmup: int = Field(default=0, ge=0)
    schedule: Literal["constant", "cosine"] = "constant"
    checkpoint_every: int = Field(default=50, ge=1)
    evaluate_every: int | None = Field(default=None, ge=1)


class SpeedConfig(_Strict):
    memory: int = Field(default=1 << 30, ge=1)
    micro_batch: int | None = Field(default=None, ge=1)
    trunk_cache: bool = True
    keep_cache: bool = False


class TrainConfig(_Strict):
    """The whole file."""

    out: Path
    method: str = "dp-sgd"
    preset: str | None = None
    data: DataConfig = DataConfig()
    held_out: DataConfig | None = None
    view: ViewConfig | None = None
    projector: ProjectorConfig | None = None
    model: ModelConfig = ModelConfig()
    pose: PoseConfig | None = None
    input: InputConfig = InputConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    training: TrainingConfig = TrainingConfig()
    speed: SpeedConfig = SpeedConfig()
    shared_records: Literal["refuse", "drop"] = "refuse"
    operator_log: Path | None = None
    # the loss on private records: nowhere, on the progress bar, or there and in TensorBoard's files
    private_loss: Literal["hidden", "shown", "logged"] = "hidden"
    seed: int | None = None

    def to_yaml(self) -> str:
        """The resolved settings, which read back as the same configuration."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=True)


def read_config(path: Path, changes: list[str]) -> TrainConfig:
    """Read a YAML file, apply ``key.sub=value`` changes, and check everything."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigError(
            f"Expected a readable training file at {str(path)!r}, got none."
        ) from None
    try:
        values = yaml.safe_load(text) or {}
    except yaml.YAMLError:
        raise ConfigError("Expected YAML in the training file, got text that is not.") from None
    if not isinstance(values, dict):
        raise ConfigError(
            "Expected a mapping of settings in the training file, got something else."
        )
    for change in changes:
        _apply(values, change)
    return parse_config(values)


def parse_config(values: dict[str, Any]) -> TrainConfig:
    """Check settings that are already plain values; a preset fills in what is not said."""
    name = values.get("preset")
    if name is not None:
        if name not in PRESETS:
            raise ConfigError(f"Expected a preset out of {', '.join(PRESETS)}, got {name!r}.")
        values = _with_preset(values, name)
    try:
        config = TrainConfig(**values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = " (unknown key)" if first["type"] == "extra_forbidden" else ""
        raise ConfigError(f"Expected {place} to be right{hint}, but: {first['msg']}.") from None
    _check_pose(config)
    if config.method not in METHODS:
        raise ConfigError(f"Expected a method out of {', '.join(METHODS)}, got {config.method!r}.")
    return config


_POSE_DATA = {"staged-people", "lsp", "coco", "mpii", "human-art"}


def _check_pose(config: TrainConfig) -> None:
    """Data, model and the section ``pose`` belong together."""
    wanted = config.pose is not None
    public = None if config.projector is None else config.projector.public
    sources = [asked for asked in (config.data, config.held_out, public) if asked is not None]
    named = [(f"data.kind {asked.kind}", asked.kind in _POSE_DATA) for asked in sources]
    named.append((f"model.name {config.model.name}", config.model.name in POSE_BACKBONES))
    for name, fits in named:
        if fits != wanted:
            raise ConfigError(
                f"Expected people with joints, a pose model and the section pose together, got {name} "
                f"{'with' if wanted else 'without'} the section pose."
            )
    if config.pose is not None and config.pose.per_person and config.pose.people > 1:
        raise ConfigError(
            "Expected pose.people 1 with pose.per_person, where a record is one person box, "
            f"got {config.pose.people}."
        )


def _with_preset(values: dict[str, Any], name: str) -> dict[str, Any]:
    preset = PRESETS[name]
    training = {"batch": preset.batch, "rate": preset.rate, "clips": preset.clips,
                "schedule": preset.schedule, "epochs": preset.epochs}  # fmt: skip
    if "steps" in (values.get("training") or {}):
        del training["epochs"]
    size = {"frames": preset.frames, "height": preset.size, "width": preset.width or preset.size}
    return {
        "method": preset.method,
        **values,
        "training": {**training, **(values.get("training") or {})},
        "privacy": {"clip_norm": preset.clip_norm, **(values.get("privacy") or {})},
        "input": {**size, **(values.get("input") or {})},
    }


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise ConfigError(f"Expected changes as key=value, got {change!r}.")
    *parents, last = key.split(".")
    place = values
    for parent in parents:
        inner = place.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"Expected {parent!r} to hold settings, got a value: check {key!r}.")
        place = inner
    place[last] = yaml.safe_load(text)
