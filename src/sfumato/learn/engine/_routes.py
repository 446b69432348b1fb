"""Three ways to the same numbers: book-keeping, vmap of grad, and a loop over records."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils import _pytree as tree

from sfumato.learn.engine._contributions import Contribution, Explicit, clip_factors, norms_and_sums
from sfumato.learn.engine._grouped import Grouped
from sfumato.learn.engine._noise import unflatten
from sfumato.learn.engine._per_sample_grads import GradientRecorder
from sfumato.learn.engine._speed import Route
from sfumato.learn.engine._validate import check_losses

Loss = Callable[[Any, Any], Tensor]
Sums = dict[str, Tensor]


@dataclass
class Rows:
    """Records laid out for a forward pass: ``clips`` consecutive rows each, with weights.

    ``weights`` (records, clips) make a record's loss out of its rows' losses: 1/K for the mean over
    K clips, 0 for a row that only pads.
    """

    x: Any
    y: Any
    weights: Tensor

    @property
    def records(self) -> int:
        return self.weights.shape[0]

    @property
    def clips(self) -> int:
        return self.weights.shape[1]

    def some(self, start: int, stop: int) -> Rows:
        first, last = start * self.clips, stop * self.clips
        return Rows(
            tree.tree_map(lambda t: t[first:last], self.x),
            tree.tree_map(lambda t: t[first:last], self.y),
            self.weights[start:stop],
        )

    def pick(self, chosen: Tensor) -> Rows:
        spread = (
            chosen[:, None] * self.clips + torch.arange(self.clips, device=chosen.device)
        ).flatten()
        return Rows(
            tree.tree_map(lambda t: t[spread], self.x),
            tree.tree_map(lambda t: t[spread], self.y),
            self.weights[chosen],
        )

    @property
    def shape(self) -> list[tuple[Any, ...]]:
        """Shapes and types of a row: what fits into one batch has the same."""
        return [(t.shape[1:], t.dtype) for t in tree.tree_leaves((self.x, self.y))]

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """One after the other; all have as many clips."""

        def together(*tensors: Tensor) -> Tensor:
            return torch.cat(tensors)

        first, *others = parts
        return cls(
            tree.tree_map(together, first.x, *(part.x for part in others)),
            tree.tree_map(together, first.y, *(part.y for part in others)),
            torch.cat([part.weights for part in parts]),
        )


def forward(model: Callable[..., Any], x: Any) -> Any:
    """A tuple of inputs is passed as several arguments, a dict by name."""
    if isinstance(x, (tuple, list)):
        return model(*x)
    return model(**x) if isinstance(x, dict) else model(x)


def record_losses(model: Callable[..., Any], loss: Loss, rows: Rows) -> Tensor:
    """(records,): the weighted mean over each record's clips."""
    values = check_losses(loss(forward(model, rows.x), rows.y), rows.records * rows.clips)
    # a padding row may be anything, even infinite: its weight of zero must win
    values = values.reshape(rows.weights.shape)
    values = torch.where(rows.weights > 0, values, torch.zeros_like(values))
    return (values * rows.weights).sum(1)


def by_book_keeping(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    clip_norm: float,
    parameters: dict[str, nn.Parameter],
    watch: Callable[[Iterable[Contribution]], None] | None = None,
    persons: Grouped | None = None,
    mixed: bool = False,
) -> tuple[Sums, Tensor]:
    """One forward, one backward, then one weighted product a layer.

    ``mixed``: the model's passes in bfloat16, its outputs, the loss and all that is recorded in float32.
    """
    with torch.enable_grad():
        with GradientRecorder(parameters, rows.records, persons, mixed) as recorder:
            seen = _in_bfloat16(model, rows.weights.device) if mixed else model
            total = record_losses(seen, loss, rows).sum()
        total.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        contributions = recorder.contributions()
        if watch is not None:
            watch(contributions.values())
        if not contributions:  # the gradient stops before it reaches any parameter
            nothing = {name: torch.zeros_like(p) for name, p in parameters.items()}
            count = rows.records if persons is None else len(persons)
            return nothing, torch.zeros(count, device=rows.weights.device)
        sizes = {name: parameter.numel() for name, parameter in parameters.items()}
        norms, flat = norms_and_sums(contributions, sizes, clip_norm)
    return unflatten(flat, parameters), norms


def _in_bfloat16(model: nn.Module, device: torch.device) -> Callable[..., Any]:
    def full(t: Any) -> Any:
        return t.float() if isinstance(t, Tensor) and t.is_floating_point() else t

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            output = model(*args, **kwargs)
        return tree.tree_map(full, output)

    return run


def by_func(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    clip_norm: float,
    parameters: dict[str, nn.Parameter],
    persons: Grouped | None = None,
) -> tuple[Sums, Tensor]:
    """vmap of grad: every record's gradient is formed, then clipped and summed."""

    def one(values: Sums, x: Any, y: Any, weights: Tensor) -> Tensor:
        def model_with(*args: Any, **kwargs: Any) -> Any:
            return functional_call(model, values, args, kwargs)

        return record_losses(model_with, loss, Rows(x, y, weights[None]))[0]

    clips = rows.clips
    split = [
        tree.tree_map(lambda t: t.reshape(-1, clips, *t.shape[1:]), part)
        for part in (rows.x, rows.y)
    ]
    values = {name: parameter.detach() for name, parameter in parameters.items()}
    every = vmap(grad(one), in_dims=(None, 0, 0, 0), randomness="different")
    with warnings.catch_warnings():
        # attention has no batching rule on the CPU: slower, and said once by the route's name
        warnings.filterwarnings("ignore", message="There is a performance drop")
        gradients = every(values, split[0], split[1], rows.weights)
    side_by_side = {
        name: Explicit(g if persons is None else persons.add_up(g)) for name, g in gradients.items()
    }
    sizes = {name: parameter.numel() for name, parameter in parameters.items()}
    norms, flat = norms_and_sums(side_by_side, sizes, clip_norm)
    return unflatten(flat, parameters), norms


def by_loop(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    clip_norm: float,
    parameters: dict[str, nn.Parameter],
) -> tuple[Sums, Tensor]:
    """One record at a time: slow, obvious, and what the other two are checked against."""
    sums = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    norms = torch.zeros(rows.records, device=rows.weights.device)
    for i in range(rows.records):
        with torch.enable_grad():
            value = record_losses(model, loss, rows.some(i, i + 1)).sum()
            gradients = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        present = [torch.zeros_like(p) if g is None else g
                   for g, p in zip(gradients, parameters.values())]  # fmt: skip
        norms[i] = add_clipped(sums.values(), present, clip_norm)
    return sums, norms


def add_clipped(totals: Iterable[Tensor], gradient: Sequence[Tensor], clip_norm: float) -> Tensor:
    """Add one whole gradient, scaled down to ``clip_norm``; its norm.

    Adds nothing if it is not finite, or so long that its square is not: as on the other routes.
    """
    lengths = [torch.linalg.vector_norm(part, dtype=torch.float64) for part in gradient]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(lengths))
    if not bool(norm.square() <= torch.finfo(gradient[0].dtype).max):
        return torch.full_like(norm, math.inf)
    factor = clip_factors(norm, clip_norm)
    for total, part in zip(totals, gradient):
        total += factor.to(part.dtype) * part
    return norm


def route_for(route: Route, mixed: bool) -> Callable[..., tuple[Sums, Tensor]]:
    """Where a model came to the loop after all, it is in full precision."""
    return partial(by_book_keeping, mixed=True) if mixed and route is Route.BOOK_KEEPING else ROUTES[route]  # fmt: skip


ROUTES: dict[Route, Callable[..., tuple[Sums, Tensor]]] = {
    Route.BOOK_KEEPING: by_book_keeping,
    Route.FUNC: by_func,
    Route.LOOP: by_loop,
}
