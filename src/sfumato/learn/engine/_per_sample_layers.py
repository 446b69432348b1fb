"""The layers the book knows: an ordinary forward, and a backward that writes instead of summing.

Each backward pass returns the gradient of the input as autograd would, and no gradient of the
parameters: what would be summed over records goes into the book, record by record.
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

from sfumato.learn.engine._contributions import Explicit, Lookup, Product, matrix_gradient

_aten = torch.ops.aten
_QUICK_KERNEL = 9  # cells of a depthwise kernel that the grouped form is quick for


class BookLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, book: Any) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.book = weight, bias, book
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,), weight = ctx.saved_tensors, ctx.weight
        grad = grad.contiguous()  # once, for both products below
        gx = grad @ weight if ctx.needs_input_grad[0] else None
        g = ctx.book.rows(grad)
        if ctx.book.keeps(ctx.bias):
            ctx.book.add(ctx.bias, Explicit(g.sum(1)))
        if ctx.book.keeps(weight):
            ctx.book.add(weight, matrix_gradient(ctx.book.rows(x.detach()), g))
        return gx, None, None, None


class BookConv(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, book: Any, settings: Any
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.book, ctx.settings = weight, bias, book, settings
        stride, padding, dilation, groups = settings
        none = [0] * len(stride)
        return torch.convolution(x, weight, bias, stride, padding, dilation, False, none, groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,), weight = ctx.saved_tensors, ctx.weight
        book, (stride, padding, dilation, groups) = ctx.book, ctx.settings
        if book.keeps(weight):
            book.add(weight, _conv_gradients(x, weight, grad, ctx.settings, book.records))
        if book.keeps(ctx.bias):
            summed = grad.flatten(2).sum(2)
            book.add(ctx.bias, Explicit(summed.reshape(book.records, -1, summed.shape[1]).sum(1)))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        none = [0] * len(stride)
        gx = _aten.convolution_backward(
            grad, x, weight, None, stride, padding, dilation, False, none, groups,
            [True, False, False],
        )[0]  # fmt: skip
        return gx, None, None, None, None


def _conv_gradients(
    x: Tensor, weight: Tensor, grad: Tensor, settings: Any, records: int
) -> Explicit | Product:
    """Per-record gradients of a kernel, in the way that is fastest for its shape."""
    stride, padding, dilation, groups = settings
    wide, tall, cells = x.shape[1], grad.shape[1], math.prod(grad.shape[2:]) * len(x) // records
    pointwise = (
        weight[0, 0].numel() == 1 and {*stride, *dilation, groups} == {1} and not any(padding)
    )
    if pointwise and cells * (wide + tall) < wide * tall:
        a, g = (
            t.flatten(2).transpose(1, 2).reshape(records, cells, -1) for t in (x.detach(), grad)
        )
        return Product(a, g)
    if weight.dim() == 4 and groups == wide == tall and weight[0].numel() > _QUICK_KERNEL:
        gradients = _depthwise_gradients(x, weight, grad, settings)
    else:
        gradients = _grouped_gradients(x, weight, grad, settings)
    return Explicit(gradients.reshape(records, -1, *weight.shape).sum(1))


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


class BookLayerNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        book: Any,
        shape: list[int],
        eps: float,
    ) -> Tensor:
        out, mean, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(x, mean, rstd)
        ctx.weight, ctx.bias = weight, bias
        ctx.book, ctx.shape = book, shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, mean, rstd = ctx.saved_tensors
        weight, bias = ctx.weight, ctx.bias
        book, shape = ctx.book, ctx.shape
        if book.keeps(weight):
            moved = torch.sub(x, mean).mul_(grad).reshape(book.records, -1, math.prod(shape))
            scaled = torch.bmm(rstd.reshape(book.records, 1, -1), moved)
            book.add(weight, Explicit(scaled.reshape(book.records, *shape)))
        if book.keeps(bias):
            book.add(bias, Explicit(grad.reshape(book.records, -1, *shape).sum(1)))
        if not ctx.needs_input_grad[0]:
            return (None,) * 6
        gx = _aten.native_layer_norm_backward(
            grad, x, shape, mean, rstd, weight, bias, [True, False, False]
        )[0]
        return gx, None, None, None, None, None


class BookGroupNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        book: Any,
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
        ctx.book, ctx.groups = book, groups
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, mean, rstd = ctx.saved_tensors
        weight, bias = ctx.weight, ctx.bias
        book, groups = ctx.book, ctx.groups
        rows, channels = x.shape[:2]
        grad = grad.contiguous()
        if book.keeps(weight):
            grouped = x.reshape(rows, groups, -1)
            unit = ((grouped - mean[..., None]) * rstd[..., None]).reshape(rows, channels, -1)
            book.add(weight, _per_channel(unit * grad.reshape(rows, channels, -1), book))
        if book.keeps(bias):
            book.add(bias, _per_channel(grad.reshape(rows, channels, -1), book))
        if not ctx.needs_input_grad[0]:
            return (None,) * 6
        gx = _aten.native_group_norm_backward(
            grad, x, mean, rstd, weight, rows, channels, x[0, 0].numel(), groups,
            [True, False, False],
        )[0]  # fmt: skip
        return gx, None, None, None, None, None


class BookFrozenNorm(Function):
    """Batch norm with frozen statistics: an affine map of each channel."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        book: Any,
        mean: Tensor,
        scale: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x, mean, scale)
        ctx.weight, ctx.bias = weight, bias
        ctx.book = book
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
        book = ctx.book
        shape = (1, -1) + (1,) * (x.dim() - 2)
        if book.keeps(weight):
            unit = (x - mean.reshape(shape)) * scale.reshape(shape)
            book.add(weight, _per_channel(unit * grad, book))
        if book.keeps(bias):
            book.add(bias, _per_channel(grad, book))
        factor = scale if weight is None else scale * weight
        gx = grad * factor.reshape(shape) if ctx.needs_input_grad[0] else None
        return gx, None, None, None, None, None


class BookEmbedding(Function):
    @staticmethod
    def forward(
        ctx: Any, index: Tensor, weight: Tensor, book: Any, padding_idx: int | None
    ) -> Tensor:
        ctx.save_for_backward(index)
        ctx.weight, ctx.book, ctx.padding_idx = weight, book, padding_idx
        return F.embedding(index, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (index,), weight = ctx.saved_tensors, ctx.weight
        book = ctx.book
        flat = index.reshape(book.records, -1)
        g = book.rows(grad)
        if ctx.padding_idx is not None:
            g = g.masked_fill((flat == ctx.padding_idx % len(weight))[..., None], 0)
        book.add(weight, Lookup(flat, g, len(weight)))
        return None, None, None, None


def _per_channel(values: Tensor, book: Any) -> Explicit:
    """(rows, channels, ...) -> (records, channels)."""
    summed = values.reshape(*values.shape[:2], -1).sum(2)
    return Explicit(summed.reshape(book.records, -1, summed.shape[1]).sum(1))
