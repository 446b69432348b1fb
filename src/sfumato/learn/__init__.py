"""Training with a promise: the private step, its switches, plans and the trainer."""

from sfumato.learn._clipped import clipped_gradient
from sfumato.learn._probe import RouteChoice, route_of
from sfumato.learn._speed import Route, Speed
from sfumato.learn._validate import (
    BatchNormError,
    ChangingBufferError,
    LossError,
    MixedRecordsError,
    ModelError,
    ReducedLossError,
)

__all__ = [
    "BatchNormError",
    "ChangingBufferError",
    "LossError",
    "MixedRecordsError",
    "ModelError",
    "ReducedLossError",
    "Route",
    "RouteChoice",
    "Speed",
    "clipped_gradient",
    "route_of",
]
