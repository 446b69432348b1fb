"""The state of every generator that a model may draw from: the CPU's, and its device's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def random_state(device: torch.device) -> Tensor:
    """Bytes that change whenever something is drawn, on the CPU or on ``device``."""
    own = torch.get_rng_state()
    if device.type == "cuda":
        return torch.cat([own, torch.cuda.get_rng_state(device)])
    if device.type == "mps":
        return torch.cat([own, torch.mps.get_rng_state()])
    return own


def set_random_state(device: torch.device, state: Tensor) -> None:
    own = len(torch.get_rng_state())
    torch.set_rng_state(state[:own])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[own:], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state[own:])


@contextmanager
def forked_random_state(device: torch.device) -> Iterator[None]:
    """What is drawn in the block was not drawn for those outside."""
    before = random_state(device)
    try:
        yield
    finally:
        set_random_state(device, before)
