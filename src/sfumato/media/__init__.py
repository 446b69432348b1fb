"""Reading and writing recordings: streaming, exact timing, atomic output, no metadata."""

from __future__ import annotations

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
from sfumato.media._images import read_image, write_image
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._reader import Damage, VideoReader, open_video
from sfumato.media._sound import AUDIO_NOTE, audio_windows, read_audio
from sfumato.media._writer import VideoWriter

__all__ = [
    "AUDIO_NOTE",
    "CODECS",
    "MAX_PIXELS",
    "Codec",
    "Damage",
    "Frame",
    "Image",
    "MediaError",
    "SequenceReader",
    "SequenceWriter",
    "VideoInfo",
    "VideoReader",
    "VideoWriter",
    "audio_windows",
    "list_media",
    "open_sequence",
    "open_video",
    "read_audio",
    "read_frames",
    "read_image",
    "write_image",
]
