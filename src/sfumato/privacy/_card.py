"""The privacy card: what stands next to every output, for people and for machines.

A card describes the output and the promise, never the input: no path, name, digest or pixel of it.
What a signature covers is what is stored in the file, not what this version would write (R21).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.files import sha256, write_json, write_text
from sfumato.privacy._card_text import (
    CardError,
    refuse_control_characters,
    refuse_paths,
    same_words,
)
from sfumato.privacy._frame_review import FrameReview, content_digest
from sfumato.privacy._guarantee import Guarantee, NoGuarantee, promise_from_json

# 2 added what looked for people and the digest of the readable page, 3 who looked at the output
CARD_VERSION = 3
_NEW_IN_2 = frozenset({"detectors", "readable"})
_NEW_IN_3 = frozenset({"reviews"})
SUFFIX = ".card.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")


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
    that looks like a path is refused, because names of files and folders name people. ``detectors``
    says what looked for people, ``versions`` what really ran (``versions_of``). ``reviews`` are those
    of people who looked at the output: empty if nobody has, None if it shows no pictures.
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
    detectors: tuple[str, ...] = ()
    reviews: tuple[FrameReview, ...] | None = None
    created: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    versions: Mapping[str, str] = field(default_factory=lambda: versions_of())
    signature: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.model_of_trust not in {"central", "local"}:
            raise CardError(f"Expected trust 'central' or 'local', got {self.model_of_trust!r}.")
        if not self.outputs:
            raise CardError("A card describes at least one output, got none.")
        refuse_paths("settings", dict(self.settings))
        for output in self.outputs:
            if output.name != Path(output.name).name or output.name in {"", ".", ".."}:
                raise CardError("An output is named by its file name alone, without folders.")
        for review in self.reviews or ():
            if review.output != self.content:
                raise CardError(
                    "A review on the card is one of another output: it says nothing about this one."
                )
        refuse_control_characters(self._derived)

    @property
    def content(self) -> str:
        """One digest of the contents of all outputs: what a review binds itself to."""
        return content_digest(output.sha256 for output in self.outputs)

    def body(self) -> dict[str, Any]:
        """Everything that a signature covers: of a card that was read, what was stored."""
        return self.stored or {**self._derived, "readable": self.readable}

    @property
    def stored(self) -> dict[str, Any] | None:
        """What the file of this card says, but for the signature; None for a card made here."""
        found: dict[str, Any] | None = self.__dict__.get("_stored")
        return found

    @property
    def readable(self) -> str | None:
        """SHA-256 of the readable page; None on cards of version 1, which do not cover theirs."""
        if self.stored is not None:
            found: str | None = self.stored.get("readable")
            return found
        return hashlib.sha256(self.page.encode()).hexdigest()

    @cached_property
    def page(self) -> str:
        """The readable page as this version writes it."""
        from sfumato.privacy._card_page import markdown

        return markdown(self)

    @property
    def says_what_it_stored(self) -> bool:
        """Whether the stored words are those that this version derives from the promise.

        Versions may say the same better. Where this is false, only derived words may be shown.
        """
        words = None if self.stored is None else self.stored["promise_in_words"]
        return words is None or same_words(words, str(self.promise))

    @cached_property
    def _derived(self) -> dict[str, Any]:
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
            "detectors": list(self.detectors),
            "reviews": None if self.reviews is None else [each.to_json() for each in self.reviews],
            "created": self.created,
            "versions": dict(self.versions),
        }

    def canonical(self) -> bytes:
        """The bytes that are signed: one form for one content."""
        return json.dumps(
            self.body(), sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()

    def with_signature(self, signature: Mapping[str, str]) -> Card:
        """The same card, with what it stored, under a signature."""
        signed = replace(self, signature=dict(signature))
        if self.stored is not None:
            signed.__dict__["_stored"] = self.stored
        return signed

    def to_json(self) -> dict[str, Any]:
        signature = None if self.signature is None else dict(self.signature)
        return {**self.body(), "signature": signature}

    @classmethod
    def from_json(cls, value: Any) -> Card:
        """Read a card; whatever is wrong with it becomes one sentence.

        | card | what happens |
        | --- | --- |
        | of version 1 | is read; it names no detectors and does not cover its readable page |
        | of version 2 | is read; it does not say who looked at the output |
        | a review of another output, or one whose limit is better than its counts | refused |
        | another version, fields missing or unknown, values of another kind | refused |
        | control characters, or marks that turn the direction of text | refused |
        | words that do not follow from the promise | refused if this version wrote them |
        """
        if not isinstance(value, Mapping) or value.get("schema") != "sfumato-card":
            raise CardError("Expected a sfumato privacy card, got another kind of file.")
        version = value.get("version")
        if isinstance(version, bool) or version not in (1, 2, CARD_VERSION):
            raise CardError(f"Expected card version 1 to {CARD_VERSION}, got {version!r}.")
        try:
            refuse_control_characters(value)
            card = cls(
                method=_text(value["method"]),
                done=_text(value["done"]),
                promise=promise_from_json(value["promise"]),
                outputs=tuple(_output(each) for each in _list(value["outputs"])),
                settings=_mapping(value["settings"]),
                device=_text(value["device"]),
                model_of_trust=_text(value["model_of_trust"]),
                post_processing=_texts(value["post_processing"]),
                tuning=_text(value["tuning"]),
                temporary_files=_texts(value["temporary_files"]),
                detectors=() if version == 1 else _texts(value["detectors"]),
                reviews=None if version < 3 else _reviews(value["reviews"]),
                created=_text(value["created"]),
                versions={_text(k): _text(v) for k, v in _mapping(value["versions"]).items()},
                signature=_signature(value["signature"]),
            )
            if version != 1 and not _DIGEST.fullmatch(_text(value["readable"])):
                raise ValueError("readable")
            words = _text(value["promise_in_words"])
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            raise CardError(
                "Expected a complete card with values of the right kind, got one that lacks some: it "
                "was changed by hand, or written by another version."
            ) from None
        known = set(card._derived) | {"readable", "signature"}
        known -= _NEW_IN_3 if version < 3 else frozenset()
        known -= _NEW_IN_2 if version < 2 else frozenset()
        if set(value) != known:
            raise CardError("The card has fields that this version does not know, or lacks some.")
        card.__dict__["_stored"] = {k: v for k, v in value.items() if k != "signature"}
        own = version > 1 and card.versions.get("sfumato") == __version__
        if own and not same_words(words, str(card.promise)):
            raise CardError("The card's words and its promise do not agree: it was changed.")
        return card

    def write(self, output: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write ``OUTPUT.card.json`` and ``OUTPUT.card.md``; return the former's path.

        The page of a card that was read is left as it is: the card's digest is about that one.
        """
        target = card_path(output)
        write_json(target, self.to_json(), force=force)
        if self.stored is None:
            write_text(target.with_suffix(".md"), self.page, force=force)
        return target

    def reviewed(self, review: FrameReview) -> Card:
        """The same card with one more review and without a signature, which covered less."""
        earlier = self.reviews or ()
        if any(review.draw == each.draw for each in earlier):
            raise CardError(
                "Expected answers that are not on the card yet, got those of a draw that is: draw a new "
                "sample to look once more."
            )
        return replace(self, reviews=(*earlier, review), signature=None)


def counted_under(reservation: object) -> dict[str, str]:
    """The ledger's key of what a release is counted under, as a setting of its card."""
    key = getattr(reservation, "key", None)
    return {} if key is None else {"ledger_key": key}


def card_path(output: str | os.PathLike[str]) -> Path:
    """Where the card of an output stands."""
    target = named_path(output)
    return target.with_name(target.name + SUFFIX)


def named_path(path: str | os.PathLike[str]) -> Path:
    """The same path, spelled so that it ends in a name: ``.`` and ``..`` have none."""
    target = Path(path)
    if target.name in {"", ".."}:
        target = Path(os.path.abspath(target))
    if not target.name:
        raise CardError("Expected a file or a folder, got the whole disk: name the release.")
    return target


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


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(each) for each in _list(value))


def _reviews(value: Any) -> tuple[FrameReview, ...] | None:
    return None if value is None else tuple(FrameReview.from_json(each) for each in _list(value))


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _output(value: Any) -> Output:
    found = _mapping(value)
    if set(found) != {"name", "sha256", "size"} or not _DIGEST.fullmatch(_text(found["sha256"])):
        raise ValueError
    if isinstance(found["size"], bool) or not isinstance(found["size"], int) or found["size"] < 0:
        raise TypeError
    return Output(name=_text(found["name"]), sha256=found["sha256"], size=found["size"])


def _signature(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    found = _mapping(value)
    if set(found) != {"algorithm", "public_key", "value"} or found["algorithm"] != "ed25519":
        raise ValueError
    return {name: _text(each) for name, each in found.items()}


def versions_of(*packages: str) -> dict[str, str]:
    """Versions of sfumato, of what computes a promise, and of the ``packages`` that a run used."""
    found = {"sfumato": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", *packages):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found
