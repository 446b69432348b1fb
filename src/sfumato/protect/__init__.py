"""Release methods: one module each, all behind ``methods()`` and ``get(name)``.

>>> from sfumato import protect
>>> method = protect.get("dprp")(epsilon=8, delta=1e-5, unit="pixels(16, frames=1)")
>>> method.promise(protect.Shape(height=240, width=320)).epsilon <= 8
True
"""

from __future__ import annotations

from sfumato.protect._method import Method, Promise, ProtectError, Shape, StillVisibleError, Stream
from sfumato.protect._registry import get, make, methods
from sfumato.protect._release import OutputSettings, release

__all__ = [
    "Method",
    "OutputSettings",
    "Promise",
    "ProtectError",
    "Shape",
    "StillVisibleError",
    "Stream",
    "get",
    "make",
    "methods",
    "release",
]
