"""Where a model runs: asked for by name, never guessed in silence."""

from __future__ import annotations

import torch

from sfumato.errors import SfumatoError


def choose_device(name: str = "auto") -> torch.device:
    """The device for "auto", "cpu", "cuda" or "cuda:N"; callers print what they got.

    "auto" is the first GPU if there is one, else the CPU. Asking for a GPU that is not there is an
    error: nothing falls back in silence.
    """
    kind, _, index = name.partition(":")
    if name == "cpu":
        return torch.device("cpu")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if kind != "cuda" or (index and not index.isdigit()):
        raise SfumatoError(
            f"Expected a device out of auto, cpu, cuda, cuda:N, got {name!r}: choose one of them."
        )
    if not torch.cuda.is_available():
        raise SfumatoError(
            f"Expected a GPU for {name!r}, but torch sees none: use auto or cpu, "
            "or install a build of torch for your GPU."
        )
    if index and int(index) >= torch.cuda.device_count():
        raise SfumatoError(
            f"Expected a GPU number below {torch.cuda.device_count()}, got {name!r}: choose another."
        )
    return torch.device(name)
