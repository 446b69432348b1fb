"""Oracles for the ports, and the store's models; each says why it skips."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

_LIBRARIES: list[torch.library.Library] = []  # a Library must stay alive


def _torchvision() -> None:
    """Define the two operators whose absence stops torchvision beside a CPU build of torch."""
    try:
        import_module("torchvision")
    except ImportError:
        return  # the fixtures say so
    except RuntimeError:  # operator torchvision::nms does not exist
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(f"nms{schema}")
        library.define(f"qnms{schema}")
        _LIBRARIES.append(library)


@pytest.fixture(scope="session")
def torchvision_mvit() -> ModuleType:
    _torchvision()
    return pytest.importorskip("torchvision.models.video.mvit", reason="torchvision is the oracle")


@pytest.fixture(scope="session")
def timm() -> ModuleType:
    _torchvision()
    return pytest.importorskip("timm", reason="timm is the oracle")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def pretrained() -> Callable[[Callable[..., nn.Module]], Any]:
    """Builds a model with the store's weights, or skips when they cannot be had."""
    from sfumato.store import CacheError, DownloadError, OfflineError

    def build(constructor: Callable[..., nn.Module], **settings: Any) -> Any:
        try:
            return constructor(pretrained=True, **settings)
        except (CacheError, DownloadError, OfflineError) as error:
            pytest.skip(f"no weights: {error}")

    return build


@pytest.fixture(scope="session")
def shake() -> Callable[[nn.Module], None]:
    """Moves every parameter and statistic away from its initial value, so that each one matters."""

    def move(model: nn.Module) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.ndim < 3 else 0.05))
            for name, buffer in model.named_buffers():
                if "running" in name:
                    buffer.add_(torch.rand_like(buffer))

    return move
