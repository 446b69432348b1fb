"""Who moves the parameters: an optimizer of ours or one of torch's, fed with released gradients.

Post-processing: an optimizer sees the noised gradient and the parameters, so its choice, its state
and its schedule cost nothing. What it remembers is kept in tensors, for checkpoints.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from sfumato.learn._optimizers import Optimizer, OptimizerError
from sfumato.learn.engine._validate import trainable
from sfumato.models import device_of

Tensors = dict[str, Tensor]
TorchFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
SchedulerFactory = Callable[[torch.optim.Optimizer], Any]
AnyOptimizer = Optimizer | TorchFactory | torch.optim.Optimizer
_SETTINGS = "torch"


class Updates(Protocol):
    """``follow`` moves the parameters once; ``memory`` is what a checkpoint must keep for it."""

    memory: Tensors

    def follow(self, gradient: Tensors, noise: Tensors, number: int, steps: int) -> float:
        """Step ``number`` of ``steps``; the learning rate that was used."""

    def restore(self, memory: Tensors) -> None: ...


class OwnUpdates:
    """By an ``Optimizer`` of sfumato, which knows the variance of the noise."""

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self.memory: Tensors = {}

    def follow(self, gradient: Tensors, noise: Tensors, number: int, steps: int) -> float:
        rate = self._optimizer.rate * self._optimizer.schedule.factor(number, steps)
        with torch.no_grad():
            parameters = {name: p.data for name, p in trainable(self._model).items()}
            self._optimizer.update(parameters, gradient, self.memory, rate, noise)
        return rate

    def restore(self, memory: Tensors) -> None:
        device = device_of(self._model)
        self.memory = {name: tensor.to(device) for name, tensor in memory.items()}


class TorchUpdates:
    """By a ``torch.optim.Optimizer``, with a scheduler that is stepped once a step."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: SchedulerFactory | None = None,
    ) -> None:
        self._model, self._optimizer = model, optimizer
        _check_parameters(model, optimizer)
        _try_out(optimizer)
        self._scheduler = None if scheduler is None else _scheduler_of(scheduler, optimizer)
        self.memory: Tensors = {}

    def follow(self, gradient: Tensors, noise: Tensors, number: int, steps: int) -> float:
        rate = float(self._optimizer.param_groups[0]["lr"])
        for parameter in self._model.parameters():
            parameter.grad = None  # whatever was left there did not come from the private step
        for name, parameter in trainable(self._model).items():
            parameter.grad = gradient[name].to(parameter.dtype)
        self._optimizer.step()
        for parameter in self._model.parameters():
            parameter.grad = None
        if self._scheduler is not None:
            self._scheduler.step()
        self.memory = _packed(self._optimizer, self._scheduler)
        return rate

    def restore(self, memory: Tensors) -> None:
        if memory:
            _unpack(memory, self._optimizer, self._scheduler)
        self.memory = memory


def updates_for(
    model: nn.Module, optimizer: AnyOptimizer, scheduler: SchedulerFactory | None = None
) -> Updates:
    """What moves the parameters of ``model``; says in one sentence why something cannot."""
    if isinstance(optimizer, type):
        raise OptimizerError(
            f"Expected an optimizer or a function that makes one, got the class "
            f"{optimizer.__name__}: write optimizer=lambda parameters: {optimizer.__name__}(parameters, "
            "lr=...)."
        )
    if isinstance(optimizer, torch.optim.Optimizer):
        return TorchUpdates(model, optimizer, scheduler)
    if hasattr(optimizer, "update") and hasattr(optimizer, "rate"):
        if scheduler is not None:
            raise OptimizerError(
                "Expected a scheduler with an optimizer of torch only, got one beside "
                f"{type(optimizer).__name__}: pass schedule=Schedule(...) to that."
            )
        return OwnUpdates(model, cast(Optimizer, optimizer))
    made = optimizer(list(trainable(model).values())) if callable(optimizer) else optimizer
    if not isinstance(made, torch.optim.Optimizer):
        raise OptimizerError(
            "Expected sfumato's Sgd or Adam, a torch optimizer, or a function that makes one of the "
            f"parameters, got {type(made).__name__}."
        )
    return TorchUpdates(model, made, scheduler)


def _check_parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not {id(p) for p in trainable(model).values()} <= held:
        raise OptimizerError(
            "Expected an optimizer of all trainable parameters of this model, got one that lacks "
            "some: make it of model.parameters(), and freeze what shall not train."
        )
    if not held <= {id(p) for p in model.parameters()}:
        raise OptimizerError(
            "Expected an optimizer of this model's parameters alone, got one that holds others."
        )
    if optimizer.state:
        raise OptimizerError(
            "Expected a new optimizer, got one that has taken steps: what it remembers would enter "
            "the model without being counted. Pass a function that makes one."
        )


def _try_out(optimizer: torch.optim.Optimizer) -> None:
    """One step on a copy, with gradients of zero: does it work, and can its state be kept?"""
    name = type(optimizer).__name__
    trial = copy.deepcopy(optimizer)
    for group in trial.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    try:
        trial.step()
    except (TypeError, RuntimeError) as error:
        raise OptimizerError(
            f"Expected an optimizer that steps on the gradients it is given, got {name}, which does "
            f"not ({str(error).splitlines()[0]}): it cannot evaluate the loss on its own, since only "
            "the noised gradient leaves the private step."
        ) from error
    _packed(trial, None)


def _scheduler_of(make: SchedulerFactory, optimizer: torch.optim.Optimizer) -> Any:
    made = make(optimizer) if callable(make) else make
    if isinstance(made, ReduceLROnPlateau) or not hasattr(made, "step"):
        raise OptimizerError(
            "Expected a function that makes a scheduler which needs no measure, such as "
            f"CosineAnnealingLR, got {type(made).__name__}: scheduler=lambda optimizer: ..."
        )
    if getattr(made, "optimizer", optimizer) is not optimizer:
        raise OptimizerError(
            "Expected a scheduler of the optimizer that it is given, got one of another optimizer."
        )
    return made


def _packed(optimizer: torch.optim.Optimizer, scheduler: Any) -> Tensors:
    """All state as tensors; what is no tensor is JSON in one of bytes."""
    told = optimizer.state_dict()
    tensors: Tensors = {}
    plain: dict[str, dict[str, Any]] = {}
    for number, memory in told["state"].items():
        for name, value in memory.items():
            if isinstance(value, Tensor):
                tensors[f"state.{number}.{name}"] = value
            else:
                plain.setdefault(str(number), {})[name] = value
    schedule = None if scheduler is None else scheduler.state_dict()
    try:
        text = json.dumps([plain, told["param_groups"], schedule])
    except TypeError as error:
        kind = type(optimizer if scheduler is None else scheduler).__name__
        raise OptimizerError(
            f"Expected an optimizer and a scheduler whose state is tensors and plain values, got "
            f"{kind}: a checkpoint could not keep it ({error})."
        ) from error
    return {**tensors, _SETTINGS: torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}


def _unpack(memory: Tensors, optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
    try:
        plain, groups, schedule = json.loads(bytes(memory[_SETTINGS].tolist()))
        state: dict[int, dict[str, Any]] = {int(number): own for number, own in plain.items()}
        for key, tensor in memory.items():
            if key != _SETTINGS:
                _, number, name = key.split(".", 2)
                state.setdefault(int(number), {})[name] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        if (scheduler is None) != (schedule is None):
            raise ValueError("one with a scheduler and one without")
        if scheduler is not None:
            scheduler.load_state_dict(schedule)
    except (KeyError, ValueError) as error:
        raise OptimizerError(
            "Expected the optimizer and scheduler that the checkpoint was made with, got others "
            f"({error}): resume with the same."
        ) from error
