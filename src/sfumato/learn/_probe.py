"""A look at a model before its first step: does it mix records, and which route is right for it?

The look uses two made-up records. It is behaviour that counts, not layer names: a layer that mixes
records is found because one record's output moves with the other, and a route is taken only if it
agrees with a loop over single records. The result is kept with the model, so it costs a few small
passes once.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as tree

from sfumato.learn._book import NotInTheBook
from sfumato.learn._contributions import Contribution, Explicit
from sfumato.learn._routes import ROUTES, Loss, Rows, by_book, by_loop, forward
from sfumato.learn._speed import Route
from sfumato.learn._validate import (
    ChangingBufferError,
    MixedRecordsError,
    ReducedLossError,
    check_losses,
)

_LOG = logging.getLogger("sfumato.learn")
_PROBES = 2
_AGREE = 1e-3


@dataclass(frozen=True)
class RouteChoice:
    """Which route the engine takes for a model, why, and what a record costs in memory."""

    route: Route
    reason: str
    bytes_per_record: int


_CHOICES: WeakKeyDictionary[nn.Module, dict[Any, RouteChoice]] = WeakKeyDictionary()


def route_of(model: nn.Module) -> RouteChoice | None:
    """The route last chosen for this model, or None before its first gradient."""
    choices = _CHOICES.get(model)
    return None if not choices else next(reversed(choices.values()))


def choose(
    model: nn.Module, loss: Loss, rows: Rows, parameters: dict[str, nn.Parameter], wanted: Route
) -> RouteChoice:
    """Check the model and pick a route; remembered for the same model, shapes and mode."""
    leaves = tree.tree_leaves((rows.x, rows.y))
    key = (
        wanted,
        rows.clips,
        tuple(parameters),
        tuple(module.training for module in model.modules()),
        tuple((tuple(leaf.shape[1:]), leaf.dtype) for leaf in leaves),
        getattr(loss, "__code__", type(loss)),
    )
    known = _CHOICES.setdefault(model, {})
    if key in known:
        known[key] = known.pop(key)
        return known[key]
    chosen = _examine(model, loss, _made_up(rows), parameters, wanted)
    _LOG.info("route %s: %s", chosen.route.value, chosen.reason)
    known[key] = chosen
    return chosen


def _examine(
    model: nn.Module, loss: Loss, rows: Rows, parameters: dict[str, nn.Parameter], wanted: Route
) -> RouteChoice:
    _check_independence(model, loss, rows)
    activations, parameter_bytes = 0, sum(p.nbytes for p in parameters.values())
    with evaluating(model):
        oracle = by_loop(model, loss, rows, float("inf"), parameters)
        if wanted in {Route.AUTO, Route.BOOK_KEEPING}:
            counted = _Counted(parameters)
            try:
                with counted:
                    found = by_book(
                        model, loss, rows, float("inf"), parameters, counted.contributions
                    )
                reason = _disagreement(found, oracle)
            except NotInTheBook as unknown:
                reason = str(unknown)
            if not reason:
                size = -(-2 * counted.total // rows.records)
                return RouteChoice(Route.BOOK_KEEPING, "every trainable layer is known", size)
            if wanted is Route.BOOK_KEEPING:
                raise MixedRecordsError(
                    f"Expected a model that book-keeping can follow, got one where {reason}: "
                    "use route='auto'."
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


def _check_independence(model: nn.Module, loss: Loss, rows: Rows) -> None:
    """Change the second record only: nothing of the first may move, and no buffer at all."""
    other = copy.copy(rows)
    other.x = tree.tree_map(_second_changed, rows.x)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    outputs, losses = [], []
    with torch.no_grad():
        for each in (rows, other):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                outputs.append(forward(model, each.x))
                losses.append(check_losses(loss(outputs[-1], each.y), rows.records * rows.clips))
    changed = [n for n, b in model.named_buffers() if not torch.equal(b, buffers[n])]
    if changed:
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
        raise ChangingBufferError(
            f"Expected buffers that stay as they are, got {changed[0]!r} written during a forward "
            "pass: what it stores would leave the private scope without noise. Freeze it or "
            "remove it."
        )
    first = rows.clips
    for before, after in zip(*(tree.tree_leaves(output) for output in outputs)):
        if not isinstance(before, Tensor) or before.dim() == 0 or len(before) % rows.records:
            raise MixedRecordsError(
                f"Expected an output with the {rows.records} records on its first axis, got "
                f"{tuple(getattr(before, 'shape', ()))}: keep records apart until the loss."
            )
        own = len(before) // rows.records
        if _moved(before[:own], after[:own]):
            raise MixedRecordsError(
                "Expected every record's output to depend on that record alone, but it moved when "
                "another record changed: a layer mixes records (batch statistics, attention or "
                "pooling over the first axis). Exchange that layer, for instance for GroupNorm."
            )
    if _moved(losses[0][:first], losses[1][:first]):
        raise ReducedLossError(
            "Expected each record's loss to depend on that record alone, but it moved when another "
            'record changed: the loss averages over the batch. Use reduction="none".'
        )


def _moved(before: Tensor, after: Tensor) -> bool:
    """Batched kernels may round differently by position, so equality is up to rounding."""
    if not before.is_floating_point():
        return not torch.equal(before, after)
    scale = before.abs().max() if before.numel() else before.new_zeros(())
    if not bool(torch.isfinite(scale)):
        return False
    return bool((before - after).abs().max() > 1e-5 * scale + 1e-7)


def _made_up(rows: Rows) -> Rows:
    """Two records like the first one, with its values changed at random."""
    count = _PROBES * rows.clips
    generator = torch.Generator().manual_seed(0)

    def varied(t: Tensor) -> Tensor:
        like = t[:1].expand(count, *t.shape[1:])
        if t.dtype == torch.bool:
            return like.clone()
        if not t.is_floating_point():
            span = int(t.max()) + 1 if t.numel() else 1
            draw = torch.randint(max(span, 1), like.shape, generator=generator)
            return draw.to(t.dtype)
        spread = torch.nan_to_num(t[:1], 0.0, 0.0, 0.0).std(correction=0).clamp_min(0.1)
        noise = torch.randn(like.shape, generator=generator, dtype=t.dtype)
        return torch.nan_to_num(like, 0.0, 0.0, 0.0) + spread * noise

    weights = torch.full((_PROBES, rows.clips), 1.0 / rows.clips)
    labels = tree.tree_map(lambda t: t[:1].expand(count, *t.shape[1:]).clone(), rows.y)
    return Rows(tree.tree_map(varied, rows.x), labels, weights)


def _second_changed(t: Tensor) -> Tensor:
    half = len(t) // 2
    changed = t.clone()
    if t.is_floating_point():
        changed[half:] = 3.0 - 2.0 * t[half:]
    elif t.dtype != torch.bool:
        changed[half:] = t[half:].flip(-1) if t.dim() > 1 else t[:half]
    return changed


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and the like; every module's own mode is restored afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


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
        """Per-record gradients that only the book holds; its products share the activations."""
        self.total += sum(use.nbytes() for use in found if isinstance(use, Explicit))
