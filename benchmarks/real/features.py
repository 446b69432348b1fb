"""Fixed features of real recordings: every number in them comes from public data or from the record itself.

| private | features | principal components, and a head, from |
| --- | --- | --- |
| AudioMNIST | 7 x 7 patches of log-mel pictures, matched with 64 that FSDD's are made of | FSDD (4 speakers) |
| SisFall | log spectra of windows | wrist sensors of UTD-MHAD (components alone) |
| UTKFace | EfficientNet-Lite0 (ImageNet) | crops of LSP's pictures (components alone) |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.attributes import picture_features
from sfumato.data import (
    AttributeRecords,
    DataRequest,
    FacePictures,
    Subset,
    audio_mnist,
    fsdd,
    load_dataset,
    lsp,
    utd_mhad,
    windows_of,
)
from sfumato.files import atomic_output

Floats = npt.NDArray[np.float32]
_SIDE, _KERNELS, _GRID, _AT_ONCE = 7, 64, (5, 6), 16
_QUIET = 0.5  # the loudest silence that public pictures are given, of the whole range


@dataclass(frozen=True)
class Features:
    """Of private records to train and test on, and of public ones; all have length 1."""

    train: Floats
    test: Floats
    y: npt.NDArray[np.int64]
    y_test: npt.NDArray[np.int64]
    owners: list[str]
    public: Floats
    public_y: npt.NDArray[np.int64] | None = None
    public_owners: tuple[str, ...] = ()

    def on_first(self, rank: int) -> Features:
        """On the strongest components alone, scaled to length 1 again."""
        first = [
            functional.normalize(torch.from_numpy(each[:, :rank]), dim=1).numpy()
            for each in (self.train, self.test, self.public)
        ]
        return replace(self, train=first[0], test=first[1], public=first[2])


def spoken_digits(folder: Path, public: Path, rank: int, most: int | None) -> Features:
    """AudioMNIST by take; everything that is learnt of pictures comes from FSDD."""
    train, test, other = audio_mnist(folder, "train"), audio_mnist(folder, "test"), fsdd(public)
    pictures = _noisy_floor(_pictures(other))
    kernels = _patches(_standard(pictures))
    seen = [_pictures(train, most), _pictures(test, most), pictures]
    shown = [_matched(_standard(each), kernels) for each in seen]
    *own, public_x = _on_components(shown[:2], shown[2], rank)
    assert train.owners is not None
    assert other.owners is not None
    return Features(
        own[0], own[1], train.y[_some(train, most)], test.y[_some(test, most)],
        [train.owners[i][0] for i in _some(train, most)], public_x, other.y,
        tuple(who[0] for who in other.owners),
    )  # fmt: skip


def motions(folder: Path, public: Path, rank: int) -> Features:
    """SisFall by people; windows share no sample."""
    parts = [
        load_dataset(DataRequest(kind="sisfall", path=folder, split=split))
        for split in ("train", "test")
    ]
    x = [np.stack([each[i].x for i in range(len(each))]) for each in parts]
    y = [np.array([each[i].y for i in range(len(each))], dtype=np.int64) for each in parts]
    wrist = utd_mhad(public, "inertial")
    other = np.concatenate([windows_of(wrist[i].x, 128, 64) for i in range(len(wrist))])
    spectra = [np.log1p(np.abs(np.fft.rfft(each, axis=1))).reshape(len(each), -1)
               for each in (*x, other)]  # fmt: skip
    *own, public_x = _on_components(spectra[:2], spectra[2], rank)
    owners = [parts[0][i].owners[0] for i in range(len(parts[0]))]
    return Features(own[0], own[1], y[0], y[1], owners, public_x)


def faces(folder: Path, public: Path, rank: int, most: int | None) -> Features:
    """UTKFace by gender, four fifths to train and one fifth to test; nobody knows whose faces they are."""
    parts = [_faces(folder, split, "gender") for split in ("train", "test")]
    records = [[part[i] for i in range(len(part))[:most]] for part in parts]
    sport = lsp(public, "train")
    crops = [_crop(sport[i].x) for i in range(len(sport))[:most]]
    maps = [picture_features([r.x for r in each]) for each in records]
    *own, public_x = _on_components(maps, picture_features(crops), rank)
    y = [np.array([r.y for r in each], dtype=np.int64) for each in records]
    return Features(own[0], own[1], y[0], y[1], [], public_x)


def by_age(features: Features, folder: Path) -> Features:
    """The same faces by age group."""
    y = []
    for split, count in (("train", len(features.y)), ("test", len(features.y_test))):
        part = _faces(folder, split, "age-group")
        assert isinstance(part.records, FacePictures)
        ages = part.records.attributes["age-group"]
        y.append(np.array([ages[i] for i in part.indices[:count]], dtype=np.int64))
    return replace(features, y=y[0], y_test=y[1])


def _faces(folder: Path, split: str, label: str) -> Subset:
    found = load_dataset(DataRequest(kind="utkface", path=folder, split=split, label=label))
    assert isinstance(found, Subset)
    return found


def _some(records: AttributeRecords, most: int | None) -> list[int]:
    """All records, or few of all people and digits for a quick run."""
    return list(range(len(records)))[:: 1 if most is None else max(1, len(records) // most)]


def _pictures(records: AttributeRecords, most: int | None = None) -> Tensor:
    return torch.from_numpy(records.x[_some(records, most), ..., 0].astype(np.float32) / 255)


def _noisy_floor(pictures: Tensor) -> Tensor:
    """Digital silence is FSDD's own: each picture gets a floor of noise."""
    draw = torch.Generator().manual_seed(0)
    floor = _QUIET * torch.rand(len(pictures), 1, 1, generator=draw)
    return torch.maximum(pictures, floor + 0.03 * torch.randn(pictures.shape, generator=draw))


def _standard(pictures: Tensor) -> Tensor:
    mean, spread = pictures.mean((1, 2), keepdim=True), pictures.std((1, 2), keepdim=True)
    return (pictures - mean) / (spread + 0.01)


def _patches(pictures: Tensor) -> Tensor:
    """Spherical k-means of whitened public patches (Coates and Ng 2011), as kernels."""
    draw = torch.Generator().manual_seed(0)
    found = functional.unfold(pictures[:, None], _SIDE, stride=4).transpose(1, 2).flatten(0, 1)
    found = found[torch.randperm(len(found), generator=draw)[:10_000]]
    found = found - found.mean(1, keepdim=True)
    found = found - found.mean(0)
    values, vectors = torch.linalg.eigh(found.T @ found / len(found))
    whiten = vectors @ torch.diag((values + 0.01 * values.max()).rsqrt()) @ vectors.T
    found = functional.normalize(found @ whiten, dim=1)
    centres = found[:_KERNELS].clone()
    for _ in range(10):
        nearest = (found @ centres.T).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, found)
        centres = functional.normalize(torch.where(sums.any(1, keepdim=True), sums, centres), dim=1)
    kernels: Tensor = (centres @ whiten).reshape(_KERNELS, 1, _SIDE, _SIDE)
    return kernels - kernels.mean((2, 3), keepdim=True)


def _matched(pictures: Tensor, kernels: Tensor) -> Tensor:
    """How strongly each kernel answers in each cell of a grid, of both signs."""
    parts = []
    for start in range(0, len(pictures), _AT_ONCE):
        answer = functional.conv2d(
            pictures[start : start + _AT_ONCE, None], kernels, padding=_SIDE // 2
        )
        both = torch.cat((functional.relu(answer - 0.5), functional.relu(-answer - 0.5)), 1)
        parts.append(functional.adaptive_avg_pool2d(both, _GRID).flatten(1).sqrt())
    return torch.cat(parts)


def _crop(picture: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    side = min(picture.shape[:2])
    top, left = ((size - side) // 2 for size in picture.shape[:2])
    return np.asarray(cv2.resize(picture[top : top + side, left : left + side], (96, 96)))


def _on_components(private: list[Any], public: Any, rank: int) -> list[Floats]:
    """On the strongest directions of the public features, evened out, scaled to length 1."""
    seen = torch.as_tensor(public, dtype=torch.float32)
    mean = seen.mean(0)
    torch.manual_seed(0)
    _, strength, basis = torch.svd_lowrank(seen - mean, q=rank, niter=4)
    strength = strength / len(seen) ** 0.5
    scale = (strength.square() + 0.03 * strength[0].square()).sqrt()
    made = [(torch.as_tensor(each, dtype=torch.float32) - mean) @ basis / scale for each in
            (*private, seen)]  # fmt: skip
    return [functional.normalize(each, dim=1).numpy() for each in made]


def kept_path(folder: Path, name: str) -> Path:
    return folder / f"features {name}.npz"


def kept(folder: Path, name: str, make: Callable[[], Features]) -> Features:
    """Features that were made before, or made now and kept: they take minutes."""
    path = kept_path(folder, name)
    if not path.is_file():
        found = make()
        arrays: dict[str, Any] = {
            field: np.asarray(getattr(found, field))
            for field in found.__dataclass_fields__
            if getattr(found, field) is not None
        }
        with atomic_output(path, force=True) as staged, open(staged, "wb") as stream:
            np.savez(stream, **arrays)
    with np.load(path, allow_pickle=False) as stored:
        values: dict[str, Any] = {field: stored[field] for field in stored.files}
    return Features(**values | {
        "owners": [str(each) for each in values["owners"]],
        "public_owners": tuple(str(each) for each in values["public_owners"]),
    })  # fmt: skip
