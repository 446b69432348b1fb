"""MPII Human Pose: the published matrix, and the train and valid lists that the field evaluates by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._joints import MPII, vocabulary
from sfumato.data._pose import AnnotatedPerson, PoseRecords, Root, box_of
from sfumato.data._problems import Problems, existing_file, existing_folder, read_json
from sfumato.data._records import RecordsError
from sfumato.errors import reading

_MATRIX = "mpii_human_pose_v1_u12_1.mat"
_PARTS = ("train", "valid", "trainval")
_NO_HEAD = "Expected a head box with every person, got none: PCKh cannot count them."
_NO_PICTURE = "Expected every listed picture, but some files are not there: left out."
_NO_JOINTS = "Expected annotated joints, got people without any: left out."
# a person's scale is their height in units of 200 pixels; the lists' readers look a little lower
_HEIGHT, _LOWER = 200.0, 15.0


@reading("MPII as it is published", RecordsError)
def mpii(
    root: Root,
    part: str = "train",
    *,
    joints: str | Sequence[str] = "mpii",
    per_person: bool = False,
) -> PoseRecords:
    """``images/*.jpg`` with ``annot/train.json`` and ``annot/valid.json``, or the published matrix.

    The lists are the split that the field uses: 22,246 people to train, 2,958 to validate, whose head
    boxes are in ``annot/gt_valid.mat`` (or in the matrix). Without them the matrix
    ``mpii_human_pose_v1_u12_1.mat`` gives the published training set as "train"; the published test
    pictures carry no joints. The head size is 0.6 of the diagonal of the head box.
    """
    if part not in _PARTS:
        raise RecordsError(
            f"Expected part train, valid or trainval: MPII publishes no joints for others, got {part!r}."
        )
    folder = existing_folder(root, "MPII")
    places = (folder / "annot", folder / "annotations", folder, folder / "mpii_human_pose_v1_u12_2")
    listing, matrix, heads = (
        next((p / name for p in places if (p / name).is_file()), None)
        for name in (f"{part}.json", _MATRIX, "gt_valid.mat")
    )
    problems = Problems()
    if listing is not None:
        people = _listed(listing, heads if part == "valid" else None, matrix, problems)
    elif part == "train":
        found = existing_file(matrix or folder / _MATRIX, "the annotations of MPII")
        people = _published(found, problems)
    else:
        raise RecordsError(
            f"Expected annot/{part}.json, the list of that split, got none: the published matrix "
            "alone knows train."
        )
    pictures = []
    for name, some in people.items():
        path = folder / "images" / name
        if path.is_file():
            pictures.append((path, tuple(some)))
        else:
            problems.add(_NO_PICTURE)
    return PoseRecords(
        pictures, vocabulary(joints), source=MPII, per_person=per_person, problems=problems
    )


People = dict[str, list[AnnotatedPerson]]


def _published(matrix: Path, problems: Problems) -> People:
    """People with joints of the published training pictures."""
    from scipy.io import loadmat

    release = loadmat(matrix, struct_as_record=False, squeeze_me=True)["RELEASE"]
    people: People = {}
    for note, used in zip(np.atleast_1d(release.annolist), np.atleast_1d(release.img_train)):
        if used:
            found = [_person(rect, problems) for rect in np.atleast_1d(note.annorect)]
            known = [person for person in found if person is not None]
            if known:
                people.setdefault(str(note.image.name), []).extend(known)
    return people


def _person(rect: Any, problems: Problems) -> AnnotatedPerson | None:
    points = getattr(getattr(rect, "annopoints", None), "point", None)
    if points is None:
        problems.add(_NO_JOINTS)
        return None
    joints = np.zeros((len(MPII), 3), np.float32)
    for point in np.atleast_1d(points):
        number = int(point.id)
        if not 0 <= number < len(MPII):
            problems.add("Expected joint numbers 0 to 15, got others: left out.")
            continue
        joints[number] = (float(point.x), float(point.y), 1.0)
    if not joints[:, 2].any():
        problems.add(_NO_JOINTS)
        return None
    head = float("nan")
    corners = [getattr(rect, name, None) for name in ("x1", "y1", "x2", "y2")]
    if all(isinstance(c, int | float | np.number) for c in corners):
        head = _head_size([float(c) for c in corners])  # type: ignore[arg-type]
    if not head > 0:
        problems.add(_NO_HEAD)
        head = float("nan")
    return AnnotatedPerson(joints, box_of(joints), head_size=head)


def _head_size(corners: Sequence[float]) -> float:
    x1, y1, x2, y2 = corners
    return 0.6 * float(np.hypot(x2 - x1, y2 - y1))


def _listed(listing: Path, heads: Path | None, matrix: Path | None, problems: Problems) -> People:
    """One list entry a person: image, joints, joints_vis, center and scale, counted from 1."""
    entries = read_json(listing)
    sizes = _valid_heads(heads, len(entries)) if heads is not None else None
    by_joints = _heads_by_joints(matrix) if sizes is None and matrix is not None else {}
    people: People = {}
    for number, entry in enumerate(entries):
        joints = np.zeros((len(MPII), 3), np.float32)
        joints[:, :2] = np.asarray(entry["joints"], np.float32) - 1
        joints[:, 2] = np.asarray(entry["joints_vis"]) > 0
        if not joints[:, 2].any():
            problems.add(_NO_JOINTS)
            continue
        if sizes is not None:
            head = sizes[number]
        else:
            head = by_joints.get((str(entry["image"]), _mark(joints)), float("nan"))
        if not head > 0:
            problems.add(_NO_HEAD)
            head = float("nan")
        height = _HEIGHT * float(entry["scale"])
        x, y = (float(c) - 1 for c in entry["center"])
        y += _LOWER * float(entry["scale"])
        box = (x - height / 2, y - height / 2, height, height)
        people.setdefault(str(entry["image"]), []).append(
            AnnotatedPerson(joints, box, head_size=head)
        )
    return people


def _valid_heads(file: Path, count: int) -> npt.NDArray[np.float64]:
    from scipy.io import loadmat

    boxes = np.asarray(loadmat(file)["headboxes_src"], np.float64)
    if boxes.shape != (2, 2, count):
        raise RecordsError(
            f"Expected a head box (2, 2, {count}) for every entry of the list in {file.name}, got "
            f"{boxes.shape}."
        )
    return np.asarray(0.6 * np.linalg.norm(boxes[1] - boxes[0], axis=0), np.float64)


def _heads_by_joints(matrix: Path) -> dict[tuple[str, tuple[int, ...]], float]:
    """The matrix has its own order, so a person of a list is found again by picture and joints."""
    found = _published(matrix, Problems())
    return {
        (name, _mark(one.joints, -1)): one.head_size
        for name, people in found.items()
        for one in people
    }


def _mark(joints: npt.NDArray[np.floating], shift: int = 0) -> tuple[int, ...]:
    """Annotated joints to whole pixels, counted from 0."""
    whole = np.floor(joints[:, :2] + shift).astype(int) * (joints[:, 2:] > 0)
    return tuple(whole.flatten().tolist())
