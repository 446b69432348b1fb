"""Where networks run: chosen once, by name, and noted by every part that ran.

``with using("cuda") as used:`` chooses for all that is called inside; each part asks ``device_for`` with its
own name, and ``used`` then says what each really ran on. A choice belongs to the context that made it: of the
threads and processes that a room starts, each makes its own. Without any choice, everything runs on the CPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError

if TYPE_CHECKING:  # torch takes seconds to import, and not every room needs it
    import torch
    from torch import nn

DEVICES = "auto, cpu, cuda, cuda:N, mps"
_CHOSEN: ContextVar[str] = ContextVar("sfumato-device", default="cpu")
_USED: ContextVar[dict[str, str] | None] = ContextVar("sfumato-device-used", default=None)


@contextmanager
def using(name: str | None = None) -> Iterator[dict[str, str]]:
    """Within this block parts run on ``name`` (None: as around it); yields what each part ran on."""
    if name is not None and name != "cpu":
        choose_device(name)  # what is not there is said before anything is read
    around, used = _USED.get(), dict[str, str]()
    chosen = _CHOSEN.set(_CHOSEN.get() if name is None else name)
    noted = _USED.set(used)
    try:
        yield used
    finally:
        _CHOSEN.reset(chosen)
        _USED.reset(noted)
        if around is not None:
            around |= used


def device_for(part: str) -> torch.device:
    """The chosen device for ``part``, such as "the probing network", which is noted as running there."""
    device, used = chosen_device(), _USED.get()
    if used is not None:
        used[part] = str(device)
    return device


def chosen_device() -> torch.device:
    """The same for a part that says itself what it really ran on, such as a detector."""
    return choose_device(_CHOSEN.get())


def used_devices() -> dict[str, str]:
    """What each part of the block around this has run on so far."""
    return dict(_USED.get() or {})


def used_words(used: Mapping[str, str]) -> str:
    """Each device with the parts that ran on it; nothing but the CPU is one word."""
    if set(used.values()) <= {"cpu"}:
        return "cpu"
    by_device: dict[str, list[str]] = {}
    for part, device in used.items():
        by_device.setdefault(device, []).append(part)
    named = [f"{device} ({', '.join(parts)})" for device, parts in by_device.items()]
    return "; ".join([*named, "cpu (the rest)"])


def choose_device(name: str = "auto") -> torch.device:
    """The device for "auto", "cpu", "cuda", "cuda:N" or "mps"; callers print what they got.

    "auto" is a GPU if there is one, else the CPU. Asking for a GPU that is not there is an error:
    nothing falls back in silence. Of several processes (torchrun), each takes the GPU of its number
    in "cuda" and "auto".
    """
    import torch

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
    import torch

    return next(
        (each.device for each in (*model.parameters(), *model.buffers())), torch.device("cpu")
    )
