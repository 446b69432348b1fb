"""Data sets as random-access records, each read in the layout its authors publish.

Every loader has ``problems``: what could not be used, counted by sentence.
"""

from sfumato.data._action_lists import hmdb51, kinetics, ntu_rgbd, toyota_smarthome, ucf101
from sfumato.data._audio import audio_mnist, fsdd, read_wav
from sfumato.data._crops import CropTransform, JointRecords, PersonCrops, mirrored
from sfumato.data._faces import FacePictures, celeba, utkface
from sfumato.data._indoor_datasets import UtdMhad, airtlab, utd_mhad
from sfumato.data._joints import COCO, LSP, MPII, mirror_order, translate, vocabulary
from sfumato.data._manifests import ListedFiles, manifest
from sfumato.data._mpii import mpii
from sfumato.data._npz import npz
from sfumato.data._pose import (
    AnnotatedPerson,
    PoseRecords,
    box_of,
    coco_keypoints,
    human_art,
    lsp,
    lsp_visibility,
)
from sfumato.data._pose_metrics import (
    PoseMeasures,
    oks,
    oks_average_precision,
    pck,
    pckh,
    pose_measures,
    torso_size,
)
from sfumato.data._privacy_attributes import (
    PrivacyAnnotations,
    Vispr,
    pa_hmdb51,
    pa_hmdb51_videos,
    vispr,
)
from sfumato.data._problems import Problems
from sfumato.data._read_ahead import ReadAhead
from sfumato.data._records import (
    ArrayRecords,
    AttributeRecords,
    Record,
    Records,
    RecordsError,
    Subset,
)
from sfumato.data._registry import (
    DATASETS,
    DataRequest,
    Dataset,
    DatasetEntry,
    WriteFile,
    chosen_rows,
    find_dataset,
    load_dataset,
    read_registered,
    register_dataset,
)
from sfumato.data._sensors import magnitudes, motion_sense, sisfall, windows_of
from sfumato.data._skeletons import draw_skeletons, limbs
from sfumato.data._stage import StagedFolder, staged
from sfumato.data._staged_people import StagedPeople, staged_people
from sfumato.data._synthetic import moving_squares
from sfumato.data._videos import Sampling, VideoItem, VideoRecords, sampled_frames, video_folder

__all__ = [
    "COCO",
    "DATASETS",
    "LSP",
    "MPII",
    "AnnotatedPerson",
    "ArrayRecords",
    "AttributeRecords",
    "CropTransform",
    "DataRequest",
    "Dataset",
    "DatasetEntry",
    "FacePictures",
    "JointRecords",
    "ListedFiles",
    "PersonCrops",
    "PoseMeasures",
    "PoseRecords",
    "PrivacyAnnotations",
    "Problems",
    "ReadAhead",
    "Record",
    "Records",
    "RecordsError",
    "Sampling",
    "StagedFolder",
    "StagedPeople",
    "Subset",
    "UtdMhad",
    "VideoItem",
    "VideoRecords",
    "Vispr",
    "WriteFile",
    "airtlab",
    "audio_mnist",
    "box_of",
    "celeba",
    "chosen_rows",
    "coco_keypoints",
    "draw_skeletons",
    "find_dataset",
    "fsdd",
    "hmdb51",
    "human_art",
    "kinetics",
    "limbs",
    "load_dataset",
    "lsp",
    "lsp_visibility",
    "magnitudes",
    "manifest",
    "mirror_order",
    "mirrored",
    "motion_sense",
    "moving_squares",
    "mpii",
    "npz",
    "ntu_rgbd",
    "oks",
    "oks_average_precision",
    "pa_hmdb51",
    "pa_hmdb51_videos",
    "pck",
    "pckh",
    "pose_measures",
    "read_registered",
    "read_wav",
    "register_dataset",
    "sampled_frames",
    "sisfall",
    "staged",
    "staged_people",
    "torso_size",
    "toyota_smarthome",
    "translate",
    "ucf101",
    "utd_mhad",
    "utkface",
    "video_folder",
    "vispr",
    "vocabulary",
    "windows_of",
]  # fmt: skip
