"""VideoViT: a plain vision transformer over disjoint tubelets, which can really drop tokens.

Tubelets do not overlap, so a token depends on its own pixels alone; dropped tokens cost nothing:
they are removed before the embedding, which makes the public stream of MaskDP cheaper.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.models._steps import Step

# Tokens, and where some were dropped, which of them are real (the rest only pads).
State = Tensor | tuple[Tensor, Tensor]


class VideoViTError(SfumatoError):
    """Clips or settings that do not fit a VideoViT."""


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        batch, tokens, width = x.shape
        split = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mask = None if real is None else real[:, None, None, :]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        merged: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return merged


class _EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = _Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, ratio * width)
        self.contract = nn.Linear(ratio * width, width)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        x = x + self.attention(self.norm1(x), real)
        wide: Tensor = self.contract(F.gelu(self.expand(self.norm2(x))))
        return x + wide


class VideoViT(nn.Module):
    """``model(clips, keep=None)``: (B, C, T, H, W) floats to (B, classes) logits.

    ``keep`` (B, tokens) is True for tokens to see; the others are dropped, and the mean is taken
    over what was kept. A clip that keeps no token at all gives the head's answer to zeros.
    """

    def __init__(
        self,
        classes: int,
        *,
        clip: tuple[int, int, int, int] = (3, 8, 64, 64),
        tubelet: tuple[int, int, int] = (2, 16, 16),
        width: int = 192,
        depth: int = 6,
        heads: int = 3,
        ratio: int = 4,
    ) -> None:
        super().__init__()
        channels, *extent = clip
        if any(size % step for size, step in zip(extent, tubelet)) or width % heads:
            raise VideoViTError(
                f"Expected clips {tuple(clip)} that whole tubelets {tuple(tubelet)} fill, and a "
                f"width that {heads} heads divide, got width {width}: adjust one of them."
            )
        self.clip, self.tubelet = tuple(clip), tuple(tubelet)
        self.grid = tuple(size // step for size, step in zip(extent, tubelet))
        self.tokens = self.grid[0] * self.grid[1] * self.grid[2]
        size = channels * tubelet[0] * tubelet[1] * tubelet[2]
        self.embed = nn.Linear(size, width)
        self.position = nn.Parameter(torch.empty(1, self.tokens, width))
        self.blocks = nn.ModuleList(_EncoderBlock(width, heads, ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        nn.init.trunc_normal_(self.position, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def tubelets(self, clips: Tensor) -> Tensor:
        """(B, C, T, H, W) -> (B, tokens, values of one tubelet)."""
        if clips.dim() != 5 or tuple(clips.shape[1:]) != self.clip:
            raise VideoViTError(
                f"Expected clips (B, {', '.join(map(str, self.clip))}), got {tuple(clips.shape)}."
            )
        batch, channels = clips.shape[:2]
        (t, h, w), (dt, dh, dw) = self.grid, self.tubelet
        cut = clips.reshape(batch, channels, t, dt, h, dh, w, dw)
        return cut.permute(0, 2, 4, 6, 1, 3, 5, 7).reshape(batch, self.tokens, -1)

    def stem(self, seen: Tensor | tuple[Tensor, Tensor]) -> State:
        """Clips, or clips and the tokens to keep, to embedded tokens with their positions."""
        if isinstance(seen, Tensor):
            embedded: Tensor = self.embed(self.tubelets(seen))
            return embedded + self.position
        clips, keep = seen
        if keep.dtype != torch.bool or tuple(keep.shape) != (len(clips), self.tokens):
            raise VideoViTError(
                f"Expected keep as booleans ({len(clips)}, {self.tokens}), "
                f"got {keep.dtype} {tuple(keep.shape)}."
            )
        most = max(1, int(keep.sum(1).max())) if len(keep) else 1
        # kept tokens first, in their order; what pads is marked and never attended to
        order = torch.sort(keep.to(torch.uint8), dim=1, descending=True, stable=True).indices
        chosen = order[:, :most]
        real = keep.gather(1, chosen)
        values = self.tubelets(clips)
        tokens = self.embed(values.gather(1, chosen[..., None].expand(-1, -1, values.shape[2])))
        places = self.position.expand(len(clips), -1, -1)
        tokens = tokens + places.gather(1, chosen[..., None].expand(-1, -1, places.shape[2]))
        return tokens * real[..., None], real

    def block(self, index: int, state: State) -> State:
        tokens, real = (state, None) if isinstance(state, Tensor) else state
        after: Tensor = self.blocks[index](tokens, real)
        return after if real is None else (after, real)

    def classify(self, state: State) -> Tensor:
        """Mean over the tokens that were seen, then the head."""
        if isinstance(state, Tensor):
            pooled = self.norm(state).mean(1)
        else:
            tokens, real = state
            seen = real[..., None].to(tokens.dtype)
            pooled = (self.norm(tokens) * seen).sum(1) / seen.sum(1).clamp_min(1.0)
        logits: Tensor = self.head(pooled)
        return logits

    def steps(self) -> list[Step]:
        """The forward pass as a sequence, where a trunk cache may cut."""
        stem = Step("stem", self.stem, (self.embed, self._positions()))  # type: ignore[arg-type]
        blocks = [
            Step(f"blocks.{i}", partial(self.block, i), (block,))  # type: ignore[arg-type]
            for i, block in enumerate(self.blocks)
        ]
        head = Step("head", self.classify, (self.norm, self.head))
        return [stem, *blocks, head]

    def _positions(self) -> nn.Module:
        """The bare parameter in a module's clothes, so that a step can say what it owns."""
        return nn.ParameterList([self.position])

    def forward(self, clips: Tensor, keep: Tensor | None = None) -> Tensor:
        state = self.stem(clips if keep is None else (clips, keep))
        for index in range(len(self.blocks)):
            state = self.block(index, state)
        return self.classify(state)

    def kept_tokens(self, public: Tensor) -> Tensor:
        """(B, T, H, W) pixels to see -> (B, tokens): True where *all* of a tubelet is to be seen.

        A tubelet with a single unseen pixel is not kept: no token straddles the border.
        """
        (t, h, w), (dt, dh, dw) = self.grid, self.tubelet
        cut = public.reshape(len(public), t, dt, h, dh, w, dw)
        return cut.permute(0, 1, 3, 5, 2, 4, 6).reshape(len(public), self.tokens, -1).all(2)
