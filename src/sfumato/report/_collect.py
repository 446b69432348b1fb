"""From the named files and folders to what a report shows, and to what it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.privacy import Card, CardError, card_path, check_outputs, read_card
from sfumato.privacy._signature import check_signature
from sfumato.report._measures import MeasuresFile, is_measures, parse_measures, read_json
from sfumato.report._pictures import SUFFIXES, Picture, read_picture
from sfumato.report._verdict import Verdict, parse_verdict

_CARD, _AUDIT = ".card.json", ".audit.json"


class ReportError(SfumatoError):
    """A report that cannot be made from what was given."""


@dataclass(frozen=True)
class Release:
    """A card, whether its outputs are still the ones it speaks of, and the audit's verdict."""

    card: Card
    intact: str | None
    signer: str | None
    verdict: Verdict | None

    @property
    def name(self) -> str:
        return ", ".join(output.name for output in self.card.outputs)


@dataclass(frozen=True)
class Table:
    """Rows of a results file, as they stand."""

    title: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Collected:
    """Everything that was found, in an order that depends on the content of the folders only."""

    releases: tuple[Release, ...]
    measures: tuple[MeasuresFile, ...]
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    left_out: int


def collect(runs: Iterable[str | Path], *, with_originals: bool = False) -> Collected:
    """Read released files or folders with their cards, verdicts, measures, tables and pictures.

    A picture is shown when it was named outright, or when it lies in a named folder and a card
    vouches for its very content. One whose name says that it is an original is refused, unless
    ``with_originals``.
    """
    gathering = _Gathering(with_originals)
    for run in runs:
        gathering.add(Path(run))
    found = gathering.result()
    if not (found.releases or found.measures or found.tables or found.pictures):
        raise ReportError(
            "Expected releases with their cards, measures or results to report on, found none: "
            "name the folder that holds them."
        )
    return found


class _Gathering:
    def __init__(self, with_originals: bool) -> None:
        self._with_originals = with_originals
        self._seen: set[Path] = set()
        self._cards: dict[Path, Card] = {}
        self._verdicts: dict[Path, Verdict] = {}
        self._measures: list[MeasuresFile] = []
        self._tables: list[Table] = []
        self._pictures: list[Picture] = []
        self._vouchers: dict[Path, bool] = {}
        self._left_out = 0

    def add(self, run: Path) -> None:
        if run.is_dir():
            self._folder(run)
        elif not run.exists():
            raise ReportError(f"Expected a file or folder at {str(run)!r}, found none.")
        else:
            self._file(run)

    def _file(self, path: Path) -> None:
        if path.name.endswith(_CARD):
            self._card(path)
        elif path.suffix.lower() in SUFFIXES:
            if card_path(path).is_file():
                self._card(card_path(path))
            self._picture(path)
        elif path.suffix.lower() == ".json" and not card_path(path).is_file():
            if not self._json(path):
                raise ReportError(
                    f"Expected a card, a verdict, measures or a results table in {path.name!r}, "
                    "got other JSON: see docs/report.md for what can be read."
                )
        else:
            read_card(path)  # says what is wrong when there is none
            self._card(card_path(path))

    def _folder(self, folder: Path) -> None:
        if card_path(folder).is_file():
            self._card(card_path(folder))
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            if path.name.endswith(_CARD):
                self._card(path)
            elif path.suffix.lower() == ".json":
                self._left_out += not self._json(path)
            elif path.suffix.lower() in SUFFIXES:
                if self._vouched(path, folder):
                    self._picture(path)
                else:
                    self._left_out += 1

    def _vouched(self, path: Path, named: Path) -> bool:
        """True when a card speaks of this picture, or of a folder around it, as it is now."""
        around = [path]
        while around[-1] != named:
            around.append(around[-1].parent)
        for output in around:
            if card_path(output).is_file():
                if output not in self._vouchers:
                    self._vouchers[output] = _intact(read_card(output), output.parent) == "intact"
                return self._vouchers[output]
        return False

    def _first_time(self, path: Path) -> bool:
        resolved = path.resolve()
        new = resolved not in self._seen
        self._seen.add(resolved)
        return new

    def _card(self, path: Path) -> None:
        if not self._first_time(path):
            return
        self._cards[path] = read_card(path)
        released = path.name.removesuffix(_CARD)
        beside = path.with_name(f"{released}{_AUDIT}")
        if beside.is_file() and self._first_time(beside):
            self._verdicts[path.resolve()] = parse_verdict(read_json(beside))
        measured = path.with_name(f"{released}.measures.json")
        if measured.is_file():
            self._json(measured)

    def _json(self, path: Path) -> bool:
        """Read one JSON file; False when it is of no kind that a report shows."""
        if path.name.endswith(_AUDIT):
            card = path.with_name(path.name.removesuffix(_AUDIT) + _CARD)
            if not card.is_file():
                raise ReportError(
                    f"Expected the card that the verdict {path.name!r} is about beside it, found "
                    "none: a verdict without its promise says nothing."
                )
            self._card(card)
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

    def _picture(self, path: Path) -> None:
        if self._first_time(path):
            self._pictures.append(read_picture(path, with_originals=self._with_originals))

    def result(self) -> Collected:
        releases = tuple(
            Release(
                card=card,
                intact=_intact(card, path.parent),
                signer=None if card.signature is None else _signer(card),
                verdict=self._verdicts.get(path.resolve()),
            )
            for path, card in self._cards.items()
        )
        return Collected(
            releases=releases,
            measures=tuple(self._measures),
            tables=tuple(self._tables),
            pictures=tuple(self._pictures),
            left_out=self._left_out,
        )


def _intact(card: Card, folder: Path) -> str | None:
    """``intact``, ``changed``, or None when the outputs are not here to be compared."""
    if not all((folder / output.name).exists() for output in card.outputs):
        return None
    try:
        check_outputs(card, folder)
    except CardError:
        return "changed"
    return "intact"


def _signer(card: Card) -> str:
    try:
        return f"signed by {check_signature(card)}"
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
