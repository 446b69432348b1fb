"""Opening a container safely: local files only, known formats only, bounded pictures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import av.codec.context
import av.container
import av.error
import av.stream

from sfumato.media._errors import MediaError
from sfumato.media._structure import readable_size, require_whole

# Playlists (hls, dash, concat, sdp) would make a text file open other files or hosts, so only
# formats that carry their own pictures or sound are named here.
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,avi,matroska,webm,mpeg,mpegts,mpegvideo,asf,flv,ogg,wav,mp3,flac,aac,"
    "nut,h264,hevc,m4v,dv,mxf,gif,apng,ivf,yuv4mpegpipe,aiff,au,w64,caf,rm,swf,ac3,eac3,amr,obu"
)

MAX_PIXELS = 1 << 26  # 8192 x 8192: one RGB frame is at most 192 MiB
_MOST_PIXELS = 1 << 31


def max_pixels() -> int:
    """The largest picture that is decoded: ``SFUMATO_MAX_PIXELS``, or ``MAX_PIXELS``."""
    stated = os.environ.get("SFUMATO_MAX_PIXELS", "")
    if not stated:
        return MAX_PIXELS
    if not (stated.isascii() and stated.isdecimal()) or not 0 < int(stated) <= _MOST_PIXELS:
        raise MediaError(
            f"Expected SFUMATO_MAX_PIXELS to be a number from 1 to {_MOST_PIXELS}, got {stated!r}: "
            "correct it or leave it out."
        )
    return int(stated)


# What PyAV and FFmpeg raise for a bad file. Nothing else is caught: a bug of ours stays visible.
DECODING_ERRORS = (
    av.error.FFmpegError,
    UnicodeError,
    ValueError,
    OverflowError,
    MemoryError,
    EOFError,
)

# Tags that are not UTF-8 must not stop a reading; from PyAV 19 on they never do.
_ANY_TAGS: Any = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}

# Nothing is logged: FFmpeg prints names and tags of the input. Any level but None would also call back
# into Python from decoder threads, and closing a reader in mid-stream would then wait for ever.
av.logging.set_level(None)


def cause(error: BaseException) -> str:
    """The reason without FFmpeg's echo of the path."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).rstrip(".")
    return type(error).__name__


@contextmanager
def open_container(path: Path, kind: str, *, tolerant: bool = False) -> Iterator[Any]:
    """Yield an input container that has at least one stream of ``kind`` (video or audio)."""
    if tolerant:
        readable_size(path)
    else:
        require_whole(path)
    try:
        container = av.open(
            f"file:{path}",
            **_ANY_TAGS,
            options={
                "protocol_whitelist": "file",
                "format_whitelist": _FORMATS,
                "max_streams": "64",
                "max_pixels": str(max_pixels()),
            },
        )
    except DECODING_ERRORS as error:
        raise MediaError(
            f"Expected a file with {kind} in a known container (mp4, mov, mkv, avi, webm, ...), "
            f"got something else ({cause(error)}): check that it is what its name says."
        ) from None
    try:
        if not media_streams(container, kind):
            raise MediaError(
                f"Expected a file with {kind}, got one that has no {kind} stream: "
                f"choose a file that has {kind}."
            )
        yield container
    finally:
        container.close()


def media_streams(container: Any, kind: str) -> list[Any]:
    """The streams of one kind; a cover picture in a sound file is no video."""
    cover = av.stream.Disposition.attached_pic
    return [stream for stream in getattr(container.streams, kind) if not stream.disposition & cover]


def prepare_decoder(stream: Any, *, tolerant: bool) -> None:
    """Set a video stream's decoder up: bounded pictures, nothing lost in silence, all threads."""
    context = stream.codec_context
    if context is None:
        raise MediaError(
            "Expected a video codec that FFmpeg knows, got an unknown one: convert the file."
        )
    if context.width * context.height > max_pixels():
        raise MediaError(
            f"Expected frames of at most {max_pixels()} pixels, the file claims "
            f"{context.width} x {context.height}: scale it down, check that it is sound, or "
            "raise SFUMATO_MAX_PIXELS."
        )
    context.options = {"max_pixels": str(max_pixels())}
    if not tolerant:
        context.options = {**context.options, "err_detect": "crccheck+explode"}
    # Without this flag pictures after a missing reference vanish and nothing is said.
    context.flags |= av.codec.context.Flags.output_corrupt
    stream.thread_type = "AUTO"
