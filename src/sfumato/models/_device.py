"""Where a model runs: asked for by name, never guessed in silence."""

from __future__ import annotations

import os
import re

import torch
from torch import nn

from sfumato.errors import SfumatoError

DEVICES = "auto, cpu, cuda, cuda:N, mps"


def choose_device(name: str = "auto") -> torch.device:
    """The device for "auto", "cpu", "cuda", "cuda:N" or "mps"; callers print what they got.

    "auto" is a GPU if there is one, else the CPU. Asking for a GPU that is not there is an error:
    nothing falls back in silence. Of several processes (torchrun), each takes the GPU of its number
    in "cuda" and "auto".
    """
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", name):
        raise SfumatoError(f"Expected a device out of {DEVICES}, got {name!r}: choose one of them.")
    kind, _, index = name.partition(":")
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind == "auto":
        kind = next((each for each, found in there.items() if found), "cpu")
    if kind == "cpu":
        return torch.device("cpu")
    if not there[kind]:
        raise SfumatoError(
            f"Expected a GPU for {name!r}, but torch sees none: use auto or cpu, "
            "or install a build of torch for your GPU."
        )
    if kind == "mps":
        return torch.device("mps")
    number = int(index or os.environ.get("LOCAL_RANK", "0"))
    if number >= torch.cuda.device_count():
        raise SfumatoError(
            f"Expected a GPU number below {torch.cuda.device_count()}, got {number} for {name!r}: "
            "choose another, or start fewer processes."
        )
    return torch.device("cuda", number)


def device_of(model: nn.Module) -> torch.device:
    """Where the parameters of a model lie: what it is given has to go there too."""
    return next(
        (each.device for each in (*model.parameters(), *model.buffers())), torch.device("cpu")
    )
