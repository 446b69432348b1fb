"""Reading and writing recordings: streaming, exact timing, atomic output, no metadata."""

from __future__ import annotations

from sfumato.media._ahead import ahead
from sfumato.media._codecs import CODECS, Codec
from sfumato.media._container import MAX_PIXELS
from sfumato.media._errors import MediaError
from sfumato.media._folders import (
    SequenceReader,
    SequenceWriter,
    list_media,
    open_sequence,
    read_frames,
)
from sfumato.media._images import IMAGE_SUFFIXES, read_image, write_image
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._items import Item, JobReport, Outcome, dataset_items
from sfumato.media._job import run_job
from sfumato.media._progress import Standing
from sfumato.media._reader import Damage, VideoReader, open_video
from sfumato.media._release import CLASSES_NOTE, NAMES_NOTE, Release
from sfumato.media._sound import AUDIO_NOTE, audio_windows, read_audio
from sfumato.media._staging import atomic_folder, staging_folder, write_private
from sfumato.media._writer import VideoWriter

__all__ = [
    "AUDIO_NOTE",
    "CLASSES_NOTE",
    "CODECS",
    "IMAGE_SUFFIXES",
    "MAX_PIXELS",
    "NAMES_NOTE",
    "Codec",
    "Damage",
    "Frame",
    "Image",
    "Item",
    "JobReport",
    "MediaError",
    "Outcome",
    "Release",
    "SequenceReader",
    "SequenceWriter",
    "Standing",
    "VideoInfo",
    "VideoReader",
    "VideoWriter",
    "ahead",
    "atomic_folder",
    "audio_windows",
    "dataset_items",
    "list_media",
    "open_sequence",
    "open_video",
    "read_audio",
    "read_frames",
    "read_image",
    "run_job",
    "staging_folder",
    "write_image",
    "write_private",
]
