"""Only training changes a model: what a forward pass writes into it would leave without noise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sfumato.learn.engine._validate import ChangingBufferError


@contextmanager
def unwritten(model: nn.Module, *, trainable_only: bool = False) -> Iterator[None]:
    """Refuse a model that writes into its parameters or buffers in this block.

    They are as before in any case, unless the model put others in their place.
    """
    own = _tensors(model, trainable_only)
    before = {name: tensor.detach().clone() for name, tensor in own.items()}
    changed: list[str] = []
    try:
        yield
    finally:
        now = _tensors(model, trainable_only)
        changed += [name for name in own if now.get(name) is not own[name]] + [*now.keys() - own]
        with torch.no_grad():
            for name, tensor in own.items():
                if not _same(tensor, before[name]):
                    changed.append(name)
                    tensor.copy_(before[name])
    if changed:
        raise _written(changed[0])


class FixedState:
    """What a model's file holds besides its trainable parameters, remembered by digests."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._digests = self._now()

    def check(self) -> None:
        """Raise unless every bit is as it was: also where it was written late, or by stealth."""
        now = self._now()
        for name in self._digests.keys() | now.keys():
            if self._digests.get(name) != now.get(name):
                raise _written(name)

    def _now(self) -> Mapping[str, str]:
        held = self._model.state_dict(keep_vars=True)
        return {
            name: _digest(value)
            for name, value in held.items()
            if not (isinstance(value, nn.Parameter) and value.requires_grad)
        }


def _tensors(model: nn.Module, trainable_only: bool) -> dict[str, Tensor]:
    found: dict[str, Tensor] = dict(model.named_parameters())
    if trainable_only:
        return {name: tensor for name, tensor in found.items() if tensor.requires_grad}
    return found | dict(model.named_buffers())


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal; a model that has diverged is not a number, and equals itself all the same."""
    return torch.equal(one, other) or torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _digest(value: object) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    return hashlib.sha256(_bytes(value).numpy().data).hexdigest() + str(tuple(value.shape))


def _written(name: str) -> ChangingBufferError:
    return ChangingBufferError(
        f"Expected a model that only training changes, got one that writes {name!r} in a forward "
        "pass: what it stores would leave the private scope without noise. Freeze it or remove it."
    )
