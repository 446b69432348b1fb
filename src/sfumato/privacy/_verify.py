"""What ``sfumato verify`` decides about an output or a folder: card, content, page and signature."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.privacy._card import SUFFIX, Card, card_path
from sfumato.privacy._card_files import CardFor, NoCardError, card_for, check_outputs, check_page
from sfumato.privacy._card_text import CardError
from sfumato.privacy._frame_review import NOBODY_LOOKED, content_digest, format_reviews
from sfumato.privacy._private_note import says_private
from sfumato.privacy._signature import check_signature, sign


@dataclass(frozen=True)
class Verified:
    """A card that agrees with its outputs; ``remarks`` are what a reader must know beside that."""

    found: CardFor
    signer: str | None
    page: str
    remarks: list[str] = field(default_factory=list)

    @property
    def card(self) -> Card:
        return self.found.card

    @property
    def who_looked(self) -> list[str]:
        """What people saw who looked at the output, or that nobody has; nothing for a model."""
        return [] if self.card.reviews is None else [format_reviews(self.card.reviews)]

    def to_json(self) -> dict[str, Any]:
        return {
            "agree": True,
            "outputs": [each.name for each in self.card.outputs],
            "promise": self.card.promise.to_json(),
            "readable_page": self.page,
            "signed_by": self.signer,
            "reviews": None
            if self.card.reviews is None
            else [review.to_json() for review in self.card.reviews],
            "remarks": self.remarks,
        }


def verify_output(
    path: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    signed: bool = False,
    sign_with: str | os.PathLike[str] | None = None,
) -> Verified:
    """Raise unless the card that speaks for ``path`` names it and everything on it still holds.

    Every output on the card must be there with its content, the readable page must be the one that
    was written with the card, and a signature, where there is one or one is demanded (``signed``, or
    by ``key``), must cover what is stored. ``sign_with`` signs the card that passed all that.
    """
    found = card_for(path)
    check_outputs(found.card, found.path.parent)
    page = check_page(found)
    if sign_with is not None:
        found = CardFor(sign(found.card, sign_with), found.path, found.output)
        found.card.write(
            found.path.with_name(found.path.name.removesuffix(".card.json")), force=True
        )
    signer = None
    if key is not None or signed or found.card.signature is not None:
        signer = check_signature(found.card, key)
    return Verified(found, signer, page, _remarks(found.card, page))


def _remarks(card: Card, page: str) -> list[str]:
    said = []
    if page == "not covered":
        said.append(
            "The card is of version 1, which does not cover its readable page (.card.md): rely on "
            "what is printed here."
        )
    if not card.says_what_it_stored:
        said.append(
            "The words stored on the card are not those that this version derives from its promise: "
            "rely on what is printed here."
        )
    return said


@dataclass(frozen=True)
class VerifiedFolder:
    """Every file of a folder: the cards that hold, and what no card holds for, with the reason."""

    cards: tuple[Verified, ...]
    problems: dict[str, str]

    @property
    def agree(self) -> bool:
        return not self.problems

    @property
    def who_looked(self) -> list[str]:
        """What people saw who looked at the release, once for all cards that say the same."""
        shown = [each.card for each in self.cards if each.card.reviews is not None]
        said = {review.of_release: review for card in shown for review in card.reviews or ()}
        words = list(said)
        whole = content_digest(each.card.content for each in self.cards)
        if any(review.recordings > 1 and review.release != whole for review in said.values()):
            words.append(
                "A review on these cards is one of another set of recordings than this folder holds: "
                "its limit is not one for this folder."
            )
        unseen = sum(not card.reviews for card in shown)
        if unseen:
            words.append(f"{unseen} of {len(shown)} outputs: {NOBODY_LOOKED}")
        return words

    def to_json(self) -> dict[str, Any]:
        return {
            "agree": self.agree,
            "cards": [each.to_json() for each in self.cards],
            "problems": [{"name": name, "reason": why} for name, why in self.problems.items()],
        }


def has_card_of_its_own(folder: Path) -> bool:
    """Whether one card speaks for a released folder as a whole, or for one around it."""
    whole = Path(os.path.abspath(folder))
    return any(each.name and card_path(each).is_file() for each in (whole, *whole.parents))


def verify_folder(
    folder: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    signed: bool = False,
    sign_with: str | os.PathLike[str] | None = None,
) -> VerifiedFolder:
    """Check every card below ``folder``, and that every file below it is named by one of them.

    ``sign_with`` signs the cards once all of it agrees; nothing is signed otherwise.
    """
    root = Path(folder)
    files = {path.relative_to(root).as_posix(): path for path in _files(root)}
    paths = [path for path in files.values() if path.name.endswith(SUFFIX)]
    if not paths:
        raise NoCardError(
            "Expected a folder of outputs with their privacy cards, found no card in it: an output "
            "without its card proves nothing."
        )
    verified: list[Verified] = []
    problems: dict[str, str] = {}
    for path in paths:
        name = path.relative_to(root).as_posix()
        try:
            verified.append(verify_output(path, key=key, signed=signed))
        except SfumatoError as error:
            problems[name] = str(error)
    covered = {place for each in verified for place in _covered(each)}
    for name, path in files.items():
        if path.is_symlink():
            problems[name] = "A link: what it leads to is no part of the release."
        elif name not in problems and covered.isdisjoint((path, *path.parents)):
            problems[name] = _uncovered(path)
    if sign_with is not None and not problems:
        verified = [verify_output(path, key=key, sign_with=sign_with) for path in paths]
    return VerifiedFolder(tuple(verified), dict(sorted(problems.items())))


def _uncovered(path: Path) -> str:
    """Why a file that no card describes must not be taken for a part of the release."""
    if path.name.endswith((".audit.json", ".audit.md", ".measures.json")):
        return "An audit wrote it, no card describes it: keep it apart from what is released."
    if path.is_file() and os.access(path, os.R_OK) and says_private(path):
        return "It says of itself that it is a private preview or export: move it away."
    return "No card describes it."


def _covered(verified: Verified) -> Iterator[Path]:
    """The files that a card stands for: its outputs, itself and its readable page."""
    card = verified.found.path
    yield card
    yield card.with_suffix(".md")
    for output in verified.card.outputs:
        yield card.parent / output.name


def _files(root: Path) -> Iterator[Path]:
    """Everything below a folder but plain folders; links are named, not followed."""

    def unreadable(error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        raise CardError(
            f"Expected a folder that can be read throughout, got {reason!r} inside: check it."
        ) from None

    for place, folders, files in os.walk(root, onerror=unreadable):
        folders.sort()
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted([*files, *links]):
            yield Path(place, name)
