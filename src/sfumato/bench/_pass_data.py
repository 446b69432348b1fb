"""The three data sets of table ``pass``, each as (train, test), cut once and for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.bench._cells import bench_folder
from sfumato.data import ArrayRecords, Pictures, audio_mnist, sisfall, utkface
from sfumato.errors import SfumatoError
from sfumato.files import atomic_output
from sfumato.models import efficientnet_lite0

Split = tuple[ArrayRecords, ArrayRecords]
# what the papers call them, and the folder's name below the root of the data
FOLDERS = {"audio": "audiomnist", "motion": "sisfall", "faces": "utkface"}
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FACE_SIZE = 128
# windows of a block: ten to train, one left out, four to test, one left out
_BLOCK, _TRAIN, _TEST = 16, slice(0, 10), slice(11, 15)


def find_folders(data: str | None) -> dict[str, Path]:
    """Data set -> folder; ``data`` is their common root, or the folders themselves with commas."""
    if data is None:
        return {}
    named = [Path(each) for each in data.split(",")]
    found = {}
    for key, name in FOLDERS.items():
        candidates = [path for path in named if path.name == name]
        candidates += [path / name for path in named]
        existing = [path for path in candidates if path.is_dir()]
        if existing:
            found[key] = existing[0]
    if not found:
        raise SfumatoError(
            f"Expected data= with one of the folders {', '.join(FOLDERS.values())}, got none."
        )
    return found


def audio_split(folder: Path) -> Split:
    """Takes 0-39 train, 40-49 test, as in the paper."""
    return audio_mnist(folder, "train"), audio_mnist(folder, "test")


def motion_split(folder: Path) -> Split:
    """Each person's windows of one activity in blocks of time, train and test with a gap between.

    Windows overlap by half, so that two of them with one between share nothing. They are shown as
    log spectra (65, 6): where in a step a window starts says nothing.
    """
    windows = sisfall(folder, magnitude=False)
    windows.x = np.log1p(np.abs(np.fft.rfft(windows.x, axis=1))).astype(np.float32)
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
    return rows(windows, train), rows(windows, test)


def face_split(folder: Path) -> Split:
    """Features of every face; every fifth one is a test face; age in four groups."""
    faces = utkface(folder)
    return faces_of(faces, face_features(faces), range(len(faces)))


def faces_of(faces: Pictures, features: npt.NDArray[np.float32], chosen: Sequence[int]) -> Split:
    """The split of the ``chosen`` faces with any tensors in the place of the pictures."""
    facts = {name: values[list(chosen)] for name, values in faces.attributes.items()}
    age = np.digitize(facts["age"], [30, 45, 60])
    columns = {"gender": facts["gender"], "race": facts["race"], "age": age}
    whole = ArrayRecords(features, age, attributes=columns)
    order = np.arange(len(whole))
    return (
        rows(whole, order[order % 5 != 0].tolist()),
        rows(whole, order[order % 5 == 0].tolist()),
    )


def face_features(faces: Pictures) -> npt.NDArray[np.float32]:
    """ImageNet features of the pictures as they are, computed once and kept in the user's cache."""
    kept = bench_folder() / f"pass-faces-{_FACE_SIZE}-{len(faces)}.npy"
    if kept.is_file():
        stored: npt.NDArray[np.float32] = np.load(kept, allow_pickle=False)
        return stored
    found = picture_features([faces[index].x for index in range(len(faces))])
    with atomic_output(kept, force=True) as temporary:
        np.save(temporary, found)
    return found


def picture_features(pictures: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.float32]:
    """EfficientNet-Lite0's last map of pictures (height, width, 3), averaged over its quarters."""
    network = efficientnet_lite0(pretrained=True)
    mean, deviation = (torch.tensor(each).view(1, 3, 1, 1) for each in _IMAGENET)
    parts: list[Tensor] = []
    with torch.inference_mode():
        for start in range(0, len(pictures), 64):
            stacked = torch.from_numpy(np.stack(pictures[start : start + 64])).permute(0, 3, 1, 2)
            shown = functional.interpolate(
                (stacked / 255 - mean) / deviation, size=(_FACE_SIZE, _FACE_SIZE), mode="bilinear"
            ).contiguous(memory_format=torch.channels_last)
            quarters = functional.adaptive_avg_pool2d(network.features(shown), 2)
            parts.append(quarters.flatten(1))
    return torch.cat(parts).numpy()


SPLITS: Mapping[str, Callable[[Path], Split]] = {
    "audio": audio_split,
    "motion": motion_split,
    "faces": face_split,
}


def rows(records: ArrayRecords, chosen: Sequence[int]) -> ArrayRecords:
    """The named records, in that order."""
    owners = records.owners
    return ArrayRecords(
        records.x[list(chosen)],
        records.y[list(chosen)],
        owners=None if owners is None else [owners[index] for index in chosen],
        attributes={name: value[list(chosen)] for name, value in records.attributes.items()},
    )


def share_of(records: ArrayRecords, share: float) -> ArrayRecords:
    """A random share of the records: what a protector with less data than the attacker has."""
    if share == 1:
        return records
    chosen = np.random.default_rng(0).permutation(len(records))[: round(share * len(records))]
    return rows(records, [int(index) for index in np.sort(chosen)])
