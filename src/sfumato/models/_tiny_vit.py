"""TinyViT (Wu et al. 2022) whose parameters carry timm's names, so that its checkpoints load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._layers import StochasticDepth
from sfumato.models._steps import Step, run

MOBILE_SAM = "mobile-sam"


class _ConvNorm(nn.Sequential):
    def __init__(
        self, width: int, out_width: int, kernel: int = 1, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        padding = kernel // 2
        self.conv = nn.Conv2d(width, out_width, kernel, stride, padding, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(out_width)


class _PatchEmbed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = _ConvNorm(3, width // 2, 3, 2)
        self.conv2 = _ConvNorm(width // 2, width, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(functional.gelu(self.conv1(x)))  # type: ignore[no-any-return]


class _ConvBlock(nn.Module):
    def __init__(self, width: int, stochastic_depth: float) -> None:
        super().__init__()
        self.conv1 = _ConvNorm(width, 4 * width)
        self.conv2 = _ConvNorm(4 * width, 4 * width, 3, groups=4 * width)
        self.conv3 = _ConvNorm(4 * width, width)
        self.drop_path = StochasticDepth(stochastic_depth)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.gelu(self.conv2(functional.gelu(self.conv1(x))))
        return functional.gelu(x + self.drop_path(self.conv3(inner)))


class _PatchMerging(nn.Module):
    def __init__(self, width: int, out_width: int, stride: int = 2) -> None:
        super().__init__()
        self.conv1 = _ConvNorm(width, out_width)
        self.conv2 = _ConvNorm(out_width, out_width, 3, stride, groups=out_width)
        self.conv3 = _ConvNorm(out_width, out_width)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.gelu(self.conv2(functional.gelu(self.conv1(x))))
        return self.conv3(inner)  # type: ignore[no-any-return]


class _Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(self.norm(x))))  # type: ignore[no-any-return]


class _WindowAttention(nn.Module):
    """Attention inside one window, with a learned bias for every offset |dy|, |dx|.

    A window that hangs over the edge is filled up with zeros, as published. Its filling is alike
    everywhere, so one token stands for all of it, with the logarithm of its summed weights as bias.
    """

    offsets: Tensor

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.attention_biases = nn.Parameter(torch.zeros(heads, window * window))
        # Offset (dy, dx) in the order in which a scan over the points meets it: dy * window + dx.
        y, x = (
            axis.flatten() for axis in torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")
        )
        offsets = (y[:, None] - y).abs() * window + (x[:, None] - x).abs()
        self.register_buffer("offsets", offsets, persistent=False)
        self.window = window

    def forward(self, x: Tensor, inside: tuple[int, int]) -> Tensor:
        """``x`` (windows, tokens, width) are the ``inside`` rows and columns of each window."""
        windows, tokens, width = x.shape
        bias = self._bias(windows, inside)
        filling = bias.shape[-1] - tokens
        whole = functional.pad(x, (0, 0, 0, filling)) if filling else x
        # timm keeps q, k, v of one head side by side
        parts = self.qkv(self.norm(whole)).reshape(
            windows, tokens + filling, self.heads, 3, width // self.heads
        )
        q, k, v = parts.permute(3, 0, 2, 1, 4).unbind(0)
        out = functional.scaled_dot_product_attention(q[:, :, :tokens], k, v, attn_mask=bias)
        return self.proj(out.transpose(1, 2).reshape(windows, tokens, width))  # type: ignore[no-any-return]

    def _bias(self, windows: int, inside: tuple[int, int]) -> Tensor:
        """(windows or 1, heads, tokens, tokens), and one more column for the filling, if there is any."""
        biases: Tensor = self.attention_biases
        # where it trains, one copy for each window: the gradients of records stay apart
        biases = biases.expand(windows, -1, -1) if biases.requires_grad else biases[None]
        here = torch.zeros(self.window, self.window, dtype=torch.bool, device=biases.device)
        here[: inside[0], : inside[1]] = True
        here = here.flatten()
        offsets = self.offsets[here]
        inner = biases[..., offsets[:, here]]
        if bool(here.all()):
            return inner
        filling = biases[..., offsets[:, ~here]].logsumexp(-1, keepdim=True)
        return torch.cat([inner, filling], -1)


class _WindowBlock(nn.Module):
    """Window attention, a depthwise convolution across windows, and an MLP; (records, C, H, W)."""

    def __init__(self, width: int, heads: int, window: int, stochastic_depth: float) -> None:
        super().__init__()
        self.window = window
        self.attn = _WindowAttention(width, heads, window)
        self.local_conv = _ConvNorm(width, width, 3, groups=width)
        self.mlp = _Mlp(width)
        self.drop_path = StochasticDepth(stochastic_depth)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self._windows(x))
        x = self.local_conv(x)
        tokens: Tensor = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.drop_path(self.mlp(tokens))
        return tokens.transpose(1, 2).reshape(x.shape)

    def _windows(self, x: Tensor) -> Tensor:
        """Whole windows first, then those that the lower and the right edge cut."""
        rows, columns = (_parts(size, self.window) for size in x.shape[2:])
        bands = []
        for row in rows:
            band = x[:, :, row]
            bands.append(_joined([self._alike(band[:, :, :, column]) for column in columns], 3))
        return _joined(bands, 2)

    def _alike(self, x: Tensor) -> Tensor:
        """Windows of one shape, side by side."""
        records, width, height, breadth = x.shape
        high, broad = min(self.window, height), min(self.window, breadth)
        rows, columns = height // high, breadth // broad
        x = x.reshape(records, width, rows, high, columns, broad).permute(0, 2, 4, 3, 5, 1)
        x = self.attn(x.reshape(-1, high * broad, width), (high, broad))
        x = x.reshape(records, rows, columns, high, broad, width).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(records, width, height, breadth)


def _parts(size: int, window: int) -> list[slice]:
    """What whole windows cover, and the rest."""
    whole = size - size % window
    return [part for part in (slice(0, whole), slice(whole, size)) if part.start < part.stop]


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


class _ConvStage(nn.Module):
    def __init__(self, width: int, rates: Sequence[float]) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(_ConvBlock(width, rate) for rate in rates))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)  # type: ignore[no-any-return]


class _Stage(nn.Module):
    def __init__(
        self, width: int, out_width: int, heads: int, window: int, rates: Sequence[float],
        stride: int = 2,
    ) -> None:  # fmt: skip
        super().__init__()
        self.downsample = _PatchMerging(width, out_width, stride)
        self.blocks = nn.Sequential(
            *(_WindowBlock(out_width, heads, window, rate) for rate in rates)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.downsample(x))  # type: ignore[no-any-return]


class _Head(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(x.mean((2, 3))))  # type: ignore[no-any-return]


class TinyViT(nn.Module):
    """Pictures (records, 3, H, W) of any size to logits; ``features`` stops before the head.

    ``classes=0`` leaves the head away and gives the feature map (records, width, H/32, W/32), which
    is what a pose head wants; with ``last_stride=1`` the last stage stays at H/16, W/16, as in the
    encoder of MobileSAM. Its BatchNorms must be frozen or replaced before private training:
    :func:`sfumato.models.freeze_batchnorm`, :func:`sfumato.models.replace_batchnorm`.
    """

    def __init__(
        self,
        widths: Sequence[int],
        heads: Sequence[int],
        *,
        classes: int = 1000,
        depths: Sequence[int] = (2, 2, 6, 2),
        windows: Sequence[int] = (7, 7, 14, 7),
        stochastic_depth: float = 0.0,
        last_stride: int = 2,
    ) -> None:
        super().__init__()
        if last_stride not in (1, 2):
            raise ValueError(f"Expected a last stride of 1 or 2, got {last_stride}.")
        total = sum(depths)
        rates = [stochastic_depth * i / (total - 1) for i in range(total)]
        self.width, self.stride = widths[-1], 16 * last_stride
        self.patch_embed = _PatchEmbed(widths[0])
        self.stages = nn.Sequential(_ConvStage(widths[0], rates[: depths[0]]))
        for i in range(1, len(widths)):
            begin = sum(depths[:i])
            mine = rates[begin : begin + depths[i]]
            stride = last_stride if i == len(widths) - 1 else 2
            self.stages.append(_Stage(widths[i - 1], widths[i], heads[i], windows[i], mine, stride))
        self.head = _Head(self.width, classes) if classes else None
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
            elif isinstance(module, _ConvBlock):
                nn.init.zeros_(module.conv3.bn.weight)

    def steps(self) -> list[Step]:
        """Stem, each merging and each block, and the head."""
        parts = [Step("patch_embed", self.patch_embed, (self.patch_embed,))]
        for i, stage in enumerate(self.stages):
            if isinstance(stage, _Stage):
                merging = stage.downsample
                parts.append(Step(f"stages.{i}.downsample", merging, (merging,)))
            assert isinstance(stage, _Stage | _ConvStage)
            for j, block in enumerate(stage.blocks):
                parts.append(Step(f"stages.{i}.blocks.{j}", block, (block,)))
        if self.head is not None:
            parts.append(Step("head", self.head, (self.head,)))
        return parts

    def features(self, x: Tensor) -> Tensor:
        return self.stages(self.patch_embed(x))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


_SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "5m": ((64, 128, 160, 320), (2, 4, 5, 10)),
    "11m": ((64, 128, 256, 448), (2, 4, 8, 14)),
    "21m": ((96, 192, 384, 576), (3, 6, 12, 18)),
}


def tiny_vit(size: str = "5m", classes: int = 1000, *, stochastic_depth: float = 0.0) -> TinyViT:
    """TinyViT of ``size`` "5m", "11m" or "21m" (timm's ``tiny_vit_5m_224`` and so on)."""
    if size not in _SIZES:
        raise ValueError(f"Expected size to be one of {', '.join(_SIZES)}, got {size!r}.")
    widths, heads = _SIZES[size]
    return TinyViT(widths, heads, classes=classes, stochastic_depth=stochastic_depth)


_RENAMED = (
    ("patch_embed.seq.0.", "patch_embed.conv1."), ("patch_embed.seq.2.", "patch_embed.conv2."),
    (".c.weight", ".conv.weight"),
)  # fmt: skip


def mobile_sam_state(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    """MobileSAM's encoder under the names of :class:`TinyViT`; its neck and masks are left away.

    There each stage ends with the step to the next, here it begins with the step from the one before.
    """
    state = {}
    for name, array in arrays.items():
        place, _, inner = name.partition("image_encoder.")
        if place or not inner.startswith(("patch_embed.", "layers.")):
            continue
        if inner.endswith("attention_bias_idxs"):  # computed, not learned
            continue
        if inner.startswith("layers."):
            _, number, rest = inner.split(".", 2)
            inner = f"stages.{int(number) + rest.startswith('downsample.')}.{rest}"
        for old, new in _RENAMED:
            inner = inner.replace(old, new)
        state[inner] = torch.from_numpy(array.copy())
    return state


def mobile_sam_trunk(*, pretrained: bool = False, offline: bool = False) -> TinyViT:
    """TinyViT-5M as MobileSAM's encoder has it: a map (records, 320, H/16, W/16), no classes.

    ``pretrained`` takes MobileSAM's weights from the model store. They learned on SA-1B what SAM's
    large encoder says; the input is normalised with the ImageNet mean and deviation.
    """
    widths, heads = _SIZES["5m"]
    model = TinyViT(widths, heads, classes=0, last_stride=1)
    if pretrained:
        from sfumato import store

        model.load_state_dict(mobile_sam_state(store.load_arrays(MOBILE_SAM, offline=offline)))
    return model.eval()
