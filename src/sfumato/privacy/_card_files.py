"""Which card speaks for a file, and whether the files are still those on the card."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from sfumato.errors import SfumatoError
from sfumato.files import parse_json, sha256
from sfumato.privacy._card import SUFFIX, Card, Output, card_path, named_path
from sfumato.privacy._card_text import CardError

_LARGEST = 1 << 24


class NoCardError(CardError):
    """No card stands beside an output."""


@dataclass(frozen=True)
class CardFor:
    """The one card that speaks for an output: it names it, and lies where it belongs.

    ``output`` is what the card names: the file that was asked about, or the folder around it.
    """

    card: Card
    path: Path
    output: Path

    @cached_property
    def state(self) -> Literal["agrees", "changed", "absent"]:
        """Whether every output on the card is there with the content on the card."""
        present = [each for each in self.card.outputs if (self.path.parent / each.name).exists()]
        try:
            for promised in present:
                _check_output(promised, self.path.parent)
        except CardError:
            return "changed"
        return "agrees" if len(present) == len(self.card.outputs) else "absent"


def card_for(path: str | os.PathLike[str]) -> CardFor:
    """Which card speaks for this file: the one decision behind verify, audit and report (R21).

    ``path`` is an output, something inside a released folder, or a card file. The card must name the
    output it stands beside; a companion (a public layer) is named by the card of its recording.

    | asked about | what happens |
    | --- | --- |
    | an output that is not there | refused, whatever card lies beside its place |
    | a card that names other files only, signed or not | refused |
    | a card file whose output is not here | found; its ``state`` is ``absent`` |
    """
    asked = named_path(path)
    if asked.name.endswith(SUFFIX):
        return _beside(asked.with_name(asked.name.removesuffix(SUFFIX)))
    if card_path(asked).exists():
        if not asked.exists():
            raise CardError(
                f"Expected an output at {str(path)!r}, found none: the card beside its place says "
                "nothing about a file that is not there."
            )
        return _beside(asked)
    if not asked.exists():
        return _beside(asked)  # which says that there is no card
    for folder in Path(os.path.abspath(asked)).parents:
        if folder.name and card_path(folder).is_file():
            return _beside(folder)
    for file in sorted(asked.parent.glob("*" + SUFFIX)):
        if (found := _naming(file, asked.name)) is not None:
            return CardFor(found, file, asked)
    return _beside(asked)


def checked_card(path: str | os.PathLike[str]) -> Card:
    """The card that speaks for an output, whose content it still describes; raises otherwise."""
    found = card_for(path)
    check_outputs(found.card, found.path.parent)
    return found.card


def read_card(path: str | os.PathLike[str]) -> Card:
    """The card in a card file, or beside an output. It must name that output, be it there or not."""
    asked = named_path(path)
    return _beside(asked.with_name(asked.name.removesuffix(SUFFIX))).card


def _beside(output: Path) -> CardFor:
    file = card_path(output)
    card = _load(file)
    if output.name not in {each.name for each in card.outputs}:
        named = ", ".join(repr(each.name) for each in card.outputs)
        raise CardError(
            f"The card {file.name!r} speaks for {named}, not for {output.name!r}: it belongs to "
            "another output, so it says nothing about this one."
        )
    return CardFor(card, file, output)


def _naming(file: Path, name: str) -> Card | None:
    """The card in ``file`` if it belongs to its own output and names ``name`` beside it."""
    try:
        # a cheap look first: reading a card computes its epsilon again
        if json.dumps(name, ensure_ascii=False) not in file.read_text(encoding="utf-8"):
            return None
        found = _beside(file.with_name(file.name.removesuffix(SUFFIX))).card
    except (OSError, ValueError, SfumatoError):
        return None
    return found if name in {each.name for each in found.outputs} else None


def _load(file: Path) -> Card:
    try:
        if file.stat().st_size > _LARGEST:
            raise CardError(f"Expected a card in {file.name!r}, got a file too large for one.")
        return Card.from_json(parse_json(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NoCardError(
            f"Expected a privacy card {file.name!r} beside the output, found none: "
            "an output without its card proves nothing."
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CardError(
            f"Expected a card that can be read in {file.name!r}, got {reason!r}: check it."
        ) from None
    except ValueError:
        raise CardError(
            f"The card {file.name!r} is not readable JSON: it was changed, or is cut off."
        ) from None


def check_outputs(card: Card, folder: str | os.PathLike[str]) -> None:
    """Raise unless every output named on the card is in ``folder`` with the same content."""
    for promised in card.outputs:
        if not (Path(folder) / promised.name).exists():
            raise CardError(f"The card names the output {promised.name!r}, which is not there.")
        _check_output(promised, Path(folder))


def _check_output(promised: Output, folder: Path) -> None:
    if Output.of(folder / promised.name).sha256 != promised.sha256:
        raise CardError(
            f"The output {promised.name!r} is not the one on the card: its content has changed "
            "since, so the card's promise does not hold for it."
        )


def check_page(found: CardFor) -> Literal["agrees", "absent", "not covered"]:
    """Raise unless the readable page beside a card is the one that was written with it.

    Cards of version 1 do not cover theirs: whatever it says, only the card itself counts.
    """
    page = found.path.with_suffix(".md")
    if found.card.readable is None:
        return "not covered"
    if not page.exists():
        return "absent"
    if not page.is_file() or sha256(page) != found.card.readable:
        raise CardError(
            f"The readable page {page.name!r} is not the one that was written with its card: it was "
            "changed since. Remove it, and read what sfumato verify prints."
        )
    return "agrees"
