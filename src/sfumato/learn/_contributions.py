"""What a backward pass leaves in the book: enough for norms and weighted sums, no more.

A layer's gradient for record i is a sum over its rows (tokens, pixels) t of g_it a_it^T. Its norm
follows from two T x T Gram matrices, |sum_t g_t a_t^T|^2 = sum_ts (a_t . a_s)(g_t . g_s), and the
sum over records with weights c_i is one product: no per-record gradient is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Rounding in the Gram form is about 1e-7 of |a|^2 |g|^2; where the norm is far below that product
# (rows that cancel), the gradient is formed explicitly so that a norm is never understated.
_CANCELLATION = 0.01
# Elements of explicit per-record gradients formed at a time when only their norm is wanted.
_CHUNK = 1 << 22
# Explicit gradients up to this many elements a record are handled together.
_SMALL = 1 << 14


@dataclass
class Product:
    """Gradient of a matrix: sum_t g_t a_t^T, ``a`` (B, T, in) and ``g`` (B, T, out).

    Its squared norms are found at once, in the backward pass, while both factors are in the cache.
    ``floor`` is what a squared norm must exceed to be sure; None where it always is.
    """

    a: Tensor
    g: Tensor

    def __post_init__(self) -> None:
        rows, wide, tall = self.a.shape[1], self.a.shape[2], self.g.shape[2]
        self.floor: Tensor | None = None
        if rows == 1:
            self._squares = self.a.square().sum((1, 2)) * self.g.square().sum((1, 2))
        elif rows * (wide + tall) >= wide * tall:
            self._squares = self._explicit_norms()
        else:
            gram_a = torch.bmm(self.a, self.a.transpose(1, 2))
            gram_g = torch.bmm(self.g, self.g.transpose(1, 2))
            self.floor = _traces(gram_a).mul_(_traces(gram_g)).mul_(_CANCELLATION / rows)
            self._squares = gram_a.mul_(gram_g).sum((1, 2))

    def nbytes(self) -> int:
        return self.a.nbytes + self.g.nbytes

    def like(self) -> Tensor:
        return self.g

    def explicit(self) -> Tensor:
        return torch.bmm(self.g.transpose(1, 2), self.a)

    def squared_norms(self) -> Tensor:
        return self._squares

    def exact_norms(self, chosen: Tensor) -> Tensor:
        return Product(self.a[chosen].double(), self.g[chosen].double())._explicit_norms()

    def _explicit_norms(self) -> Tensor:
        size = max(1, _CHUNK // (self.a.shape[2] * self.g.shape[2]))
        pieces = zip(torch.split(self.a, size), torch.split(self.g, size))
        return torch.cat([torch.bmm(g.transpose(1, 2), a).square().sum((1, 2)) for a, g in pieces])

    def weighted_sum(self, weights: Tensor, out: Tensor) -> None:
        a, g = self.a, self.g
        # scaling the narrower factor moves less memory
        if a.shape[2] <= g.shape[2]:
            a = a * weights[:, None, None]
        else:
            g = g * weights[:, None, None]
        product = out.view(g.shape[2], a.shape[2])
        torch.mm(g.reshape(-1, g.shape[2]).t(), a.reshape(-1, a.shape[2]), out=product)


@dataclass
class Lookup:
    """Gradient of an embedding table: row ``index_t`` receives g_t."""

    index: Tensor
    g: Tensor
    entries: int

    def nbytes(self) -> int:
        return self.index.nbytes + self.g.nbytes

    def like(self) -> Tensor:
        return self.g

    def explicit(self) -> Tensor:
        whole = self.g.new_zeros(len(self.g), self.entries, self.g.shape[2])
        return whole.scatter_add_(1, self.index[..., None].expand_as(self.g), self.g)

    def squared_norms(self) -> Tensor:
        same = self.index[:, :, None] == self.index[:, None, :]
        gram = torch.bmm(self.g.double(), self.g.double().transpose(1, 2))
        return (gram * same).sum((1, 2)).clamp_min(0).to(self.g.dtype)

    def weighted_sum(self, weights: Tensor, out: Tensor) -> None:
        table = out.view(self.entries, self.g.shape[2]).zero_()
        scaled = (self.g * weights[:, None, None]).reshape(-1, self.g.shape[2])
        table.index_add_(0, self.index.reshape(-1), scaled)


@dataclass
class Explicit:
    """Per-record gradients that are small enough to keep: norms, biases, bare parameters."""

    grads: Tensor

    def nbytes(self) -> int:
        return self.grads.nbytes

    def like(self) -> Tensor:
        return self.grads

    def explicit(self) -> Tensor:
        return self.grads

    def squared_norms(self) -> Tensor:
        return self.grads.reshape(len(self.grads), -1).square().sum(1)

    def weighted_sum(self, weights: Tensor, out: Tensor) -> None:
        torch.mv(self.grads.reshape(len(self.grads), -1).t(), weights, out=out)


Contribution = Product | Lookup | Explicit


def merged(uses: Sequence[Contribution]) -> Contribution:
    """One contribution for a parameter that was used several times: the gradients add up."""
    if len(uses) == 1:
        return uses[0]
    if all(isinstance(use, Product) for use in uses):
        return Product(
            torch.cat([use.a for use in uses if isinstance(use, Product)], 1),
            torch.cat([use.g for use in uses if isinstance(use, Product)], 1),
        )
    shape = next((use.grads.shape for use in uses if isinstance(use, Explicit)), None)
    total = uses[0].explicit()
    if shape is not None:
        total = total.reshape(shape)
    for use in uses[1:]:
        total = total + use.explicit().reshape(total.shape)
    return Explicit(total)


def norms_and_sums(
    contributions: Mapping[str, Contribution], sizes: Mapping[str, int], clip_norm: float
) -> tuple[Tensor, Tensor]:
    """Norms of all records, and one flat vector with the sum of their clipped gradients.

    The many small explicit gradients (biases, norms) are put side by side first: one product for
    all instead of one each. ``sizes`` orders the flat vector; absent parameters stay zero.
    """
    small = {
        name: use.grads.reshape(len(use.grads), -1)
        for name, use in contributions.items()
        if isinstance(use, Explicit) and use.grads[0].numel() <= _SMALL
    }
    first = next(iter(contributions.values())).like()  # for type, device and number of records
    large = {name: use for name, use in contributions.items() if name not in small}
    found = [use.squared_norms() for use in large.values()]
    beside = torch.cat(list(small.values()), 1) if small else None
    if beside is not None:
        found.append(beside.square().sum(1))
    squares = torch.stack(found)
    _make_sure(list(large.values()), squares)
    norms = squares.sum(0).sqrt()
    weights = clip_factors(norms, clip_norm)
    flat = first.new_empty(sum(sizes.values()))
    places = dict(zip(sizes, torch.split(flat, list(sizes.values()))))
    for name in sizes.keys() - contributions.keys():
        places[name].zero_()
    for name, use in large.items():
        use.weighted_sum(weights, places[name])
    if beside is not None:
        summed = torch.split(weights @ beside, [each.shape[1] for each in small.values()])
        for name, part in zip(small, summed):
            places[name].copy_(part)
    return norms, flat


def _make_sure(uses: Sequence[Contribution], squares: Tensor) -> None:
    """Where a record's rows nearly cancel, rounding could understate a norm: exact there."""
    shaky = [(row, use) for row, use in enumerate(uses)
             if isinstance(use, Product) and use.floor is not None]  # fmt: skip
    if not shaky:
        return
    floors = torch.stack([use.floor for _, use in shaky if use.floor is not None])
    doubtful = ~(squares[[row for row, _ in shaky]] > floors) & (floors > 0)
    if not bool(doubtful.any()):
        return
    for (row, use), those in zip(shaky, doubtful):
        chosen = those.nonzero().flatten()
        if len(chosen):
            squares[row, chosen] = use.exact_norms(chosen).to(squares.dtype)


def _traces(gram: Tensor) -> Tensor:
    return gram.diagonal(dim1=1, dim2=2).sum(1)


def clip_factors(norms: Tensor, clip_norm: float) -> Tensor:
    """min(1, C / norm); 1 for a norm of zero."""
    if math.isinf(clip_norm):
        return torch.ones_like(norms)
    return (clip_norm / norms).clamp(max=1.0)
