"""Which parameters train: the presets of the papers, by name."""

from __future__ import annotations

from enum import StrEnum

from torch import nn

from sfumato.errors import SfumatoError
from sfumato.models._i3d import I3D
from sfumato.models._mvit import MViT
from sfumato.models._steps import Sequence, Step

_NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)


class Preset(StrEnum):
    """A choice of trainable parameters."""

    HEAD = "head"
    LAST_NORMS = "last-norms"  # norms of the last two blocks, the final norm, and the head
    NORMS = "norms"  # all norms and the head
    LAST_STAGE = "last-stage"  # the last stage, all norms, and the head
    EVERYTHING = "everything"


def select(model: nn.Module, preset: Preset | str) -> int:
    """Make only the parameters of ``preset`` trainable; returns how many numbers those are.

    A block is a step of ``model.steps()``. The last stage is, for MViT, the blocks from the last
    halving on; for TinyViT, the last of its four stages; for I3D, both "Mixed_5"; and the last
    block where a model has no stages.

    The scale of I3D's norms, which the published model does not have, is never trained.
    """
    if preset not in list(Preset):
        raise SfumatoError(
            f"Expected a preset out of {', '.join(Preset)}, got {str(preset)!r}: choose one of them."
        )
    if not isinstance(model, Sequence):
        raise SfumatoError(
            f"Expected a model with steps(), as every model of sfumato.models has, got "
            f"{type(model).__name__}: set requires_grad on its parameters yourself."
        )
    absent = _absent(model)
    steps = model.steps()
    blocks, head = steps[1:-1], steps[-1]
    chosen: list[nn.Module] = []
    if preset == Preset.EVERYTHING:
        chosen = [model]
    else:
        chosen = list(head.modules)
        if preset == Preset.HEAD:
            # the linear layers alone: a norm in front of them belongs to "norms"
            chosen = [m for part in head.modules for m in part.modules() if not _is_norm(m)]
        if preset in (Preset.NORMS, Preset.LAST_STAGE):
            chosen += _norms(steps)
        if preset == Preset.LAST_NORMS:
            chosen += _norms(blocks[-2:])
        if preset == Preset.LAST_STAGE:
            chosen += [module for step in _last_stage(model, blocks) for module in step.modules]
    model.requires_grad_(False)
    for module in chosen:
        recurse = preset != Preset.HEAD
        for parameter in module.parameters(recurse=recurse):
            parameter.requires_grad_(id(parameter) not in absent)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _absent(model: nn.Module) -> set[int]:
    """Parameters that stand for something the published model does not have."""
    if not isinstance(model, I3D):
        return set()
    return {id(m.weight) for m in model.modules() if isinstance(m, nn.BatchNorm3d)}


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, _NORMS)


def _norms(steps: list[Step]) -> list[nn.Module]:
    return [m for step in steps for part in step.modules for m in part.modules() if _is_norm(m)]


def _last_stage(model: nn.Module, blocks: list[Step]) -> list[Step]:
    if isinstance(model, MViT):
        halvings = [i for i, block in enumerate(model.blocks) if block.pool_skip is not None]
        return blocks[halvings[-1] :]
    stage = _stage_of(blocks[-1].name)
    return [step for step in blocks if _stage_of(step.name) == stage]


def _stage_of(name: str) -> str:
    """ "stages.3.blocks.1" belongs to "stages.3", "Mixed_5c" to "Mixed_5"; others stand alone."""
    if ".stages." in f".{name}":
        before, _, after = name.rpartition("stages.")
        return f"{before}stages.{after.split('.')[0]}"
    return name[:-1] if name.startswith("Mixed_") else name
