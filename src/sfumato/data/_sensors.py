"""MotionSense and SisFall: motion sensors cut into windows; activity useful, sex and identity private."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, existing_file, existing_folder, require_some
from sfumato.data._records import AttributeRecords, RecordsError
from sfumato.errors import reading

Floats = npt.NDArray[np.float32]
_MOTION_ACTIVITIES = ("dws", "ups", "wlk", "jog", "std", "sit")
_MOTION_FOLDER = "A_DeviceMotion_data"
_SISFALL_ACTIVITIES = ("D01", "D02", "D03", "D04", "D05", "D06")
# Data sheet scales of SisFall's ADXL345 (16 g, 13 bits) and ITG3200 (2000 degrees a second, 16 bits).
_SISFALL_SCALE = np.array([2 * 16 / 2**13] * 3 + [2 * 2000 / 2**16] * 3, dtype=np.float32)


def windows_of(signal: Floats, length: int, stride: int) -> Floats:
    """(windows, length, channels): all whole windows, ``stride`` apart."""
    if len(signal) < length:
        return np.empty((0, length, signal.shape[1]), np.float32)
    view = np.lib.stride_tricks.sliding_window_view(signal, length, axis=0)[::stride]
    return np.ascontiguousarray(view.transpose(0, 2, 1))


def magnitudes(signal: Floats) -> Floats:
    """Length of each triple of axes: six channels become two, as in the PASS paper."""
    triples = signal.reshape(len(signal), -1, 3)
    return np.asarray(np.linalg.norm(triples, axis=2), dtype=np.float32)


@reading("MotionSense as it is published", RecordsError)
def motion_sense(
    root: str | os.PathLike[str],
    part: str = "train",
    *,
    magnitude: bool = True,
    length: int = 128,
    stride: int = 10,
    still: bool = False,
) -> AttributeRecords:
    """``A_DeviceMotion_data/dws_1/sub_1.csv`` and ``data_subjects_info.csv``.

    Archives unpacked into a folder of their own name (``A_DeviceMotion_data/A_DeviceMotion_data``) are read too.
    The trial split of Malekzadeh et al. (2019): trials 1 to 9 train, 11 to 16 test. Channels are
    the magnitudes of rotation and of acceleration, or the six axes. ``still`` adds standing and
    sitting, which the papers leave out. Nothing is normalised: constants are the caller's.
    """
    if part not in ("train", "test"):
        raise RecordsError(f"Expected part train or test, got {part!r}.")
    folder = existing_folder(root, "MotionSense")
    data = existing_folder(folder / _MOTION_FOLDER, "the signals of MotionSense")
    nested = data / _MOTION_FOLDER
    data = nested if nested.is_dir() else data
    sexes = _motion_sexes(existing_file(folder / "data_subjects_info.csv", "the subjects"))
    activities = _MOTION_ACTIVITIES if still else _MOTION_ACTIVITIES[:4]
    problems = Problems()
    parts: list[tuple[Floats, int, int, int]] = []
    for trial in sorted(path for path in data.iterdir() if path.is_dir()):
        name, _, number = trial.name.partition("_")
        if name not in _MOTION_ACTIVITIES or not number.isdigit():
            problems.add("Expected folders like dws_1, got others: left out.")
            continue
        if name not in activities or (int(number) <= 9) != (part == "train"):
            continue
        for path in sorted(trial.glob("sub_*.csv")):
            subject = int(path.stem.removeprefix("sub_"))
            if subject not in sexes:
                problems.add("Expected every subject in data_subjects_info.csv: left out.")
                continue
            signal = _motion_signal(path)
            cut = windows_of(magnitudes(signal) if magnitude else signal, length, stride)
            problems.add("Expected recordings of at least one window: left out.", int(not len(cut)))
            parts.append((cut, activities.index(name), sexes[subject], subject))
    people = sorted({subject for *_, subject in parts})
    return _windows(
        [(cut, label, sex, people.index(s), f"sub_{s}") for cut, label, sex, s in parts],
        activities,
        tuple(f"sub_{subject}" for subject in people),
        problems,
    )


def _motion_sexes(path: Path) -> dict[int, int]:
    with open(path, encoding="utf-8", newline="") as stream:
        return {int(row["code"]): int(row["gender"]) for row in csv.DictReader(stream)}


def _motion_signal(path: Path) -> Floats:
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        header = next(reader)
        wanted = [
            f"{kind}.{axis}" for kind in ("rotationRate", "userAcceleration") for axis in "xyz"
        ]
        if not set(wanted) <= set(header):
            raise RecordsError(f"Expected columns {', '.join(wanted)} in {path.name}.")
        columns = [header.index(name) for name in wanted]
        return np.array([[float(row[c]) for c in columns] for row in reader], dtype=np.float32)


@reading("SisFall as it is published", RecordsError)
def sisfall(
    root: str | os.PathLike[str],
    *,
    magnitude: bool = True,
    length: int = 128,
    stride: int = 64,
    subjects: tuple[str, ...] | None = None,
) -> AttributeRecords:
    """``SA01/D01_SA01_R01.txt`` at 200 Hz with ``Readme.txt``, or a packed 50 Hz .npz.

    Activities D01 to D06 (walking, jogging, stairs; slow and quick), waist accelerometer in g and
    gyroscope in degrees a second, at 50 Hz (means of four samples). ``subjects`` keeps some people.
    """
    folder = existing_folder(root, "SisFall")
    facts = _sisfall_subjects(folder)
    packed = sorted(folder.glob("*.npz"))
    problems = Problems()
    signals = _sisfall_packed(packed[0]) if packed else _sisfall_text(folder, problems)
    rows = []
    people = tuple(sorted({subject for _, _, subject in signals if _kept(subject, subjects)}))
    for signal, activity, subject in signals:
        if subject not in facts:
            problems.add("Expected sex and age of every subject, got none for some: left out.")
        elif _kept(subject, subjects):
            scaled = signal.astype(np.float32) * _SISFALL_SCALE
            cut = windows_of(magnitudes(scaled) if magnitude else scaled, length, stride)
            label = _SISFALL_ACTIVITIES.index(activity)
            rows.append((cut, label, int(facts[subject] == "M"), people.index(subject), subject))
    return _windows(rows, _SISFALL_ACTIVITIES, people, problems)


def _kept(subject: str, subjects: tuple[str, ...] | None) -> bool:
    return subjects is None or subject in subjects


def _sisfall_subjects(folder: Path) -> dict[str, str]:
    table = folder / "subjects.csv"
    if table.is_file():
        with open(table, encoding="utf-8", newline="") as stream:
            return {row["subject"]: row["sex"].strip() for row in csv.DictReader(stream)}
    readme = existing_file(folder / "Readme.txt", "sex and age of SisFall's subjects")
    text = readme.read_text(encoding="latin-1")
    row = re.compile(r"\|\s*(S[AE]\d\d)\s*\|[^|]*\|[^|]*\|[^|]*\|\s*([MF])\s*\|")
    return {found[1]: found[2] for found in row.finditer(text)}


def _sisfall_packed(path: Path) -> list[tuple[npt.NDArray[np.int16], str, str]]:
    with np.load(path, allow_pickle=False) as stored:
        x, offsets = stored["x"], stored["offsets"]
        names = list(zip(stored["activity"].tolist(), stored["subject"].tolist()))
    return [(x[offsets[i] : offsets[i + 1]], *name) for i, name in enumerate(names)]


def _sisfall_text(
    folder: Path, problems: Problems
) -> list[tuple[npt.NDArray[np.float32], str, str]]:
    signals = []
    for path in sorted(folder.glob("S*/D*_S*_R*.txt")):
        activity, subject, _ = path.stem.split("_")
        if activity not in _SISFALL_ACTIVITIES:
            continue
        lines = path.read_text(encoding="utf-8").replace(";", "").splitlines()
        values = [[float(v) for v in line.split(",")[:6]] for line in lines if line.strip()]
        if not values or {len(row) for row in values} != {6}:
            problems.add("Expected nine numbers in every line of a recording: left out.")
            continue
        raw = np.array(values, dtype=np.float32)
        whole = len(raw) // 4 * 4
        signals.append((raw[:whole].reshape(-1, 4, 6).mean(1), activity, subject))
    return signals


def _windows(
    rows: list[tuple[Floats, int, int, int, str]],
    activities: tuple[str, ...],
    people: tuple[str, ...],
    problems: Problems,
) -> AttributeRecords:
    require_some([row for row in rows if len(row[0])], "windows", problems)
    counts = [len(row[0]) for row in rows]
    activity, sex, person = (np.repeat([row[i] for row in rows], counts) for i in (1, 2, 3))
    return AttributeRecords(
        np.concatenate([row[0] for row in rows]),
        "activity",
        {"activity": activity, "sex": sex, "person": person},
        {"activity": activities, "sex": ("female", "male"), "person": people},
        owners=[row[4] for row, count in zip(rows, counts) for _ in range(count)],
        problems=problems,
    )
