"""Keep freed memory for the next step instead of handing it back to the kernel.

A training step frees some hundred megabytes and asks for them again a moment later. glibc returns
such memory at once, and the kernel then clears every page anew: a tenth of a step here.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1
_LARGEST = 1 << 30


def keep_freed_memory() -> bool:
    """For this process, from now on; False where the C library has no such setting.

    For programs, not for libraries: the process keeps what it once needed until it ends.
    """
    if not sys.platform.startswith("linux"):
        return False
    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is None:
        return False
    return bool(setting(_MMAP_THRESHOLD, _LARGEST)) and bool(setting(_TRIM_THRESHOLD, _NEVER))
