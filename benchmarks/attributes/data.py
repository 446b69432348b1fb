"""The three data sets of table ``pass``, each as (train, test), cut once and for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness.cells import bench_folder
from benchmarks.harness.recordings import recordings
from sfumato.attributes import picture_features, read_dataset
from sfumato.data import ArrayRecords, FacePictures, chosen_rows, utkface
from sfumato.files import atomic_output

Split = tuple[ArrayRecords, ArrayRecords]
# what the table calls them, and the folder's name below the root of the data
FOLDERS = {"audio": "audiomnist", "motion": "sisfall", "faces": "utkface"}
# younger or not: about half of the faces are
YOUNG = 35


def find_folders(data: str | None) -> dict[str, Path]:
    """Data set -> folder; ``data`` is their common root, or the folders themselves with commas."""
    if data is None:
        return {}
    found = recordings(data, *FOLDERS.values())
    return {key: found[name] for key, name in FOLDERS.items() if name in found}


def face_split(folder: Path, step: int = 1) -> Split:
    """ImageNet features of every ``step``-th face, kept in the user's cache."""
    faces = utkface(folder)
    chosen = range(0, len(faces), step)
    kept = bench_folder() / f"pass-faces-middle-{len(chosen)}.npy"
    if kept.is_file():
        features = np.load(kept, allow_pickle=False)
    else:
        features = picture_features([faces[index].x for index in chosen])
        with atomic_output(kept) as temporary:
            np.save(temporary, features)
    return faces_of(faces, features, chosen)


def faces_of(
    faces: FacePictures, features: npt.NDArray[np.float32], chosen: Sequence[int]
) -> Split:
    """The split of the ``chosen`` faces with any tensors in the place of the pictures.

    Age in two groups about the median, as CelebA has "Young", and in four.
    """
    facts = {name: values[list(chosen)] for name, values in faces.attributes.items()}
    age = np.digitize(facts["age"], [YOUNG])
    four = np.digitize(facts["age"], [30, 45, 60])
    columns = {"gender": facts["gender"], "race": facts["race"], "age": age, "age4": four}
    whole = ArrayRecords(features, age, attributes=columns)
    order = np.arange(len(whole))
    return (
        chosen_rows(whole, order[order % 5 != 0].tolist()),
        chosen_rows(whole, order[order % 5 == 0].tolist()),
    )


SPLITS: Mapping[str, Callable[[Path], Split]] = {
    "audio": lambda folder: read_dataset(folder).split,
    "motion": lambda folder: read_dataset(folder).split,
    "faces": face_split,
}


def share_of(records: ArrayRecords, share: float) -> ArrayRecords:
    """A random share of the records: what a protector with less data than the attacker has."""
    if share == 1:
        return records
    chosen = np.random.default_rng(0).permutation(len(records))[: round(share * len(records))]
    return chosen_rows(records, [int(index) for index in np.sort(chosen)])
