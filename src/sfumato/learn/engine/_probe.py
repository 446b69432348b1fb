"""A look at a model before its first step: which route is right for it?

A model that mixes records is refused first. A route is taken only if it agrees with a loop over
single records on two made-up ones. The result is kept with the model, so it costs a few small passes
once.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from types import MethodType
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as tree

from sfumato.learn.engine._contributions import Contribution, Explicit
from sfumato.learn.engine._independence import check_independence, evaluating
from sfumato.learn.engine._per_sample_grads import UnsupportedLayer
from sfumato.learn.engine._routes import ROUTES, Loss, Rows, by_book_keeping, by_loop
from sfumato.learn.engine._speed import Route
from sfumato.learn.engine._validate import MixedRecordsError

_LOG = logging.getLogger("sfumato.learn")
_COMPARED = 2
_AGREE = 1e-3


@dataclass(frozen=True)
class RouteChoice:
    """Which route the engine takes for a model, why, and what a record costs in memory."""

    route: Route
    reason: str
    bytes_per_record: int


@dataclass(frozen=True)
class _Known:
    """A choice, and the loss it was made for: while that object lives, not another one like it."""

    choice: RouteChoice
    loss: ReferenceType[Any]


_CHOICES: WeakKeyDictionary[nn.Module, dict[Any, _Known]] = WeakKeyDictionary()


def route_of(model: nn.Module) -> RouteChoice | None:
    """The route last chosen for this model, or None before its first gradient."""
    choices = _CHOICES.get(model)
    return None if not choices else next(reversed(choices.values())).choice


def choose(
    model: nn.Module, loss: Loss, rows: Rows, parameters: dict[str, nn.Parameter], wanted: Route
) -> RouteChoice:
    """Check the model and pick a route; remembered for the same objects, shapes and modes."""
    key, owner = _key(model, loss, rows, parameters, wanted)
    known = _CHOICES.setdefault(model, {})
    if key in known and known[key].loss() is owner:
        known[key] = known.pop(key)
        return known[key].choice
    chosen = _examine(model, loss, rows, parameters, wanted)
    _remember(model, key, owner, chosen)
    return chosen


def take_the_loop(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    parameters: dict[str, nn.Parameter],
    wanted: Route,
    why: str,
) -> RouteChoice:
    """From now on one record at a time, whatever was chosen or asked for."""
    chosen = choose(model, loss, rows, parameters, wanted)
    loop = RouteChoice(
        Route.LOOP, f"not {chosen.route.value} because {why}", chosen.bytes_per_record
    )
    _remember(model, *_key(model, loss, rows, parameters, wanted), loop)
    return loop


def _key(
    model: nn.Module, loss: Loss, rows: Rows, parameters: dict[str, nn.Parameter], wanted: Route
) -> tuple[Any, Any]:
    """What a choice is good for, and the object that stands for the loss.

    A bound method is a new object at every look: its owner and its function are not.
    """
    leaves = tree.tree_leaves((rows.x, rows.y))
    owner, function = (
        (loss.__self__, loss.__func__) if isinstance(loss, MethodType) else (loss, loss)
    )
    key = (
        wanted,
        rows.clips,
        tuple(parameters),
        tuple((id(module), module.training) for module in model.modules()),
        tuple((tuple(leaf.shape[1:]), leaf.dtype) for leaf in leaves),
        (id(owner), id(function)),
    )
    return key, owner


def _remember(model: nn.Module, key: Any, owner: Any, chosen: RouteChoice) -> None:
    """As long as model and loss live; what takes no weak reference is looked at again."""
    _LOG.info("route %s: %s", chosen.route.value, chosen.reason)
    known = _CHOICES.setdefault(model, {})
    for old in [old for old, entry in known.items() if entry.loss() is None or old == key]:
        del known[old]
    with contextlib.suppress(TypeError):
        known[key] = _Known(chosen, ref(owner))


def _examine(
    model: nn.Module, loss: Loss, rows: Rows, parameters: dict[str, nn.Parameter], wanted: Route
) -> RouteChoice:
    made_up, doubt = check_independence(model, loss, rows)
    rows = made_up.some(0, _COMPARED)
    activations, parameter_bytes = 0, sum(p.nbytes for p in parameters.values())
    with evaluating(model):
        oracle = by_loop(model, loss, rows, float("inf"), parameters)
        if wanted in {Route.AUTO, Route.BOOK_KEEPING}:
            counted = _Counted(parameters)
            try:
                with counted:
                    found = by_book_keeping(
                        model, loss, rows, float("inf"), parameters, counted.contributions
                    )
                reason = doubt or _disagreement(found, oracle)
            except UnsupportedLayer as unknown:
                reason = str(unknown)
            except RuntimeError as error:  # two types meet in a layer that casts inside, say
                reason = f"it raised {type(error).__name__}"
            if not reason:
                size = -(-2 * counted.total // rows.records)
                return RouteChoice(Route.BOOK_KEEPING, "every trainable layer is known", size)
            if wanted is Route.BOOK_KEEPING:
                raise MixedRecordsError(
                    f"Expected a model that book-keeping can follow, got one where {reason}: "
                    "use route='auto', in full precision."
                )
        counted = _Counted(parameters)
        with counted:
            by_loop(model, loss, rows.some(0, 1), float("inf"), parameters)
        activations = 2 * counted.total
        why = "asked for" if wanted is not Route.AUTO else f"not book-keeping because {reason}"
        if wanted is not Route.LOOP:
            try:
                found = ROUTES[Route.FUNC](model, loss, rows, float("inf"), parameters)
                failure = _disagreement(found, oracle)
            except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                failure = f"vmap raised {type(error).__name__}"
            if not failure:
                return RouteChoice(Route.FUNC, why, activations + 2 * parameter_bytes)
            why += f", not func because {failure}"
    return RouteChoice(Route.LOOP, why, activations + parameter_bytes)


def _disagreement(
    found: tuple[dict[str, Tensor], Tensor], oracle: tuple[dict[str, Tensor], Tensor]
) -> str:
    """Empty when both agree; otherwise what differs."""
    if not torch.allclose(found[1], oracle[1], rtol=_AGREE, atol=1e-6):
        return "its record norms differ from a loop's"
    scale = max(float(oracle[1].max()), 1e-6)
    for name, total in oracle[0].items():
        if float((found[0][name] - total).abs().max()) > _AGREE * scale:
            return f"its gradient of {name} differs from a loop's"
    return ""


class _Counted(saved_tensors_hooks):
    """Counts bytes that a forward pass keeps for its backward pass, each storage once."""

    def __init__(self, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__(self._pack, lambda t: t)
        self._seen = {p.untyped_storage().data_ptr() for p in parameters.values()}
        self.total = 0

    def _pack(self, t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in self._seen and not isinstance(t, nn.Parameter):
            self._seen.add(storage.data_ptr())
            self.total += storage.nbytes()
        return t

    def contributions(self, found: Iterable[Contribution]) -> None:
        """Per-record gradients that only the recorder holds; its products share the activations."""
        self.total += sum(use.nbytes() for use in found if isinstance(use, Explicit))
