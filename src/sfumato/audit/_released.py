"""What a release is for an audit: its recordings, what its card says was covered, where results go."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.audit.certify._epsilon import AuditError
from sfumato.files import parse_json
from sfumato.media import IMAGE_SUFFIXES, list_media
from sfumato.privacy import NoCardError, card_path, checked_card, says_private
from sfumato.protect import get, names

_SHEETS = ("leaks.png", ".leaks.png")  # what former versions of the audit wrote without a note
_JOB, _INDEX, _CARD = ".job.jsonl", "metadata.jsonl", ".card.json"


@dataclass(frozen=True)
class HidingScope:
    """Who must not be found in an output any more, and how that is known."""

    bodies: bool
    why: str


def hiding_scope(output: str | os.PathLike[str]) -> HidingScope:
    """By the card of the output: a method that covers faces shows bodies on purpose.

    | card | what counts as a leak |
    | --- | --- |
    | none beside it | faces and whole people |
    | region ``faces`` | faces |
    | an avatar | faces: an avatar is a person, and is meant to be found |
    | region ``background`` alone | refused: the people are shown on purpose |
    | anything else | faces and whole people |
    """
    try:
        card = checked_card(output)
    except NoCardError:
        return HidingScope(True, "no card says what was covered")
    if any(get(stage).draws_people for stage in card.method.split("+") if stage in names()):
        return HidingScope(
            False, "its card says that avatars stand for people, and an avatar is a person"
        )
    regions = set(_regions(card.settings))
    if regions == {"faces"} and len(card.method.split("+")) == 1:
        return HidingScope(
            False, "its card says that faces were covered, and bodies are shown on purpose"
        )
    if regions == {"background"}:
        raise AuditError(
            "Expected a release that hides people, got one whose card says that their surroundings "
            "were covered: everybody in it is shown on purpose."
        )
    return HidingScope(True, f"its card says that {card.method} was used")


def _regions(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _regions(value)
        elif name == "region":
            yield str(value)


def recordings_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The recordings of a folder, without what sfumato put beside them.

    Previews, pairs, exports and sheets of an audit say inside what they are; masks and public layers
    are named on the card of their recording, after it.
    """
    sidecars = set(_sidecars(Path(folder)))
    return [
        path
        for path in list_media(folder)
        if path not in sidecars and not path.name.endswith(_SHEETS) and not _private(path)
    ]


def _private(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES | {".mkv"} and says_private(path)


def _sidecars(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*" + _CARD):
        try:
            names = [each["name"] for each in parse_json(file.read_bytes())["outputs"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # whoever reads that card says what is wrong with it
        own = file.name.removesuffix(_CARD)
        yield from (file.with_name(str(name)) for name in names if name != own)


def audit_output_path(output: str | os.PathLike[str], name: str) -> Path:
    """Where an audit writes about an output by default: beside the release, never into it.

    A released folder goes to a partner as it is. It is known by its card, by its index, or by the
    manifest of the job that made it.
    """
    whole = Path(os.path.abspath(output))
    if not whole.name:
        raise AuditError(
            "Expected a released file or folder, got the whole disk: name the release."
        )
    for folder in reversed((whole, *whole.parents)):
        if folder.name and folder.is_dir() and _is_release(folder):
            inside = ".".join(whole.relative_to(folder).parts)
            return folder.with_name(".".join(part for part in (folder.name, inside, name) if part))
    return whole.with_name(f"{whole.name}.{name}")


def _is_release(folder: Path) -> bool:
    return (
        card_path(folder).is_file()
        or (folder / _INDEX).is_file()
        or folder.with_name(folder.name + _JOB).is_file()
    )
