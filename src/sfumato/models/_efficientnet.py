"""EfficientNet-Lite0 (Liu 2020) with the parameter names of its published PyTorch weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._layers import pad_same
from sfumato.models._steps import Step, run

# repeats, kernel, stride of the first, expansion, width in, width out (EfficientNet, table 1)
_STAGES = (
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)


class _SameConv(nn.Conv2d):
    """Convolution with TensorFlow's SAME padding."""

    def __init__(
        self, width: int, out_width: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(width, out_width, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(pad_same(x, self.kernel_size, self.stride))


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


class _InvertedResidual(nn.Module):
    """Inverted bottleneck without squeeze-and-excitation: the lite variant has none."""

    def __init__(
        self, kernel: int, stride: int, expansion: int, width: int, out_width: int
    ) -> None:
        super().__init__()
        inner = width * expansion
        self.skips = stride == 1 and width == out_width
        self._expand_conv = _SameConv(width, inner, 1) if expansion > 1 else None
        self._bn0 = _norm(inner) if expansion > 1 else None
        self._depthwise_conv = _SameConv(inner, inner, kernel, stride, groups=inner)
        self._bn1 = _norm(inner)
        self._project_conv = _SameConv(inner, out_width, 1)
        self._bn2 = _norm(out_width)

    def forward(self, x: Tensor) -> Tensor:
        inner = x
        if self._expand_conv is not None and self._bn0 is not None:
            inner = functional.relu6(self._bn0(self._expand_conv(x)))
        inner = functional.relu6(self._bn1(self._depthwise_conv(inner)))
        out: Tensor = self._bn2(self._project_conv(inner))
        return x + out if self.skips else out


class EfficientNetLite0(nn.Module):
    """Pictures (records, 3, H, W) to logits; ``classes=0`` gives the map (records, 320, H/32, W/32).

    Input is normalised with the ImageNet mean and deviation. BatchNorms must be frozen or replaced
    before private training.
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self._conv_stem = _SameConv(3, 32, 3, 2)
        self._bn0 = _norm(32)
        self._blocks = nn.ModuleList()
        for repeats, kernel, stride, expansion, width, out_width in _STAGES:
            for i in range(repeats):
                first = i == 0
                self._blocks.append(
                    _InvertedResidual(
                        kernel,
                        stride if first else 1,
                        expansion,
                        width if first else out_width,
                        out_width,
                    )
                )
        self.width = 320
        self._conv_head = _SameConv(320, 1280, 1) if classes else None
        self._bn1 = _norm(1280) if classes else None
        self._fc = nn.Linear(1280, classes) if classes else None

    def _stem(self, x: Tensor) -> Tensor:
        return functional.relu6(self._bn0(self._conv_stem(x)))

    def _head(self, x: Tensor) -> Tensor:
        assert self._conv_head is not None
        assert self._bn1 is not None
        assert self._fc is not None
        x = functional.relu6(self._bn1(self._conv_head(x)))
        return self._fc(x.mean((2, 3)))  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        parts = [Step("stem", self._stem, (self._conv_stem, self._bn0))]
        parts += [Step(f"_blocks.{i}", block, (block,)) for i, block in enumerate(self._blocks)]
        if self._conv_head is not None and self._bn1 is not None and self._fc is not None:
            parts.append(Step("head", self._head, (self._conv_head, self._bn1, self._fc)))
        return parts

    def features(self, x: Tensor) -> Tensor:
        return run([step for step in self.steps() if step.name != "head"], x)

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


def efficientnet_lite0(
    classes: int = 1000, *, pretrained: bool = False, offline: bool = False
) -> EfficientNetLite0:
    """EfficientNet-Lite0; ``pretrained`` takes the ImageNet weights from the model store.

    With another number of classes than 1000 the pretrained body keeps its weights and the last
    layer starts anew.
    """
    model = EfficientNetLite0(classes)
    if pretrained:
        from sfumato import store

        arrays = store.load_arrays("efficientnet-lite0", offline=offline)
        state = {name: torch.from_numpy(array) for name, array in arrays.items()}
        own = model.state_dict()
        kept = {n: t for n, t in state.items() if n in own and own[n].shape == t.shape}
        model.load_state_dict({**own, **kept})
    return model.eval()
