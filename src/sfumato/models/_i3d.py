"""Inception-I3D on RGB (Carreira and Zisserman 2017), with the Kinetics-400 weights of the store."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._layers import pad_same
from sfumato.models._steps import Step, run

Size3 = tuple[int, int, int]

# Widths of an inception module: branch 0; branch 1 reduce, out; branch 2 reduce, out; branch 3.
_MIXED = {
    "Mixed_3b": (192, (64, 96, 128, 16, 32, 32)),
    "Mixed_3c": (256, (128, 128, 192, 32, 96, 64)),
    "Mixed_4b": (480, (192, 96, 208, 16, 48, 64)),
    "Mixed_4c": (512, (160, 112, 224, 24, 64, 64)),
    "Mixed_4d": (512, (128, 128, 256, 24, 64, 64)),
    "Mixed_4e": (512, (112, 144, 288, 32, 64, 64)),
    "Mixed_4f": (528, (256, 160, 320, 32, 128, 128)),
    "Mixed_5b": (832, (256, 160, 320, 32, 128, 128)),
    "Mixed_5c": (832, (384, 192, 384, 48, 128, 128)),
}
# Max-pools by the layer they come before: kernel, stride.
_POOLS: dict[str, tuple[Size3, Size3]] = {
    "Conv3d_2b_1x1": ((1, 3, 3), (1, 2, 2)),
    "Mixed_3b": ((1, 3, 3), (1, 2, 2)),
    "Mixed_4b": ((3, 3, 3), (2, 2, 2)),
    "Mixed_5b": ((2, 2, 2), (2, 2, 2)),
}


class _Unit(nn.Module):
    """Convolution, batch norm without scale, ReLU; SAME padding."""

    def __init__(
        self, width: int, out_width: int, kernel: Size3 = (1, 1, 1), stride: Size3 = (1, 1, 1)
    ) -> None:
        super().__init__()
        self.conv = nn.Conv3d(width, out_width, kernel, stride, bias=False)
        self.bn = nn.BatchNorm3d(out_width, eps=1e-3, momentum=0.001)
        # The published norm has no scale: the weight stays one and is never trained.
        self.bn.weight.requires_grad_(False)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.bn(self.conv(pad_same(x, self.kernel, self.stride))))


class _Mixed(nn.Module):
    def __init__(self, width: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        a, b_reduce, b, c_reduce, c, d = widths
        self.branch_0 = nn.Sequential(_Unit(width, a))
        self.branch_1 = nn.Sequential(_Unit(width, b_reduce), _Unit(b_reduce, b, (3, 3, 3)))
        self.branch_2 = nn.Sequential(_Unit(width, c_reduce), _Unit(c_reduce, c, (3, 3, 3)))
        self.branch_3 = nn.Sequential(_Unit(width, d))

    def forward(self, x: Tensor) -> Tensor:
        pooled = _max_pool(x, (3, 3, 3), (1, 1, 1))
        branches = (self.branch_0(x), self.branch_1(x), self.branch_2(x), self.branch_3(pooled))
        return torch.cat(branches, dim=1)


class _Pooled(nn.Module):
    """A layer with the max-pool that comes before it."""

    def __init__(self, kernel: Size3, stride: Size3, layer: nn.Module) -> None:
        super().__init__()
        self.kernel, self.stride, self.layer = kernel, stride, layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(_max_pool(x, self.kernel, self.stride))  # type: ignore[no-any-return]


def _max_pool(x: Tensor, kernel: Size3, stride: Size3) -> Tensor:
    return functional.max_pool3d(pad_same(x, kernel, stride, -torch.inf), kernel, stride)


class I3D(nn.Module):
    """Clips (records, 3, T, H, W), RGB in [-1, 1], T >= 9, to logits; ``features`` gives 1024 numbers.

    The head averages over (2, H, W), so any frame size that survives five halvings works.
    """

    def __init__(self, classes: int = 400, dropout: float = 0.0) -> None:
        super().__init__()
        layers: dict[str, nn.Module] = {
            "Conv3d_1a_7x7": _Unit(3, 64, (7, 7, 7), (2, 2, 2)),
            "Conv3d_2b_1x1": _Unit(64, 64),
            "Conv3d_2c_3x3": _Unit(64, 192, (3, 3, 3)),
        }
        layers |= {name: _Mixed(width, widths) for name, (width, widths) in _MIXED.items()}
        for name, (kernel, stride) in _POOLS.items():
            layers[name] = _Pooled(kernel, stride, layers[name])
        self.layers = nn.ModuleDict(layers)
        self.dropout = nn.Dropout(dropout)
        self.logits = nn.Linear(1024, classes)

    def _pool(self, x: Tensor) -> Tensor:
        # Averages over windows of two frames, then over the windows: the ends weigh half.
        space = x.mean((3, 4))
        return functional.avg_pool1d(space, 2, 1).mean(2) if x.shape[2] > 1 else space[:, :, 0]

    def _classify(self, x: Tensor) -> Tensor:
        return self.logits(self.dropout(self._pool(x)))  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        parts = [Step(name, layer, (layer,)) for name, layer in self.layers.items()]
        return [*parts, Step("logits", self._classify, (self.logits,))]

    def features(self, x: Tensor) -> Tensor:
        """(records, 1024): the averaged features that Fréchet video distance and attackers use."""
        return self._pool(run(self.steps()[:-1], x))

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


def i3d(
    classes: int = 400, *, pretrained: bool = False, offline: bool = False, dropout: float = 0.0
) -> I3D:
    """I3D; ``pretrained`` takes the Kinetics-400 weights from the model store.

    With another number of classes than 400 the pretrained body keeps its weights and the last layer
    starts anew.
    """
    model = I3D(classes, dropout)
    if pretrained:
        from sfumato import store

        state = i3d_state(store.load_arrays("i3d-kinetics-400", offline=offline))
        if classes != 400:
            state |= {f"logits.{name}": value for name, value in model.logits.state_dict().items()}
        model.load_state_dict(state)
    return model.eval()


def i3d_state(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    """State dict of :class:`I3D` from the arrays of the published checkpoint, names joined by /."""
    state: dict[str, Tensor] = {}
    for name, array in arrays.items():
        collection, *path, layer, kind = name.split("/")
        value = torch.from_numpy(array.copy())
        if path[0] == "Logits":
            if kind == "kernel":
                state["logits.weight"] = value[0, 0, 0].T.contiguous()
            else:
                state["logits.bias"] = value.flatten()
            continue
        unit = _unit_name(path)
        if layer == "Conv_0":
            state[f"{unit}.conv.weight"] = value.permute(4, 3, 0, 1, 2).contiguous()
        else:
            published = {"bias": "bias", "mean": "running_mean", "var": "running_var"}
            state[f"{unit}.bn.{published[kind]}"] = value.flatten()
        if collection == "batch_stats":
            state[f"{unit}.bn.weight"] = torch.ones(value.numel())
            state[f"{unit}.bn.num_batches_tracked"] = torch.tensor(0)
    return state


def _unit_name(path: list[str]) -> str:
    layer = f"layers.{path[0]}" + (".layer" if path[0] in _POOLS else "")
    if len(path) == 1:
        return layer
    branch, unit = path[1].lower(), path[2]
    # The 3x3 unit is the second of its branch (some releases misspell its "0b" as "0a").
    return f"{layer}.{branch}.{int(unit.endswith('3x3'))}"


def kinetics400_classes() -> tuple[str, ...]:
    """The 400 class names in the order of the logits."""
    text = resources.files("sfumato.models").joinpath("kinetics400.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())
