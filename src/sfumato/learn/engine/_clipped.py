"""The sum of clipped per-record gradients: the one private quantity every method starts from."""

from __future__ import annotations

import math
import secrets
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as tree

from sfumato.learn.engine._independence import check_batch
from sfumato.learn.engine._per_sample_grads import UnsupportedLayer
from sfumato.learn.engine._probe import RouteChoice, choose, take_the_loop
from sfumato.learn.engine._routes import Loss, Rows, Sums, by_loop, route_for
from sfumato.learn.engine._speed import Route, Speed
from sfumato.learn.engine._validate import (
    LARGEST_CLIP_NORM,
    SMALLEST_CLIP_NORM,
    ModelError,
    check_layers,
    check_precision,
    trainable,
)


class BatchError(ModelError):
    """A batch whose axes are not what was promised."""


def clipped_gradient(
    model: nn.Module,
    loss: Loss,
    batch: tuple[Any, Any],
    clip_norm: float,
    *,
    clips: int = 1,
    speed: Speed = Speed(),  # noqa: B008 - frozen, so one shared default is safe
) -> tuple[Sums, Tensor]:
    """Sum over records of each record's gradient, scaled down to norm at most ``clip_norm``.

    **Guarantee**: adding or removing one record moves the sum by at most ``clip_norm`` in l2 norm,
    exchanging one by at most twice that (up to float rounding).

    ``batch`` is ``(x, y)`` with the records on the first axis, and clips on the second when
    ``clips > 1`` (``y`` may have one entry a record or one a clip); ``x`` may be a tuple of tensors.
    ``loss(output, y)`` gives one value a record, unreduced; clips are averaged *before* clipping.

    | case | result |
    | --- | --- |
    | empty batch | zeros, and no norms |
    | zero gradient | contributes zero |
    | infinite or NaN gradient | contributes exactly zero; its norm is reported as inf |
    | ``clip_norm=inf`` | the plain sum |
    | unused parameter | zeros |
    | frozen parameter | absent from the sum |
    """
    if isinstance(clip_norm, bool) or not clip_norm > 0:
        raise ModelError(f"Expected clip_norm > 0, got {clip_norm!r}.")
    if not math.isinf(clip_norm) and not SMALLEST_CLIP_NORM <= clip_norm <= LARGEST_CLIP_NORM:
        raise ModelError(
            f"Expected clip_norm between {SMALLEST_CLIP_NORM:g} and {LARGEST_CLIP_NORM:g}, or inf, "
            f"got {clip_norm!r}: float32 cannot hold gradients to it. Scale the loss."
        )
    check_layers(model)
    rows = lay_out(batch, clips)
    return clipped_rows(model, loss, rows, clip_norm, speed)


def clipped_rows(
    model: nn.Module, loss: Loss, rows: Rows, clip_norm: float, speed: Speed
) -> tuple[Sums, Tensor]:
    """``clipped_gradient`` for records that are already laid out."""
    parameters = trainable(model)
    check_precision(parameters, speed.mixed_precision)
    if rows.records == 0:
        return {name: torch.zeros_like(p) for name, p in parameters.items()}, torch.zeros(0)
    sums: Sums = {}
    choice = choose(model, loss, rows, parameters, speed.route)
    size = micro_batch(choice, speed, rows.clips)
    norms = []
    for start in range(0, rows.records, size):
        piece = rows.some(start, min(start + size, rows.records))
        try:
            route = route_for(choice.route, speed.mixed_precision)
            found, lengths = route(model, loss, piece, clip_norm, parameters)
        except UnsupportedLayer as why:  # it computes otherwise than when it was looked at
            choice = take_the_loop(model, loss, rows, parameters, speed.route, str(why))
            found, lengths = by_loop(model, loss, piece, clip_norm, parameters)
        norms.append(lengths)
        for name, total in found.items():
            sums[name] = sums[name].add_(total) if name in sums else total
    return sums, torch.cat(norms)


def check_rows(model: nn.Module, loss: Loss, rows: Rows, clip_norm: float, speed: Speed) -> bool:
    """Compare a micro-batch of real records with the loop; False if there is none of two or more.

    The loop itself sees one record at a time, so nothing can mix in it: where rounding makes a
    difference between a batch and the loop, the loop is what is used from here on.
    """
    parameters = trainable(model)
    choice = choose(model, loss, rows, parameters, speed.route)
    size = min(micro_batch(choice, speed), rows.records)
    if choice.route is Route.LOOP or size < 2:
        return False
    start = secrets.randbelow(rows.records - size + 1)
    piece = rows.some(start, start + size)
    try:
        route = route_for(choice.route, speed.mixed_precision)
        alone = route if speed.mixed_precision else by_loop
        if check_batch(model, loss, piece, clip_norm, parameters, route, alone):
            return True
        why = "rounding in a batch depends on its size"
    except UnsupportedLayer as reason:
        why = str(reason)
    take_the_loop(model, loss, rows, parameters, speed.route, why)
    return True


def micro_batch(choice: RouteChoice, speed: Speed, clips: int = 1) -> int:
    """Records at a time under ``speed.memory``; at least one."""
    if speed.micro_batch is not None:
        return speed.micro_batch
    return max(1, speed.memory // max(1, choice.bytes_per_record))


def lay_out(batch: tuple[Any, Any], clips: int) -> Rows:
    """(records, clips, ...) to consecutive rows with equal weights."""
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise BatchError("Expected a batch (x, y), got something else: pass both as a pair.")
    if isinstance(clips, bool) or not isinstance(clips, int) or clips < 1:
        raise BatchError(f"Expected clips as a whole number >= 1, got {clips!r}.")
    x, y = (tree.tree_map(lambda t: torch.as_tensor(t).detach(), part) for part in batch)
    leaves = tree.tree_leaves((x, y))
    records = len(leaves[0])
    for leaf in leaves:
        if leaf.dim() == 0 or len(leaf) != records:
            raise BatchError(
                f"Expected {records} records on the first axis of every part of the batch, got "
                f"shape {tuple(leaf.shape)}."
            )
    if clips > 1:
        for leaf in tree.tree_leaves(x):
            if leaf.dim() < 2 or leaf.shape[1] != clips:
                raise BatchError(
                    f"Expected {clips} clips on the second axis, got shape {tuple(leaf.shape)}."
                )
        x = tree.tree_map(lambda t: t.flatten(0, 1), x)
        y = tree.tree_map(lambda t: _for_clips(t, clips), y)
    weights = torch.full((records, clips), 1.0 / clips, device=leaves[0].device)
    return Rows(x, y, weights)


def _for_clips(y: Tensor, clips: int) -> Tensor:
    if y.dim() >= 2 and y.shape[1] == clips:
        return y.flatten(0, 1)
    return y.repeat_interleave(clips, 0)
