"""What a model and a loss must be so that a record's gradient is its own, and errors that say so."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from sfumato.errors import SfumatoError


class ModelError(SfumatoError):
    """A model whose per-record gradients do not exist or cannot be bounded."""


class BatchNormError(ModelError):
    """Batch statistics mix records, and running statistics store them in the clear."""


class MixedRecordsError(ModelError):
    """One record's output changes with another record."""


class ChangingBufferError(ModelError):
    """A forward pass writes what it has seen into the model."""


class LossError(ModelError):
    """A loss that does not give one value a record."""


class ReducedLossError(LossError):
    """A loss that is already averaged or summed over the batch."""


class PrecisionError(ModelError):
    """Gradients in a type that is too coarse to bound their sum."""


class NothingTrainableError(ModelError):
    """Every parameter is frozen."""


# Clip norms whose squares a float32 holds with room to spare: below, contributions would vanish in
# subnormal numbers when they are measured, and not when they are added.
SMALLEST_CLIP_NORM, LARGEST_CLIP_NORM = 1e-9, 1e9
# What a record adds to a sum of clipped gradients is no longer than C times 1 + this, in float32.
ROUNDING_OF_CLIPPED = 2.0**-8


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Trainable parameters by their own names, each once even where it is shared."""
    found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise NothingTrainableError(
            "Expected at least one trainable parameter, got a model that is frozen entirely: "
            "set requires_grad_(True) on the layers to train."
        )
    return found


def check_precision(parameters: Mapping[str, nn.Parameter], mixed: bool = False) -> None:
    """Norms and sums are bounded in float32 and float64 alone (R19); passes may be ``mixed``."""
    for name, parameter in parameters.items():
        if parameter.dtype not in {torch.float32, torch.float64}:
            raise PrecisionError(
                f"Expected trainable parameters in float32, got {parameter.dtype} at {name!r}: sums "
                "of clipped gradients are too coarse in it. Call model.float() before training."
            )
        if mixed and (parameter.dtype is not torch.float32 or parameter.device.type == "mps"):
            raise PrecisionError(
                "Expected trainable parameters in float32 on the CPU or a CUDA device for mixed "
                f"precision, got {parameter.dtype} on {parameter.device.type}: train in full precision."
            )
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise PrecisionError(
            "Expected full precision for gradients that are clipped, got an open torch.autocast: "
            "call without it (a layer may use it inside)."
        )


def check_layers(model: nn.Module) -> None:
    """Refuse layers that are known to mix records, with the remedy."""
    for name, module in model.named_modules():
        frozen = not module.training and getattr(module, "running_mean", None) is not None
        if isinstance(module, _BatchNorm) and not frozen:
            raise BatchNormError(
                f"Expected no batch statistics, got {type(module).__name__} in training mode at "
                f"{name or 'the top'!r}: its output mixes records, so no record's influence is "
                "bounded. Freeze it (sfumato.models.freeze_batchnorm(model)) or exchange it for "
                "GroupNorm (sfumato.models.replace_batchnorm(model))."
            )
        writes = module.training and getattr(module, "track_running_stats", False)
        if isinstance(module, _InstanceNorm) and writes:
            raise ChangingBufferError(
                f"Expected no running statistics, got {type(module).__name__} with "
                f"track_running_stats at {name or 'the top'!r}: build it without, or call .eval()."
            )


def check_losses(values: object, records: int) -> Tensor:
    """Losses as (records,), or an error that names the likely mistake."""
    if not isinstance(values, Tensor):
        raise LossError(
            f"Expected the loss as a tensor with one value a record, got {type(values).__name__}."
        )
    if values.dim() == 0:
        raise ReducedLossError(
            f"Expected {records} losses, one a record, got a single value that is already averaged "
            'or summed over the batch: use reduction="none".'
        )
    if values.shape != (records,):
        raise LossError(
            f"Expected losses of shape ({records},), one a record, got {tuple(values.shape)}: "
            "average over the remaining axes inside the loss, not over records."
        )
    if not values.requires_grad and torch.is_grad_enabled():
        raise LossError(
            "Expected losses that depend on the trainable parameters, got values without a "
            "gradient: no trainable layer takes part, or the model detaches its output."
        )
    return values
