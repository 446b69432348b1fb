"""From the named files and folders to what a report shows, and to what it leaves out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.ledger import HistoryRow, Ledger, LedgerError, Statement
from sfumato.privacy import (
    Card,
    CardError,
    CardFor,
    Guarantee,
    NoCardError,
    card_for,
    card_path,
    check_page,
    check_signature,
    format_epsilon,
    says_private,
)
from sfumato.privacy.measures import MeasuresFile, is_measures, parse_measures, read_json
from sfumato.privacy.verdict import VerdictFile, parse_verdict
from sfumato.progress import track
from sfumato.report._learning import HISTORY, Learned, read_learned
from sfumato.report._pictures import (
    SUFFIXES,
    VIDEOS,
    Picture,
    PictureError,
    Strip,
    read_picture,
    read_strip,
)

_SIGNED = "signed by"
_SQLITE = b"SQLite format 3\0"
_CARD, _AUDIT, _MEASURES = ".card.json", ".audit.json", "measures.json"
# what a partner could take for a release; whatever has no card must be listed
_RECORDINGS = frozenset(
    {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts"}
    | {".wmv", ".gif", ".wav", ".flac", ".mp3", ".m4a", ".ogg", ".npz", ".safetensors"}
)


class ReportError(SfumatoError):
    """A report that cannot be made from what was given."""


@dataclass(frozen=True)
class ReportedRelease:
    """A card, whether its outputs are still the ones it speaks of, and the audit's verdict."""

    card: Card
    intact: str | None
    signer: str | None
    verdict: VerdictFile | None
    page_changed: bool = False

    @property
    def name(self) -> str:
        return ", ".join(output.name for output in self.card.outputs)

    @property
    def forged(self) -> bool:
        """Whether a signature does not fit the card it stands on."""
        return self.signer is not None and not self.signer.startswith(_SIGNED)

    @property
    def audit(self) -> tuple[str, str]:
        """Tone (good, bad, plain) and a sentence about the verdict of an audit."""
        if self.verdict is None:
            return "plain", "No verdict of an audit was given."
        return self.verdict.outcome(self.card)

    @property
    def status(self) -> tuple[str, str]:
        """What the release can be relied on for: a tone (good, warn, bad) and a few words."""
        promise = self.card.promise
        if self.intact == "changed":
            return "bad", "Changed since: the promise does not hold for it"
        if self.forged:
            return "bad", "The card was changed after it was signed"
        if self.page_changed:
            return "bad", "The readable page beside the card was changed"
        if not isinstance(promise, Guarantee):
            return "warn", "No guarantee: only measurements"
        if not promise.is_private:
            return "bad", "Test run: NOT PRIVATE"
        if self.audit[0] == "bad":
            return "bad", "Promise refuted by the audit"
        stated = f"epsilon {format_epsilon(promise.epsilon)}, {promise.terms}"
        if self.intact is None:
            return "warn", f"Promised: {stated}; its file was not here to be compared"
        return "good", f"Proven: {stated}"


@dataclass(frozen=True)
class Table:
    """Rows of a results file, as they stand."""

    title: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Collected:
    """Everything that was found, in an order that depends on the content of the folders only.

    ``left_out`` counts files that are not shown, ``private`` previews and exports that lie among
    them, ``without_card`` recordings and models that no card describes, ``unshown`` released videos
    that could not be decoded. ``statements`` and ``history`` come from ledgers.
    """

    releases: tuple[ReportedRelease, ...]
    measures: tuple[MeasuresFile, ...]
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    left_out: int
    private: int = 0
    without_card: int = 0
    strips: tuple[Strip, ...] = ()
    unshown: int = 0
    learned: tuple[Learned, ...] = ()
    statements: tuple[Statement, ...] = ()
    history: tuple[HistoryRow, ...] = ()


def collect(runs: Iterable[str | Path], *, with_originals: bool = False) -> Collected:
    """Read released files or folders with their cards, verdicts, measures, tables and pictures.

    | picture | what happens |
    | --- | --- |
    | a card vouches for its very content | shown as released |
    | no card does, named outright | shown under a red band, never as protected |
    | no card does, in a named folder | left out |
    | it says inside that it is a private preview | refused; in a folder left out and listed |
    | its name says that it is an original | refused, unless ``with_originals`` |
    """
    gathering = _Gathering(with_originals)
    for run in runs:
        gathering.add(Path(run))
    found = gathering.result()
    if not (found.releases or found.measures or found.tables or found.pictures or found.statements):
        raise ReportError(
            "Expected releases with their cards, measures or results to report on, found none: "
            "name the folder that holds them."
        )
    return found


class _Gathering:
    def __init__(self, with_originals: bool) -> None:
        self._with_originals = with_originals
        self._seen: set[Path] = set()
        self._cards: dict[Path, CardFor] = {}
        self._verdicts: dict[Path, VerdictFile] = {}
        self._measures: list[MeasuresFile] = []
        self._tables: list[Table] = []
        self._pictures: list[Picture] = []
        self._statements: list[Statement] = []
        self._history: list[HistoryRow] = []
        self._left_out = self._private = self._without_card = 0
        self._has_cards = cache(lambda folder: any(folder.glob("*" + _CARD)))

    def add(self, run: Path) -> None:
        if not run.exists():
            raise ReportError(f"Expected a file or folder at {str(run)!r}, found none.")
        # "." has no name that a card could stand beside
        whole = run if run.name not in {"", ".."} else Path(os.path.abspath(run))
        if whole.is_dir():
            self._folder(whole)
        else:
            self._file(whole)

    def _file(self, path: Path) -> None:
        if path.name.endswith(_CARD):
            self._card(card_for(path))
        elif says_private(path):
            raise PictureError(
                f"Expected something that may be shown, but {path.name!r} says of itself that it is a "
                "private preview or export of the originals: leave it out."
            )
        elif path.suffix.lower() in SUFFIXES:
            self._picture(path, vouched=self._vouched(path))
        elif _is_database(path):
            self._ledger(path)
        elif path.suffix.lower() == ".json" and not card_path(path).is_file():
            if not self._json(path):
                raise ReportError(
                    f"Expected a card, a verdict, measures or a results table in {path.name!r}, "
                    "got other JSON: see docs/report.md for what can be read."
                )
        else:
            self._card(card_for(path))

    def _folder(self, folder: Path) -> None:
        if card_path(folder).is_file():
            self._card(card_for(folder))
        else:
            self._measures_of(folder)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in files:
            if path.is_symlink():
                continue
            kind = path.suffix.lower()
            if path.name.endswith(_CARD):
                self._card(card_for(path))
            elif kind in SUFFIXES | {".json"} and says_private(path):
                self._private += 1
            elif path.name == HISTORY and card_path(path.with_name("model.safetensors")).is_file():
                continue  # shown with its model
            elif kind == ".json":
                self._left_out += not self._json(path)
            elif _is_database(path):
                try:
                    self._ledger(path)
                except LedgerError:
                    self._left_out += 1
            elif kind in SUFFIXES:
                if self._vouched(path):
                    self._picture(path, vouched=True)
                else:
                    self._left_out += 1
            elif kind in _RECORDINGS:
                self._without_card += self._speaker(path) is None

    def _speaker(self, path: Path) -> CardFor | None:
        """The card that speaks for a file, with its release; None where there is none."""
        around = (each for each in Path(os.path.abspath(path)).parents if each.name)
        beside = card_path(path).exists() or self._has_cards(path.parent)
        if not (beside or any(card_path(each).is_file() for each in around)):
            return None
        try:
            found = card_for(path)
        except NoCardError:
            return None
        return self._card(found)

    def _vouched(self, path: Path) -> bool:
        """True when a sound card speaks of this picture, or of a folder around it, as it is now."""
        found = self._speaker(path)
        return found is not None and _vouches(found)

    def _ledger(self, path: Path) -> None:
        if self._first_time(path):
            book = Ledger.open(path)
            self._statements += book.list()
            self._history += book.history()

    def _first_time(self, path: Path) -> bool:
        resolved = path.resolve()
        new = resolved not in self._seen
        self._seen.add(resolved)
        return new

    def _card(self, found: CardFor) -> CardFor:
        """Take in a card with the verdict and the measures beside it; the same card once."""
        if not self._first_time(found.path):
            return self._cards.setdefault(found.path.resolve(), found)
        self._cards[found.path.resolve()] = found
        released = found.path.with_name(found.path.name.removesuffix(_CARD))
        verdict = released.with_name(released.name + _AUDIT)
        if verdict.is_file() and self._first_time(verdict):
            self._verdicts[found.path.resolve()] = parse_verdict(read_json(verdict))
        self._measures_of(released)
        return found

    def _measures_of(self, released: Path) -> None:
        """What audits measured of a release and wrote beside it: ``X.measures.json``, ``X.*.measures.json``."""
        for file in sorted(released.parent.iterdir()) if released.name else ():
            rest = file.name.removeprefix(released.name + ".")
            if rest != file.name and (rest == _MEASURES or rest.endswith("." + _MEASURES)):
                self._json(file)

    def _json(self, path: Path) -> bool:
        """Read one JSON file; False when it is of no kind that a report shows."""
        if path.name.endswith(_AUDIT):
            card = path.with_name(path.name.removesuffix(_AUDIT) + _CARD)
            if not card.is_file():
                raise ReportError(
                    f"Expected the card that the verdict {path.name!r} is about beside it, found "
                    "none: a verdict without its promise says nothing."
                )
            self._card(card_for(card))
            return True
        value = read_json(path)
        if isinstance(value, dict) and value.get("schema") == "sfumato-card":
            raise ReportError(
                f"Expected a card to be named OUTPUT.card.json, got {path.name!r}: rename it."
            )
        if is_measures(path, value):
            if self._first_time(path):
                self._measures.append(parse_measures(value))
            return True
        table = _table(value)
        if table is not None and self._first_time(path):
            self._tables.append(table)
        return table is not None

    def _picture(self, path: Path, *, vouched: bool) -> None:
        if self._first_time(path):
            self._pictures.append(
                read_picture(path, with_originals=self._with_originals, vouched=vouched)
            )

    def result(self) -> Collected:
        files = [
            found.path.parent / output.name
            for found in self._cards.values()
            if _vouches(found)
            for output in found.card.outputs
        ]
        videos = [path for path in files if path.suffix.lower() in VIDEOS and path.is_file()]
        strips = [strip for path in track(videos, "videos") if (strip := read_strip(path))]
        releases = tuple(
            ReportedRelease(
                card=found.card,
                intact={"agrees": "intact", "changed": "changed", "absent": None}[found.state],
                signer=None if found.card.signature is None else _signer(found.card),
                verdict=self._verdicts.get(path),
                page_changed=_page_changed(found),
            )
            for path, found in self._cards.items()
        )
        return Collected(
            releases=releases,
            measures=tuple(self._measures),
            tables=tuple(self._tables),
            pictures=tuple(self._pictures),
            left_out=self._left_out,
            private=self._private,
            without_card=self._without_card,
            strips=tuple(strips),
            unshown=len(videos) - len(strips),
            learned=tuple(found for path in files if (found := read_learned(path))),
            statements=tuple(self._statements),
            history=tuple(self._history),
        )


def _vouches(found: CardFor) -> bool:
    """True when a card is sound and its outputs are what it says, as they are now."""
    if found.state != "agrees":
        return False
    return found.card.signature is None or _signer(found.card).startswith(_SIGNED)


def _is_database(path: Path) -> bool:
    if path.suffix.lower() not in {".db", ".sqlite", ".sqlite3"}:
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _page_changed(found: CardFor) -> bool:
    try:
        check_page(found)
    except CardError:
        return True
    return False


def _signer(card: Card) -> str:
    try:
        return f"{_SIGNED} {check_signature(card)}"
    except CardError:
        return "SIGNATURE DOES NOT FIT: the card was changed after it was signed"


def _table(value: Any) -> Table | None:
    """A results file: an object with ``rows``, each row an object."""
    rows = value.get("rows") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return None
    columns = tuple(dict.fromkeys(str(key) for row in rows for key in row))
    title = value.get("title")
    plain = (str, int, float, bool)
    return Table(
        title=title if isinstance(title, str) else None,
        columns=columns,
        rows=tuple(tuple(row.get(column) for column in columns) for row in rows),
        facts={k: v for k, v in value.items() if k != "title" and isinstance(v, plain)},
    )
