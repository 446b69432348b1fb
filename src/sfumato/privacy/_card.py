"""The privacy card: what stands next to every output, for people and for machines.

A card describes the output and the promise, never the input: no path, name, digest or pixel of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.files import sha256, write_json, write_text
from sfumato.privacy._guarantee import Guarantee, NoGuarantee, promise_from_json

CARD_VERSION = 1
_RECORDED_PACKAGES = ("numpy", "torch", "dp-accounting", "av", "opencv-python-headless")
_FRACTION = re.compile(r"\d+/\d+")


class CardError(SfumatoError):
    """A card that cannot be written, read or trusted."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One released file or folder, by its own name and content."""

    name: str
    sha256: str
    size: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Output:
        target = Path(path)
        if target.is_dir():
            digest, size = _digest_folder(target)
            return cls(name=target.name, sha256=digest, size=size)
        if not target.is_file():
            raise CardError(f"Expected an output file or folder at {str(path)!r}, found none.")
        return cls(name=target.name, sha256=sha256(target), size=target.stat().st_size)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What was done, what it proves, and what it does not.

    ``done`` is one sentence in plain words. ``settings`` are the public settings of the run; a value
    that looks like a path is refused, because names of files and folders name people.
    """

    method: str
    done: str
    promise: Guarantee | NoGuarantee
    outputs: tuple[Output, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    model_of_trust: str = "central"
    post_processing: tuple[str, ...] = ()
    tuning: str = "Not stated: choices made by looking at the private data are not covered."
    temporary_files: tuple[str, ...] = ()
    created: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    versions: Mapping[str, str] = field(default_factory=lambda: _versions())
    signature: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.model_of_trust not in {"central", "local"}:
            raise CardError(f"Expected trust 'central' or 'local', got {self.model_of_trust!r}.")
        if not self.outputs:
            raise CardError("A card describes at least one output, got none.")
        _refuse_paths("settings", dict(self.settings))
        for output in self.outputs:
            if output.name != Path(output.name).name:
                raise CardError("An output is named by its file name alone, without folders.")

    def body(self) -> dict[str, Any]:
        """Everything that a signature covers."""
        return {
            "schema": "sfumato-card",
            "version": CARD_VERSION,
            "method": self.method,
            "done": self.done,
            "promise": self.promise.to_json(),
            "promise_in_words": str(self.promise),
            "outputs": [vars(output) for output in self.outputs],
            "settings": dict(self.settings),
            "device": self.device,
            "model_of_trust": self.model_of_trust,
            "post_processing": list(self.post_processing),
            "tuning": self.tuning,
            "temporary_files": list(self.temporary_files),
            "created": self.created,
            "versions": dict(self.versions),
        }

    def canonical(self) -> bytes:
        """The bytes that are signed: one form for one content."""
        return json.dumps(
            self.body(), sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()

    def to_json(self) -> dict[str, Any]:
        signature = None if self.signature is None else dict(self.signature)
        return {**self.body(), "signature": signature}

    @classmethod
    def from_json(cls, value: Any) -> Card:
        if not isinstance(value, Mapping) or value.get("schema") != "sfumato-card":
            raise CardError("Expected a sfumato privacy card, got another kind of file.")
        if value.get("version") != CARD_VERSION:
            raise CardError(f"Expected card version {CARD_VERSION}, got {value.get('version')!r}.")
        try:
            card = cls(
                method=value["method"],
                done=value["done"],
                promise=promise_from_json(value["promise"]),
                outputs=tuple(Output(**each) for each in value["outputs"]),
                settings=value["settings"],
                device=value["device"],
                model_of_trust=value["model_of_trust"],
                post_processing=tuple(value["post_processing"]),
                tuning=value["tuning"],
                temporary_files=tuple(value["temporary_files"]),
                created=value["created"],
                versions=value["versions"],
                signature=value["signature"],
            )
        except (KeyError, TypeError) as error:
            raise CardError(
                f"The card is not complete ({type(error).__name__}: {error}): "
                "it was changed by hand, or written by another version."
            ) from None
        if set(value) != set(card.to_json()):
            raise CardError("The card has fields that this version does not know.")
        # words may be improved between versions; within one they follow from the promise
        same_version = card.versions.get("sfumato") == __version__
        if same_version and value["promise_in_words"] != str(card.promise):
            raise CardError("The card's words and its promise do not agree: it was changed.")
        return card

    def write(self, output: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write ``OUTPUT.card.json`` and ``OUTPUT.card.md``; return the former's path."""
        from sfumato.privacy._card_words import markdown

        target = card_path(output)
        write_json(target, self.to_json(), force=force)
        write_text(target.with_suffix(".md"), markdown(self), force=force)
        return target

    def for_outputs(self, *paths: str | os.PathLike[str]) -> Card:
        """The same card about these files."""
        return replace(self, outputs=tuple(Output.of(path) for path in paths), signature=None)


def card_path(output: str | os.PathLike[str]) -> Path:
    """Where the card of an output stands."""
    target = Path(output)
    return target.with_name(f"{target.name}.card.json")


def read_card(path: str | os.PathLike[str]) -> Card:
    """Read a card file, or the card that stands next to an output."""
    named = Path(path)
    target = named if named.name.endswith(".card.json") else card_path(named)
    try:
        return Card.from_json(json.loads(target.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CardError(
            f"Expected a privacy card at {str(target)!r}, found none: "
            "an output without its card proves nothing."
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise CardError(f"The card at {str(target)!r} is not readable JSON.") from None


def check_outputs(card: Card, folder: str | os.PathLike[str]) -> None:
    """Raise unless every output named on the card is in ``folder`` with the same content."""
    for promised in card.outputs:
        path = Path(folder) / promised.name
        if not path.exists():
            raise CardError(f"The card names the output {promised.name!r}, which is not there.")
        found = Output.of(path)
        if found.sha256 != promised.sha256:
            raise CardError(
                f"The output {promised.name!r} is not the one on the card: its content has changed "
                "since, so the card's promise does not hold for it."
            )


def _digest_folder(folder: Path) -> tuple[str, int]:
    """Digest of names and contents of every file below ``folder``, in a fixed order."""
    digest, size = hashlib.sha256(), 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise CardError("A released folder holds plain files only, but one is a link.")
        if path.is_file():
            relative = path.relative_to(folder).as_posix()
            digest.update(f"{len(relative)}:{relative}:{sha256(path)}\n".encode())
            size += path.stat().st_size
    return digest.hexdigest(), size


def _refuse_paths(where: str, value: Any) -> None:
    match value:
        case None | bool() | int():
            return
        case float():
            if not math.isfinite(value):
                raise CardError(f"Expected finite numbers in {where}, got {value!r}.")
        case str():
            if ("/" in value or "\\" in value) and not _FRACTION.fullmatch(value):
                raise CardError(
                    f"The card's {where} would show a path, and paths name people: leave it out."
                )
        case Mapping():
            for key, item in value.items():
                _refuse_paths(f"{where}.{key}", item)
        case list() | tuple():
            for item in value:
                _refuse_paths(where, item)
        case _:
            raise CardError(f"Expected plain values in {where}, got {type(value).__name__}.")


def _versions() -> dict[str, str]:
    found = {"sfumato": __version__, "python": platform.python_version()}
    for package in _RECORDED_PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
