"""How a released gradient moves the parameters: post-processing, so free of any privacy cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sfumato.errors import SfumatoError

Tensors = dict[str, Tensor]


class OptimizerError(SfumatoError):
    """A learning setting that cannot be."""


@dataclass(frozen=True)
class Schedule:
    """Warm-up over ``warmup`` steps, then ``cosine`` to zero or ``constant``."""

    warmup: int = 0
    kind: str = "constant"

    def __post_init__(self) -> None:
        if self.kind not in {"constant", "cosine"} or self.warmup < 0:
            raise OptimizerError(
                f"Expected a constant or cosine schedule with warmup >= 0, got {self.kind!r} and "
                f"{self.warmup}."
            )

    def factor(self, step: int, steps: int) -> float:
        """For 0 <= step < steps."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.kind == "constant":
            return 1.0
        left = max(1, steps - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / left))


class Optimizer(Protocol):
    """``update`` moves ``parameters`` in place and keeps its memory in ``state``.

    ``noise`` is the variance of the noise in each coordinate of the gradient: a public constant
    (times the projector's energy), which Adam subtracts from its second moments.
    """

    @property
    def rate(self) -> float: ...

    @property
    def schedule(self) -> Schedule: ...

    def update(
        self, parameters: Tensors, gradient: Tensors, state: Tensors, rate: float, noise: Tensors
    ) -> None: ...


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with momentum."""

    rate: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 <= self.momentum < 1:
            raise OptimizerError(f"Expected momentum in [0, 1), got {self.momentum!r}.")

    def update(
        self, parameters: Tensors, gradient: Tensors, state: Tensors, rate: float, noise: Tensors
    ) -> None:
        for name, parameter in parameters.items():
            step = gradient[name]
            if self.weight_decay:
                step = step + self.weight_decay * parameter
            if self.momentum:
                key = f"momentum.{name}"
                step = state[key].mul_(self.momentum).add_(step) if key in state else step.clone()
                state[key] = step
            parameter.add_(step, alpha=-rate)


@dataclass(frozen=True)
class Adam:
    """Adam whose second moments have the noise's variance taken out (Tang et al. 2024).

    The noise adds a known constant to every squared gradient, which would make all steps alike; it
    is subtracted after bias correction, with ``floor`` times the constant as lower limit.
    """

    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    floor: float = 0.05
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        object.__setattr__(self, "betas", tuple(self.betas))
        if not all(0 <= beta < 1 for beta in self.betas):
            raise OptimizerError(f"Expected betas in [0, 1), got {self.betas!r}.")

    def update(
        self, parameters: Tensors, gradient: Tensors, state: Tensors, rate: float, noise: Tensors
    ) -> None:
        first, second = self.betas
        count = state.setdefault("count", torch.zeros((), dtype=torch.int64)).add_(1)
        t = int(count)
        for name, parameter in parameters.items():
            g = gradient[name]
            mean = state.setdefault(f"mean.{name}", torch.zeros_like(g))
            square = state.setdefault(f"square.{name}", torch.zeros_like(g))
            mean.mul_(first).add_(g, alpha=1 - first)
            square.mul_(second).addcmul_(g, g, value=1 - second)
            spread = square / (1 - second**t) - noise[name]
            spread = torch.maximum(spread, self.floor * noise[name]).clamp_min_(0)
            step = (mean / (1 - first**t)) / (spread.sqrt_() + self.eps)
            if self.weight_decay:
                step = step + self.weight_decay * parameter
            parameter.add_(step, alpha=-rate)


def _check_rate(rate: float) -> None:
    if not (math.isfinite(rate) and rate > 0):
        raise OptimizerError(f"Expected a learning rate > 0, got {rate!r}.")
