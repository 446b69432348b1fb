"""Per-sample gradients of one forward and one backward pass (the book-keeping route).

While the recorder is active, each torch function that receives a trainable parameter is either one
that it supports (linear, convolution, norms, embedding, GRU, a bare parameter that is added, multiplied
or expanded) or the recorder gives up and the engine takes another route. The model is neither wrapped nor
renamed: the interception is a ``TorchFunctionMode``, gone when the block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sfumato.learn.engine._contributions import Contribution, Explicit, merged
from sfumato.learn.engine._grouped import Grouped
from sfumato.learn.engine._per_sample_layers import (
    PerSampleConv,
    PerSampleEmbedding,
    PerSampleFrozenNorm,
    PerSampleGroupNorm,
    PerSampleLayerNorm,
    PerSampleLinear,
)
from sfumato.learn.engine._per_sample_recurrent import gru_layers


class UnsupportedLayer(Exception):
    """A trainable parameter met a function without per-sample gradients."""


class GradientRecorder(TorchFunctionMode):
    """Collects, for each trainable parameter, what its per-record gradients are made of.

    ``records`` records lie one after the other on the first axis of every activation; a record may
    own several consecutive rows (clips, windows, frames). ``persons`` says which consecutive records
    are one person's: their gradients are then summed before any norm is taken.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        records: int,
        persons: Grouped | None = None,
        mixed: bool = False,
    ) -> None:
        """``mixed``: passes are in bfloat16, and what is recorded is float32 like the parameters."""
        super().__init__()
        self.records, self._persons, self._mixed = records, persons, mixed
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._uses: dict[str, list[Contribution]] = {name: [] for name in parameters}
        self._copies: list[tuple[str, Tensor, tuple[int, ...]]] = []

    # -- called by the layers' backward passes ---------------------------------------------------

    def keeps(self, parameter: Tensor | None) -> bool:
        return parameter is not None and id(parameter) in self._names

    def add(self, parameter: Tensor, contribution: Contribution) -> None:
        if contribution.like().dtype != parameter.dtype:
            raise UnsupportedLayer("a layer computes in another type than that of its parameters")
        self._uses[self._names[id(parameter)]].append(contribution)

    def rows(self, tensor: Tensor) -> Tensor:
        """(B, rows, last axis): everything of a record, or of a person, side by side."""
        each = self.full(tensor).reshape(self.records, -1, tensor.shape[-1])
        return each if self._persons is None else self._persons.side_by_side(each)

    def full(self, tensor: Tensor) -> Tensor:
        """As it is, or in float32 where passes are in less: rounded no further from here on."""
        if not self._mixed or not tensor.is_floating_point():
            return tensor
        return tensor.float()

    def each(self, grads: Tensor) -> Explicit:
        """Gradients of single records, summed over each person's."""
        grads = self.full(grads)
        return Explicit(grads if self._persons is None else self._persons.add_up(grads))

    # -- called by the engine --------------------------------------------------------------------

    def contributions(self) -> dict[str, Contribution]:
        """After the backward pass: one contribution for each parameter that was used."""
        for name, copies, shape in self._copies:
            if copies.grad is not None:
                self._uses[name].append(self.each(copies.grad.reshape(self.records, *shape)))
        found = {name: merged(uses) for name, uses in self._uses.items() if uses}
        # The graph's nodes hold the recorder, and activations hold the graph: an emptied one leaves no
        # cycle, so that a step's memory is free when the step ends, not when Python next collects.
        self._copies.clear()
        self._uses = {name: [] for name in self._uses}
        return found

    # -- interception ----------------------------------------------------------------------------

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self._touches(args) and not (kwargs and self._touches(kwargs.values())):
            return func(*args, **kwargs)
        if func in _READS_ONLY:
            return func(*args, **kwargs)
        known = _KNOWN.get(func)
        if known is None:
            raise UnsupportedLayer(f"a parameter is used by {getattr(func, '__name__', func)}")
        return known(self, func, *args, **kwargs)

    def _touches(self, values: Iterable[Any]) -> bool:
        for value in values:
            if isinstance(value, Tensor):
                if id(value) in self._names:
                    return True
            elif isinstance(value, (list, tuple)) and self._touches(value):
                return True
        return False

    def whole_records(self, tensor: Tensor) -> int:
        """Rows of the first axis that one record owns."""
        if tensor.dim() == 0 or tensor.shape[0] == 0 or tensor.shape[0] % self.records:
            raise UnsupportedLayer("an activation does not have the records on its first axis")
        return tensor.shape[0] // self.records

    def copies(self, parameter: Tensor, dims: int, repeats: int) -> Tensor:
        """One copy of a bare parameter for each record, shaped to broadcast with ``dims`` axes.

        The copies are an expanded view (no memory); what flows back into them is the per-record
        gradient.
        """
        shape = tuple(parameter.shape)
        if len(shape) == dims:
            if shape[0] != 1:
                raise UnsupportedLayer("a bare parameter varies along the records' axis")
            inner = shape[1:]
        elif len(shape) < dims:
            inner = (1,) * (dims - 1 - len(shape)) + shape
        else:
            raise UnsupportedLayer("a bare parameter has more axes than the activation it meets")
        leaf = parameter.detach().reshape(1, *inner).expand(self.records, *inner)
        leaf.requires_grad_(True)
        self._copies.append((self._names[id(parameter)], leaf, shape))
        return leaf if repeats == 1 else leaf.repeat_interleave(repeats, 0)


def _linear(
    recorder: GradientRecorder, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    recorder.whole_records(input)
    return PerSampleLinear.apply(input, weight, bias, recorder)  # type: ignore[no-untyped-call, no-any-return]


def _conv(
    recorder: GradientRecorder,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    axes = weight.dim() - 2
    if input.dim() != weight.dim():
        raise UnsupportedLayer("a convolution without a records axis")
    recorder.whole_records(input)
    stride, dilation = _each(stride, axes), _each(dilation, axes)
    if isinstance(padding, str):
        spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        if padding == "same" and any(span % 2 for span in spans):
            raise UnsupportedLayer("a convolution with uneven padding")
        padding = [span // 2 if padding == "same" else 0 for span in spans]
    settings = (stride, _each(padding, axes), dilation, groups)
    return PerSampleConv.apply(input, weight, bias, recorder, settings)  # type: ignore[no-untyped-call, no-any-return]


def _layer_norm(
    recorder: GradientRecorder,
    func: Any,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    if input.dim() <= len(normalized_shape):
        raise UnsupportedLayer("a layer norm over the records' axis")
    recorder.whole_records(input)
    input = recorder.full(input)
    return PerSampleLayerNorm.apply(input, weight, bias, recorder, list(normalized_shape), eps)  # type: ignore[no-untyped-call, no-any-return]


def _group_norm(
    recorder: GradientRecorder,
    func: Any,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    recorder.whole_records(input)
    input = recorder.full(input)
    return PerSampleGroupNorm.apply(input, weight, bias, recorder, num_groups, eps)  # type: ignore[no-untyped-call, no-any-return]


def _batch_norm(
    recorder: GradientRecorder,
    func: Any,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training or running_mean is None or running_var is None:
        raise UnsupportedLayer("a batch norm that is not frozen")
    recorder.whole_records(input)
    input = recorder.full(input)
    scale = torch.rsqrt(running_var + eps)
    return PerSampleFrozenNorm.apply(input, weight, bias, recorder, running_mean, scale)  # type: ignore[no-untyped-call, no-any-return]


def _embedding(
    recorder: GradientRecorder,
    func: Any,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise UnsupportedLayer("an embedding that renormalises, counts or is sparse")
    recorder.whole_records(input)
    return PerSampleEmbedding.apply(input, weight, recorder, padding_idx)  # type: ignore[no-untyped-call, no-any-return]


def _gru(recorder: GradientRecorder, func: Any, input: Tensor, hx: Any, weights: Any, *settings: Any) -> Any:  # fmt: skip
    """``torch.gru``; records lie on the second axis unless the batch is first."""
    if not isinstance(hx, Tensor) or not isinstance(weights, (list, tuple)) or len(settings) != 6:
        raise UnsupportedLayer("a recurrent layer with packed sequences")
    biased, layers, dropout, training, both_ways, batch_first = settings
    directions, each = 1 + bool(both_ways), 4 if biased else 2
    if len(weights) != layers * directions * each or recorder.keeps(hx):
        raise UnsupportedLayer("a recurrent layer with other weights than those of a GRU")
    x = input.transpose(0, 1) if batch_first else input
    recorder.whole_records(x.transpose(0, 1))
    grouped = [tuple(weights[i : i + each]) for i in range(0, len(weights), each)]
    dropout = dropout if training else 0.0
    with torch.autocast(x.device.type, enabled=False):
        x, hx = recorder.full(x), recorder.full(hx)
        out, last = gru_layers(x, hx, grouped, directions, dropout, recorder)
    return (out.transpose(0, 1) if batch_first else out), last


def _broadcast(
    recorder: GradientRecorder, func: Any, first: Any, second: Any, **kwargs: Any
) -> Any:
    """``x + p``, ``p * x``: the parameter meets every record separately."""
    if recorder.keeps(first) and recorder.keeps(second):
        raise UnsupportedLayer("two parameters are combined before they meet a record")
    if kwargs:
        raise UnsupportedLayer("an elementwise function with options")
    parameter, other = (first, second) if recorder.keeps(first) else (second, first)
    if not isinstance(other, Tensor):
        raise UnsupportedLayer("a parameter is changed before it meets a record")
    repeats = recorder.whole_records(other)
    copies = recorder.copies(parameter, other.dim(), repeats)
    return func(copies, other) if recorder.keeps(first) else func(other, copies)


def _expand(recorder: GradientRecorder, func: Any, parameter: Tensor, *sizes: Any) -> Tensor:
    """``token.expand(batch, -1, -1)``: one copy of the token for each record."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if len(shape) <= 1 or shape[0] <= 0 or shape[0] % recorder.records:
        raise UnsupportedLayer("a parameter is expanded along another axis than the records'")
    copies = recorder.copies(parameter, len(shape), shape[0] // recorder.records)
    return copies.expand(*shape)


def _each(value: Any, axes: int) -> list[int]:
    values = [value] * axes if isinstance(value, int) else list(value)
    return values * axes if len(values) == 1 else values


_KNOWN: dict[Any, Callable[..., Any]] = {
    F.linear: _linear,
    F.layer_norm: _layer_norm,
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
    F.embedding: _embedding,
    Tensor.expand: _expand,
    torch.gru: _gru,
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), _conv),
    **dict.fromkeys(
        (
            Tensor.add,
            Tensor.sub,
            Tensor.mul,
            Tensor.div,
            Tensor.__add__,
            Tensor.__radd__,
            Tensor.__sub__,
            Tensor.__mul__,
            Tensor.__rmul__,
            torch.add,
            torch.sub,
            torch.mul,
            torch.div,
        ),
        _broadcast,
    ),
}

# Looking at a parameter's shape or type leaves no trace in its gradient.
_READS_ONLY: frozenset[Any] = frozenset(
    getattr(Tensor, name).__get__
    for name in (
        "shape", "dtype", "device", "requires_grad", "is_cuda", "layout", "ndim", "is_leaf",
        "data", "grad", "is_sparse", "is_quantized", "is_nested",
    )
) | frozenset(
    {
        Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous,
        Tensor.is_floating_point, Tensor.is_complex, Tensor.detach, Tensor.element_size,
        torch.is_floating_point, torch.numel,
    }
)  # fmt: skip
