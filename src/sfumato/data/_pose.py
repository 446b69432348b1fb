"""COCO keypoints, Human-Art and LSP as records: one image, all its people, one record.

A record's ``x`` is the picture and ``y`` is (people, joints, 3): x, y and weight (1 annotated, 0
not). Several people of one picture form one record, so that a promise to records covers whole
pictures (SOUNDNESS G9). ``per_person=True`` makes one record a person instead: then the unit is a
person box, a weaker promise, and the card must say so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._faces import packed_picture
from sfumato.data._joints import COCO, LSP, Joints, translate, vocabulary
from sfumato.data._problems import Problems, existing_file, existing_folder, read_json, require_some
from sfumato.data._records import IterableRecords, Record, RecordsError
from sfumato.errors import reading
from sfumato.media import read_image

Root = str | os.PathLike[str]


@dataclass(frozen=True)
class AnnotatedPerson:
    """One annotated person: joints (J, 3), box (left, top, width, height), head size in pixels.

    ``head_size`` is NaN where the data set has none: PCKh cannot count this person, PCK by torso can.
    """

    joints: Joints
    box: tuple[float, float, float, float]
    head_size: float = float("nan")
    area: float = float("nan")


class PoseRecords(IterableRecords):
    """Pictures with people; ``joints`` are the names, ``problems`` what was wrong."""

    def __init__(
        self,
        pictures: Sequence[tuple[Path, tuple[AnnotatedPerson, ...]]],
        joints: Sequence[str],
        *,
        source: Sequence[str],
        per_person: bool = False,
        archive: Path | None = None,
        problems: Problems | None = None,
    ) -> None:
        self.joints, self._source = vocabulary(joints), tuple(source)
        self.problems, self._archive = problems or Problems(), archive
        self.unit = "person box" if per_person else "picture"
        split: list[tuple[Path, tuple[AnnotatedPerson, ...]]]
        split = [(path, (one,)) for path, people in pictures for one in people]
        self._pictures = split if per_person else [p for p in pictures if p[1]]
        self.classes: tuple[str, ...] = ()
        require_some(self._pictures, "pictures with annotated people", self.problems)

    def __len__(self) -> int:
        return len(self._pictures)

    def people(self, index: int) -> tuple[AnnotatedPerson, ...]:
        """The people of a record, without reading the picture; joints as published."""
        return self._pictures[index][1]

    def __getitem__(self, index: int) -> Record:
        path, people = self._pictures[index]
        joints = np.stack([person.joints for person in people])
        facts = {
            "boxes": np.array([person.box for person in people], dtype=np.float32),
            "head_size": np.array([person.head_size for person in people], dtype=np.float32),
            "area": np.array([person.area for person in people], dtype=np.float32),
        }
        return Record(
            self._read(path), translate(joints, self._source, self.joints), None, (), facts
        )

    def _read(self, path: Path) -> npt.NDArray[np.uint8]:
        if self._archive is None:
            return read_image(path)
        return packed_picture(self._archive, path.name)


@reading("annotations in the layout of COCO", RecordsError)
def coco_keypoints(
    root: Root,
    part: str = "val2017",
    *,
    joints: str | Sequence[str] = "coco",
    per_person: bool = False,
) -> PoseRecords:
    """``annotations/person_keypoints_PART.json`` and ``PART/*.jpg`` (or images/PART)."""
    folder = existing_folder(root, "COCO")
    listing = existing_file(
        folder / "annotations" / f"person_keypoints_{part}.json", "the keypoints of COCO"
    )
    images = folder / part if (folder / part).is_dir() else folder / "images" / part
    return _coco_style(listing, images, joints, per_person)


@reading("annotations in the layout of COCO", RecordsError)
def human_art(
    root: Root,
    part: str = "training",
    *,
    joints: str | Sequence[str] = "coco",
    per_person: bool = False,
) -> PoseRecords:
    """``annotations/PART_humanart.json`` with pictures at their ``file_name`` (HumanArt/images/...).

    A file name starts with the data set's own folder name, whatever the folder is called here.
    """
    folder = existing_folder(root, "Human-Art")
    listing = folder / "annotations" / f"{part}_humanart.json"
    existing_file(listing, "the keypoints of Human-Art")
    return _coco_style(listing, folder, joints, per_person, own_name="HumanArt/")


def _coco_style(
    listing: Path,
    images: Path,
    joints: str | Sequence[str],
    per_person: bool,
    own_name: str = "",
) -> PoseRecords:
    content: dict[str, Any] = read_json(listing)
    for category in content.get("categories", []):
        named = category.get("keypoints")
        if named and tuple(named[: len(COCO)]) != COCO:
            raise RecordsError(
                f"Expected the 17 joint names of COCO in {listing.name}, got {', '.join(named[:4])} "
                "and so on: convert the annotations."
            )
    problems = Problems()
    people: dict[int, list[AnnotatedPerson]] = {}
    for note in content.get("annotations", []):
        person = _coco_person(note, problems)
        if person is not None:
            people.setdefault(note["image_id"], []).append(person)
    pictures = []
    for image in sorted(content.get("images", []), key=lambda image: str(image["file_name"])):
        path = images / str(image["file_name"]).removeprefix(own_name)
        if image["id"] not in people:
            continue
        if not path.is_file():
            problems.add("Expected every listed picture, but some files are not there: left out.")
            continue
        size = (image.get("width"), image.get("height"))
        inside = [_inside(person, size, problems) for person in people[image["id"]]]
        pictures.append((path, tuple(inside)))
    return PoseRecords(
        pictures, vocabulary(joints), source=COCO, per_person=per_person, problems=problems
    )


def _coco_person(note: dict[str, Any], problems: Problems) -> AnnotatedPerson | None:
    if note.get("iscrowd"):
        problems.add("Expected single people, got crowds, which have no joints: left out.")
        return None
    values = note.get("keypoints", [])
    if len(values) != 3 * len(COCO):
        problems.add("Expected 17 joints of three numbers for every person: left out.")
        return None
    joints = np.array(values, dtype=np.float32).reshape(-1, 3)
    joints[:, 2] = joints[:, 2] > 0  # 1 hidden and 2 visible are both annotated
    if not joints[:, 2].any():
        problems.add("Expected annotated joints, got people without any: left out.")
        return None
    left, top, width, height = (float(v) for v in note.get("bbox", (0, 0, 0, 0)))
    if width <= 0 or height <= 0:
        problems.add("Expected boxes with a size, got empty ones: left out.")
        return None
    area = float(note.get("area", width * height))
    return AnnotatedPerson(joints, (left, top, width, height), area=area)


def _inside(person: AnnotatedPerson, size: tuple[Any, Any], problems: Problems) -> AnnotatedPerson:
    """The person with joints outside the picture marked as absent."""
    if not all(size):
        return person
    joints = person.joints.copy()
    outside = (joints[:, 2] > 0) & (
        (joints[:, :2] < 0).any(1) | (joints[:, 0] >= size[0]) | (joints[:, 1] >= size[1])
    )
    problems.add(
        "Expected joints inside their picture, got some outside: weight 0.", int(outside.sum())
    )
    joints[outside, 2] = 0
    return AnnotatedPerson(joints, person.box, person.head_size, person.area)


def box_of(joints: Joints, margin: float = 0.05) -> tuple[float, float, float, float]:
    """A box around annotated joints, wider by ``margin`` on each side, for data without boxes."""
    seen = joints[joints[:, 2] > 0, :2]
    low, high = seen.min(0), seen.max(0)
    extra = margin * (high - low).max()
    left, top = low - extra
    width, height = high - low + 2 * extra
    return float(left), float(top), float(width), float(height)


@reading("LSP as it is published", RecordsError)
def lsp(
    root: Root,
    part: str | None = "train",
    *,
    joints: str | Sequence[str] = "lsp",
) -> PoseRecords:
    """``joints.mat`` (3 x 14 x 2000) or ``joints.npy``, and ``images/im0001.jpg`` or images.zip.

    First 1,000 train, last 1,000 test. All joints are annotated, hidden ones too, so all have
    weight 1. LSP has no head boxes; the head size is NaN. Releases differ in what their flag means:
    see :func:`lsp_visibility`.
    """
    if part not in (None, "train", "test"):
        raise RecordsError(f"Expected part train, test or None, got {part!r}.")
    folder = existing_folder(root, "Leeds Sports Pose")
    raw = _lsp_joints(folder)
    archive = folder / "images.zip"
    packed = archive.is_file()
    half = len(raw) // 2
    chosen = {None: range(len(raw)), "train": range(half), "test": range(half, len(raw))}[part]
    problems, pictures = Problems(), []
    for i in chosen:
        path = folder / "images" / f"im{i + 1:04d}.jpg"
        if not packed and not path.is_file():
            problems.add("Expected every picture im0001.jpg and on, some are not there: left out.")
            continue
        person = raw[i].astype(np.float32)
        person[:, 2] = np.isfinite(person[:, :2]).all(1)
        person[:, :2] = np.nan_to_num(person[:, :2])
        pictures.append((path, (AnnotatedPerson(person, box_of(person)),)))
    return PoseRecords(
        pictures,
        vocabulary(joints),
        source=LSP,
        archive=archive if packed else None,
        problems=problems,
    )


def _lsp_joints(folder: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any]
    if (folder / "joints.npy").is_file():
        array = np.load(folder / "joints.npy", allow_pickle=False)
    else:
        from scipy.io import loadmat

        array = loadmat(existing_file(folder / "joints.mat", "the joints of LSP"))["joints"]
    if array.shape[:2] == (3, 14):
        array = array.transpose(2, 1, 0)
    elif array.shape[:2] == (14, 3):  # the extended set swaps the first two axes
        array = array.transpose(2, 0, 1)
    if array.shape[1:] != (14, 3):
        raise RecordsError(f"Expected LSP joints of 3 x 14 x pictures, got {array.shape}.")
    return array


@reading("LSP as it is published", RecordsError)
def lsp_visibility(root: Root, visible: int | None = None) -> npt.NDArray[np.bool_]:
    """(pictures, 14) True where a joint can be seen.

    In one release the flag 1 means seen, in the other hidden. Most joints of LSP are seen, so the
    more frequent value is taken as seen unless ``visible`` says which one is.
    """
    flag = _lsp_joints(existing_folder(root, "Leeds Sports Pose"))[..., 2] > 0.5
    seen_flag = bool(flag.mean() > 0.5) if visible is None else bool(visible)
    return np.asarray(flag == seen_flag)
