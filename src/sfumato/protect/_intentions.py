"""What somebody most likely meant by a command that cannot be followed, or that leaves something out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import did_you_mean
from sfumato.media import IMAGE_SUFFIXES
from sfumato.protect._method import ProtectError
from sfumato.protect._registry import accepts, get, methods
from sfumato.settings import shown

# Blur hides faces alone: hair, clothes and gait stay visible, and with them the person.
DEFAULT_METHOD = "silhouette"
NO_METHOD_GIVEN = (
    f"No method was given: taking {DEFAULT_METHOD}, which covers whole people, because blur hides "
    "faces alone. Others: skeleton or avatar (shows how people move), blur (looks natural), dprp "
    "(proves an epsilon); sfumato methods lists all."
)
_RECORDINGS = {".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", *IMAGE_SUFFIXES}
_OF_A_PROOF = ("epsilon", "delta", "unit")


def check_intention(
    source: Path, target: Path, method: str, settings: Mapping[str, Any], also: tuple[str, ...] = ()
) -> None:
    """Raise where source, target, method and settings cannot all be meant; reads no recording.

    ``also`` are names of methods that other rooms have.
    """
    _check_places(source, target)
    for name in method.split("+"):
        _check_name(name, also)
    for setting in _OF_A_PROOF if method not in also else ():
        if setting in settings and not accepts(method, setting):
            provers = [name for name in sorted(methods()) if accepts(name, setting)]
            raise ProtectError(
                f"Expected no --{setting} with the method {method}, which proves nothing: leave it "
                f"out, or choose a method that proves something ({', '.join(provers)})."
            )


def _check_places(source: Path, target: Path) -> None:
    if source.is_dir() and target.suffix.lower() in _RECORDINGS and not target.is_dir():
        raise ProtectError(
            f"Expected a folder for what comes of the folder {str(source)!r}, got the file name "
            f"{str(target)!r}: did you mean sfumato protect {source} {target.with_suffix('')}?"
        )
    if not source.is_dir() and target.is_dir():
        likely = target / f"protected{source.suffix.lower() or '.mp4'}"
        raise ProtectError(
            f"Expected a file name for one recording, got the folder {str(target)!r}: did you mean "
            f"{likely}? The recording's own name is not taken over: names may identify people."
        )


def _check_name(name: str, also: tuple[str, ...]) -> None:
    if name in also:
        return
    try:
        get(name)
    except ProtectError:
        known = sorted({*methods(), *also})
        raise ProtectError(
            f"Expected a method, got {shown(name)}{did_you_mean(name, known)}"
        ) from None
