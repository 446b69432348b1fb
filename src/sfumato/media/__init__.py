"""Reading and writing recordings: streaming, exact timing, atomic output, no metadata."""

from __future__ import annotations

from sfumato.media._ahead import ahead
from sfumato.media._clock import USUAL_RATES
from sfumato.media._codecs import Codec, require_video_name, video_suffix
from sfumato.media._container import MAX_PIXELS
from sfumato.media._errors import MediaError
from sfumato.media._folders import (
    AUDIO_SUFFIXES,
    LeftOut,
    SequenceReader,
    list_media,
    open_sequence,
    read_frames,
    survey,
    survey_names,
)
from sfumato.media._frame_index import FrameIndex
from sfumato.media._images import (
    IMAGE_SUFFIXES,
    image_suffix,
    read_image,
    require_image_name,
    write_image,
)
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._reader import Damage, VideoReader, open_video
from sfumato.media._seek import SeekableVideo
from sfumato.media._sound import AUDIO_NOTE, SoundChanges, audio_windows, read_audio
from sfumato.media._sound_files import (
    SoundInfo,
    SoundReader,
    SoundWriter,
    require_sound_name,
    sound_suffix,
)
from sfumato.media._staging import atomic_folder
from sfumato.media._structure import readable_size
from sfumato.media._timeline import (
    FrameTimeline,
    Stretch,
    TimelineReader,
    read_stretch,
    stated_seconds,
)
from sfumato.media._writer import VideoJoiner, VideoWriter

__all__ = [
    "AUDIO_NOTE",
    "AUDIO_SUFFIXES",
    "IMAGE_SUFFIXES",
    "MAX_PIXELS",
    "USUAL_RATES",
    "Codec",
    "Damage",
    "Frame",
    "FrameIndex",
    "FrameTimeline",
    "Image",
    "LeftOut",
    "MediaError",
    "SeekableVideo",
    "SequenceReader",
    "SoundChanges",
    "SoundInfo",
    "SoundReader",
    "SoundWriter",
    "Stretch",
    "TimelineReader",
    "VideoInfo",
    "VideoJoiner",
    "VideoReader",
    "VideoWriter",
    "ahead",
    "atomic_folder",
    "audio_windows",
    "image_suffix",
    "list_media",
    "open_sequence",
    "open_video",
    "read_audio",
    "read_frames",
    "read_image",
    "read_stretch",
    "readable_size",
    "require_image_name",
    "require_sound_name",
    "require_video_name",
    "sound_suffix",
    "stated_seconds",
    "survey",
    "survey_names",
    "video_suffix",
    "write_image",
]
