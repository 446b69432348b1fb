"""Settings that may change how long a step takes, and never what it computes."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sfumato.errors import SfumatoError

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1
_LARGEST = 1 << 30


class SpeedError(SfumatoError):
    """A speed setting that cannot be followed."""


class Route(StrEnum):
    """How the sum of clipped gradients is computed; all give the same numbers.

    ``BOOK_KEEPING``: one forward and one backward pass, norms from activations and output
    gradients, then one weighted product a layer. ``FUNC``: vmap of grad, for layers that it does
    not support. ``LOOP``: one record after the other, for what vmap cannot trace.
    """

    AUTO = "auto"
    BOOK_KEEPING = "book-keeping"
    FUNC = "func"
    LOOP = "loop"


@dataclass(frozen=True)
class Speed:
    """Privacy-neutral settings: a test shows that none changes a result beyond float tolerance.

    | field | meaning |
    | --- | --- |
    | ``memory`` | bytes that activations and per-record gradients of one micro-batch may take |
    | ``micro_batch`` | records at a time; None: as many as ``memory`` allows |
    | ``route`` | ``auto`` lets the engine choose, and say which (``route_of``) |
    | ``trunk_cache`` | run a frozen trunk once per record and view, where a model can be split |
    | ``cache_folder`` | where that cache lives; None: a private temporary folder |
    | ``cache_bytes`` | its size limit; above it the trunk runs again instead |
    | ``read_ahead`` | threads that decode the next step's records during this one; 0: none |
    | ``mixed_precision`` | forward and backward passes in bfloat16 where torch casts so, norms, clipping, sums and noise in float32: other roundings, the same bound |
    | ``keep_cache`` | leave it behind for the next run (private data on disk: on purpose only) |
    """

    memory: int = 1 << 30
    micro_batch: int | None = None
    route: Route = Route.AUTO
    trunk_cache: bool = True
    cache_folder: Path | None = None
    cache_bytes: int = 8 << 30
    read_ahead: int = 2
    keep_cache: bool = False
    mixed_precision: bool = False

    @property
    def precision(self) -> str:
        """What a card says about the numbers of a training."""
        if not self.mixed_precision:
            return "float32"
        return "passes in bfloat16 unless their rounding mixes records; norms, clipping, sums and noise in float32"

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "route", Route(self.route))
        except ValueError:
            known = ", ".join(member.value for member in Route)
            raise SpeedError(f"Expected a route out of {known}, got {self.route!r}.") from None
        if self.mixed_precision:
            if self.route not in {Route.AUTO, Route.BOOK_KEEPING}:
                raise SpeedError(
                    f"Expected route auto or book-keeping with mixed precision, got {self.route}: "
                    "only there are norms and sums kept in float32."
                )
            object.__setattr__(self, "route", Route.BOOK_KEEPING)
        if self.cache_folder is not None:
            object.__setattr__(self, "cache_folder", Path(self.cache_folder))
        for name in ("memory", "micro_batch", "cache_bytes"):
            value = getattr(self, name)
            if value is None and name == "micro_batch":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SpeedError(f"Expected {name} as a whole number >= 1, got {value!r}.")
        if isinstance(self.read_ahead, bool) or self.read_ahead not in range(65):
            raise SpeedError(f"Expected read_ahead from 0 to 64, got {self.read_ahead!r}.")


def keep_freed_memory() -> bool:
    """Keep freed memory for the next step instead of handing it back to the kernel.

    A step frees some hundred megabytes and asks for them again; glibc returns them at once, and the
    kernel then clears every page anew: a tenth of a step. False where the C library has no such setting.

    For programs, not for libraries: the process keeps what it once needed until it ends.
    """
    if not sys.platform.startswith("linux"):
        return False
    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is None:
        return False
    return bool(setting(_MMAP_THRESHOLD, _LARGEST)) and bool(setting(_TRIM_THRESHOLD, _NEVER))
