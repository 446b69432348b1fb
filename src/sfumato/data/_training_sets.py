"""Loaders of the data sets that training files name, each from what the file asks for."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.data._action_lists import hmdb51, ntu_rgbd, toyota_smarthome, ucf101
from sfumato.data._indoor_datasets import utd_mhad
from sfumato.data._manifests import PictureFiles, manifest
from sfumato.data._mpii import mpii
from sfumato.data._pose import PoseRecords, coco_keypoints, human_art, lsp
from sfumato.data._records import ArrayRecords, Records, RecordsError
from sfumato.data._registry import DataRequest
from sfumato.data._stage import StagedFolder
from sfumato.data._staged_people import StagedPeople, staged_people
from sfumato.data._synthetic import moving_squares
from sfumato.data._videos import Sampling, VideoRecords, video_folder

_ACTION_LISTS: dict[str, Callable[..., VideoRecords]] = {
    "ucf101": ucf101, "hmdb51": hmdb51, "ntu-rgbd": ntu_rgbd, "toyota-smarthome": toyota_smarthome,
}  # fmt: skip
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


def listed(asked: DataRequest) -> VideoRecords | PictureFiles:
    if asked.file is None:
        raise RecordsError(
            "Expected a file with data of kind manifest, got none: file: labels.csv."
        )
    sampling = Sampling(frames=asked.frames)
    return manifest(asked.file, asked.split, classes=asked.classes, sampling=sampling)


def utd_mhad_videos(asked: DataRequest) -> Records:
    return utd_mhad(asked.folder, "rgb", asked.split, sampling=Sampling(frames=asked.frames))


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
