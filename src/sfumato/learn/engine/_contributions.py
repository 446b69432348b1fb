"""What a backward pass records: enough for norms and weighted sums, no more.

A layer's gradient for record i is a sum over its rows (tokens, pixels) t of g_it a_it^T. Where that
matrix is no larger than its factors it is formed, and the tensor whose norm is taken is the tensor
that is added (R19). Where it is larger, its norm follows from two T x T Gram matrices,
|sum_t g_t a_t^T|^2 = sum_ts (a_t . a_s)(g_t . g_s), and the sum over records with weights c_i is one
product, so no per-record gradient is ever formed. Then norm and sum are rounded differently, by at
most a known share of sum_t |a_t| |g_t|; see ``norms_and_sums`` for what pays for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Features that a Gram product adds up at a time: short sums round less.
_PIECE = 256
# Rows of the smallest block of a Gram matrix: it is symmetric, so blocks below the diagonal are not made.
_BLOCK = 32
# Additions that a value goes through in torch's tree of partial sums, at most.
_TREE = 256
# A record may use the short forms if their rounding is below this share of max(C, norm), squared.
_TIGHT = 2.0**-8
# What the rounding of a weighted sum may add to a contribution, as a share of C.
_LOOSE = 2.0**-9
# Elements of exact per-record gradients formed at a time.
_CHUNK = 1 << 22
# Explicit gradients up to this many elements a record are handled together.
_SMALL = 1 << 14


@dataclass
class Product:
    """Gradient of a matrix: sum_t g_t a_t^T, ``a`` (B, T, in) and ``g`` (B, T, out).

    Its squared norms are found at once, in the backward pass, while both factors are in the cache.
    ``slack`` bounds what rounding may change about them.
    """

    a: Tensor
    g: Tensor

    def __post_init__(self) -> None:
        self.slack: Tensor
        if self.a.shape[1] == 1:
            # doubles: a tiny factor beside a huge one must not vanish when it is squared
            lengths = [t.double().square().sum((1, 2)) for t in (self.a, self.g)]
            safe = torch.maximum(*lengths) < torch.finfo(self.g.dtype).max
            self.slack = torch.where(safe, 0.0, math.inf).to(self.g.dtype)
            self._squares = (lengths[0] * lengths[1]).to(self.g.dtype)
        else:
            records, grams = len(self.a), [_gram(self.a), _gram(self.g)]
            a, g = (_traces(gram[0], records) + _underflow(rows)
                    for gram, rows in zip(grams, (self.a, self.g)))  # fmt: skip
            self.slack = (a * g).mul_(self._share())
            diagonal, *above = (x.mul_(y).reshape(records, -1).sum(1) for x, y in zip(*grams))
            for block in above:
                diagonal.add_(block, alpha=2)  # above and below the diagonal
            self._squares = diagonal.clamp_min_(0)

    def _share(self) -> float:
        """Rounding of a squared norm, and of the record's part of a weighted sum, over |a|^2 |g|^2.

        A sum of n products is off by at most n u times the sum of their magnitudes (Higham 2002,
        3.1), and sum_ts |a_t| |a_s| |g_t| |g_s| <= |a|^2 |g|^2.
        """
        unit = _roundoff(self.a)
        terms = min(_TREE, self.a.shape[1] ** 2) + len(_blocks(self.a))
        for width in (self.a.shape[2], self.g.shape[2]):
            terms += min(width, _PIECE) + -(-width // _PIECE)
        return terms * unit + _sum_share(self.a.shape[1], unit)

    def like(self) -> Tensor:
        return self.g

    def explicit(self) -> Tensor:
        return torch.bmm(self.g.transpose(1, 2), self.a)

    def squared_norms(self) -> Tensor:
        return self._squares

    def formed(self, chosen: Tensor) -> Tensor:
        """The gradients of a few records: exact sums, rounded once."""
        a, g = self.a[chosen].double(), self.g[chosen].double()
        return torch.bmm(g.transpose(1, 2), a).to(self.g.dtype)

    def weighted_sum(self, weights: Tensor, out: Tensor, kept: Tensor | None) -> None:
        a, g = self.a, self.g
        if kept is not None:
            a, g, weights = a[kept], g[kept], weights[kept]
        # scaling the narrower factor moves less memory
        if a.shape[2] <= g.shape[2]:
            a = a * weights[:, None, None]
        else:
            g = g * weights[:, None, None]
        product = out.view(g.shape[2], a.shape[2])
        torch.mm(g.reshape(-1, g.shape[2]).t(), a.reshape(-1, a.shape[2]), out=product)


@dataclass
class Unfolded(Product):
    """A convolution as a product: ``a`` is what each cell saw, channels last.

    Columns of ``a`` are (cell of the kernel, channel), those of a kernel (channel, cell).
    """

    channels: int

    def explicit(self) -> Tensor:
        return self._ordered(super().explicit())

    def formed(self, chosen: Tensor) -> Tensor:
        return self._ordered(super().formed(chosen))

    def weighted_sum(self, weights: Tensor, out: Tensor, kept: Tensor | None) -> None:
        found = torch.empty_like(out)
        super().weighted_sum(weights, found, kept)
        out.copy_(self._ordered(found.view(1, self.g.shape[2], -1)).view(-1))

    def _ordered(self, grads: Tensor) -> Tensor:
        count, tall, _ = grads.shape
        return grads.view(count, tall, -1, self.channels).transpose(2, 3).flatten(2)


@dataclass
class Lookup:
    """Gradient of an embedding table: row ``index_t`` receives g_t."""

    index: Tensor
    g: Tensor
    entries: int

    def __post_init__(self) -> None:
        lengths = torch.linalg.vector_norm(self.g, dim=2, dtype=torch.float64).sum(1)
        share = _sum_share(self.g.shape[1], _roundoff(self.g))
        self.slack = (lengths.square() * share).to(self.g.dtype)

    def like(self) -> Tensor:
        return self.g

    def explicit(self) -> Tensor:
        return self._tables(self.index, self.g)

    def formed(self, chosen: Tensor) -> Tensor:
        """The tables of a few records: exact sums, rounded once."""
        return self._tables(self.index[chosen], self.g[chosen].double()).to(self.g.dtype)

    def _tables(self, index: Tensor, g: Tensor) -> Tensor:
        whole = g.new_zeros(len(g), self.entries, g.shape[2])
        return whole.scatter_add_(1, index[..., None].expand_as(g), g)

    def squared_norms(self) -> Tensor:
        same = self.index[:, :, None] == self.index[:, None, :]
        gram = torch.bmm(self.g.double(), self.g.double().transpose(1, 2))
        return (gram * same).sum((1, 2)).clamp_min(0).to(self.g.dtype)

    def weighted_sum(self, weights: Tensor, out: Tensor, kept: Tensor | None) -> None:
        index, g = self.index, self.g
        if kept is not None:
            index, g, weights = index[kept], g[kept], weights[kept]
        table = out.view(self.entries, g.shape[2]).zero_()
        table.index_add_(0, index.reshape(-1), (g * weights[:, None, None]).reshape(-1, g.shape[2]))


@dataclass
class Explicit:
    """Per-record gradients that are small enough to keep: what is clipped is what is added."""

    grads: Tensor

    def nbytes(self) -> int:
        return self.grads.nbytes

    def like(self) -> Tensor:
        return self.grads

    def explicit(self) -> Tensor:
        return self.grads

    def squared_norms(self) -> Tensor:
        return self.grads.reshape(len(self.grads), -1).square().sum(1)

    def weighted_sum(self, weights: Tensor, out: Tensor, kept: Tensor | None) -> None:
        torch.mv(*_rows_kept(self.grads.reshape(len(self.grads), -1), weights, kept), out=out)


Contribution = Product | Lookup | Explicit


def matrix_gradient(a: Tensor, g: Tensor) -> Product | Explicit:
    """sum_t g_t a_t^T of every record: formed where that takes no more memory than its factors."""
    rows, wide, tall = a.shape[1], a.shape[2], g.shape[2]
    if rows > 1 and rows * (wide + tall) >= wide * tall:
        return Explicit(torch.bmm(g.transpose(1, 2), a))
    return Product(a, g)


def merged(uses: Sequence[Contribution]) -> Contribution:
    """One contribution for a parameter that was used several times: the gradients add up."""
    if len(uses) == 1:
        return uses[0]
    products = [use for use in uses if type(use) is Product]
    if len(products) == len(uses):
        return matrix_gradient(
            torch.cat([use.a for use in products], 1), torch.cat([use.g for use in products], 1)
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

    **Guarantee**: what a record adds is no longer than C (1 + 2^-8), rounding included, and exactly
    zero if its gradient is not finite; the bad values stay out of every product.

    The bound on the rounding of a norm is charged to it; the rounding of what a record adds is held
    below 2^-9 of C. A record for which these are not tight (rows that nearly cancel, extreme values)
    has its gradient formed, so that the tensor that is clipped is the tensor that is added.

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
    rounded = {
        row: use
        for row, use in enumerate(large.values())
        if not isinstance(use, Explicit) and not math.isinf(clip_norm)
    }
    formed, slack = _form_where_loose(rounded, squares, clip_norm)
    norms = squares.sum(0).sqrt()
    weights = clip_factors((squares.sum(0) + slack).sqrt(), clip_norm)
    fine = weights > 0
    kept = None if bool(fine.all()) else fine.nonzero().flatten()
    plain = kept if formed is None else (fine & ~formed).nonzero().flatten()
    flat = first.new_empty(sum(sizes.values()))
    places = dict(zip(sizes, torch.split(flat, list(sizes.values()))))
    for name in sizes.keys() - contributions.keys():
        places[name].zero_()
    for row, (name, use) in enumerate(large.items()):
        if row not in rounded:
            use.weighted_sum(weights, places[name], kept)
            continue
        use.weighted_sum(weights, places[name], plain)
        if formed is not None:
            those = (fine & formed).nonzero().flatten()
            _add_formed(rounded[row], those, weights, squares[row], places[name])
    if beside is not None:
        beside, chosen = _rows_kept(beside, weights, kept)
        summed = torch.split(torch.mv(beside, chosen), [each.shape[1] for each in small.values()])
        for name, part in zip(small, summed):
            places[name].copy_(part)
    return torch.where(torch.isfinite(norms), norms, math.inf), flat


def _form_where_loose(
    uses: Mapping[int, Product | Lookup], squares: Tensor, clip_norm: float
) -> tuple[Tensor | None, Tensor]:
    """Which records have their gradients formed (None: nobody), and the slack of all others.

    ``squares``, a row for each use, gets the formed gradients' own squared norms.
    """
    slacks = [use.slack for use in uses.values()]
    slack = torch.stack(slacks).sum(0) if slacks else torch.zeros_like(squares[0])
    known = _TIGHT * squares.sum(0).clamp_min(clip_norm**2)
    loose = ~(slack <= known)  # not ">": what is not a number is loose
    if not slacks or not bool(loose.any()):
        return None, slack
    for row, use in uses.items():
        for some in _a_few(loose.nonzero().flatten(), use):
            lengths = torch.linalg.vector_norm(use.formed(some), dim=(1, 2), dtype=torch.float64)
            squares[row, some] = lengths.square().to(squares.dtype)
    return loose, torch.where(loose, 0.0, slack)


def _add_formed(
    use: Product | Lookup, chosen: Tensor, weights: Tensor, squares: Tensor, out: Tensor
) -> None:
    """Add formed gradients. They are formed a second time rather than kept, so they are held to the
    length that was charged, whatever another order of summation would make of them."""
    for some in _a_few(chosen, use):
        tensors = use.formed(some)
        lengths = torch.linalg.vector_norm(tensors, dim=(1, 2), dtype=torch.float64)
        held = (squares[some].double().sqrt() / lengths).nan_to_num(1.0).clamp(max=1.0)
        factors = weights[some] * held.to(weights.dtype)
        out.add_(torch.mv(tensors.reshape(len(some), -1).t(), factors))


def _a_few(chosen: Tensor, use: Product | Lookup) -> Sequence[Tensor]:
    """As many records at a time as memory allows."""
    wide = use.entries if isinstance(use, Lookup) else use.a.shape[2]
    return torch.split(chosen, max(1, _CHUNK // (wide * use.g.shape[2]))) if len(chosen) else ()


def _rows_kept(rows: Tensor, weights: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor]:
    """Columns and weights of the records that take part: zero times infinity is not zero."""
    if kept is None:
        return rows.t(), weights
    return rows[kept].t(), weights[kept]


def _gram(rows: Tensor) -> list[Tensor]:
    """Products of rows with rows, a few features at a time: blocks on the diagonal, then above it."""
    found: list[Tensor] = []
    for piece in torch.split(rows, _PIECE, 2):
        blocks = [(left, right.transpose(1, 2)) for left, right in _blocks(piece)]
        if not found:
            found = [torch.bmm(*block) for block in blocks]
            continue
        for total, block in zip(found, blocks):
            total.baddbmm_(*block)
    return found


def _blocks(rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(B, T, n) halved again and again: blocks with themselves, and at each halving one half with the other."""
    size, above = rows.shape[1], []
    while size % 2 == 0 and size >= 2 * _BLOCK:
        size //= 2
        halves = rows.reshape(-1, 2, size, rows.shape[2])
        above.append((halves[:, 0], halves[:, 1]))
    own = rows.reshape(-1, size, rows.shape[2])
    return [(own, own), *above]


def _traces(diagonal: Tensor, records: int) -> Tensor:
    return diagonal.diagonal(dim1=1, dim2=2).reshape(records, -1).sum(1)


def _underflow(rows: Tensor) -> float:
    """What squares too small for the type may have lost from a trace, over the smallest share."""
    return rows[0].numel() * torch.finfo(rows.dtype).tiny * 2.0**22


def _sum_share(rows: int, unit: float) -> float:
    """The share of slack at which the rounding of a sum over ``rows`` reaches ``_LOOSE``."""
    return _TIGHT * (rows * unit / _LOOSE) ** 2


def _roundoff(tensor: Tensor) -> float:
    """Relative error of one operation; products may be allowed to round to bfloat16."""
    if tensor.dtype is torch.float32 and torch.get_float32_matmul_precision() != "highest":
        return 2.0**-8
    return torch.finfo(tensor.dtype).eps / 2


def clip_factors(norms: Tensor, clip_norm: float) -> Tensor:
    """min(1, C / norm); 1 for a norm of zero, and 0 where a norm is not finite."""
    factors = torch.ones_like(norms)
    if not math.isinf(clip_norm):
        factors = (clip_norm / norms).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), factors, 0.0)
