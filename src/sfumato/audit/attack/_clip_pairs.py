"""A folder of originals beside the same folder protected, with what is known about every file.

Known facts come from ``metadata.jsonl`` (as ``sfumato stage make`` writes it) or from a CSV file with
a column ``file_name``; ``person``, ``room`` and ``action`` are read as such, and every other column is a
private attribute. Files are paired by their names without ending: protect with ``--keep-names``.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit._released import recordings_in
from sfumato.audit.attack._visual import Attribute
from sfumato.audit.measure._measure import MeasureError
from sfumato.data import Sampling, sampled_frames
from sfumato.errors import reading
from sfumato.media import IMAGE_SUFFIXES, read_image
from sfumato.people import person_segmenter

Frames = npt.NDArray[np.uint8]
_ROLES = ("person", "room", "action")
# what a staged attribute is for an audit; the kind of a room follows from the room
_STAGED = {"actor": "person", "room": "room", "room_kind": None}


@dataclass(frozen=True)
class ClipPairs:
    """Originals and protected files in one order; ``facts`` holds one text a file by name."""

    originals: tuple[Path, ...]
    protected: tuple[Path, ...]
    facts: Mapping[str, Sequence[str]]
    truths: tuple[Path | None, ...]

    def __len__(self) -> int:
        return len(self.originals)

    def clips(self, protected: bool, frames: int = 8) -> Iterator[Frames]:
        """A few frames of every file, spread over it."""
        for path in self.protected if protected else self.originals:
            yield frames_of(path, frames)

    def masks(self, frames: int = 8) -> list[npt.NDArray[np.bool_]]:
        """Where people are in the originals: the stage's truth, or as a segmenter finds them."""
        segmenter = None
        found = []
        for path, truth in zip(self.originals, self.truths, strict=True):
            if truth is not None:
                with np.load(truth, allow_pickle=False) as stored:
                    mask = stored["mask"]
                found.append(mask[Sampling(frames).places(len(mask))])
                continue
            segmenter = segmenter or person_segmenter()
            clip = frames_of(path, frames)
            found.append(np.stack([segmenter.segment(image) > 0.5 for image in clip]))
        return found

    def fact(self, name: str) -> Attribute:
        """One of person, room and action, as something to tell apart."""
        return Attribute.of(self.facts_of(name))

    def facts_of(self, name: str) -> Sequence[str]:
        """The same, one text a file."""
        if name not in self.facts:
            raise MeasureError(
                f"Expected to know the {name} of every file, but it is not said: add a column "
                f"{name} to the labels."
            )
        return self.facts[name]

    def private(self) -> dict[str, Attribute]:
        """The attributes to attack, tested on people the attacker has not seen, where it is known who is who."""
        people = self.facts.get("person")
        chosen = {n: v for n, v in self.facts.items() if n not in _ROLES and len(set(v)) > 1}
        if not chosen:
            raise MeasureError(
                "Expected private attributes with more than one value (columns of the labels such "
                "as sex or skin), got none."
            )
        return {name: Attribute.of(values, people) for name, values in chosen.items()}


def frames_of(path: Path, frames: int) -> Frames:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return read_image(path)[None]
    return sampled_frames(path, Sampling(frames))[0]


@reading("originals, protected files and their labels as docs/audit.md describes", MeasureError)
def pair_clips(
    originals: str | os.PathLike[str],
    protected: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
) -> ClipPairs:
    """Pair the files of two folders and read what is known about them."""
    first, second = Path(originals), Path(protected)
    for folder in (first, second):
        if not folder.is_dir():
            raise MeasureError(f"Expected a folder, got {folder.name!r}, which is none.")
    released = {_key(path, second): path for path in recordings_in(second)}
    files = {_key(path, first): path for path in recordings_in(first)}
    both = [key for key in files if key in released]
    if not both:
        raise MeasureError(
            f"Expected files of the same names in both folders, got {len(files)} and "
            f"{len(released)} without one in common: protect with --keep-names."
        )
    rows = _rows(first, labels)
    if rows is not None:
        both = [key for key in both if key in rows]
        if not both:
            raise MeasureError("Expected labels of the files in the folder, got none: check names.")
    known = [{} if rows is None else rows[key] for key in both]
    names = sorted(set.intersection(*(set(row) for row in known))) if known else []
    truths = [_truth(first, row) for row in known]
    return ClipPairs(
        tuple(files[key] for key in both),
        tuple(released[key] for key in both),
        {name: [row[name] for row in known] for name in names if name != "truth"},
        tuple(truths),
    )


def _key(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _truth(folder: Path, row: Mapping[str, str]) -> Path | None:
    path = folder / row["truth"] if "truth" in row else None
    return path if path is not None and path.is_file() else None


def _rows(folder: Path, labels: str | os.PathLike[str] | None) -> dict[str, dict[str, str]] | None:
    if labels is not None:
        with open(labels, newline="", encoding="utf-8") as stream:
            found = list(csv.DictReader(stream))
        if not found or "file_name" not in found[0]:
            raise MeasureError("Expected labels as CSV with a column file_name, got none.")
        return {
            Path(row.pop("file_name")).with_suffix("").as_posix(): {
                k: str(v) for k, v in row.items()
            }
            for row in found
        }
    index = folder / "metadata.jsonl"
    if not index.is_file():
        return None
    lines = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]
    return {Path(line["file_name"]).with_suffix("").as_posix(): _staged_row(line) for line in lines}


def _staged_row(line: Mapping[str, Any]) -> dict[str, str]:
    row = {}
    for name, value in line.get("attributes", {}).items():
        role = _STAGED.get(name, name)
        if role is not None:
            row[role] = str(value)
    if "top" in line.get("person", {}):
        row["clothing"] = str(line["person"]["top"])
    if "label" in line:
        row["action"] = str(line["label"])
    if "truth" in line:
        row["truth"] = str(line["truth"])
    return row
