"""Layers with per-sample gradients: an ordinary forward, and a backward that records instead of summing.

Each backward pass returns the gradient of the input as autograd would, and no gradient of the
parameters: what would be summed over records goes to the recorder, record by record.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sfumato.learn.engine._contributions import (
    Explicit,
    Lookup,
    Unfolded,
    matrix_gradient,
)

_aten = torch.ops.aten
_QUICK_KERNEL = 9  # cells of a depthwise kernel that the grouped form is quick for


class PerSampleLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, recorder: Any) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.recorder = weight, bias, recorder
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,), weight = ctx.saved_tensors, ctx.weight
        grad = grad.contiguous()  # once, for both products below
        gx = (grad @ weight.to(grad.dtype)).to(x.dtype) if ctx.needs_input_grad[0] else None
        g = ctx.recorder.rows(grad)
        if ctx.recorder.keeps(ctx.bias):
            ctx.recorder.add(ctx.bias, Explicit(g.sum(1)))
        if ctx.recorder.keeps(weight):
            ctx.recorder.add(weight, matrix_gradient(ctx.recorder.rows(x.detach()), g))
        return gx, None, None, None


class PerSampleConv(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, recorder: Any, settings: Any
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.recorder, ctx.settings = weight, bias, recorder, settings
        stride, padding, dilation, groups = settings
        none = [0] * len(stride)
        return torch.convolution(x, weight, bias, stride, padding, dilation, False, none, groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,), weight = ctx.saved_tensors, ctx.weight
        recorder, (stride, padding, dilation, groups) = ctx.recorder, ctx.settings
        gx, none, coarse = None, [0] * len(stride), grad
        grad = recorder.full(grad)
        if recorder.keeps(weight):
            recorder.add(
                weight, _conv_gradients(recorder.full(x), weight, grad, ctx.settings, recorder)
            )
        if recorder.keeps(ctx.bias):
            summed = grad.flatten(2).sum(2)
            recorder.add(
                ctx.bias,
                recorder.each(summed.reshape(recorder.records, -1, summed.shape[1]).sum(1)),
            )
        if ctx.needs_input_grad[0]:
            kind = coarse.dtype
            gx = _aten.convolution_backward(
                coarse, x.to(kind), weight.to(kind), None, stride, padding, dilation, False, none,
                groups, [True, False, False],
            )[0].to(x.dtype)  # fmt: skip
        return gx, None, None, None, None


def _conv_gradients(
    x: Tensor, weight: Tensor, grad: Tensor, settings: Any, recorder: Any
) -> Explicit | Unfolded:
    """Per-record gradients of a kernel, in the way that is fastest for its shape."""
    groups, records = settings[3], recorder.records
    wide, tall, cells = x.shape[1], grad.shape[1], math.prod(grad.shape[2:]) * len(x) // records
    reads = weight[0].numel()  # what a cell of the output sees
    if groups == 1 and cells * (reads + tall) < reads * tall:
        a = recorder.rows(_unfolded(x.detach(), weight, grad, settings))
        return Unfolded(a, recorder.rows(grad.flatten(2).transpose(1, 2)), wide)
    if weight.dim() == 4 and groups == wide == tall and weight[0].numel() > _QUICK_KERNEL:
        gradients = _depthwise_gradients(x, weight, grad, settings)
    else:
        gradients = _grouped_gradients(x, weight, grad, settings)
    each: Explicit = recorder.each(gradients.reshape(records, -1, *weight.shape).sum(1))
    return each


def _unfolded(x: Tensor, weight: Tensor, grad: Tensor, settings: Any) -> Tensor:
    """(rows, cells of the output, what each of them saw): a convolution as a matrix product."""
    stride, padding, dilation, _ = settings
    kernel, extent = weight.shape[2:], grad.shape[2:]
    around = [0, 0] + [p for p in reversed(padding) for _ in range(2)]
    x = F.pad(x.movedim(1, -1), around).contiguous()
    rows, *steps, channels = x.stride()
    seen = x.as_strided(
        (len(x), *extent, *kernel, x.shape[-1]),
        (rows, *(a * b for a, b in zip(steps, stride)),
         *(a * b for a, b in zip(steps, dilation)), channels),
    )  # fmt: skip
    return seen.reshape(len(x), math.prod(extent), -1)


def _grouped_gradients(x: Tensor, weight: Tensor, grad: Tensor, settings: Any) -> Tensor:
    """By one grouped convolution: every row of the batch is its own group."""
    stride, padding, dilation, groups = settings
    rows, none = len(x), [0] * len(stride)
    many = weight.detach().expand(rows, *weight.shape).reshape(-1, *weight.shape[1:])
    return _aten.convolution_backward(  # type: ignore[no-any-return]
        grad.reshape(1, -1, *grad.shape[2:]), x.reshape(1, -1, *x.shape[2:]), many, None,
        stride, padding, dilation, False, none, rows * groups, [False, True, False],
    )[1]  # fmt: skip


def _depthwise_gradients(x: Tensor, weight: Tensor, grad: Tensor, settings: Any) -> Tensor:
    """One shifted product for each cell of a kernel: large ones have no fast grouped form."""
    stride, padding, dilation, _ = settings
    last = torch.channels_last
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0])).contiguous(memory_format=last)
    grad = grad.contiguous(memory_format=last)
    found = x.new_empty(len(x), *weight.shape)
    for i, j in itertools.product(range(weight.shape[2]), range(weight.shape[3])):
        rows, columns = (
            slice(first * d, first * d + (size - 1) * s + 1, s)
            for first, d, s, size in zip((i, j), dilation, stride, grad.shape[2:])
        )
        found[:, :, 0, i, j] = (x[:, :, rows, columns] * grad).sum((2, 3))
    return found


class PerSampleLayerNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        recorder: Any,
        shape: list[int],
        eps: float,
    ) -> Tensor:
        out, mean, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(x, mean, rstd)
        ctx.weight, ctx.bias = weight, bias
        ctx.recorder, ctx.shape = recorder, shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, mean, rstd = ctx.saved_tensors
        weight, bias = ctx.weight, ctx.bias
        recorder, shape = ctx.recorder, ctx.shape
        if recorder.keeps(weight):
            moved = torch.sub(x, mean).mul_(grad).reshape(recorder.records, -1, math.prod(shape))
            scaled = torch.bmm(rstd.reshape(recorder.records, 1, -1), moved)
            recorder.add(weight, recorder.each(scaled.reshape(recorder.records, *shape)))
        if recorder.keeps(bias):
            recorder.add(bias, recorder.each(grad.reshape(recorder.records, -1, *shape).sum(1)))
        if not ctx.needs_input_grad[0]:
            return (None,) * 6
        gx = _aten.native_layer_norm_backward(
            grad, x, shape, mean, rstd, weight, bias, [True, False, False]
        )[0]
        return gx, None, None, None, None, None


class PerSampleGroupNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        recorder: Any,
        groups: int,
        eps: float,
    ) -> Tensor:
        x = x.contiguous()
        rows, channels = x.shape[:2]
        inner = x[0, 0].numel()
        out, mean, rstd = torch.native_group_norm(
            x, weight, bias, rows, channels, inner, groups, eps
        )
        ctx.save_for_backward(x, mean, rstd)
        ctx.weight, ctx.bias = weight, bias
        ctx.recorder, ctx.groups = recorder, groups
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, mean, rstd = ctx.saved_tensors
        weight, bias = ctx.weight, ctx.bias
        recorder, groups = ctx.recorder, ctx.groups
        rows, channels = x.shape[:2]
        grad = grad.contiguous()
        if recorder.keeps(weight):
            # sum g (x - mean) rstd, as torch's own backward pass takes it: without copies of x
            moved, plain = (
                each.reshape(rows, channels, -1).sum(2).view(rows, groups, -1)
                for each in (x * grad, grad)
            )
            unit = (moved - mean[..., None] * plain) * rstd[..., None]
            recorder.add(weight, _per_channel(unit.reshape(rows, channels), recorder))
        if recorder.keeps(bias):
            recorder.add(bias, _per_channel(grad.reshape(rows, channels, -1), recorder))
        if not ctx.needs_input_grad[0]:
            return (None,) * 6
        gx = _aten.native_group_norm_backward(
            grad, x, mean, rstd, weight, rows, channels, x[0, 0].numel(), groups,
            [True, False, False],
        )[0]  # fmt: skip
        return gx, None, None, None, None, None


class PerSampleFrozenNorm(Function):
    """Batch norm with frozen statistics: an affine map of each channel."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        recorder: Any,
        mean: Tensor,
        scale: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, mean, scale)
        ctx.weight, ctx.bias = weight, bias
        ctx.recorder = recorder
        shape = (1, -1) + (1,) * (x.dim() - 2)
        out = (x - mean.reshape(shape)) * scale.reshape(shape)
        if weight is not None:
            out = out * weight.reshape(shape)
        return out if bias is None else out + bias.reshape(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, mean, scale = ctx.saved_tensors
        weight, bias = ctx.weight, ctx.bias
        recorder = ctx.recorder
        shape = (1, -1) + (1,) * (x.dim() - 2)
        if recorder.keeps(weight):
            unit = (x - mean.reshape(shape)) * scale.reshape(shape)
            recorder.add(weight, _per_channel(unit * grad, recorder))
        if recorder.keeps(bias):
            recorder.add(bias, _per_channel(grad, recorder))
        factor = scale if weight is None else scale * weight
        gx = grad * factor.reshape(shape) if ctx.needs_input_grad[0] else None
        return gx, None, None, None, None, None


class PerSampleEmbedding(Function):
    @staticmethod
    def forward(
        ctx: Any, index: Tensor, weight: Tensor, recorder: Any, padding_idx: int | None
    ) -> Tensor:
        ctx.save_for_backward(index)
        ctx.weight, ctx.recorder, ctx.padding_idx = weight, recorder, padding_idx
        return F.embedding(index, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (index,), weight = ctx.saved_tensors, ctx.weight
        recorder = ctx.recorder
        flat = recorder.rows(index[..., None])[..., 0]
        g = recorder.rows(grad)
        if ctx.padding_idx is not None:
            g = g.masked_fill((flat == ctx.padding_idx % len(weight))[..., None], 0)
        recorder.add(weight, Lookup(flat, g, len(weight)))
        return None, None, None, None


def _per_channel(values: Tensor, recorder: Any) -> Explicit:
    """(rows, channels, ...) -> (records, channels), or (persons, channels)."""
    summed = values.reshape(*values.shape[:2], -1).sum(2)
    each: Explicit = recorder.each(summed.reshape(recorder.records, -1, summed.shape[1]).sum(1))
    return each
