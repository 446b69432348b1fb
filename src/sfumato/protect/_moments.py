"""Times in a recording as people type them."""

from __future__ import annotations

import re

from sfumato.protect._method import ProtectError

_TIME = re.compile(r"(?:(?:(\d+):)?(\d{1,2}):)?(\d+(?:\.\d+)?)")


def seconds_of(text: str) -> float:
    """``12.5``, ``1:02.5`` or ``0:01:02`` in seconds."""
    found = _TIME.fullmatch(text.strip())
    if not found or (found[2] is not None and float(found[3]) >= 60):
        raise ProtectError(
            f"Expected a time in the recording as 12.5 (seconds) or 1:02.5 (minutes), got {text!r}."
        )
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds
