"""UTD-MHAD and AIRTLab: people in one room, in the published layout or packed."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, existing_folder, require_some
from sfumato.data._records import IterableRecords, Record, RecordsError
from sfumato.data._videos import Sampling, VideoItem, VideoRecords
from sfumato.errors import reading

UTD_ACTIONS = (
    *("swipe left", "swipe right", "wave", "clap", "throw", "arm cross", "basketball shoot"),
    *("draw x", "draw circle clockwise", "draw circle counter-clockwise", "draw triangle"),
    *("bowling", "boxing", "baseball swing", "tennis swing", "arm curl", "tennis serve", "push"),
    *("knock", "catch", "pick up and throw", "jog", "walk", "sit to stand", "stand to sit"),
    *("lunge", "squat"),
)
_UTD_FOLDERS = {"depth": "Depth", "inertial": "Inertial", "skeleton": "Skeleton"}
_UTD_KEYS = {"depth": "d_depth", "inertial": "d_iner", "skeleton": "d_skel"}
_UTD_PACKED = {"depth": "depth_15fps_120x160", "inertial": "inertial", "skeleton": "skeleton"}
_MILLIMETRES_A_STEP = 16  # depth as bytes: 0 is empty, 255 is four metres and more


class UtdMhad(IterableRecords):
    """Records of one modality: depth video, wrist inertial windows, or skeletons.

    Depth is (T, H, W, 3) bytes, the same value three times, and its mask is True on the empty
    background: an exact mask of the person. Inertial is (time, 6), skeleton (time, 60); float32.
    """

    def __init__(
        self,
        keys: list[tuple[int, int, int]],
        load: Any,
        modality: str,
        problems: Problems,
    ) -> None:
        self.keys, self.modality, self.problems = tuple(keys), modality, problems
        self.classes = UTD_ACTIONS
        self._load = load
        require_some(self.keys, "recordings of UTD-MHAD", problems)

    @property
    def owners(self) -> list[tuple[str, ...]]:
        """Owners of every record, without reading anything."""
        return [(f"s{subject}",) for _, subject, _ in self.keys]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Record:
        action, subject, trial = self.keys[index]
        x, mask = self._load(index), None
        if self.modality == "depth":
            mask = x == 0
            x = np.repeat(x[..., None], 3, axis=3)
        else:
            x = np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)
        return Record(x, action - 1, mask, (f"s{subject}",), {"trial": trial})


@reading("UTD-MHAD as it is published", RecordsError)
def utd_mhad(
    root: str | os.PathLike[str],
    modality: str = "depth",
    part: str | None = None,
    *,
    sampling: Sampling | None = None,
) -> UtdMhad | VideoRecords:
    """UTD-MHAD as published (``Depth/a1_s1_t1_depth.mat`` ...) or packed as .npz.

    ``modality``: depth, inertial, skeleton, or rgb (``RGB/a1_s1_t1_color.avi``). ``part``: odd
    subjects train, even subjects test, as published; None is everyone. The owner is the subject.
    """
    folder = existing_folder(root, "UTD-MHAD")
    if part not in (None, "train", "test"):
        raise RecordsError(f"Expected part train, test or None, got {part!r}.")
    if modality == "rgb":
        return _utd_rgb(folder, part, sampling)
    if modality not in _UTD_KEYS:
        raise RecordsError(f"Expected depth, inertial, skeleton or rgb, got {modality!r}.")
    packed = folder / f"{_UTD_PACKED[modality]}.npz"
    problems = Problems()
    if packed.is_file():
        with np.load(packed, allow_pickle=False) as stored:
            x, offsets = stored["x"], stored["offsets"]
            named = list(zip(*(stored[n].tolist() for n in ("action", "subject", "trial"))))
        rows = [i for i, key in enumerate(named) if _uses(key[1], part)]
        keys = [named[i] for i in rows]
        return UtdMhad(
            keys, lambda i: x[offsets[rows[i]] : offsets[rows[i] + 1]], modality, problems
        )
    files = []
    for path in sorted((folder / _UTD_FOLDERS[modality]).glob("*.mat")):
        key = _utd_key(path, problems)
        if key is not None and _uses(key[1], part):
            files.append((key, path))
    paths = [path for _, path in files]
    return UtdMhad(
        [key for key, _ in files], lambda i: _utd_mat(paths[i], modality), modality, problems
    )


def _uses(subject: int, part: str | None) -> bool:
    return part is None or (subject % 2 == 1) == (part == "train")


def _utd_key(path: Path, problems: Problems) -> tuple[int, int, int] | None:
    found = re.match(r"a(\d+)_s(\d+)_t(\d+)_", path.name)
    if not found or not 1 <= int(found[1]) <= len(UTD_ACTIONS):
        problems.add("Expected names like a1_s1_t1_depth.mat with actions 1 to 27: left out.")
        return None
    return int(found[1]), int(found[2]), int(found[3])


@reading("UTD-MHAD as it is published", RecordsError)
def _utd_mat(path: Path, modality: str) -> npt.NDArray[Any]:
    from scipy.io import loadmat

    stored = loadmat(path)
    if _UTD_KEYS[modality] not in stored:
        raise RecordsError(f"Expected {_UTD_KEYS[modality]} in {path.name}, got other variables.")
    array = stored[_UTD_KEYS[modality]]
    if modality == "inertial":
        return np.asarray(array)
    array = np.moveaxis(array, -1, 0)  # the published arrays keep time last
    if modality == "skeleton":
        return np.asarray(array)
    steps = np.ceil(array / _MILLIMETRES_A_STEP)  # a person close by never becomes zero
    return np.asarray(np.minimum(steps, 255), dtype=np.uint8)


def _utd_rgb(folder: Path, part: str | None, sampling: Sampling | None) -> VideoRecords:
    problems, items = Problems(), []
    for path in sorted((folder / "RGB").glob("*.avi")):
        key = _utd_key(path, problems)
        if key is not None and _uses(key[1], part):
            items.append(VideoItem(path, key[0] - 1, (f"s{key[1]}",), {"trial": key[2]}))
    return VideoRecords(items, UTD_ACTIONS, sampling=sampling, problems=problems)


@reading("AIRTLab as it is published", RecordsError)
def airtlab(
    root: str | os.PathLike[str], label: str = "kind", *, sampling: Sampling | None = None
) -> VideoRecords:
    """AIRTLab: ``violent/cam1/1.mp4`` with ``violent-action-classes.csv``, or a flat ``index.csv``.

    ``label="kind"`` gives 0 non-violent, 1 violent; ``"actions"`` gives the multi-hot vector of the
    actions, whose names are ``classes``. Both cameras see the same performance; ``performance``
    says which. Actors are not named, so there are no owners.
    """
    if label not in ("kind", "actions"):
        raise RecordsError(f"Expected label kind or actions, got {label!r}.")
    folder = existing_folder(root, "AIRTLab")
    problems = Problems()
    found = list(_airtlab_flat(folder) if (folder / "index.csv").is_file() else _airtlab(folder))
    actions = sorted({action for *_, named in found for action in named})
    items = []
    for path, kind, performance, named in found:
        if not path.is_file():
            problems.add("Expected every listed video, but some files are not there: left out.")
            continue
        hot = np.array([action in named for action in actions], dtype=np.float32)
        facts = {"performance": performance}
        items.append(VideoItem(path, kind if label == "kind" else hot, (), facts))
    classes = ("non-violent", "violent") if label == "kind" else actions
    return VideoRecords(items, classes, sampling=sampling, problems=problems)


_Airtlab = tuple[Path, int, str, set[str]]


def _airtlab_flat(folder: Path) -> Iterator[_Airtlab]:
    with open(folder / "index.csv", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            kind = int(row["kind"] == "violent")
            performance = f"{row['kind']}-{Path(row['file']).stem.rsplit('_', 1)[-1]}"
            yield folder / row["file"], kind, performance, set(row["labels"].split("|"))


def _airtlab(folder: Path) -> Iterator[_Airtlab]:
    inner = folder / "violence-detection-dataset"
    folder = inner if inner.is_dir() else folder
    for kind, (name, listing) in enumerate((("non-violent", "nonviolent"), ("violent", "violent"))):
        table = folder / f"{listing}-action-classes.csv"
        if not table.is_file():
            raise RecordsError(f"Expected the actions of AIRTLab in {table.name}, it is not there.")
        for line in filter(str.strip, table.read_text(encoding="utf-8").splitlines()[1:]):
            file, _, named = line.partition(";")
            actions = {action.strip() for action in named.split(",") if action.strip()}
            for camera in ("cam1", "cam2"):
                path = folder / name / camera / file.strip()
                yield path, kind, f"{name}-{Path(file.strip()).stem}", actions
