"""Loaders of the data sets that training files name, each from what the file asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sfumato.data._action_lists import hmdb51, ntu_rgbd, toyota_smarthome, ucf101
from sfumato.data._audio import audio_mnist, fsdd
from sfumato.data._faces import FacePictures, utkface
from sfumato.data._indoor_datasets import utd_mhad
from sfumato.data._manifests import ListedFiles, manifest
from sfumato.data._mpii import mpii
from sfumato.data._npz import npz
from sfumato.data._pose import PoseRecords, coco_keypoints, human_art, lsp
from sfumato.data._records import ArrayRecords, AttributeRecords, Records, RecordsError, Subset
from sfumato.data._registry import DataRequest
from sfumato.data._sensors import sisfall
from sfumato.data._stage import StagedFolder
from sfumato.data._staged_people import StagedPeople, staged_people
from sfumato.data._synthetic import moving_squares
from sfumato.data._videos import Sampling, VideoRecords, video_folder

_ACTION_LISTS: dict[str, Callable[..., VideoRecords]] = {
    "ucf101": ucf101, "hmdb51": hmdb51, "ntu-rgbd": ntu_rgbd, "toyota-smarthome": toyota_smarthome,
}  # fmt: skip
_AGES = (30, 45, 60)
_AGE_GROUPS = ("under 30", "30 to 44", "45 to 59", "60 and older")
_POSES: dict[str, tuple[Callable[..., PoseRecords], str]] = {
    "coco": (coco_keypoints, "train2017"),
    "human-art": (human_art, "training"),
    "mpii": (mpii, "train"),
}


def synthetic(asked: DataRequest) -> ArrayRecords:
    return moving_squares(
        asked.clips, frames=asked.frames, size=asked.side, people=asked.people, seed=asked.seed
    )


def stage(asked: DataRequest) -> StagedFolder:
    return StagedFolder(asked.folder, asked.split)


def folder(asked: DataRequest) -> VideoRecords:
    return video_folder(asked.folder, asked.masks, sampling=Sampling(frames=asked.frames))


def listed(asked: DataRequest) -> VideoRecords | ListedFiles:
    return manifest(_file(asked, "labels.csv"), asked.split, label=asked.label,
                    classes=asked.classes, sampling=Sampling(frames=asked.frames))  # fmt: skip


def arrays(asked: DataRequest) -> ArrayRecords:
    return npz(_file(asked, "records.npz"), asked.split, label=asked.label, classes=asked.classes)


def _file(asked: DataRequest, example: str) -> Path:
    if asked.file is None:
        raise RecordsError(
            f"Expected a file with data of kind {asked.kind}, got none: file: {example}."
        )
    return asked.file


def spoken(asked: DataRequest) -> AttributeRecords:
    """Log-mel pictures of AudioMNIST or FSDD; the digit is the label, or an attribute of the speaker."""
    load = audio_mnist if asked.kind == "audio-mnist" else fsdd
    return load(asked.folder, asked.split).labelled_by(asked.label)


def motion(asked: DataRequest) -> Records:
    """SisFall: windows that share no sample, since a sample in two records would count twice.

    Nobody published a split: every fourth person is ``test``, the others are ``train``.
    """
    windows = sisfall(asked.folder, magnitude=False, stride=128).labelled_by(asked.label)
    if asked.split is None:
        return windows
    assert windows.owners is not None
    people = sorted({who for who, *_ in windows.owners})
    return _part(asked, windows, [people.index(who) % 4 == 3 for who, *_ in windows.owners])


def faces(asked: DataRequest) -> Records:
    """UTKFace: gender, race or age-group; every fifth face is ``test``, since nobody published a split."""
    label = asked.label or "gender"
    pictures = utkface(asked.folder, "age" if label == "age-group" else label)
    if label == "age-group":
        group = np.digitize(pictures.attributes["age"], _AGES)
        pictures = FacePictures(
            pictures.names, pictures.source, {**pictures.attributes, label: group},
            {**pictures.attribute_classes, label: _AGE_GROUPS}, label, problems=pictures.problems,
        )  # fmt: skip
    elif label == "age":
        raise RecordsError("Expected a label with classes, got age: name age-group.")
    if asked.split is None:
        return pictures
    return _part(asked, pictures, [index % 5 == 0 for index in range(len(pictures))])


def _part(asked: DataRequest, records: Records, tested: list[bool]) -> Subset:
    if asked.split not in ("train", "test"):
        raise RecordsError(f"Expected split train or test, got {asked.split!r}.")
    wanted = asked.split == "test"
    return Subset(records, [index for index, test in enumerate(tested) if test == wanted])


def utd_mhad_videos(asked: DataRequest) -> Records:
    modality = asked.modality or "rgb"
    return utd_mhad(asked.folder, modality, asked.split, sampling=Sampling(frames=asked.frames))


def action_list(asked: DataRequest) -> VideoRecords:
    """A published list, with masks, or with the videos of what ``sfumato protect`` made of them."""
    load, sampling = _ACTION_LISTS[asked.kind], Sampling(frames=asked.frames)
    records = load(asked.folder, asked.split or "train", sampling=sampling)
    if asked.release is not None:
        return records.from_release(asked.folder, asked.release)
    return records if asked.masks is None else records.with_masks(asked.folder, asked.masks)


def people(asked: DataRequest) -> StagedPeople:
    return staged_people(asked.clips, seed=asked.seed, joints=asked.joints, keep=asked.path)


def poses(asked: DataRequest) -> PoseRecords:
    if asked.kind == "lsp":
        return lsp(asked.folder, asked.split or "train", joints=asked.joints)
    load, split = _POSES[asked.kind]
    return load(
        asked.folder, asked.split or split, joints=asked.joints, per_person=asked.per_person
    )
