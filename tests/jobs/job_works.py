"""Works for the job tests; spawned processes import them by name."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

from sfumato.media import MediaError


def copy_reversed(source: Path, target: Path, settings: dict[str, Any]) -> dict[str, int]:
    """Writes the bytes backwards and a card; sources called kill, hang, ... misbehave."""
    data = source.read_bytes()
    target.write_bytes(data[::-1][: len(data) // 2])
    word = data.split(b":")[0]
    if word == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == b"hang":
        signal.pause()
    if word == b"refuse":
        raise MediaError("Expected something else, got this: change it.")
    if word == b"crash":
        raise KeyError("a secret of P001")
    if word == b"nothing":
        target.unlink()
        return {}
    if word == b"content":  # the same recording in another file
        content = data.split(b":")[1].decode()
        target.write_bytes(os.urandom(8))
        return {"content": content}  # type: ignore[dict-item]
    target.write_bytes(data[::-1])
    target.with_name(target.name + ".card.json").write_text("{}")
    return {"bytes": len(data), "settings": settings.get("level", 0)}


def draw_slowly(source: Path, target: Path, settings: dict[str, Any]) -> dict[str, str]:
    """A draw of noise that takes a while; whoever wants to kill its process finds the number there."""
    own = Path(settings["workers"]) / str(os.getpid())
    own.write_text(source.name)
    noise = hashlib.pbkdf2_hmac("sha256", os.urandom(8), b"salt", settings["rounds"])
    target.write_bytes(source.read_bytes() + b":" + noise)
    target.with_name(target.name + ".card.json").write_text("{}")
    own.unlink(missing_ok=True)
    return {"drawn": noise.hex()}


def write_part(folder: Path, word: str) -> str:
    """A part of a recording; those called kill and refuse misbehave after they have written."""
    (folder / "piece").write_text(word)
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "refuse":
        raise MediaError("Expected something else, got this: change it.")
    return word.upper()
