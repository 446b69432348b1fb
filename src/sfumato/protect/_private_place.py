"""Where files that show or describe the original may lie: with the operator, not in the release."""

from __future__ import annotations

from pathlib import Path

from sfumato.files import is_within, refuse_replacing
from sfumato.protect._method import ProtectError


def require_private_place(path: Path, source: Path, target: Path, what: str) -> None:
    """Raise unless ``path`` is apart from the original and from the folder that ``target`` is in."""
    refuse_replacing(source, path, what=what)
    if is_within(path, target.absolute().parent):
        raise ProtectError(
            f"Expected the {what} outside the folder of the release, got a place inside: it shows or "
            "describes the originals, so keep it where nothing is shared."
        )
