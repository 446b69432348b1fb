"""What previews, pairs and exports say inside the file: a name can be changed, and names guard nothing."""

from __future__ import annotations

import os

PRIVATE_NOTE = "sfumato: private preview, not for release"
_MARK = PRIVATE_NOTE.encode()
_CHUNK = 1 << 20


def says_private(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself, wherever in it, that it shows or describes the originals.

    Every format that is written here (PNG, JPEG, WebP, Matroska, JSON, text) keeps the note as it is.
    """
    before = b""
    with open(path, "rb") as stream:
        while piece := stream.read(_CHUNK):
            if _MARK in before + piece:
                return True
            before = piece[-len(_MARK) :]
    return False
