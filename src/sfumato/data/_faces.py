"""CelebA and UTKFace: aligned faces with attributes; one is the label, the others stay beside it."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, existing_file, existing_folder, require_some
from sfumato.data._records import IterableRecords, Record, RecordsError
from sfumato.errors import reading
from sfumato.media import read_image

UTK_RACES = ("White", "Black", "Asian", "Indian", "Other")


class FacePictures(IterableRecords):
    """Records of pictures with attributes, read when asked for, from files or from one archive."""

    def __init__(
        self,
        names: Sequence[str],
        folder: Path,
        attributes: Mapping[str, npt.NDArray[Any]],
        attribute_classes: Mapping[str, tuple[str, ...]],
        label: str,
        *,
        owners: Sequence[tuple[str, ...]] | None = None,
        problems: Problems | None = None,
    ) -> None:
        if label not in attributes:
            raise RecordsError(f"Expected a label out of {', '.join(attributes)}, got {label!r}.")
        self.names, self.attributes, self.label = tuple(names), dict(attributes), label
        self.attribute_classes = dict(attribute_classes)
        self.classes = self.attribute_classes.get(label, ())
        self.problems = problems or Problems()
        self.owners = list(owners) if owners is not None else [()] * len(self.names)
        self.source = folder
        require_some(self.names, "pictures", self.problems)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Record:
        facts = {name: values[index].item() for name, values in self.attributes.items()}
        picture = self._picture(self.names[index])
        return Record(picture, facts[self.label], None, self.owners[index], facts)

    def _picture(self, name: str) -> npt.NDArray[np.uint8]:
        if self.source.is_dir():
            return read_image(self.source / name)
        return packed_picture(self.source, name)


@lru_cache(maxsize=8)
def _open_archive(path: Path, process: int) -> zipfile.ZipFile:
    # one handle a process: a forked worker must not move its parent's file position
    return zipfile.ZipFile(path)


@reading("an archive of pictures", RecordsError)
def packed_picture(archive: Path, name: str) -> npt.NDArray[np.uint8]:
    """RGB pixels of one member of a zip archive of pictures."""
    content = _open_archive(archive, os.getpid()).read(name)
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise RecordsError("Expected a picture in the archive, got bytes that cannot be decoded.")
    return np.ascontiguousarray(picture[..., ::-1])


@reading("CelebA as it is published", RecordsError)
def celeba(
    root: str | os.PathLike[str], part: str = "train", label: str = "Smiling"
) -> FacePictures:
    """``img_align_celeba/*.jpg``, ``list_attr_celeba.txt``, ``list_eval_partition.txt``.

    Forty binary attributes (0 no, 1 yes). The owner is the identity of ``identity_CelebA.txt`` where
    that file is there.
    """
    parts = {"train": "0", "validation": "1", "test": "2"}
    if part not in parts:
        raise RecordsError(f"Expected part {', '.join(parts)}, got {part!r}.")
    folder = existing_folder(root, "CelebA")
    table = existing_file(folder / "list_attr_celeba.txt", "the attributes of CelebA")
    lines = table.read_text(encoding="utf-8").splitlines()
    # the first line may be the number of rows, as published, or already the header
    header = lines[1].split() if lines[0].strip().isdigit() else lines[0].split()
    body = lines[2:] if lines[0].strip().isdigit() else lines[1:]
    use = _pairs(existing_file(folder / "list_eval_partition.txt", "the parts of CelebA"))
    identity_file = folder / "identity_CelebA.txt"
    identities = _pairs(identity_file) if identity_file.is_file() else {}
    pictures = folder / "img_align_celeba"
    problems, names, rows = Problems(), [], []
    for line in filter(str.strip, body):
        name, *values = line.split()
        if len(values) != len(header) or not set(values) <= {"-1", "1"}:
            problems.add(f"Expected {len(header)} values -1 or 1 for every face: left out.")
        elif use.get(name) == parts[part]:
            if (pictures / name).is_file():
                names.append(name)
                rows.append([int(value == "1") for value in values])
            else:
                problems.add("Expected every listed face, but some files are not there: left out.")
    require_some(names, f"faces in part {part}", problems)
    columns = np.array(rows, dtype=np.int64)
    attributes = {name: columns[:, i] for i, name in enumerate(header)}
    classes = dict.fromkeys(header, ("no", "yes"))
    owners = [(f"id{identities[n]}",) if n in identities else () for n in names]
    return FacePictures(
        names, pictures, attributes, classes, label, owners=owners, problems=problems
    )


def _pairs(path: Path) -> dict[str, str]:
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= 2}


@reading("UTKFace as it is published", RecordsError)
def utkface(root: str | os.PathLike[str], label: str = "gender") -> FacePictures:
    """``AGE_GENDER_RACE_DATE.jpg`` files, or ``index.csv`` beside an archive of faces.

    Attributes: age in years, gender (0 male, 1 female), race (0 to 4). UTKFace does not say which
    faces are of one person, so there are no owners.
    """
    folder = existing_folder(root, "UTKFace")
    problems, names, rows = Problems(), [], []
    index = folder / "index.csv"
    source = folder
    if index.is_file():
        with open(index, encoding="utf-8", newline="") as stream:
            found = [
                (r["file"], [r["age"], r["gender"], r["race"]]) for r in csv.DictReader(stream)
            ]
        archives = sorted(folder.glob("*.zip"))
        source = archives[0] if archives else folder
    else:
        files = sorted(p for p in folder.rglob("*.jpg"))
        found = [(str(p.relative_to(folder)), p.name.split("_")[:-1]) for p in files]
    for name, values in found:
        # some published names miss the race: age_gender__date.jpg
        if len(values) != 3 or not all(value.isdigit() for value in values):
            problems.add("Expected AGE_GENDER_RACE for every face, got others: left out.")
        elif not (int(values[1]) <= 1 and int(values[2]) < len(UTK_RACES)):
            problems.add("Expected gender 0 or 1 and race 0 to 4, got others: left out.")
        else:
            names.append(name)
            rows.append([int(value) for value in values])
    require_some(names, "faces", problems)
    columns = np.array(rows, dtype=np.int64)
    attributes = {name: columns[:, i] for i, name in enumerate(("age", "gender", "race"))}
    classes = {"gender": ("male", "female"), "race": UTK_RACES}
    return FacePictures(names, source, attributes, classes, label, problems=problems)
