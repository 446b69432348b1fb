"""UCF101, HMDB51, NTU RGB+D, Toyota Smarthome and Kinetics in the layouts their authors publish."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

from sfumato.data._problems import Problems, existing_file, existing_folder
from sfumato.data._records import RecordsError
from sfumato.data._videos import (
    RELEASE_PARTS,
    VIDEO_SUFFIXES,
    Sampling,
    VideoItem,
    VideoRecords,
)
from sfumato.errors import reading

Root = str | os.PathLike[str]

# Training subjects of the cross-subject protocols (Shahroudy et al. 2016; Liu et al. 2019).
_NTU60_TRAIN = {1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38}
_NTU120_TRAIN = _NTU60_TRAIN | {
    *(45, 46, 47, 49, 50, 52, 53, 54, 55, 56, 57, 58, 59, 70, 74, 78, 80, 81, 82, 83, 84, 85, 86),
    *(89, 91, 92, 93, 94, 95, 97, 98, 100, 103),
}
# Toyota Smarthome (Das et al. 2019): training subjects of the cross-subject protocol.
_TOYOTA_TRAIN = {3, 4, 6, 7, 9, 12, 13, 15, 17, 19, 25}
# The activities of its cross-view protocols: 19 of the 31, those that enough cameras see.
_TOYOTA_CROSS_VIEW = (
    *("Cutbread", "Drink.Frombottle", "Drink.Fromcan", "Drink.Fromcup", "Drink.Fromglass"),
    *("Eat.Attable", "Eat.Snack", "Enter", "Getup", "Leave", "Pour.Frombottle", "Pour.Fromcan"),
    *("Readbook", "Sitdown", "Takepills", "Uselaptop", "Usetablet", "Usetelephone", "Walk"),
)
# Cameras of CV1 and CV2 by part; the authors keep camera 5 for validation.
_TOYOTA_CAMERAS = {
    "CV1": {"train": {1}, "test": {2}},
    "CV2": {"train": {1, 3, 4, 6, 7}, "test": {2}},
}
_MISSING = "Expected every listed video, but some files are not there: left out."


def _one_of(value: object, allowed: tuple[object, ...], what: str) -> None:
    if value not in allowed:
        named = ", ".join(map(str, allowed))
        raise RecordsError(f"Expected {what} to be one of {named}, got {value!r}.")


def _recordings(folder: Path) -> list[Path]:
    """Every video below a folder, originals or releases, without the layers of a release."""
    return sorted(
        path for path in folder.rglob("*")
        if path.suffix.lower() in VIDEO_SUFFIXES and not path.name.endswith(RELEASE_PARTS)
    )  # fmt: skip


@reading("UCF101 as it is published", RecordsError)
def ucf101(
    root: Root, part: str = "train", split: int = 1, *, sampling: Sampling | None = None
) -> VideoRecords:
    """``root/UCF-101/CLASS/*.avi`` and ``root/ucfTrainTestlist``; the owner is the group.

    Clips of one group come from one source video, so a group stands for its people.
    """
    _one_of(part, ("train", "test"), "part")
    _one_of(split, (1, 2, 3), "split")
    folder = existing_folder(root, "UCF101")
    lists = existing_folder(folder / "ucfTrainTestlist", "the lists of UCF101 (ucfTrainTestlist)")
    rows = (
        existing_file(lists / "classInd.txt", "class names")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    classes = [row.split()[1] for row in rows if row.strip()]
    problems, items = Problems(), []
    listed = existing_file(
        lists / f"{part}list{split:02d}.txt", f"the {part} list of split {split}"
    )
    for row in filter(str.strip, listed.read_text(encoding="utf-8").splitlines()):
        relative = Path(row.split()[0])
        name = relative.parent.name
        if name not in classes:
            problems.add("Expected classes of classInd.txt, got others: left out.")
            continue
        path = folder / "UCF-101" / relative
        if not path.is_file():
            problems.add(_MISSING)
            continue
        group = re.search(r"_g(\d+)_c\d+", relative.stem)
        owners = (f"{name}_g{group[1]}",) if group else ()
        items.append(VideoItem(path, classes.index(name), owners))
    return VideoRecords(items, classes, sampling=sampling, problems=problems)


@reading("HMDB51 as it is published", RecordsError)
def hmdb51(
    root: Root, part: str = "train", split: int = 1, *, sampling: Sampling | None = None
) -> VideoRecords:
    """``root/videos/CLASS/*.avi`` and ``root/testTrainMulti_7030_splits/CLASS_test_splitN.txt``.

    HMDB51 does not name people, so records have no owners; ``people`` is the count in the file name.
    """
    _one_of(part, ("train", "test"), "part")
    _one_of(split, (1, 2, 3), "split")
    folder = existing_folder(root, "HMDB51")
    lists = existing_folder(folder / "testTrainMulti_7030_splits", "the splits of HMDB51")
    suffix = f"_test_split{split}.txt"
    files = sorted(path for path in lists.iterdir() if path.name.endswith(suffix))
    classes = [path.name.removesuffix(suffix) for path in files]
    wanted = {"train": "1", "test": "2"}[part]
    videos = folder / "videos" if (folder / "videos").is_dir() else folder
    problems, items = Problems(), []
    for label, (name, listed) in enumerate(zip(classes, files)):
        for row in filter(str.strip, listed.read_text(encoding="utf-8").splitlines()):
            file, use = row.rsplit(maxsplit=1)
            if use not in ("0", "1", "2"):
                problems.add(
                    "Expected 0, 1 or 2 behind every video of a split, got others: left out."
                )
            elif use == wanted:
                path = videos / name / file
                if not path.is_file():
                    problems.add(_MISSING)
                    continue
                people = re.search(r"_np(\d)_", file)
                attributes = {"people": int(people[1])} if people else {}
                items.append(VideoItem(path, label, (), attributes))
    return VideoRecords(items, classes, sampling=sampling, problems=problems)


@reading("NTU RGB+D as it is published", RecordsError)
def ntu_rgbd(
    root: Root,
    part: str = "train",
    protocol: str = "subject",
    actions: int = 60,
    *,
    sampling: Sampling | None = None,
) -> VideoRecords:
    """``S001C001P001R001A001_rgb.avi`` anywhere under root; the owner is the performer P.

    Protocols: ``subject``, ``view`` (60 actions: camera 1 tests) and ``setup`` (120: even setups
    train). Actions 50 to 60 and 106 to 120 show two people, of whom the file names only the first.
    """
    _one_of(part, ("train", "test"), "part")
    _one_of(actions, (60, 120), "actions")
    _one_of(protocol, ("subject", "view") if actions == 60 else ("subject", "setup"), "protocol")
    folder = existing_folder(root, "NTU RGB+D")
    name = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})")
    problems, items = Problems(), []
    for path in _recordings(folder):
        found = name.match(path.name)
        if not found:
            problems.add("Expected names like S001C001P001R001A001_rgb.avi, got others: left out.")
            continue
        setup, camera, person, repeat, action = map(int, found.groups())
        if not 1 <= action <= actions:
            problems.add(f"Expected actions 1 to {actions}, got others: left out.")
            continue
        if protocol == "subject":
            trains = person in (_NTU60_TRAIN if actions == 60 else _NTU120_TRAIN)
        else:
            trains = camera != 1 if protocol == "view" else setup % 2 == 0
        if trains == (part == "train"):
            facts = {"camera": camera, "setup": setup, "repeat": repeat}
            items.append(VideoItem(path, action - 1, (f"P{person:03d}",), facts))
    classes = [f"A{action:03d}" for action in range(1, actions + 1)]
    return VideoRecords(items, classes, sampling=sampling, problems=problems)


@reading("Toyota Smarthome as it is published", RecordsError)
def toyota_smarthome(
    root: Root, part: str = "train", protocol: str = "CS", *, sampling: Sampling | None = None
) -> VideoRecords:
    """``root/mp4/ACTIVITY_p02_r00_v02_c03.mp4``; the owner is p. Protocols CS, CV1 and CV2.

    Cross-view protocols know 19 of the activities; videos of the others are no part of them.
    """
    _one_of(part, ("train", "test"), "part")
    _one_of(protocol, ("CS", "CV1", "CV2"), "protocol")
    folder = existing_folder(root, "Toyota Smarthome")
    name = re.compile(r"(.+)_p(\d+)_r(\d+)_v(\d+)_c(\d+)$")
    problems, found = Problems(), []
    for path in _recordings(folder):
        match = name.match(path.stem)
        if match:
            found.append((path, match))
        else:
            problems.add("Expected names like Walk_p02_r00_v02_c03.mp4, got others: left out.")
    cross_subject = protocol == "CS"
    classes = sorted({match[1] for _, match in found}) if cross_subject else _TOYOTA_CROSS_VIEW
    items = []
    for path, match in found:
        activity, person, camera = match[1], int(match[2]), int(match[5])
        if cross_subject:
            used = (person in _TOYOTA_TRAIN) == (part == "train")
        else:
            used = activity in classes and camera in _TOYOTA_CAMERAS[protocol][part]
        if used:
            owners = (f"p{person:02d}",)
            items.append(VideoItem(path, classes.index(activity), owners, {"camera": camera}))
    return VideoRecords(items, classes, sampling=sampling, problems=problems)


@reading("Kinetics as it is published", RecordsError)
def kinetics(
    root: Root,
    listing: Root,
    *,
    part: str | None = None,
    sampling: Sampling | None = None,
) -> VideoRecords:
    """A Kinetics list: the published CSV, or lines ``path label``; videos under ``root``.

    The CSV (label, youtube_id, time_start, time_end, split) is matched with
    ``LABEL/ID_000010_000020.mp4`` or the same name without the class folder. Videos that are gone,
    as many are, are counted.
    """
    folder = existing_folder(root, "Kinetics videos")
    file = existing_file(Path(listing), "a Kinetics list")
    if file.suffix == ".csv":
        return _kinetics_csv(folder, file, part, sampling)
    problems, items, labels = Problems(), [], []
    for row in filter(str.strip, file.read_text(encoding="utf-8").splitlines()):
        name, _, label = row.strip().rpartition(" ")
        if not name or not label.isdigit():
            problems.add("Expected lines 'path label' with a whole number, got others: left out.")
            continue
        labels.append(int(label))
        if (folder / name).is_file():
            items.append(VideoItem(folder / name, int(label)))
        else:
            problems.add(_MISSING)
    classes = [str(label) for label in range(max(labels, default=-1) + 1)]
    return VideoRecords(items, classes, sampling=sampling, problems=problems)


def _kinetics_csv(
    folder: Path, file: Path, part: str | None, sampling: Sampling | None
) -> VideoRecords:
    with open(file, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    needed = {"label", "youtube_id", "time_start", "time_end"}
    if not rows or not needed <= set(rows[0]):
        raise RecordsError(
            f"Expected columns {', '.join(sorted(needed))} in {file.name}, got "
            f"{', '.join(rows[0]) if rows else 'no rows'}: use the published list."
        )
    classes = sorted({row["label"] for row in rows})
    problems, items = Problems(), []
    for row in rows:
        if part is not None and row.get("split", part) != part:
            continue
        start, end = int(float(row["time_start"])), int(float(row["time_end"]))
        name = f"{row['youtube_id']}_{start:06d}_{end:06d}.mp4"
        places = [folder / row["label"] / name, folder / row["label"].replace(" ", "_") / name]
        path = next((p for p in (*places, folder / name) if p.is_file()), None)
        if path is None:
            problems.add(_MISSING)
        else:
            items.append(VideoItem(path, classes.index(row["label"])))
    return VideoRecords(items, classes, sampling=sampling, problems=problems)
