"""A model as a sequence of steps, so that its frozen beginning can run once and be kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from sfumato.errors import SfumatoError


@dataclass(frozen=True)
class Step:
    """One part of a forward pass: ``run`` maps a tensor to a tensor and uses only ``modules``."""

    name: str
    run: Callable[[Tensor], Tensor]
    modules: tuple[nn.Module, ...]

    @property
    def frozen(self) -> bool:
        """True when nothing in this step is trained."""
        return not any(p.requires_grad for module in self.modules for p in module.parameters())


@runtime_checkable
class Sequence(Protocol):
    """A model whose forward pass equals its ``steps`` run one after the other."""

    def steps(self) -> list[Step]: ...


def cut(model: nn.Module) -> tuple[list[Step], list[Step]]:
    """The longest frozen beginning of a model and the rest, which holds all that trains."""
    if not isinstance(model, Sequence):
        raise SfumatoError(
            f"Expected a model with steps(), as every model of sfumato.models has, "
            f"got {type(model).__name__}: train it without the trunk cache."
        )
    steps = model.steps()
    first = next((i for i, step in enumerate(steps) if not step.frozen), len(steps))
    return steps[:first], steps[first:]


def run(steps: list[Step], x: Tensor) -> Tensor:
    """Run steps one after the other."""
    for step in steps:
        x = step.run(x)
    return x
