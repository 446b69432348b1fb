"""Pooled attention of MViT, arranged so that a CPU spends its time in matrix products.

The parameters and the function are those of torchvision's ``MultiscaleAttention``. Three things are
computed differently, each exact up to rounding:

1. **Relative positions are part of the product.** The bias of query q and key k is
   ``q.R_h[q_h, k_h] + q.R_w[q_w, k_w] + q.R_t[q_t, k_t]``, a sum of three terms that each depend on
   one coordinate of the key. Appending those terms to q and one-hot coordinates to k makes the bias
   part of ``q k^T``: no tensor of (queries x keys) is ever built, so fused attention applies.
2. **Pooling keeps tokens in channels-last order.** Depthwise convolution over (T, H, W) reads the
   tokens as they lie in memory, heads side by side as channels, instead of being transposed to
   channels-first and back.
3. **Rows that nobody reads are not computed.** The head reads the class token alone, so the last
   block runs with one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

Size3 = tuple[int, int, int]


def pooled_size(size: Size3, kernel: Sequence[int], stride: Sequence[int]) -> Size3:
    """Size of a grid after pooling with half-kernel padding; unchanged where there is none."""
    if prod(kernel) <= 1 and prod(stride) <= 1:
        return size
    out = [(n + 2 * (k // 2) - k) // s + 1 for n, k, s in zip(size, kernel, stride)]
    return out[0], out[1], out[2]


class TokenPool(nn.Module):
    """Pools the grid tokens of (records, 1 + T*H*W, heads, width) and lets the class token pass.

    ``pool`` is a depthwise convolution shared by the heads, or a max-pool; ``norm_act.0`` is the
    norm that follows a convolution, named as torchvision names it.
    """

    def __init__(self, pool: nn.Module, norm: nn.Module | None, size: Size3) -> None:
        super().__init__()
        self.pool = pool
        self.norm_act = None if norm is None else nn.Sequential(norm)
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        records, _, heads, width = x.shape
        grid = x[:, 1:].reshape(records, *self.size, heads * width).permute(0, 4, 1, 2, 3)
        if isinstance(self.pool, nn.Conv3d):
            pooled = self._convolved(grid, heads)
        else:
            pooled = self.pool(grid)
        tokens = pooled.permute(0, 2, 3, 4, 1).reshape(records, -1, heads, width)
        x = torch.cat((x[:, :1], tokens), dim=1)
        return x if self.norm_act is None else self.norm_act(x)

    def _convolved(self, grid: Tensor, heads: int) -> Tensor:
        convolution = self.pool
        assert isinstance(convolution, nn.Conv3d)
        if heads == 1:
            pooled: Tensor = convolution(grid)
            return pooled
        if torch.is_grad_enabled() and convolution.weight.requires_grad:
            # A trainable layer is called as the layer it is, heads as records, so that an engine
            # that watches layers sees its input and output.
            parts: Tensor = convolution(grid.reshape(-1, grid.shape[1] // heads, *self.size))
            return parts.reshape(grid.shape[0], -1, *parts.shape[2:])
        weight = convolution.weight.repeat(heads, 1, 1, 1, 1)
        return functional.conv3d(
            grid,
            weight,
            None,
            convolution.stride,
            convolution.padding,
            convolution.dilation,
            groups=weight.shape[0],
        )


def relative_distances(queries: int, keys: int) -> Tensor:
    """Row of the relative-position table for each (query, key) along one axis (MViTv2, eq. 4)."""
    query_step, key_step = max(keys / queries, 1.0), max(queries / keys, 1.0)
    query = torch.arange(queries)[:, None] * query_step
    key = (torch.arange(keys)[None, :] + (1.0 - keys)) * key_step
    return (query - key).long()


def one_hot_coordinates(size: Size3) -> Tensor:
    """(1 + T*H*W, T + H + W): each key's three coordinates, one-hot; zeros for the class token."""
    axes = torch.meshgrid(*(torch.arange(n) for n in size), indexing="ij")
    hot = [functional.one_hot(axis.flatten(), n) for axis, n in zip(axes, size)]
    return functional.pad(torch.cat(hot, dim=1).float(), (0, 0, 1, 0))


class PooledAttention(nn.Module):
    """Multi-head attention whose queries and keys are pooled over (T, H, W).

    ``residual`` adds the pooled query to the output, all but the class token (MViTv2, eq. 5).
    """

    one_hot: Tensor

    def __init__(
        self,
        size: Size3,
        width: int,
        out_width: int,
        heads: int,
        *,
        kernel_q: Sequence[int],
        kernel_kv: Sequence[int],
        stride_q: Sequence[int],
        stride_kv: Sequence[int],
        residual: bool,
        relative_positions: bool,
    ) -> None:
        super().__init__()
        self.heads, self.head_width, self.residual = heads, out_width // heads, residual
        self.qkv = nn.Linear(width, 3 * out_width)
        self.project = nn.Sequential(nn.Linear(out_width, out_width))
        self.pool_q = self._pool(size, kernel_q, stride_q)
        self.pool_k = self._pool(size, kernel_kv, stride_kv)
        self.pool_v = self._pool(size, kernel_kv, stride_kv)
        self.q_size = pooled_size(size, kernel_q, stride_q)
        self.k_size = pooled_size(size, kernel_kv, stride_kv)
        if relative_positions:
            # torchvision sizes the tables by the longer side, by floor division; other sizes are
            # interpolated when used.
            side = max(size[1:])
            rows = 2 * max(side // stride_q[1], side // stride_kv[1]) - 1
            self.rel_pos_h = nn.Parameter(torch.empty(rows, self.head_width))
            self.rel_pos_w = nn.Parameter(torch.empty(rows, self.head_width))
            self.rel_pos_t = nn.Parameter(torch.empty(2 * size[0] - 1, self.head_width))
            for table in (self.rel_pos_h, self.rel_pos_w, self.rel_pos_t):
                nn.init.trunc_normal_(table, std=0.02)
            for axis, (q, k) in enumerate(zip(self.q_size, self.k_size)):
                self.register_buffer(f"distance_{axis}", relative_distances(q, k), persistent=False)
            self.register_buffer("one_hot", one_hot_coordinates(self.k_size), persistent=False)
        self.relative_positions = relative_positions

    def _pool(self, size: Size3, kernel: Sequence[int], stride: Sequence[int]) -> TokenPool | None:
        if prod(kernel) <= 1 and prod(stride) <= 1:
            return None
        width = self.head_width
        kernel3, stride3 = tuple(kernel), tuple(stride)
        padding = tuple(k // 2 for k in kernel)
        convolution = nn.Conv3d(
            width,
            width,
            kernel3,  # type: ignore[arg-type]
            stride=stride3,  # type: ignore[arg-type]
            padding=padding,  # type: ignore[arg-type]
            groups=width,
            bias=False,
        )
        return TokenPool(convolution, nn.LayerNorm(width, eps=1e-6), size)

    def forward(self, x: Tensor, class_only: bool = False) -> Tensor:
        """Attend; with ``class_only`` the class token is the only query and the only row given."""
        q, k, v = self._projected(x)
        if class_only:
            q = q[:, :1]
            if self.pool_q is not None and self.pool_q.norm_act is not None:
                q = self.pool_q.norm_act(q)
        elif self.pool_q is not None:
            q = self.pool_q(q)
        k = k if self.pool_k is None else self.pool_k(k)
        v = v if self.pool_v is None else self.pool_v(v)
        out = self._attend(q, k, v)
        if self.residual:
            pooled = q.flatten(2)[:, 1:]
            if torch.is_grad_enabled():  # attention keeps its output for the backward pass
                out = torch.cat((out[:, :1], out[:, 1:] + pooled), dim=1)
            else:
                out[:, 1:] += pooled
        return self.project(out)  # type: ignore[no-any-return]

    def _projected(self, x: Tensor) -> list[Tensor]:
        """q, k and v, each (records, tokens, heads, width)."""
        shape = (*x.shape[:2], self.heads, self.head_width)
        if torch.is_grad_enabled():
            return [part.reshape(shape) for part in self.qkv(x).chunk(3, dim=2)]
        # three products give three dense results, which pooling can read without a copy
        parts = zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3))
        return [functional.linear(x, weight, bias).reshape(shape) for weight, bias in parts]

    @property
    def queries_train(self) -> bool:
        """True when a parameter that only grid queries use gets a gradient."""
        names = ("rel_pos_h", "rel_pos_w", "rel_pos_t", "pool_q.pool.weight")
        return torch.is_grad_enabled() and any(
            parameter.requires_grad for name, parameter in self.named_parameters() if name in names
        )

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(records, queries, heads * width) from pooled q, k, v (records, tokens, heads, width)."""
        scale = 1.0 / sqrt(self.head_width)
        if self.relative_positions and q.shape[1] > 1:  # the class token has no position
            # The product is scaled as a whole, so the appended terms are divided by the scale.
            q = torch.cat((q, self._position_terms(q) / scale), dim=3)
            coordinates = self.one_hot[:, None].expand(*k.shape[:3], -1)
            k = torch.cat((k, coordinates), dim=3)
            v = functional.pad(v, (0, self.one_hot.shape[1]))
        out = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), scale=scale
        )
        return out[..., : self.head_width].transpose(1, 2).reshape(*q.shape[:2], -1)

    def _position_terms(self, q: Tensor) -> Tensor:
        """(records, queries, heads, T + H + W): a query's product with each key coordinate."""
        grid = q[:, 1:].reshape(-1, *self.q_size, self.heads, self.head_width)
        tables = (self.rel_pos_t, self.rel_pos_h, self.rel_pos_w)
        products = ("bthwyc,tkc->bthwyk", "bthwyc,hkc->bthwyk", "bthwyc,wkc->bthwyk")
        terms = []
        for axis, (table, product) in enumerate(zip(tables, products)):
            rows = 2 * max(self.q_size[axis], self.k_size[axis]) - 1
            distance: Tensor = getattr(self, f"distance_{axis}")
            terms.append(torch.einsum(product, grid, _resized(table, rows)[distance]))
        return functional.pad(torch.cat(terms, dim=-1).flatten(1, 3), (0, 0, 0, 0, 1, 0))


def _resized(table: Tensor, rows: int) -> Tensor:
    if len(table) == rows:
        return table
    return functional.interpolate(table.T[None], size=rows, mode="linear")[0].T
