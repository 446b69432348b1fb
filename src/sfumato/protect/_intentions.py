"""What somebody most likely meant by a command that cannot be followed, or that leaves something out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import did_you_mean
from sfumato.files import refuse_overwrite, refuse_replacing
from sfumato.media import AUDIO_SUFFIXES, IMAGE_SUFFIXES
from sfumato.protect._method import ProtectError
from sfumato.protect._registry import (
    accepts,
    dataset_method_names,
    get,
    make,
    names,
    works_on_datasets,
)
from sfumato.settings import shown

# Blur hides faces alone: hair, clothes and gait stay visible, and with them the person.
DEFAULT_METHOD = "silhouette"
NO_METHOD_GIVEN = (
    f"No method was given: taking {DEFAULT_METHOD}, which covers whole people, because blur hides "
    "faces alone. Others: skeleton or avatar (shows how people move), blur (looks natural), dprp "
    "(proves an epsilon); sfumato methods lists all."
)
_RECORDINGS = {".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".mpg", ".mpeg", *IMAGE_SUFFIXES}
SOUND_METHOD = "voice"
SOUND_GIVEN = f"No method was given: taking {SOUND_METHOD}, the one for sound."
_OF_A_PROOF = ("epsilon", "delta", "unit")


def check_intention(source: Path, target: Path, method: str, settings: Mapping[str, Any]) -> None:
    """Raise where source, target, method and settings cannot all be meant; reads no recording."""
    if works_on_datasets(method):
        return
    _check_places(source, target)
    known = names()
    for name in method.split("+"):
        if name not in known:
            every = sorted({*known, *dataset_method_names()})
            raise ProtectError(f"Expected a method, got {shown(name)}{did_you_mean(name, every)}")
    _check_medium(source, method)
    for setting in _OF_A_PROOF:
        if setting in settings and not accepts(method, setting):
            provers = [name for name in known if accepts(name, setting)]
            why = (
                "whose promise follows from its other settings"
                if accepts(method, "unit")
                else "which proves nothing"
            )
            raise ProtectError(
                f"Expected no --{setting} with the method {method}, {why}: leave it out, or choose a "
                f"method that takes it ({', '.join(provers)})."
            )


def check_files(source: Path, target: Path, *, force: bool) -> None:
    """Raise where nothing is to be read, or where something would be lost by writing."""
    if not source.exists():
        raise ProtectError(
            f"Expected a recording or a folder at {str(source)!r}, found nothing there: check the path."
        )
    if not source.is_dir():
        refuse_replacing(source, target)
        refuse_overwrite(target, force=force)


def check_options(source: Path, method: str, given: Mapping[str, Any]) -> None:
    """Raise where an option that was ``given`` has no effect on such a source; reads no recording."""
    kinds: list[tuple[str, tuple[str, ...]]] = []
    if works_on_datasets(method):
        kinds.append((f"the method {method}", tuple(given)))
    elif is_sound(source) or get(method.split("+")[0]).medium == "sound":
        kinds.append(("sound", ("codec", "quality", "tolerant", "pairs", "span")))
    elif source.suffix.lower() in IMAGE_SUFFIXES and not source.is_dir():
        kinds.append(("a picture", ("codec", "quality", "audio", "span")))
    if source.is_file():
        alone = ("keep_names",) if given.get("span") else ("workers", "keep_names")
        kinds.append(("one recording instead of a folder", alone))
    for what, options in kinds:
        if useless := [name for name in options if given.get(name) not in (None, False)]:
            raise ProtectError(
                f"Expected no --{useless[0].replace('_', '-')} with {what}, where it has no effect: leave "
                "it out."
            )


def is_sound(source: Path) -> bool:
    """Whether a source is a sound file, by its name."""
    return not source.is_dir() and source.suffix.lower() in AUDIO_SUFFIXES


def _check_medium(source: Path, method: str) -> None:
    stages = method.split("+")
    for_sound = [name for name in stages if get(name).medium == "sound"]
    if for_sound and len(stages) > 1:
        raise ProtectError(
            f"Expected {for_sound[0]} by itself, got the chain {method}: for a video choose a method for "
            "the picture and --audio anonymize."
        )
    if bool(for_sound) != is_sound(source) and not source.is_dir():
        wanted = "a sound file" if for_sound else "pictures"
        then = (
            "for a video choose a method for the picture and --audio anonymize."
            if for_sound
            else f"take --method {SOUND_METHOD}."
        )
        raise ProtectError(
            f"Expected {wanted} for the method {method}, got {source.suffix.lower()!r}: {then}"
        )


def _check_places(source: Path, target: Path) -> None:
    if source.is_dir() and target.suffix.lower() in _RECORDINGS and not target.is_dir():
        raise ProtectError(
            f"Expected a folder for what comes of the folder {str(source)!r}, got the file name "
            f"{str(target)!r}: did you mean sfumato protect {source} {target.with_suffix('')}?"
        )
    if (not source.is_dir() and target.is_dir()) or (source.is_file() and not target.suffix):
        likely = target / f"protected{source.suffix.lower() or '.mp4'}"
        raise ProtectError(
            f"Expected a file name for one recording, got the folder {str(target)!r}: did you mean "
            f"{likely}? The recording's own name is not taken over: names may identify people."
        )


def sound_wishes(
    audio: str, settings: Mapping[str, Any], method: str, seed: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the method, and those of the voices of a video (``voice.name``), checked."""
    if audio not in ("drop", "keep", "anonymize"):
        raise ProtectError(f"Expected --audio drop, keep or anonymize, got {shown(audio)}.")
    prefix = f"{SOUND_METHOD}."
    own = {name: value for name, value in settings.items() if not name.startswith(prefix)}
    voice = {n.removeprefix(prefix): v for n, v in settings.items() if n.startswith(prefix)}
    if audio != "drop" and method == SOUND_METHOD:
        raise ProtectError(f"Expected no --audio with the method {method}: it is all about sound.")
    if audio != "anonymize":
        if voice:
            raise ProtectError(
                f"Expected --audio anonymize with {prefix}{next(iter(voice))}, got {audio}: say that the "
                "voices of the video are to be changed."
            )
        return own, {}
    voice |= {} if seed is None else {"seed": seed}
    make(SOUND_METHOD, voice)
    return own, voice
