"""What ``sfumato train`` reads: one YAML file, every key known, every value checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import ConfigDict, Field

from sfumato.data import find_dataset
from sfumato.errors import SfumatoError
from sfumato.learn._methods import METHODS, PRESETS
from sfumato.learn.views._registry import make_view
from sfumato.models import FEATURE_NETWORKS, POSE_BACKBONES, THUNDER
from sfumato.settings import (
    NO_VALUE,
    Count,
    Seed,
    Settings,
    parse_file,
    parse_value,
    shown,
    validated,
)


class ConfigError(SfumatoError):
    """A training file that cannot be followed."""


Pixels = Annotated[int, Field(ge=1, le=4096)]


class DataConfig(Settings):
    """Where recordings come from; ``synthetic`` makes its own."""

    kind: str = "synthetic"
    path: Path | None = None
    masks: Path | None = None
    # what `sfumato protect` wrote from path: its videos and exact masks instead of the originals
    release: Path | None = None
    # of kind manifest: a CSV or JSON lines; of kind npz: arrays x, y, owner ...
    file: Path | None = None
    classes: Annotated[list[str], Field(min_length=1)] | None = None
    # what is predicted, where a record has several attributes; which sensor, where it has several
    label: str | None = None
    modality: str | None = None
    split: str | None = None
    clips: Annotated[int, Field(ge=1, le=10**6)] = 200
    people: Annotated[int, Field(ge=1, le=10**6)] = 20
    seed: Seed = 0


class ViewConfig(Settings):
    """What trains without noise; beside ``kind`` stand the settings of that view."""

    model_config = ConfigDict(extra="allow")

    kind: str

    @property
    def settings(self) -> dict[str, Any]:
        """Without what former versions wrote of other views."""
        given = {
            name: value for name, value in (self.model_extra or {}).items() if value is not None
        }
        if self.kind != "masked-pixels" and given.get("private") == "whole":
            del given["private"]
        return given


class ProjectorConfig(Settings):
    """A subspace of gradients of public records."""

    public: DataConfig
    rank: Annotated[int, Field(ge=1, le=10**5)] = 50
    refresh: Count = 1


class ModelConfig(Settings):
    name: Literal[
        "video-vit", "mvit_v2_s", "mvit_b",
        "tiny-vit-5m", "tiny-vit-11m", "tiny-vit-21m", "mobile-sam", "efficientnet-lite0", "movenet-thunder",
        "linear", "mlp", "i3d",
    ] = "video-vit"  # fmt: skip
    # a class of one's own instead, and what it is made with
    import_: Annotated[str | None, Field(alias="import")] = None
    args: dict[str, Any] = Field(default_factory=dict)
    weights: Path | None = None
    # the operator's word, for the card, that the weights saw none of the records of this training
    weights_saw: Literal["other-data"] | None = None
    # weights from the model store, where it has them: ImageNet's, or MoveNet's own
    pretrained: bool = False
    # BatchNorm mixes records: its statistics stay fixed, or GroupNorm takes its place
    norms: Literal["frozen", "group"] = "frozen"
    trainable: Literal["everything", "head", "last-norms", "norms", "last-stage"] = "everything"
    tubelet: tuple[Pixels, Pixels, Pixels] = (2, 8, 8)
    width: Pixels = 48
    depth: Annotated[int, Field(ge=1, le=100)] = 2
    heads: Annotated[int, Field(ge=1, le=100)] = 3

    @property
    def title(self) -> str:
        return self.import_ or self.name


class PoseConfig(Settings):
    """Joints instead of classes: which ones, how many people of a picture, and SimCC's bins."""

    joints: Literal["lsp", "mpii", "coco"] = "mpii"
    # crops of a picture's largest people; they are one record, and clipped together
    people: Annotated[int, Field(ge=1, le=1000)] = 1
    # one record a person box: a weaker promise, which the card names
    per_person: bool = False
    split: Annotated[float, Field(ge=1, le=64)] = 2.0
    sigma: Annotated[float, Field(ge=0, le=10**4)] = 6.0


class InputConfig(Settings):
    # what the model takes: clips (C, frames, height, width), pictures (C, height, width), or arrays
    kind: Literal["video", "picture", "array"] = "video"
    # of kind array: that of one record, such as [128, 6]
    shape: Annotated[list[Pixels], Field(min_length=1, max_length=6)] | None = None
    frames: Annotated[int, Field(ge=1, le=10**4)] = 8
    height: Pixels = 32
    width: Pixels = 32
    mean: Annotated[float, Field(ge=-1000, le=1000)] = 0.45
    deviation: Annotated[float, Field(ge=1e-6, le=1000)] = 0.225


class PrivacyConfig(Settings):
    """The promise. Unit, relation and delta are chosen strictly, and said, where left out."""

    epsilon: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    delta: Annotated[float, Field(ge=1e-30, lt=1)] | None = None
    clip_norm: Annotated[float, Field(gt=0, le=1e12)] = 1.0
    records: Annotated[int, Field(ge=1, le=10**12)] | None = None
    unit: str | None = None
    relation: Literal["add-remove", "replace", "zero-out"] | None = None
    as_published: bool = False


class TrainingConfig(Settings):
    batch: Count = 32
    steps: Count | None = None
    epochs: Annotated[float, Field(gt=0, le=10**6)] | None = None
    clips: Annotated[int, Field(ge=1, le=10**4)] = 1
    # no sampling: every unit has its turn, and noise is correlated over so many steps
    bands: Annotated[int, Field(ge=0, le=10**4)] = 0
    optimizer: Literal["sgd", "adam"] = "sgd"
    rate: Annotated[float, Field(gt=0, le=10**6)] = 0.5
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    warmup: Annotated[int, Field(ge=0, le=10**9)] = 0
    schedule: Literal["constant", "cosine"] = "constant"
    checkpoint_every: Count = 50
    evaluate_every: Count | None = None


class SpeedConfig(Settings):
    memory: Annotated[int, Field(ge=1, le=1 << 50)] = 1 << 30
    micro_batch: Count | None = None
    trunk_cache: bool = True
    read_ahead: Annotated[int, Field(ge=0, le=64)] = 2
    keep_cache: bool = False
    mixed_precision: bool = False


class TuneConfig(Settings):
    """Settings to choose among, by name, and how many trials to expect (``sfumato tune``)."""

    choices: Annotated[
        dict[str, Annotated[list[Any], Field(min_length=1, max_length=1000)]], Field(min_length=1)
    ]
    trials: Annotated[float, Field(ge=1.1, le=10**4)] = 8.0
    # of the number of trials: the logarithmic one costs less, the geometric one varies less
    distribution: Literal["logarithmic", "geometric"] = "logarithmic"


class TrainConfig(Settings):
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
    tune: TuneConfig | None = None
    shared_records: Literal["refuse", "drop"] = "refuse"
    operator_log: Path | None = None
    # where it trains: auto, cpu, cuda, cuda:N, mps; the card says what was used
    device: str = "cpu"
    # the loss on private records: nowhere, on the progress bar, or there and in TensorBoard's files
    private_loss: Literal["hidden", "shown", "logged"] = "hidden"
    seed: Seed | None = None

    def named_files(self) -> list[Path]:
        """Every file and folder that the settings name, as they name it."""
        named = list(_paths(self.model_dump(by_alias=True)))
        settings = {} if self.view is None else self.view.settings
        return named + [
            Path(each) for each in settings.values() if isinstance(each, str) and "/" in each
        ]

    def to_yaml(self) -> str:
        """The resolved settings, which read back as the same configuration."""
        return yaml.safe_dump(self.model_dump(mode="json", by_alias=True), sort_keys=True)


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _paths(each)


def read_config(path: Path, changes: list[str]) -> TrainConfig:
    """Read a YAML file, apply ``key.sub=value`` changes, and check everything."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigError(
            f"Expected a readable training file at {str(path)!r}, got none."
        ) from None
    try:
        values = parse_file(text) or {}
    except ValueError as error:
        raise ConfigError(f"Expected YAML in the training file, got {error}.") from None
    if not isinstance(values, dict):
        raise ConfigError(
            "Expected a mapping of settings in the training file, got something else."
        )
    named = [change.partition("=")[0] for change in changes]
    if twice := next((name for name in named if named.count(name) > 1), None):
        raise ConfigError(
            f"Expected every change once, got {shown(twice)} twice: say which value counts."
        )
    for change in changes:
        _apply(values, change)
    return parse_config(values)


def parse_config(values: dict[str, Any]) -> TrainConfig:
    """Check settings that are already plain values; a preset fills in what is not said."""
    name = values.get("preset")
    if name is not None:
        if not isinstance(name, str) or name not in PRESETS:
            raise ConfigError(f"Expected a preset out of {', '.join(PRESETS)}, got {shown(name)}.")
        values = _with_preset(values, name)
    config = validated(TrainConfig, values, "the training file", ConfigError)
    _check_pose(config)
    _check_import(config)
    _check_input(config)
    if config.model.weights_saw is not None and config.model.weights is None:
        raise ConfigError(
            "Expected model.weights with model.weights_saw, got none: there is nothing that it "
            "could speak of."
        )
    if config.view is not None:
        make_view(config.view.kind, config.view.settings)
    if config.method not in METHODS:
        raise ConfigError(f"Expected a method out of {', '.join(METHODS)}, got {config.method!r}.")
    return config


def _check_pose(config: TrainConfig) -> None:
    """Data, model and the section ``pose`` belong together."""
    wanted = config.pose is not None
    public = None if config.projector is None else config.projector.public
    sources = [asked for asked in (config.data, config.held_out, public) if asked is not None]
    named = [(f"data.kind {asked.kind}", find_dataset(asked.kind).has_joints) for asked in sources]
    model = config.model.name
    both = model == "efficientnet-lite0"  # joints, or classes of pictures
    named.append((f"model.name {model}", wanted if both else model in (*POSE_BACKBONES, THUNDER)))
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

    if config.model.name == THUNDER:
        _check_thunder(config)


def _check_thunder(config: TrainConfig) -> None:
    """Its trunk chooses among cells, which no gradient passes: only the head trains."""
    seen = config.input
    if (seen.height, seen.width) != (256, 256) or config.model.trainable != "head":
        raise ConfigError(
            f"Expected input.height 256, input.width 256 and model.trainable head with "
            f"{THUNDER}, got {seen.height}, {seen.width} and {config.model.trainable}."
        )


def _check_import(config: TrainConfig) -> None:
    """A model of one's own has its own settings, and no part in the section pose."""
    chosen = config.model
    if chosen.import_ is None:
        if chosen.args:
            raise ConfigError("Expected model.import with model.args, got none.")
        return
    if config.pose is not None or chosen.pretrained:
        raise ConfigError(
            "Expected model.import without the section pose and without model.pretrained, got "
            "either: they belong to the models of sfumato."
        )


def _check_input(config: TrainConfig) -> None:
    """What the records are and what the model takes."""
    seen, name = config.input, config.model.name
    if (seen.kind == "array") != (seen.shape is not None):
        raise ConfigError(
            "Expected input.shape with input.kind array and with no other, such as [128, 6], got "
            f"{seen.kind} {'with' if seen.shape else 'without'} it."
        )
    if config.pose is not None or config.model.import_ is not None:
        return
    takes = {"linear": "array", "mlp": "array", "efficientnet-lite0": "picture"}
    if seen.kind != takes.get(name, "video"):
        raise ConfigError(
            f"Expected input.kind {takes.get(name, 'video')} with model.name {name}, got {seen.kind}: "
            "linear and mlp take arrays, efficientnet-lite0 pictures, the others videos (a picture is "
            "a video of one frame to them); or name a model of your own with model.import."
        )
    if name in FEATURE_NETWORKS and not config.model.pretrained and config.model.weights is None:
        raise ConfigError(
            f"Expected model.pretrained: true with {name}, of which only a head on its features "
            "trains, got neither that nor model.weights."
        )


def _with_preset(values: dict[str, Any], name: str) -> dict[str, Any]:
    preset = PRESETS[name]
    given = {each: _section(values, each) for each in ("training", "privacy", "input")}
    training = {"batch": preset.batch, "rate": preset.rate, "clips": preset.clips,
                "schedule": preset.schedule, "epochs": preset.epochs}  # fmt: skip
    if "steps" in given["training"]:
        del training["epochs"]
    size = {"frames": preset.frames, "height": preset.size, "width": preset.width or preset.size}
    return {
        "method": preset.method,
        **values,
        "training": {**training, **given["training"]},
        "privacy": {"clip_norm": preset.clip_norm, **given["privacy"]},
        "input": {**size, **given["input"]},
    }


def _section(values: dict[str, Any], name: str) -> dict[str, Any]:
    """The settings under ``name``, which may be left out."""
    found = values.get(name)
    if found is not None and not isinstance(found, dict):
        raise ConfigError(f"Expected {name!r} to hold settings, got {shown(found)}.")
    return found or {}


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise ConfigError(f"Expected changes as key=value, got {shown(change)}.")
    if not text.strip():
        raise ConfigError(f"Expected a value for {shown(key)}, {NO_VALUE}")
    *parents, last = key.split(".")
    place = values
    for parent in parents:
        place[parent] = _section(place, parent)
        place = place[parent]
    try:
        place[last] = parse_value(text)
    except ValueError as error:
        raise ConfigError(
            f"Expected a value for {shown(key)}, got {error}: put text in quotes."
        ) from None
