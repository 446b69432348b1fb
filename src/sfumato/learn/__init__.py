"""Training with a promise: the private step, its switches, plans and the trainer."""

from sfumato.learn._as_records import as_records
from sfumato.learn._checkpoint import CheckpointError
from sfumato.learn._held_out import HeldOutError
from sfumato.learn._methods import (
    METHODS,
    PRESETS,
    MethodError,
    TrainingMethod,
    TrainingPreset,
    plan_for,
)
from sfumato.learn._optimizers import Adam, Optimizer, OptimizerError, Schedule, Sgd
from sfumato.learn._own_loop import DrawnBatch, PrivateStep
from sfumato.learn._plan import Plan, PlanError
from sfumato.learn._pose import PlaceLoss, PoseLoss, SkeletonFinder
from sfumato.learn._private_mean import private_mean
from sfumato.learn._projector import Projector, ProjectorError, Subspace
from sfumato.learn._sampled_units import TrainingError
from sfumato.learn._saved import save_model
from sfumato.learn._scores import Scores
from sfumato.learn._starting_weights import PastTraining, StartingWeights, StartingWeightsError
from sfumato.learn._trainer import Progress, Run, SpendHook, cross_entropy, train
from sfumato.learn.config._job import (
    Job,
    describe,
    format_plan,
    init_distributed,
    make_job,
    run_job,
)
from sfumato.learn.config._pose_job import evaluate_pose, read_skeleton_finder
from sfumato.learn.config._schema import ConfigError, TrainConfig, parse_config, read_config
from sfumato.learn.config._tune_job import Tuning, make_tuning, run_tuning
from sfumato.learn.engine._clipped import clipped_gradient
from sfumato.learn.engine._probe import RouteChoice, route_of
from sfumato.learn.engine._sampling import OwnersError
from sfumato.learn.engine._speed import Route, Speed, SpeedError, keep_freed_memory
from sfumato.learn.engine._validate import (
    BatchNormError,
    ChangingBufferError,
    LossError,
    MixedRecordsError,
    ModelError,
    ReducedLossError,
)
from sfumato.learn.views._feature_maps import (
    BlurFeatures,
    FeatureMap,
    FeatureMapError,
    Invertibility,
    LowFrequency,
    PixelateFeatures,
)
from sfumato.learn.views._masked_pixels import MaskedPixels
from sfumato.learn.views._prepare import (
    Arrays,
    AsIs,
    PictureInput,
    Pictures,
    Preparation,
    PreparationError,
    VideoClips,
)
from sfumato.learn.views._public_view import BLANK, PublicView, ViewError, blanked

__all__ = [
    "BLANK", "METHODS", "PRESETS", "Adam", "Arrays", "AsIs", "BatchNormError", "BlurFeatures",
    "ChangingBufferError", "CheckpointError", "ConfigError", "DrawnBatch", "FeatureMap", "FeatureMapError",
    "HeldOutError", "Invertibility", "Job", "LossError", "LowFrequency", "MaskedPixels",
    "MethodError", "MixedRecordsError", "ModelError", "Optimizer", "OptimizerError",
    "OwnersError", "PastTraining", "PictureInput", "Pictures", "PixelateFeatures", "PlaceLoss", "Plan", "PlanError",
    "PoseLoss", "Preparation", "PreparationError", "PrivateStep", "Progress", "Projector", "ProjectorError",
    "PublicView", "ReducedLossError", "Route", "RouteChoice", "Run", "Schedule", "Scores",
    "Sgd", "SkeletonFinder", "Speed", "SpeedError", "SpendHook", "StartingWeights",
    "StartingWeightsError", "Subspace", "TrainConfig", "TrainingError", "TrainingMethod",
    "TrainingPreset", "Tuning", "VideoClips", "ViewError", "as_records", "blanked", "clipped_gradient", "cross_entropy",
    "describe", "evaluate_pose", "format_plan", "init_distributed", "keep_freed_memory", "make_job", "make_tuning",
    "parse_config", "plan_for", "private_mean", "read_config", "read_skeleton_finder", "route_of", "run_job",
    "run_tuning", "save_model", "train",
]  # fmt: skip
