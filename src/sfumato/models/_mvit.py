"""MViT-B and MViTv2-S whose parameters carry torchvision's names, so that its checkpoints load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from sfumato.models._layers import StochasticDepth
from sfumato.models._mvit_attention import PooledAttention, Size3, TokenPool, pooled_size
from sfumato.models._steps import Step, run

_NORM_EPS = 1e-6
# Rows of the MLP at a time where no gradient is kept: its hidden values then stay in the cache.
_ROWS = 2048


@dataclass(frozen=True)
class _BlockPlan:
    heads: int
    width: int
    out_width: int
    kernel_q: tuple[int, ...]
    stride_q: tuple[int, ...]
    stride_kv: tuple[int, ...]
    kernel_kv: tuple[int, ...] = (3, 3, 3)


class MViTBlock(nn.Module):
    """Pooled attention and MLP; MViTv2 widens in the attention, the first version in the MLP."""

    def __init__(
        self,
        size: Size3,
        plan: _BlockPlan,
        *,
        v2: bool,
        stochastic_depth: float,
    ) -> None:
        super().__init__()
        self.project_early = v2
        self.pool_skip: TokenPool | None = None
        if prod(plan.stride_q) > 1:
            kernel = [s + 1 if s > 1 else s for s in plan.stride_q]
            padding = [k // 2 for k in kernel]
            pool = nn.MaxPool3d(tuple(kernel), plan.stride_q, tuple(padding))
            self.pool_skip = TokenPool(pool, None, size)
        width = plan.out_width if v2 else plan.width
        self.norm1 = nn.LayerNorm(plan.width, eps=_NORM_EPS)
        self.norm2 = nn.LayerNorm(width, eps=_NORM_EPS)
        self.attn = PooledAttention(
            size, plan.width, width, plan.heads, kernel_q=plan.kernel_q, kernel_kv=plan.kernel_kv,
            stride_q=plan.stride_q, stride_kv=plan.stride_kv, residual=v2, relative_positions=v2,
        )  # fmt: skip
        # torchvision's MLP keeps two dropouts, which fixes the index of the second layer at 3.
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(0.0),
            nn.Linear(4 * width, plan.out_width),
            nn.Dropout(0.0),
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth)
        self.project: nn.Linear | None = None
        if plan.width != plan.out_width:
            self.project = nn.Linear(plan.width, plan.out_width)
        self.out_size = pooled_size(size, plan.kernel_q, plan.stride_q)

    def forward(self, x: Tensor, class_only: bool = False) -> Tensor:
        """All tokens of the block, or its class token alone (records, 1, width)."""
        # Parameters that only the other queries use would be left without a gradient (it is zero).
        class_only = class_only and not self.attn.queries_train
        normed = self.norm1(x)
        attended = self.attn(normed, class_only)
        if class_only:
            x, normed = x[:, :1], normed[:, :1]
        if self.project is not None and self.project_early:
            x = self.project(normed)
        if self.pool_skip is not None and not class_only:
            x = self.pool_skip(x[:, :, None]).squeeze(2)
        x = x + self.stochastic_depth(attended)
        normed = self.norm2(x)
        if self.project is not None and not self.project_early:
            x = self.project(normed)
        if torch.is_grad_enabled() or self.training:
            grown: Tensor = x + self.stochastic_depth(self.mlp(normed))
            return grown
        for start in range(0, x.shape[1], _ROWS):
            rows = slice(start, start + _ROWS)
            x[:, rows] += self.mlp(normed[:, rows])
        return x


class _PositionalEncoding(nn.Module):
    """Prepends the class token; v1 also adds separable space-time positions."""

    def __init__(self, width: int, size: Size3, absolute: bool) -> None:
        super().__init__()
        self.absolute = absolute
        self.class_token = nn.Parameter(torch.empty(width))
        if absolute:
            self.spatial_pos = nn.Parameter(torch.empty(size[1] * size[2], width))
            self.temporal_pos = nn.Parameter(torch.empty(size[0], width))
            self.class_pos = nn.Parameter(torch.empty(width))
        for parameter in self.parameters():
            nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        token = self.class_token.expand(x.shape[0], 1, -1)
        if not self.absolute:
            return torch.cat((token, x), dim=1)
        grid = (self.temporal_pos[:, None] + self.spatial_pos[None]).flatten(0, 1)
        return torch.cat((token + self.class_pos, x + grid), dim=1)


class MViT(nn.Module):
    """Multiscale vision transformer over clips (records, 3, T, H, W) of one fixed size.

    Build it with :func:`mvit_v2_s` or :func:`mvit_b`. ``stem``, each of ``blocks`` and ``classify``
    form the sequence that ``steps`` lists, where a trunk cache may cut.
    """

    def __init__(
        self,
        plans: Sequence[_BlockPlan],
        *,
        classes: int,
        frames: int,
        spatial_size: tuple[int, int],
        v2: bool,
        dropout: float,
        stochastic_depth: float,
    ) -> None:
        super().__init__()
        width, out_width = plans[0].width, plans[-1].out_width
        self.conv_proj = nn.Conv3d(3, width, (3, 7, 7), stride=(2, 4, 4), padding=(1, 3, 3))
        size: Size3 = (frames // 2, spatial_size[0] // 4, spatial_size[1] // 4)
        self.input_size: Size3 = (frames, *spatial_size)
        self.pos_encoding = _PositionalEncoding(width, size, absolute=not v2)
        self.blocks = nn.ModuleList()
        for index, plan in enumerate(plans):
            depth = stochastic_depth * index / (len(plans) - 1)
            block = MViTBlock(size, plan, v2=v2, stochastic_depth=depth)
            self.blocks.append(block)
            size = block.out_size
        self.norm = nn.LayerNorm(out_width, eps=_NORM_EPS)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(out_width, classes))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def stem(self, x: Tensor) -> Tensor:
        if tuple(x.shape[2:]) != self.input_size:
            raise ValueError(
                f"Expected clips of shape (records, 3, {', '.join(map(str, self.input_size))}), "
                f"got {tuple(x.shape)}: pass frames= and spatial_size= when building the model."
            )
        tokens = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.pos_encoding(tokens)  # type: ignore[no-any-return]

    def classify(self, x: Tensor) -> Tensor:
        # Only the class token is read, so only it is normalised: same logits, fewer rows.
        return self.head(self.norm(x[:, 0]))  # type: ignore[no-any-return]

    def _last_block(self, x: Tensor) -> Tensor:
        return self.blocks[-1](x, class_only=True)  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        """The forward pass as a sequence, each step with the modules it owns."""
        blocks = [Step(f"blocks.{i}", block, (block,)) for i, block in enumerate(self.blocks)]
        blocks[-1] = Step(blocks[-1].name, self._last_block, blocks[-1].modules)
        stem = Step("stem", self.stem, (self.conv_proj, self.pos_encoding))
        return [stem, *blocks, Step("head", self.classify, (self.norm, self.head))]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


_Pair = tuple[int, int]
_HEADS = (1, 2, 2, *(4,) * 11, 8, 8)
_HALVING = {1, 3, 14}
_KV_STRIDES = (8, 4, 4, *(2,) * 11, 1, 1)


def _sixteen_blocks(widths: Sequence[int], *, v2: bool) -> list[_BlockPlan]:
    """Both versions halve the grid in three blocks; the second pools the queries of every block."""
    return [
        _BlockPlan(
            heads=_HEADS[i], width=width, out_width=out_width,
            kernel_q=(3, 3, 3) if v2 or i in _HALVING else (),
            stride_q=(1, 2, 2) if i in _HALVING else (1, 1, 1) if v2 else (),
            stride_kv=(1, _KV_STRIDES[i], _KV_STRIDES[i]),
        )
        for i, (width, out_width) in enumerate(zip(widths, (*widths[1:], 768)))
    ]  # fmt: skip


def mvit_v2_s(
    classes: int = 400,
    *,
    frames: int = 16,
    spatial_size: _Pair = (224, 224),
    dropout: float = 0.0,
    stochastic_depth: float = 0.0,
) -> MViT:
    """MViTv2-S (Li et al. 2022), 34.5 million parameters at 400 classes.

    Dropout and stochastic depth are off unless asked for: private training adds noise of its own.
    """
    plans = _sixteen_blocks((96, 96, 192, 192, *(384,) * 11, 768), v2=True)
    return MViT(plans, classes=classes, frames=frames, spatial_size=spatial_size, v2=True,
                dropout=dropout, stochastic_depth=stochastic_depth)  # fmt: skip


def mvit_b(
    classes: int = 400,
    *,
    frames: int = 16,
    spatial_size: _Pair = (224, 224),
    dropout: float = 0.0,
    stochastic_depth: float = 0.0,
) -> MViT:
    """MViT-B 16x4 (Fan et al. 2021; torchvision's ``mvit_v1_b``), 36.6 million parameters."""
    plans = _sixteen_blocks((96, 192, 192, *(384,) * 11, 768, 768), v2=False)
    return MViT(plans, classes=classes, frames=frames, spatial_size=spatial_size, v2=False,
                dropout=dropout, stochastic_depth=stochastic_depth)  # fmt: skip
