"""One's own recordings: a CSV beside them with a row each: path, label, and owner, mask and split."""

from __future__ import annotations

import csv
import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, some
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


class PictureFiles(IterableRecords):
    """Pictures with labels, read when asked for."""

    def __init__(self, items: Sequence[VideoItem], classes: Sequence[str]) -> None:
        self.items, self.classes, self.problems = tuple(items), tuple(classes), Problems()
        some(self.items, "pictures", self.problems)

    @property
    def owners(self) -> list[tuple[str, ...]]:
        """Owners of every record, without reading a picture."""
        return [item.owners for item in self.items]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Record:
        item = self.items[index]
        x = read_image(item.path)
        mask = None if item.mask is None else _picture_mask(item.mask, x.shape[:2])
        return Record(x, item.label, mask, item.owners)


def manifest(
    file: str | os.PathLike[str],
    split: str | None = None,
    *,
    classes: Sequence[str] | None = None,
    sampling: Sampling | None = None,
) -> VideoRecords | PictureFiles:
    """The recordings that a CSV lists, all pictures or all videos, with paths from its own folder.

    | column | |
    | --- | --- |
    | ``path`` | of a picture or a video, relative to the CSV and below its folder |
    | ``label`` | name of the class |
    | ``owner`` | whose it is; several people with ``;`` between them. For unit person |
    | ``mask`` | bright or True where a pixel is public: .npy, .npz, a picture or a video |
    | ``split`` | rows of which ``split`` asks for one kind |

    ``classes`` are public and in the order of the model's outputs; unsaid, they are the labels of the
    whole file, sorted. Whatever is wrong with a row is an error that names its number: a list of
    one's own is mended, not guessed at.
    """
    listing = Path(file)
    rows = _rows(listing)
    names = list(classes) if classes is not None else sorted({row.label for row in rows})
    if split is not None:
        rows = [row for row in rows if row.split == split]
        if not rows:
            raise RecordsError(
                f"Expected rows of the split {split!r} in {listing.name}, found none: name one that "
                "the column split has."
            )
    seen: dict[Path, int] = {}
    kinds = {"video": VIDEO_SUFFIXES, "picture": IMAGE_SUFFIXES}
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
            raise _wrong(listing, row.number, "a picture or a video", "a file of another kind")
        found[kind].append(
            VideoItem(
                row.path, names.index(row.label), row.owners, {}, row.mask, _layer(listing, row)
            )
        )
    _refuse_copies(listing, rows)
    if found["video"] and found["picture"]:
        raise RecordsError(
            f"Expected pictures alone or videos alone in {listing.name}, got both: make one list of "
            "each."
        )
    if found["picture"]:
        return PictureFiles(found["picture"], names)
    return VideoRecords(found["video"], names, sampling=sampling, tolerant=False)


@reading("a list of recordings (CSV, UTF-8)", RecordsError)
def _rows(listing: Path) -> list[_Row]:
    if not listing.is_file():
        raise RecordsError(
            f"Expected a CSV with a row for each recording, but there is no file {listing.name}."
        )
    rows: list[_Row] = []
    spelling: dict[str, str] = {}
    with listing.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, strict=True)
        columns = list(reader.fieldnames or ())
        unknown = [name for name in columns if name not in _COLUMNS]
        if "path" not in columns or "label" not in columns or unknown:
            raise RecordsError(
                f"Expected the columns path and label, and owner, mask or split, in the first line "
                f"of {listing.name}, got {', '.join(map(repr, columns[:6])) or 'none'}."
            )
        for cells in reader:
            number = reader.line_num
            if None in cells or None in cells.values():
                raise _wrong(listing, number, f"{len(columns)} cells, as in the first line",
                             "more or fewer")  # fmt: skip
            told = {name: cell.strip() for name, cell in cells.items()}
            if not told["path"] or not told["label"]:
                raise _wrong(listing, number, "a path and a label", "an empty cell")
            mask = told.get("mask") or None
            people = [name.strip() for name in told.get("owner", "").split(_SEVERAL)]
            for name in people:
                folded = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
                if spelling.setdefault(folded, name) != name:
                    raise _wrong(listing, number, "every person under one spelling",
                                 "a name that was written otherwise above: two names would be two people "
                                 "with a coin each")  # fmt: skip
            rows.append(
                _Row(
                    number,
                    _below(listing, number, told["path"]),
                    told["label"],
                    tuple(name for name in people if name),
                    None if mask is None else _below(listing, number, mask),
                    told.get("split", ""),
                )
            )
    if not rows:
        raise RecordsError(f"Expected a row for each recording in {listing.name}, found none.")
    return rows


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


@reading("a mask that belongs to its picture", RecordsError)
def _picture_mask(path: Path, size: tuple[int, ...]) -> npt.NDArray[np.bool_]:
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
            f"Expected a mask of shape {tuple(size)} like its picture, got {stored.shape}: make the "
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
