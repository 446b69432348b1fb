"""Opacus as a peer: the same model and step, imported only when it is measured."""

from __future__ import annotations

import copy
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.models import VideoViT


class _Positions(nn.Module):
    """Positions as an embedding layer: Opacus has no rule for a bare parameter."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, width)
        self.register_buffer("index", torch.arange(tokens))

    def forward(self, x: Tensor) -> Tensor:
        index: Tensor = self.index  # type: ignore[assignment]
        placed: Tensor = self.table(index.expand(len(x), -1).contiguous())
        return x + placed


class _PeerViT(VideoViT):
    """The same work as VideoViT, in layers that Opacus knows."""

    def __init__(self, classes: int, clip: tuple[int, int, int, int]) -> None:
        super().__init__(classes, clip=clip)
        width = self.position.shape[2]
        del self.position
        self.places = _Positions(self.tokens, width)

    def forward(self, clips: Tensor, keep: Tensor | None = None) -> Tensor:
        state = self.places(self.embed(self.tubelets(clips)))
        for index in range(len(self.blocks)):
            state = self.block(index, state)
        return self.classify(state)


def opacus_steps(
    clip: tuple[int, int, int, int], classes: int, x: Tensor, y: Tensor, noise: float, rate: float
) -> dict[str, Callable[[], object]] | None:
    """Opacus' two modes, or None when it is not installed."""
    if importlib.util.find_spec("opacus") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        hooks = _hooks_step(_PeerViT(classes, clip), x, y, noise, rate)
        ghost = _ghost_step(_PeerViT(classes, clip), x, y, noise, rate)
    return {"Opacus, hooks": _quiet(hooks), "Opacus, ghost clipping": _quiet(ghost)}


def _quiet(step: Callable[..., object]) -> Callable[..., object]:
    def silent(*batch: Tensor) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step(*batch)

    return silent


def opacus_modes(
    model: nn.Module | None, x: Tensor, y: Tensor, noise: float = 1.0, rate: float = 0.01
) -> dict[str, Callable[..., object]]:
    """Both modes as ``step(x, y)``, those given by default; none when Opacus is not installed.

    Without a model, the reference model in layers that Opacus knows. A mode that cannot take a model is left
    out: ghost clipping knows fewer layers than hooks.
    """
    if importlib.util.find_spec("opacus") is None:
        return {}
    found: dict[str, Callable[..., object]] = {}
    for name, make in (("Opacus, hooks", _hooks_step), ("Opacus, ghost clipping", _ghost_step)):
        own = copy.deepcopy(model) if model is not None else _PeerViT(int(y.max()) + 1, x.shape[1:])  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                step = _quiet(make(own, x, y, noise, rate))
                step()
            except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):
                continue
        found[name] = step
    return found


def _hooks_step(
    model: nn.Module, x: Tensor, y: Tensor, noise: float, rate: float
) -> Callable[..., object]:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(model)
    chosen = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = DPOptimizer(
        torch.optim.SGD(chosen, lr=rate), noise_multiplier=noise, max_grad_norm=1.0,
        expected_batch_size=len(x),
    )  # fmt: skip

    def step(x: Tensor = x, y: Tensor = y) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _ghost_step(
    model: nn.Module, x: Tensor, y: Tensor, noise: float, rate: float
) -> Callable[..., object]:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=1.0, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD([p for p in wrapped.parameters() if p.requires_grad], lr=rate), noise_multiplier=noise, max_grad_norm=1.0,
        expected_batch_size=len(x),
    )  # fmt: skip
    criterion: Any = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss())

    def step(x: Tensor = x, y: Tensor = y) -> None:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return step


def opacus_fine_tuning(
    model: nn.Module, x: Tensor, y: Tensor, noise: float, rate: float
) -> Callable[[], object] | None:
    """Opacus' step on a model with a few trainable layers, or None when it is not installed."""
    if importlib.util.find_spec("opacus") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _quiet(_hooks_step(model, x, y, noise, rate))
