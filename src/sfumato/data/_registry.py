"""Data sets by name: one file with a loader, one line here, and train, protect and audit know it.

| what an entry gives | who uses it |
| --- | --- |
| ``records``: ``(DataRequest) -> Records`` | ``sfumato train``, ``sfumato audit members`` |
| ``attributes``: ``(folder) -> Dataset``, with ``recognise`` | ``sfumato protect --method pass``, ``sfumato audit probe`` |

Loaders are named as ``"module:function"`` and imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sfumato.data._records import ArrayRecords, Records, RecordsError

# Of a record, at a path without ending: its pixels or samples and nothing else of its file.
WriteFile = Callable[[int, Path], Path]


@dataclass(frozen=True, kw_only=True)
class DataRequest:
    """What a training file asks of a data set; ``frames`` are those of all clips of a record."""

    kind: str
    path: Path | None = None
    split: str | None = None
    masks: Path | None = None
    release: Path | None = None
    file: Path | None = None
    classes: Sequence[str] | None = None
    label: str | None = None
    modality: str | None = None
    clips: int = 200
    people: int = 20
    seed: int = 0
    frames: int = 16
    side: int = 32
    joints: str = "mpii"
    per_person: bool = False

    @property
    def folder(self) -> Path:
        if self.path is None:
            raise RecordsError(f"Expected a path with data of kind {self.kind}, got none.")
        return self.path


@dataclass(frozen=True)
class Dataset:
    """Records with attributes, split in two; ``write_file`` writes one anew where records are files.

    ``train`` and ``test`` are row numbers; rows between overlapping windows of both are in neither.
    """

    layout: str
    records: ArrayRecords
    train: Sequence[int]
    test: Sequence[int]
    write_file: WriteFile | None = None

    @property
    def split(self) -> tuple[ArrayRecords, ArrayRecords]:
        return chosen_rows(self.records, self.train), chosen_rows(self.records, self.test)


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What can be done with a data set, and where its loaders are.

    ``has_joints``: people with joints, for pose models. ``generated``: made from a seed, so that its
    size is a setting and another seed makes other people. ``recognise`` tells the folder of the data
    set from others.
    """

    records: str | None = None
    attributes: str | None = None
    recognise: Callable[[Path], bool] | None = None
    has_joints: bool = False
    generated: bool = False


_HERE = "sfumato.data._training_sets"
DATASETS: dict[str, DatasetEntry] = {
    "synthetic": DatasetEntry(records=f"{_HERE}:synthetic", generated=True),
    "stage": DatasetEntry(records=f"{_HERE}:stage"),
    "folder": DatasetEntry(records=f"{_HERE}:folder"),
    "manifest": DatasetEntry(records=f"{_HERE}:listed"),
    "npz": DatasetEntry(records=f"{_HERE}:arrays"),
    "audio-mnist": DatasetEntry(records=f"{_HERE}:spoken"),
    "fsdd": DatasetEntry(records=f"{_HERE}:spoken"),
    "sisfall": DatasetEntry(records=f"{_HERE}:motion"),
    "utkface": DatasetEntry(records=f"{_HERE}:faces"),
    "utd-mhad": DatasetEntry(records=f"{_HERE}:utd_mhad_videos"),
    "ucf101": DatasetEntry(records=f"{_HERE}:action_list"),
    "hmdb51": DatasetEntry(records=f"{_HERE}:action_list"),
    "ntu-rgbd": DatasetEntry(records=f"{_HERE}:action_list"),
    "toyota-smarthome": DatasetEntry(records=f"{_HERE}:action_list"),
    "staged-people": DatasetEntry(records=f"{_HERE}:people", has_joints=True, generated=True),
    "lsp": DatasetEntry(records=f"{_HERE}:poses", has_joints=True),
    "coco": DatasetEntry(records=f"{_HERE}:poses", has_joints=True),
    "mpii": DatasetEntry(records=f"{_HERE}:poses", has_joints=True),
    "human-art": DatasetEntry(records=f"{_HERE}:poses", has_joints=True),
}


def register_dataset(name: str, entry: DatasetEntry) -> None:
    """Make a data set known by name to train, protect and audit."""
    if name in DATASETS:
        raise RecordsError(f"Expected a new name for a data set, got {name!r}, which is taken.")
    if (entry.attributes is None) != (entry.recognise is None):
        raise RecordsError(
            "Expected the loader of attributes together with what recognises its folder, got one."
        )
    DATASETS[name] = entry


def find_dataset(name: str) -> DatasetEntry:
    """The entry of a data set that a training can use, or one sentence with the list."""
    usable = [each for each, entry in DATASETS.items() if entry.records is not None]
    if name not in usable:
        raise RecordsError(f"Expected data of a kind out of {', '.join(usable)}, got {name!r}.")
    return DATASETS[name]


def load_dataset(request: DataRequest) -> Records:
    """The records that a training file asks for."""
    where = find_dataset(request.kind).records
    assert where is not None
    records: Records = _loader(where)(request)
    return records


def read_registered(folder: Path) -> Dataset | None:
    """The registered data set with attributes in ``folder``; None where no entry recognises it."""
    for entry in DATASETS.values():
        if entry.attributes is not None and entry.recognise is not None and entry.recognise(folder):
            found: Dataset = _loader(entry.attributes)(folder)
            return found
    return None


def _loader(where: str) -> Callable[..., Any]:
    module, _, name = where.partition(":")
    loader: Callable[..., Any] = getattr(import_module(module), name)
    return loader


def chosen_rows(records: ArrayRecords, chosen: Sequence[int]) -> ArrayRecords:
    """The named records, in that order."""
    rows, owners = list(chosen), records.owners
    return ArrayRecords(
        records.x[rows],
        records.y[rows],
        owners=None if owners is None else [owners[index] for index in rows],
        attributes={name: value[rows] for name, value in records.attributes.items()},
    )
