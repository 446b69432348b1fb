"""Is a record's gradient its own? Asked of made-up records before the first step, and of real
batches at random steps.

It is behaviour that counts, not layer names. Before the first step, two of five made-up records are
changed at a time, values and labels: nothing of the other three may move. Later, a record is left
out of a real batch: the sum must lose that record's own clipped gradient, and nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils import _pytree as tree

from sfumato.learn.engine._noise import flatten
from sfumato.learn.engine._random_state import (
    forked_random_state,
    random_state,
    set_random_state,
)
from sfumato.learn.engine._routes import Loss, Rows, Sums, by_loop, forward
from sfumato.learn.engine._unwritten import unwritten
from sfumato.learn.engine._validate import (
    MixedRecordsError,
    ModelError,
    ReducedLossError,
    check_losses,
)

# Made-up records: a layer that shuffles five leaves all in their places once in 120 times.
PROBES = 5
# Seeds tried where a model draws random numbers; one is enough where it draws none.
_SEEDS = 3
# Values of a private record beyond this do not shape the made-up ones, which must not overflow.
_LARGEST = 1e3
# What rounding may change about a norm, and about a sum of clipped gradients as a share of C.
_ROUNDING = 1e-3

Summed = tuple[Sums, Tensor]


def check_independence(model: nn.Module, loss: Loss, real: Rows) -> tuple[Rows, str]:
    """Refuse a model or a loss that mixes records, or a model that writes down what it sees.

    Gives back made-up records like the ``real`` ones, and why they could not be judged (empty: they
    could, and all is well).
    """
    with unwritten(model):
        return _look(model, loss, real)


def _look(model: nn.Module, loss: Loss, real: Rows) -> tuple[Rows, str]:
    classes = _classes(model, loss, real)
    rows, doubt = made_up(real, PROBES, classes), ""
    for _ in range(_SEEDS):
        others, seed = others_than(rows, real, classes), secrets.randbits(63)
        base = _observe(model, loss, rows, seed)
        for first in range(PROBES):
            changed = [first, (first + 1) % PROBES]
            seen = _observe(model, loss, swapped(rows, others, changed), seed)
            doubt = doubt or _compare(base, seen, [n for n in range(PROBES) if n not in changed])
        if not base.random:
            break
    return rows, doubt


@dataclass(frozen=True)
class _Seen:
    """What came out for a batch of made-up records, each tensor by record."""

    outputs: list[Tensor]
    losses: Tensor
    random: bool
    generator: Tensor  # its state afterwards


def _observe(model: nn.Module, loss: Loss, rows: Rows, seed: int) -> _Seen:
    device = rows.weights.device
    with torch.no_grad(), forked_random_state(device):
        torch.manual_seed(seed)
        before = random_state(device)
        output = forward(model, rows.x)
        losses = check_losses(loss(output, rows.y), rows.records * rows.clips)
        after = random_state(device)
    apart = []
    for part in tree.tree_leaves(output):
        if not isinstance(part, Tensor) or part.dim() == 0 or len(part) % rows.records:
            raise MixedRecordsError(
                f"Expected an output with the {rows.records} records on its first axis, got "
                f"{tuple(getattr(part, 'shape', ()))}: keep records apart until the loss."
            )
        apart.append(part.reshape(rows.records, -1))
    return _Seen(apart, losses.reshape(rows.records, -1), not torch.equal(before, after), after)


def _compare(before: _Seen, after: _Seen, same: list[int]) -> str:
    """Records that were not changed must come out the same; why that cannot be said, if so."""
    if not torch.equal(before.generator, after.generator):
        return "the random numbers that it draws depend on the records"
    pairs = [*zip(before.outputs, after.outputs), (before.losses, after.losses)]
    for one, other in pairs:
        if one.shape != other.shape:
            return "the shape of its output depends on the records"
        if one.is_floating_point() and not bool(torch.isfinite(one[same]).all()):
            return "made-up records are infinite or not a number to it"
    if any(_moved(one[same], other[same]) for one, other in pairs[:-1]):
        raise MixedRecordsError(
            "Expected every record's output to depend on that record alone, but it moved when "
            "another record changed: a layer mixes records (batch statistics, mixup, attention or "
            "pooling over the first axis). Exchange that layer, for instance for GroupNorm."
        )
    if _moved(before.losses[same], after.losses[same]):
        raise ReducedLossError(
            "Expected each record's loss to depend on that record alone, but it moved when another "
            "record changed: the loss averages over the batch, or reads the labels of others. Use "
            'reduction="none".'
        )
    return ""


def _moved(before: Tensor, after: Tensor) -> bool:
    """Batched kernels may round differently by position, so equality is up to rounding."""
    if not before.is_floating_point():
        return not torch.equal(before, after)
    scale = before.abs().max() if before.numel() else before.new_zeros(())
    return not bool((before - after).abs().max() <= 1e-5 * scale + 1e-7)


# -- made-up records -----------------------------------------------------------------------------


def made_up(real: Rows, count: int, classes: int = 0) -> Rows:
    """``count`` records like the first real one, values and labels drawn anew.

    Labels that are whole numbers differ from record to record, as far as those of the batch, or
    ``classes``, allow.
    """
    size = count * real.clips
    device = real.weights.device
    place = torch.arange(count, device=device).repeat_interleave(real.clips)

    def values(t: Tensor) -> Tensor:
        like = t[:1].expand(size, *t.shape[1:])
        if t.dtype == torch.bool:
            return like.clone()
        if not t.is_floating_point():
            return _draw(int(t.min()), int(t.max()), like.shape).to(t)
        usual = _usual(like)
        noise = torch.randn(like.shape, generator=_generator(), dtype=t.dtype)
        return usual + usual[:1].std(correction=0).clamp_min(0.1) * noise.to(device)

    def labels(t: Tensor) -> Tensor:
        shape, span = t.shape[1:], _labels(t, classes)
        if t.is_floating_point():
            low, high = min(0.0, float(_usual(t).min())), max(1.0, float(_usual(t).max()))
            drawn = torch.rand((size, *shape), generator=_generator(), dtype=t.dtype)
            return low + (high - low) * drawn.to(device)
        start = place.reshape(-1, *(1 for _ in shape)) + _draw(0, span - 1, (1, *shape)).to(device)
        return t[:1].expand(size, *shape).clone() if span == 0 else (start % span).to(t.dtype)

    weights = torch.full((count, real.clips), 1.0 / real.clips, device=device)
    return Rows(tree.tree_map(values, real.x), tree.tree_map(labels, real.y), weights)


def others_than(rows: Rows, real: Rows, classes: int = 0) -> Rows:
    """As many made-up records; every value, and wherever it can the label, is another one."""

    def value(fresh: Tensor, old: Tensor, t: Tensor) -> Tensor:
        if t.is_floating_point() or t.dtype == torch.bool:
            return fresh
        low, span = int(t.min()), int(t.max()) - int(t.min()) + 1
        step = _draw(1, max(1, span - 1), old.shape).to(old.device)
        return (low + (old.long() - low + step) % span).to(t.dtype)

    def label(fresh: Tensor, t: Tensor) -> Tensor:
        """All alike: so even a count of labels changes when two records do."""
        return fresh if t.is_floating_point() else fresh[:1].expand_as(fresh).clone()

    fresh = made_up(real, rows.records, classes)
    x = tree.tree_map(value, fresh.x, rows.x, real.x)
    return Rows(x, tree.tree_map(label, fresh.y, real.y), rows.weights)


def _usual(t: Tensor) -> Tensor:
    return torch.nan_to_num(t, 0.0, 0.0, 0.0).clamp(-_LARGEST, _LARGEST)


def _labels(t: Tensor, classes: int) -> int:
    """How many labels there are; 0 where they do not count from zero."""
    if t.is_floating_point() or t.dtype == torch.bool:
        return 2
    return max(int(t.max()) + 1, classes if t.dim() == 1 else 0, 0)


def _draw(low: int, high: int, shape: Sequence[int]) -> Tensor:
    return torch.randint(low, max(low, high) + 1, tuple(shape), generator=_generator())


def _generator() -> torch.Generator:
    """Fresh, and apart from the one that dropout draws from."""
    return torch.Generator().manual_seed(secrets.randbits(63))


def _classes(model: nn.Module, loss: Loss, real: Rows) -> int:
    """How many labels the loss takes, as far as the output tells; 0 where it does not."""
    rows = made_up(real, PROBES)
    with torch.no_grad(), forked_random_state(real.weights.device):
        try:
            output = forward(model, rows.x)
        except RuntimeError as error:
            raise ModelError(
                f"Expected a model that takes the records as they are, got one that fails on them "
                f"({str(error).splitlines()[0]}): check their type, shape and size."
            ) from error
        if not (isinstance(output, Tensor) and output.dim() > 1):
            return 0
        try:
            loss(output, made_up(real, PROBES, output.shape[1]).y)
        except (IndexError, RuntimeError, ValueError):
            return 0
    return output.shape[1]


def swapped(rows: Rows, others: Rows, chosen: Sequence[int]) -> Rows:
    """``rows`` with the ``chosen`` records taken from ``others``."""
    spread = [record * rows.clips + clip for record in chosen for clip in range(rows.clips)]

    def put(own: Tensor, other: Tensor) -> Tensor:
        changed = own.clone()
        changed[spread] = other[spread]
        return changed

    return Rows(
        tree.tree_map(put, rows.x, others.x), tree.tree_map(put, rows.y, others.y), rows.weights
    )


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


# -- real batches --------------------------------------------------------------------------------


def check_batch(
    model: nn.Module,
    loss: Loss,
    rows: Rows,
    clip_norm: float,
    parameters: dict[str, nn.Parameter],
    route: Callable[..., Summed],
    alone: Callable[..., Summed] = by_loop,
) -> bool:
    """Stop if a record of a real batch, chosen at random, has a say in what others contribute.

    False if it has by rounding alone: values so extreme that a batch of another size, and so
    another kernel, gives another gradient. ``alone`` is how one record by itself is taken. Then the disagreement is gone in double precision, with
    the extremes cut down to what those digits hold. A strange record stops no training.
    """
    one = _OneOfMany(
        model, loss, clip_norm, parameters, route, alone, secrets.randbelow(rows.records)
    )
    with unwritten(model), forked_random_state(rows.weights.device):
        if one.is_its_own(rows):
            return True
        try:
            with _double_precision(model):
                precise = replace(one, route=_full_precision(route), alone=by_loop)
                mixed = not precise.is_its_own(_precise(rows))
        except RuntimeError:  # it cannot be run so: no excuse
            mixed = True
    if mixed:
        raise MixedRecordsError(
            "Expected every record of a batch to add its own clipped gradient and nothing else, "
            "but leaving one out changed what others add: a layer or the loss mixes records, or "
            "goes by how many there are. Remove that and start again."
        )
    return False


@dataclass(frozen=True)
class _OneOfMany:
    """A record among others, and the way their clipped gradients are summed."""

    model: nn.Module
    loss: Loss
    clip_norm: float
    parameters: dict[str, nn.Parameter]
    route: Callable[..., Summed]
    alone: Callable[..., Summed]
    chosen: int

    def is_its_own(self, rows: Rows) -> bool:
        """Leaving it out loses its own gradient only, and changing the others leaves it alone.

        Where random numbers are drawn (dropout), the second is asked with the same draws, and the
        first in evaluation mode.
        """
        (sums, norms), start, end = self._sum(rows)
        if torch.equal(start, end):
            return self._loses_its_own(rows, sums)
        rest = [n for n in range(rows.records) if n != self.chosen]
        others = swapped(rows, others_than(rows, rows), rest)
        set_random_state(rows.weights.device, start)
        (_, moved), _, other_end = self._sum(others)
        # draws that depend on the other records' shapes cannot be compared
        if torch.equal(end, other_end) and not torch.allclose(
            moved[self.chosen], norms[self.chosen], _ROUNDING, _ROUNDING**2 * self.clip_norm
        ):
            return False
        with evaluating(self.model):
            (sums, _), start, end = self._sum(rows)
            return not torch.equal(start, end) or self._loses_its_own(rows, sums)

    def _sum(self, rows: Rows) -> tuple[Summed, Tensor, Tensor]:
        """With the state of the random numbers before and after."""
        device = rows.weights.device
        start = random_state(device)
        summed = self.route(self.model, self.loss, rows, self.clip_norm, self.parameters)
        return summed, start, random_state(device)

    def _loses_its_own(self, rows: Rows, sums: Sums) -> bool:
        others = [n for n in range(rows.records) if n != self.chosen]
        rest = torch.tensor(others, device=rows.weights.device)
        without, _ = self._sum(rows.pick(rest))[0]
        single = rows.some(self.chosen, self.chosen + 1)
        own, _ = self.alone(self.model, self.loss, single, self.clip_norm, self.parameters)
        off = flatten(sums) - flatten(without) - flatten(own)
        return bool(off.norm() <= _ROUNDING * self.clip_norm)


def _full_precision(route: Callable[..., Summed]) -> Callable[..., Summed]:
    return route.func if isinstance(route, partial) else route


def _precise(rows: Rows) -> Rows:
    """In float64, without extremes."""

    def cast(t: Tensor) -> Tensor:
        return _usual(t).double() if t.is_floating_point() else t

    return Rows(tree.tree_map(cast, rows.x), tree.tree_map(cast, rows.y), rows.weights.double())


@contextmanager
def _double_precision(model: nn.Module) -> Iterator[None]:
    """Every parameter and buffer in float64 while the block lasts; the same tensors afterwards."""
    parameters = [(p, p.data) for p in model.parameters()]
    buffers = [(module, name, buffer) for module in model.modules()
               for name, buffer in module._buffers.items() if buffer is not None]  # fmt: skip
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        for parameter, data in parameters:
            parameter.data = data.double() if data.is_floating_point() else data
        for module, name, buffer in buffers:
            module._buffers[name] = buffer.double() if buffer.is_floating_point() else buffer
        yield
    finally:
        torch.set_default_dtype(usual)
        for parameter, data in parameters:
            parameter.data = data
        for module, name, buffer in buffers:
            module._buffers[name] = buffer
