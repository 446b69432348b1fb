"""MoveNet thunder (Google 2021): 17 joints of one person, as layers that can be trained further.

MobileNetV2 (width 1.75) under a feature pyramid, and four heads on its map at stride 4. BatchNorms
are folded into the published weights, so no layer mixes records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._layers import pad_same

STRIDE, CELLS, JOINTS = 4, 64, 17
SIDE = STRIDE * CELLS
_NAME = "movenet-thunder"
# width of each block, and whether it halves (MobileNetV2, table 2, times 1.75, rounded to 8)
_BLOCKS = (
    (32, 1), (40, 2), (40, 1), (56, 2), (56, 1), (56, 1), (112, 2), (112, 1), (112, 1), (112, 1),
    (168, 1), (168, 1), (168, 1), (280, 2), (280, 1), (280, 1), (560, 1),
)  # fmt: skip
_STEM, _LAST = 56, 1280
_TAPPED = (9, 5, 2)  # blocks whose maps join the pyramid, at strides 16, 8 and 4
_PYRAMID = (64, 64, 32, 24)
_SMOOTHED = (32, 24, 24)
_HEADS = {"heat": JOINTS, "expected": 2 * JOINTS, "centre": 1, "offset": 2 * JOINTS}
_HEAD_WIDTH = 96
_SPREAD = 1.7998046875  # of the graph's own decoding, as the file has it in 16 bits


class Maps(NamedTuple):
    """What the heads say in each cell (records, channels, 64, 64); pairs are row first."""

    heat: Tensor  # logit of each joint
    expected: Tensor  # from a person's middle to each joint, in cells
    centre: Tensor  # logit of a person's middle
    offset: Tensor  # of each joint within its cell


class _SamePadded(nn.Conv2d):
    """Convolution with TensorFlow's SAME padding."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(pad_same(x, self.kernel_size, self.stride))


class _Block(nn.Module):
    """Inverted bottleneck; the first one does not expand."""

    def __init__(self, width: int, out_width: int, stride: int, expands: bool) -> None:
        super().__init__()
        inner = 6 * width if expands else width
        self.expand = _SamePadded(width, inner, 1) if expands else None
        self.depthwise = _SamePadded(inner, inner, 3, stride, groups=inner)
        self.project = _SamePadded(inner, out_width, 1)
        self.skips = stride == 1 and width == out_width

    def forward(self, x: Tensor) -> Tensor:
        inner = x if self.expand is None else functional.relu6(self.expand(x))
        out: Tensor = self.project(functional.relu6(self.depthwise(inner)))
        return x + out if self.skips else out


class _Separable(nn.Module):
    """A depthwise and a pointwise convolution."""

    def __init__(self, width: int, out_width: int) -> None:
        super().__init__()
        self.depthwise = _SamePadded(width, width, 3, groups=width, bias=False)
        self.pointwise = nn.Conv2d(width, out_width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.pointwise(self.depthwise(x)))


class _MapHead(nn.Module):
    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.hidden = _Separable(width, _HEAD_WIDTH)
        self.out = nn.Conv2d(_HEAD_WIDTH, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.hidden(x))  # type: ignore[no-any-return]


class MoveNetThunder(nn.Module):
    """Pictures (records, 3, 256, 256) of one person each, RGB from 0 to 255, to joints.

    ``pyramid`` gives the map at stride 4 that the heads read; ``maps`` what they say; ``decode`` the
    published choice among cells. The forward pass is all three: (records, 17, 3) with x, y in pixels
    and a score, in the order of COCO.
    """

    width = _PYRAMID[-1]
    input_scale: Tensor
    nearness: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.stem = _SamePadded(3, _STEM, 3, 2)
        widths = [_STEM, *(width for width, _ in _BLOCKS)]
        self.blocks = nn.ModuleList(
            _Block(widths[i], width, stride, expands=i > 0)
            for i, (width, stride) in enumerate(_BLOCKS)
        )
        self.last = _SamePadded(widths[-1], _LAST, 1)
        tapped = [_LAST, *(_BLOCKS[i][0] for i in _TAPPED)]
        self.lateral = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(tapped, _PYRAMID))
        self.smooth = nn.ModuleList(_Separable(a, b) for a, b in zip(_PYRAMID[1:], _SMOOTHED))
        self.heads = nn.ModuleDict({n: _MapHead(self.width, c) for n, c in _HEADS.items()})
        # constants that the file has in 16 bits: 2/255, and what a middle far from the picture's loses
        self.register_buffer("input_scale", torch.tensor(2 / 255))
        self.register_buffer("nearness", torch.ones(CELLS, CELLS))

    def pyramid(self, pixels: Tensor) -> Tensor:
        if pixels.shape[1:] != (3, SIDE, SIDE):
            raise ValueError(
                f"Expected pictures (records, 3, {SIDE}, {SIDE}), got {tuple(pixels.shape)}."
            )
        x: Tensor = functional.relu6(self.stem(pixels * self.input_scale - 1))
        kept = {}
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in _TAPPED:
                kept[i] = x
        x = self.lateral[0](functional.relu6(self.last(x)))
        for i, lateral, smooth in zip(_TAPPED, list(self.lateral)[1:], self.smooth):
            larger = functional.interpolate(
                x, size=kept[i].shape[2:], mode="bilinear", align_corners=False
            )
            x = smooth(larger + lateral(kept[i]))
        return x

    def maps(self, features: Tensor) -> Maps:
        return Maps(**{name: head(features) for name, head in self.heads.items()})

    def decode(self, maps: Maps) -> Tensor:
        """The cell of the likeliest middle says where joints are expected; each joint is the cell with
        the best quotient of its heat and its distance from there."""
        records, device = len(maps.heat), maps.heat.device
        middle = (maps.centre.sigmoid()[:, 0] * self.nearness).flatten(1).argmax(1)
        at = torch.stack((middle // CELLS, middle % CELLS), 1)
        own = maps.expected.flatten(2)[torch.arange(records, device=device), :, middle]
        expected = at[:, None] + own.reshape(records, JOINTS, 2)
        cells = torch.arange(CELLS, dtype=maps.heat.dtype, device=device)
        squares = (cells - expected[..., None]).square()
        away = (squares[:, :, 0, :, None] + squares[:, :, 1, None, :]).sqrt()
        heat = maps.heat.sigmoid()
        best = (heat / (away + _SPREAD)).flatten(2).argmax(2)
        here = best[:, :, None]
        offsets = maps.offset.reshape(records, JOINTS, 2, -1)
        offset = offsets.gather(3, here[..., None].expand(-1, -1, 2, -1))[..., 0]
        place = torch.stack((best // CELLS, best % CELLS), 2) + offset
        score = heat.flatten(2).gather(2, here)
        return torch.cat((place.flip(2) * STRIDE, score), 2)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.decode(self.maps(self.pyramid(pixels)))


def movenet_thunder(*, pretrained: bool = True, offline: bool = False) -> MoveNetThunder:
    """MoveNet thunder; ``pretrained`` takes Google's weights from the model store."""
    model = MoveNetThunder()
    if pretrained:
        from sfumato import store

        arrays = store.load_arrays(_NAME, offline=offline)
        names = dict(_published_names())
        state = {own: _laid_out(own, arrays[theirs]) for own, theirs in names.items()}
        state["input_scale"] = state["input_scale"].flatten()[0]
        state["nearness"] = state["nearness"][..., 0]
        model.load_state_dict(state)
    return model.eval()


def _laid_out(name: str, array: npt.NDArray[np.float32]) -> Tensor:
    """A kernel (rows, columns, in, out), or (rows, columns, in, 1) where depthwise, as torch has it."""
    tensor = torch.from_numpy(array)
    if tensor.ndim != 4:
        return tensor
    return tensor.permute(2, 3, 0, 1) if "depthwise" in name else tensor.permute(3, 2, 0, 1)


def _published_names() -> Iterator[tuple[str, str]]:
    """Every tensor of the model, and what the published graph calls it."""
    call = "StatefulPartitionedCall"
    body = f"{call}/center_net_mobile_net_v2fpn_feature_extractor/model_1"
    yield "input_scale", f"{call}/truediv"
    yield "nearness", f"ConstantFolding/{call}/truediv_2_recip"
    yield from _folded("stem", f"{body}/model/Conv1/Conv2D")
    for i in range(len(_BLOCKS)):
        theirs = f"{body}/model/block_{i}" if i else f"{body}/model/expanded_conv"
        if i:
            yield from _folded(f"blocks.{i}.expand", f"{theirs}_expand/Conv2D")
        yield from _folded(f"blocks.{i}.depthwise", f"{theirs}_depthwise/depthwise")
        yield from _folded(f"blocks.{i}.project", f"{theirs}_project/Conv2D")
    yield from _folded("last", f"{body}/model/Conv_1/Conv2D")
    for i in range(len(_PYRAMID)):
        yield from _plain(f"lateral.{i}", f"{body}/conv2d{f'_{i}' if i else ''}")
    for i in range(len(_SMOOTHED)):
        theirs = f"{body}/separable_conv2d{f'_{i}' if i else ''}/separable_conv2d"
        yield f"smooth.{i}.depthwise.weight", f"{theirs}/ReadVariableOp"
        yield from _folded(f"smooth.{i}.pointwise", theirs)
    for i, (own, theirs) in enumerate(
        (("centre", "center"), ("heat", "kpt_heatmap"), ("expected", "kpt_regress"),
         ("offset", "kpt_offset"))
    ):  # fmt: skip
        hidden = f"{call}/{theirs}_0/separable_conv2d_{i + 3}"
        yield f"heads.{own}.hidden.depthwise.weight", f"{hidden}/separable_conv2d/ReadVariableOp"
        yield f"heads.{own}.hidden.pointwise.weight", f"{hidden}/separable_conv2d/ReadVariableOp_1"
        yield f"heads.{own}.hidden.pointwise.bias", f"{hidden}/BiasAdd/ReadVariableOp"
        yield from _plain(f"heads.{own}.out", f"{call}/{theirs}_0/conv2d_{i + 4}")


def _folded(own: str, theirs: str) -> Iterator[tuple[str, str]]:
    yield f"{own}.weight", f"{theirs}_weights"
    yield f"{own}.bias", f"{theirs}_bn_offset"


def _plain(own: str, theirs: str) -> Iterator[tuple[str, str]]:
    yield f"{own}.weight", f"{theirs}/Conv2D/ReadVariableOp"
    yield f"{own}.bias", f"{theirs}/BiasAdd/ReadVariableOp"
