"""Folders, image sequences, and whole videos within a stated bound of memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from sfumato.media._errors import MediaError
from sfumato.media._images import IMAGE_SUFFIXES, read_image, write_image
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._reader import Damage, VideoReader, open_video
from sfumato.media._staging import atomic_folder

VIDEO_SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".wmv"}
    | {".flv", ".3gp", ".ogv", ".mxf", ".gif", ".dv"}
)
AUDIO_SUFFIXES = frozenset({".wav", ".flac", ".mp3", ".m4a", ".ogg", ".opus", ".aac"})
_SUFFIXES = {"video": VIDEO_SUFFIXES, "image": IMAGE_SUFFIXES, "audio": AUDIO_SUFFIXES}


def list_media(
    folder: str | os.PathLike[str],
    *,
    kinds: tuple[str, ...] = ("video", "image"),
    recursive: bool = True,
) -> list[Path]:
    """Media files below ``folder``, told by suffix, in natural order (``f2`` before ``f10``).

    Hidden files and folders are left out, and links that lead outside are not followed.
    """
    root = Path(folder)
    if not root.is_dir():
        raise MediaError("Expected a folder, found none there: check the path.")
    unknown = [kind for kind in kinds if kind not in _SUFFIXES]
    if unknown:
        raise MediaError(
            f"Expected kinds out of {', '.join(_SUFFIXES)}, got {unknown[0]!r}: correct it."
        )
    wanted = frozenset().union(*(_SUFFIXES[kind] for kind in kinds))
    inside = root.resolve()
    found = []
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        for name in files:
            file = Path(place, name)
            if name.startswith(".") or file.suffix.lower() not in wanted:
                continue
            if not file.is_symlink() or file.resolve().is_relative_to(inside):
                found.append(file)
    return sorted(found, key=lambda file: _natural(file.relative_to(root)))


def _natural(path: Path) -> list[tuple[int, int, str]]:
    pieces = re.split(r"(\d+)", path.as_posix())
    return [(0, int(p), p) if p.isdecimal() and p.isascii() else (1, 0, p) for p in pieces if p]


class SequenceReader:
    """A folder of pictures as a video: the same contract as ``VideoReader``."""

    def __init__(
        self, folder: str | os.PathLike[str], rate: Fraction | int, *, tolerant: bool = False
    ) -> None:
        self._files = list_media(folder, kinds=("image",), recursive=False)
        if not self._files:
            raise MediaError("Expected a folder of pictures, got one without any: check the path.")
        if rate <= 0:
            raise MediaError(f"Expected a positive rate, got {rate}: 25 is usual.")
        self.damage = Damage()
        self._tolerant = tolerant
        first = read_image(self._files[0], tolerant=tolerant)
        self.info = VideoInfo(
            width=first.shape[1],
            height=first.shape[0],
            rate=Fraction(rate),
            time_base=1 / Fraction(rate),
            frame_count=len(self._files),
            duration=len(self._files) / Fraction(rate),
            codec="images",
            pixel_format="rgb24",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def __iter__(self) -> Iterator[Frame]:
        for number, file in enumerate(self._files):
            image = read_image(file, tolerant=self._tolerant)
            if image.shape[:2] != (self.info.height, self.info.width):
                raise MediaError(
                    f"Expected {self.info.width} x {self.info.height} pictures throughout, got "
                    f"{image.shape[1]} x {image.shape[0]} at number {number}: sort them by size."
                )
            yield Frame(image, number, number * self.info.time_base)


def open_sequence(
    folder: str | os.PathLike[str], rate: Fraction | int = 25, *, tolerant: bool = False
) -> SequenceReader:
    """Read a folder of pictures, in natural order of their names, as a video of that rate."""
    return SequenceReader(folder, rate, tolerant=tolerant)


class SequenceWriter:
    """Writes numbered PNG files (lossless) to a folder that appears only when all is well."""

    def __init__(
        self, folder: str | os.PathLike[str], *, suffix: str = ".png", force: bool = False
    ) -> None:
        self._suffix = suffix
        self._folder = atomic_folder(Path(folder), force=force)
        self.frames_written = 0

    def __enter__(self) -> Self:
        self._temporary = self._folder.__enter__()
        return self

    def write(self, image: Image, when: int | Fraction | None = None) -> None:
        """Append a picture; a folder of pictures stores an order, not times."""
        write_image(self._temporary / f"{self.frames_written:06d}{self._suffix}", image)
        self.frames_written += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self.frames_written:
            kind, error = (
                MediaError,
                MediaError("Expected at least one picture, got none: write some."),
            )
            self._folder.__exit__(kind, error, trace)
            raise error
        self._folder.__exit__(kind, error, trace)


def read_frames(
    path: str | os.PathLike[str], *, limit_bytes: int = 1 << 30, tolerant: bool = False
) -> Image:
    """All frames as one uint8 (frames, height, width, 3) array of at most ``limit_bytes``.

    For methods that need a whole clip. Peak memory is twice the limit; a longer video raises
    ``MediaError`` as soon as that is known, before anything large is kept.
    """
    source = Path(path)
    reader: VideoReader | SequenceReader
    reader = open_sequence(source) if source.is_dir() else open_video(source, tolerant=tolerant)
    with reader as video:
        info = video.info
        one = info.width * info.height * 3
        _within(one * (info.frame_count or 1), limit_bytes)
        room = info.frame_count or min(16, limit_bytes // one)
        frames = np.empty((room, info.height, info.width, 3), dtype=np.uint8)
        count = 0
        for frame in video:
            if count == len(frames):
                _within(one * (count + 1), limit_bytes)
                larger = np.empty((min(2 * count, limit_bytes // one), *frames.shape[1:]), np.uint8)
                larger[:count] = frames
                frames = larger
            frames[count] = frame.image
            count += 1
    return frames[:count]


def _within(needed: int, limit: int) -> None:
    if needed > limit:
        raise MediaError(
            f"Expected a video of at most {limit} bytes as RGB, this one needs at least {needed}: "
            "shorten or scale it, raise limit_bytes, or choose a streaming method."
        )
