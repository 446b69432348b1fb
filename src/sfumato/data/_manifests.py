"""One's own recordings: a list beside them (CSV or JSON lines) with path, label, owner, mask, attributes."""

from __future__ import annotations

import csv
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._audio import log_mel, read_wav
from sfumato.data._problems import Problems, require_some
from sfumato.data._records import IterableRecords, Record, RecordsError
from sfumato.data._videos import (
    RELEASE_PARTS,
    VIDEO_SUFFIXES,
    Sampling,
    VideoItem,
    VideoRecords,
)
from sfumato.errors import reading
from sfumato.files import sha256
from sfumato.media import IMAGE_SUFFIXES, read_image

_COLUMNS = ("path", "label", "owner", "mask", "split")
_ATTRIBUTE = "attribute:"  # before the name of one, in the first line of a CSV
_SEVERAL = ";"  # between the owners of one recording


@dataclass(frozen=True)
class _Row:
    """One line of the file, by the number that an editor shows."""

    number: int
    path: Path
    label: str
    owners: tuple[str, ...]
    mask: Path | None
    split: str
    attributes: Mapping[str, str | int | float]


@reading("an array of numbers (.npy)", RecordsError)
def _read_array(path: Path) -> npt.NDArray[Any]:
    values = np.load(path, allow_pickle=False)
    if values.ndim == 0 or values.dtype.kind not in "biuf":
        raise RecordsError(f"Expected numbers, got {values.dtype} of shape {values.shape}.")
    return np.asarray(values)


def _read_spoken(path: Path) -> npt.NDArray[np.uint8]:
    """A recording as AudioMNIST's are: a log-mel picture of one second around the middle."""
    rate, sound = read_wav(path)
    if len(sound) == 0:
        raise RecordsError("Expected recordings with sound in them, got an empty one.")
    return log_mel(sound, rate)[..., None]


# what a list may name, by the kind of its files; videos are read by VideoRecords
_READERS: dict[str, tuple[frozenset[str], Callable[[Path], npt.NDArray[Any]]]] = {
    "picture": (frozenset(IMAGE_SUFFIXES), read_image),
    "sound": (frozenset({".wav"}), _read_spoken),
    "array": (frozenset({".npy"}), _read_array),
}


class ListedFiles(IterableRecords):
    """Pictures, sounds (as log-mel pictures) or arrays with labels, read when asked for."""

    def __init__(self, items: Sequence[VideoItem], classes: Sequence[str], kind: str) -> None:
        self.items, self.classes, self.problems = tuple(items), tuple(classes), Problems()
        self.kind, self._read = kind, _READERS[kind][1]
        require_some(self.items, "files", self.problems)

    @property
    def owners(self) -> list[tuple[str, ...]]:
        """Owners of every record, without reading a file."""
        return [item.owners for item in self.items]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Record:
        item = self.items[index]
        x = self._read(item.path)
        mask = None
        if item.mask is not None:
            mask = _mask(item.mask, x.shape if self.kind == "array" else x.shape[:2])
        return Record(x, item.label, mask, item.owners, item.attributes)


def manifest(
    file: str | os.PathLike[str],
    split: str | None = None,
    *,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    sampling: Sampling | None = None,
) -> VideoRecords | ListedFiles:
    """The recordings that a CSV or a file of JSON lines (.jsonl) lists, with paths from its own folder.

    | column | |
    | --- | --- |
    | ``path`` | of a video, a picture, a sound (.wav) or an array (.npy), below the folder of the list |
    | ``label`` | name of the class |
    | ``owner`` | whose it is; several people with ``;`` between them. For unit person |
    | ``mask`` | bright or True where a pixel is public: .npy, .npz, a picture or a video |
    | ``split`` | rows of which ``split`` asks for one kind |
    | ``attribute:NAME`` | what else is known of it; in JSON lines ``attributes``, an object |

    All files are of one kind. ``label`` of a training file may name an attribute instead. ``classes`` are public and in the order of the model's outputs; unsaid, they are the labels of the
    whole file, sorted. Whatever is wrong with a row is an error that names its number: a list of
    one's own is mended, not guessed at.
    """
    listing = Path(file)
    rows = _rows(listing)
    if label is not None:
        rows = [_labelled_by(listing, row, label) for row in rows]
    names = list(classes) if classes is not None else sorted({row.label for row in rows})
    if split is not None:
        rows = [row for row in rows if row.split == split]
        if not rows:
            raise RecordsError(
                f"Expected rows of the split {split!r} in {listing.name}, found none: name one that "
                "the column split has."
            )
    seen: dict[Path, int] = {}
    kinds = {"video": VIDEO_SUFFIXES, **{kind: ends for kind, (ends, _) in _READERS.items()}}
    found: dict[str, list[VideoItem]] = {kind: [] for kind in kinds}
    for row in rows:
        if row.label not in names:
            raise _wrong(
                listing, row.number, "a label out of the classes that were named", "another"
            )
        if row.path in seen:
            raise _wrong(listing, row.number, "every recording once",
                         f"the one of row {seen[row.path]} again")  # fmt: skip
        seen[row.path] = row.number
        kind = next((k for k, ends in kinds.items() if row.path.suffix.lower() in ends), None)
        if kind is None:
            raise _wrong(
                listing,
                row.number,
                "a video, a picture, a .wav or a .npy",
                "a file of another kind",
            )
        found[kind].append(
            VideoItem(
                row.path, names.index(row.label), row.owners, row.attributes, row.mask,
                _layer(listing, row),
            )
        )  # fmt: skip
    _refuse_copies(listing, rows)
    several = [kind for kind, items in found.items() if items]
    if len(several) > 1:
        raise RecordsError(
            f"Expected files of one kind in {listing.name}, got {' and '.join(several)}: make one list "
            "of each."
        )
    if several == ["video"]:
        return VideoRecords(found["video"], names, sampling=sampling, tolerant=False)
    return ListedFiles(found[several[0]], names, several[0])


@reading("a list of recordings (CSV or JSON lines, UTF-8)", RecordsError)
def _rows(listing: Path) -> list[_Row]:
    if not listing.is_file():
        raise RecordsError(
            f"Expected a list with a row for each recording, but there is no file {listing.name}."
        )
    told = _json_lines(listing) if listing.suffix.lower() == ".jsonl" else _csv_lines(listing)
    rows = [_row(listing, number, cells) for number, cells in told]
    if not rows:
        raise RecordsError(f"Expected a row for each recording in {listing.name}, found none.")
    if len({frozenset(row.attributes) for row in rows}) > 1:
        raise RecordsError(f"Expected the same attributes in every row of {listing.name}.")
    _refuse_two_spellings(listing, rows)
    return rows


def _refuse_two_spellings(listing: Path, rows: Sequence[_Row]) -> None:
    """A person under two names would be two people, with a coin each."""
    spelling: dict[str, str] = {}
    for row in rows:
        for name in row.owners:
            folded = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
            if spelling.setdefault(folded, name) != name:
                raise _wrong(listing, row.number, "every person under one spelling",
                             "a name that was written otherwise above: two names would be two people "
                             "with a coin each")  # fmt: skip


def _csv_lines(listing: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with listing.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, strict=True)
        columns = list(reader.fieldnames or ())
        _check_names(listing, [c for c in columns if not c.startswith(_ATTRIBUTE)], columns)
        for cells in reader:
            if None in cells or None in cells.values():
                raise _wrong(listing, reader.line_num, f"{len(columns)} cells, as in the first line",
                             "more or fewer")  # fmt: skip
            known = {name: cell.strip() for name, cell in cells.items()}
            attributes = {
                name.removeprefix(_ATTRIBUTE).strip(): cell
                for name, cell in known.items()
                if name.startswith(_ATTRIBUTE)
            }
            people = known.get("owner", "").split(_SEVERAL)
            yield reader.line_num, {**known, "owner": people, "attributes": attributes}


def _json_lines(listing: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with listing.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                told = json.loads(line)
            except json.JSONDecodeError:
                told = None
            if not isinstance(told, dict):
                raise _wrong(listing, number, "an object with path and label", "something else")
            _check_names(listing, [name for name in told if name != "attributes"], list(told))
            people = told.get("owner") or []
            people = people.split(_SEVERAL) if isinstance(people, str) else people
            cells = {
                name: str(value)
                for name, value in told.items()
                if name in _COLUMNS and value is not None
            }
            yield number, {**cells, "owner": people, "attributes": told.get("attributes") or {}}


def _check_names(listing: Path, names: Sequence[str], shown: Sequence[str]) -> None:
    if not {"path", "label"} <= set(names) <= set(_COLUMNS):
        raise RecordsError(
            f"Expected the columns path and label, and owner, mask, split or {_ATTRIBUTE}NAME, in the "
            f"first line of {listing.name} (JSON lines: attributes), got "
            f"{', '.join(map(repr, shown[:6])) or 'none'}."
        )


def _row(listing: Path, number: int, told: Mapping[str, Any]) -> _Row:
    if not told.get("path") or not told.get("label"):
        raise _wrong(listing, number, "a path and a label", "an empty cell")
    people, attributes = told["owner"], told["attributes"]
    if not (isinstance(people, list) and all(isinstance(name, str) for name in people)):
        raise _wrong(listing, number, "names as owners", "something else")
    values = attributes.values() if isinstance(attributes, dict) else [None]
    if any(not isinstance(v, str | int | float) or (isinstance(v, str) and not v) for v in values):
        raise _wrong(listing, number, "a name or a number as every attribute", "something else")
    mask = told.get("mask") or None
    return _Row(
        number,
        _below(listing, number, told["path"]),
        told["label"],
        tuple(name.strip() for name in people if name.strip()),
        None if mask is None else _below(listing, number, mask),
        told.get("split", ""),
        attributes,
    )


def _labelled_by(listing: Path, row: _Row, attribute: str) -> _Row:
    if attribute not in row.attributes:
        raise RecordsError(
            f"Expected the label {attribute!r} as an attribute in {listing.name}, found none."
        )
    return replace(row, label=str(row.attributes[attribute]))


def _below(listing: Path, number: int, text: str) -> Path:
    """The file that a cell names; nothing outside the folder of the list, through links neither."""
    folder = listing.resolve().parent
    try:
        path = (folder / text).resolve()
        there = path.is_file()
    except (OSError, ValueError):
        raise _wrong(listing, number, "the name of a file", "something else") from None
    if not path.is_relative_to(folder):
        raise _wrong(
            listing, number, f"a path below the folder of {listing.name}", "one outside it"
        )
    if not there:
        raise _wrong(listing, number, "a file that is there", "the name of none")
    return path


def _layer(listing: Path, row: _Row) -> Path | None:
    """The lossless public pixels beside an exact mask: the video's own are not public (R8)."""
    exact, layer = RELEASE_PARTS
    if row.mask is None or not row.mask.name.endswith(exact):
        return None
    found = row.mask.with_name(row.mask.name.removesuffix(exact) + layer)
    if not found.is_file():
        raise _wrong(listing, row.number, "the public layer beside an exact mask", "none")
    return found


@reading("a mask that belongs to its recording", RecordsError)
def _mask(path: Path, size: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    stored: Any
    if path.suffix == ".npy":
        stored = np.load(path, allow_pickle=False) > 0
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as several:
            name = "mask" if "mask" in several.files else several.files[0]
            stored = several[name] > 0
    else:
        stored = read_image(path)[..., 0] > 127
    if stored.shape != size:
        raise RecordsError(
            f"Expected a mask of shape {tuple(size)} like its recording, got {stored.shape}: make the "
            "masks again."
        )
    return np.asarray(stored, dtype=bool)


def _refuse_copies(listing: Path, rows: Sequence[_Row]) -> None:
    """One recording under two names would have two coins, and move the sum twice as far."""
    sizes = Counter(row.path.stat().st_size for row in rows)
    seen: dict[str, int] = {}
    for row in rows:
        if sizes[row.path.stat().st_size] < 2:
            continue
        content = sha256(row.path)
        if content in seen:
            raise _wrong(listing, row.number, "every recording once",
                         f"a copy of the one of row {seen[content]}")  # fmt: skip
        seen[content] = row.number


def _wrong(listing: Path, number: int, expected: str, got: str) -> RecordsError:
    return RecordsError(f"Expected {expected} in row {number} of {listing.name}, got {got}.")
