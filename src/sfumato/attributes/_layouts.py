"""Data sets for attribute methods: a published folder, read as tensors and parts.

| folder holds | read as | train and test |
| --- | --- | --- |
| ``audioMNIST_meta.txt`` or ``logmel.npz`` | log-mel pictures | takes 0-39, takes 40-49 |
| ``A_DeviceMotion_data`` | log spectra of windows | the published trials |
| ``SA01`` ... with ``Readme.txt``, or packed with ``subjects.csv`` | log spectra of windows | blocks of time with gaps |
| ``list_attr_celeba.txt`` | ImageNet features | the published parts |
| ``AGE_GENDER_RACE_DATE.jpg``, or ``index.csv`` with an archive | ImageNet features | four fifths, one fifth |
| ``manifest.csv`` or ``manifest.jsonl`` with attributes | pictures: ImageNet features; sounds: log-mel; arrays as they are | its splits |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.attributes._pictures import picture_features
from sfumato.attributes._tasks import AttributesError
from sfumato.data import (
    DATASETS,
    ArrayRecords,
    AttributeRecords,
    Dataset,
    FacePictures,
    ListedFiles,
    WriteFile,
    audio_mnist,
    celeba,
    manifest,
    motion_sense,
    read_registered,
    read_wav,
    sisfall,
    utkface,
)
from sfumato.media import write_image

_PARTS = ("train", "test")
_MANIFESTS = ("manifest.csv", "manifest.jsonl")
# windows of a block: ten to train, one left out, four to test, one left out
_BLOCK, _TRAIN, _TEST = 16, slice(0, 10), slice(11, 15)


def read_dataset(folder: Path) -> Dataset:
    """The data set in ``folder``, recognised by what its authors put there."""
    if not folder.is_dir():
        raise AttributesError(f"Expected the folder of a data set at {str(folder)!r}, found none.")
    for fits, read in _LAYOUTS:
        if fits(folder):
            return read(folder)
    registered = read_registered(folder)
    if registered is not None:
        return registered
    more = "".join(f", {name}" for name, each in DATASETS.items() if each.attributes is not None)
    raise AttributesError(
        f"Expected AudioMNIST, MotionSense, SisFall, CelebA or UTKFace{more} in its published layout, or a "
        f"{_MANIFESTS[0]}, at {str(folder)!r}, got something else: see docs/data.md for the files of each."
    )


def _in_parts(
    layout: str, parts: Sequence[ArrayRecords], write_file: WriteFile | None = None
) -> Dataset:
    """A data set whose authors say what is for training and what for testing."""
    whole, cut = _joined(parts), len(parts[0])
    return Dataset(layout, whole, range(cut), range(cut, len(whole)), write_file=write_file)


def _read_audio(folder: Path) -> Dataset:
    data = _in_parts("AudioMNIST", [audio_mnist(folder, part) for part in _PARTS])
    return replace(data, write_file=_recordings(folder, data.records))


def _recordings(folder: Path, whole: ArrayRecords) -> WriteFile | None:
    """The samples of every record's wav file: the loader reads them sorted, train takes first.

    Packed data have none. Where the loader left files out, numbers and files would not agree, and
    another person's voice would be released: then there are none either.
    """
    data = folder / "data" if (folder / "data").is_dir() else folder
    paths = sorted(data.glob("*/*.wav"))
    takes = [int(path.stem.split("_")[2]) for path in paths]
    ordered = [path for path, take in zip(paths, takes) if take < 40]
    ordered += [path for path, take in zip(paths, takes) if take >= 40]
    assert whole.owners is not None
    told = [(str(path.stem).split("_")[0], path.stem.split("_")[1]) for path in ordered]
    known = [
        (str(digit), who[0].removeprefix("speaker_"))
        for digit, who in zip(whole.y.tolist(), whole.owners)
    ]
    if told != known:
        return None
    return lambda index, path: write_samples(ordered[index], path)


def _read_motion_sense(folder: Path) -> Dataset:
    parts = [motion_sense(folder, part, magnitude=False) for part in _PARTS]
    data = _in_parts("MotionSense", parts)
    return _seen_as_spectra(data)


def _read_sisfall(folder: Path) -> Dataset:
    windows = sisfall(folder, magnitude=False)
    return _seen_as_spectra(Dataset("SisFall", windows, *time_blocks(windows)))


def _seen_as_spectra(data: Dataset) -> Dataset:
    """The encoder sees log spectra; a release holds the donors' windows as the sensor gave them."""
    windows = data.records.x

    def write(index: int, path: Path) -> Path:
        target = path.with_suffix(".npy")
        np.save(target, windows[index])
        return target

    data.records.x = log_spectra(windows)
    return replace(data, write_file=write)


def log_spectra(windows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(n, time, channels) to (n, time / 2 + 1, channels): where in a step a window starts is gone."""
    return np.log1p(np.abs(np.fft.rfft(windows, axis=1))).astype(np.float32)


def time_blocks(windows: AttributeRecords) -> tuple[list[int], list[int]]:
    """Each person's windows of one activity in blocks of time, train and test with a gap between.

    Windows overlap by half, so that two of them with one between share nothing.
    """
    assert windows.owners is not None
    runs: dict[tuple[str, int], list[int]] = {}
    for index, (who, activity) in enumerate(zip(windows.owners, windows.y.tolist())):
        runs.setdefault((who[0], activity), []).append(index)
    train, test = [], []
    for run in runs.values():
        for start in range(0, len(run), _BLOCK):
            block = run[start : start + _BLOCK]
            train += block[_TRAIN]
            test += block[_TEST]
    return train, test


def _read_celeba(folder: Path) -> Dataset:
    parts = [celeba(folder, part) for part in _PARTS]
    cut = len(parts[0])

    def write(index: int, path: Path) -> Path:
        return write_pixels((parts[0][index] if index < cut else parts[1][index - cut]).x, path)

    return _in_parts("CelebA", [featured(part) for part in parts], write)


def _read_utkface(folder: Path) -> Dataset:
    faces = utkface(folder)
    order = np.arange(len(faces))
    train, test = order[order % 5 != 0].tolist(), order[order % 5 == 0].tolist()
    return Dataset(
        "UTKFace", featured(faces), train, test,
        write_file=lambda index, path: write_pixels(faces[index].x, path),
    )  # fmt: skip


def _read_manifest(folder: Path) -> Dataset:
    """One's own list: the label and every attribute are attributes, each with classes by name."""
    listing = next(folder / name for name in _MANIFESTS if (folder / name).is_file())
    found = [manifest(listing, part) for part in _PARTS]
    parts = [part for part in found if isinstance(part, ListedFiles)]
    if len(parts) < len(found) or len({part.kind for part in parts}) > 1:
        raise AttributesError(
            f"Expected pictures, sounds or arrays alone in {listing.name}, got videos, or several kinds."
        )
    kind, cut = parts[0].kind, len(parts[0])
    rows = [part[index] for part in parts for index in range(len(part))]
    shown = [row.x for row in rows]
    if kind != "picture" and len({x.shape for x in shown}) > 1:
        raise AttributesError(
            f"Expected recordings of one shape in {listing.name}, got several: cut them into windows."
        )
    named = {name: [str(row.attributes[name]) for row in rows] for name in rows[0].attributes}
    columns = {name: np.unique(values, return_inverse=True)[1] for name, values in named.items()}
    labels = np.array([row.y for row in rows])
    records = ArrayRecords(
        picture_features(shown) if kind == "picture" else np.stack(shown),
        labels,
        owners=[row.owners for row in rows],
        attributes={"label": labels, **columns},
    )
    files = [item.path for part in parts for item in part.items]
    write: dict[str, WriteFile] = {
        "picture": lambda index, path: write_pixels(shown[index], path),
        "sound": lambda index, path: write_samples(files[index], path),
    }
    return Dataset(
        listing.name, records, range(cut), range(cut, len(rows)), write_file=write.get(kind)
    )


def write_pixels(picture: npt.NDArray[np.uint8], path: Path) -> Path:
    """As the encoder saw them: place, camera, owner and thumbnail of the original stay behind."""
    target = path.with_suffix(".png")
    write_image(target, picture)
    return target


def write_samples(recording: Path, path: Path) -> Path:
    """Sampling rate and samples; title, artist, date and tool of the original stay behind."""
    from scipy.io import wavfile

    target = path.with_suffix(".wav")
    wavfile.write(target, *read_wav(recording))
    return target


def featured(pictures: FacePictures) -> ArrayRecords:
    """Pictures as ImageNet features, all else as it is."""
    return ArrayRecords(
        picture_features(record.x for record in pictures),
        pictures.attributes[pictures.label],
        owners=pictures.owners,
        attributes=pictures.attributes,
    )


_LAYOUTS: Sequence[tuple[Callable[[Path], bool], Callable[[Path], Dataset]]] = (
    (lambda folder: any((folder / name).is_file() for name in _MANIFESTS), _read_manifest),
    (
        lambda folder: any(
            (folder / name).is_file()
            for name in ("logmel.npz", "audioMNIST_meta.txt", "data/audioMNIST_meta.txt")
        ),
        _read_audio,
    ),
    (lambda folder: (folder / "A_DeviceMotion_data").is_dir(), _read_motion_sense),
    (
        lambda folder: (folder / "subjects.csv").is_file() or bool(list(folder.glob("S[AE]01"))),
        _read_sisfall,
    ),
    (lambda folder: (folder / "list_attr_celeba.txt").is_file(), _read_celeba),
    (
        lambda folder: (folder / "index.csv").is_file() or any(folder.rglob("*_*_*_*.jpg")),
        _read_utkface,
    ),
)


def _joined(parts: Sequence[ArrayRecords]) -> ArrayRecords:
    owners = [who for part in parts for who in part.owners or ((),) * len(part)]
    names = parts[0].attributes
    return ArrayRecords(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.y for part in parts]),
        owners=owners,
        attributes={
            name: np.concatenate([part.attributes[name] for part in parts]) for name in names
        },
    )
