"""Folders, image sequences, and whole videos within a stated bound of memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np

from sfumato.media._errors import MediaError
from sfumato.media._images import IMAGE_SUFFIXES, read_image
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._reader import Damage, VideoReader, open_video

VIDEO_SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".wmv"}
    | {".flv", ".3gp", ".ogv", ".mxf", ".gif", ".dv", ".m2ts", ".m2t", ".m2v", ".vob", ".f4v"}
    | {".3g2", ".3gpp", ".asf", ".divx", ".ogm", ".nut", ".y4m", ".h264", ".hevc", ".rm", ".qt"}
    | {".mp4v", ".mpv", ".m1v", ".insv", ".lrv"}
)
# Pictures of people as likely as any, in formats that are not read here.
UNREADABLE_SUFFIXES = frozenset(
    {".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf"}
    | {".orf", ".rw2", ".psd", ".exr", ".hdr", ".braw", ".r3d", ".mpo", ".insp", ".dcm"}
)
AUDIO_SUFFIXES = frozenset({".wav", ".flac", ".mp3", ".m4a", ".ogg", ".opus", ".aac"})
_SUFFIXES = {"video": VIDEO_SUFFIXES, "image": IMAGE_SUFFIXES, "audio": AUDIO_SUFFIXES}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that is no part of a listing, and why.

    ``refused`` says that it is a recording all the same, in a format that cannot be read.
    """

    path: Path
    reason: str
    refused: bool = False


def list_media(
    folder: str | os.PathLike[str],
    *,
    kinds: tuple[str, ...] = ("video", "image"),
    recursive: bool = True,
) -> list[Path]:
    """Media files below ``folder``, told by suffix, in natural order (``f2`` before ``f10``).

    Hidden files and folders are left out, and links that lead outside are not followed;
    ``survey`` names what is left out.
    """
    return survey(folder, kinds=kinds, recursive=recursive)[0]


def survey(
    folder: str | os.PathLike[str],
    *,
    kinds: tuple[str, ...] = ("video", "image"),
    recursive: bool = True,
) -> tuple[list[Path], list[LeftOut]]:
    """The media files below ``folder`` and everything else there with the reason, in natural order."""
    names, left_out = survey_names(folder, kinds=kinds, recursive=recursive)
    return [Path(folder, name) for name in names], left_out


def survey_names(
    folder: str | os.PathLike[str],
    *,
    kinds: tuple[str, ...] = ("video", "image"),
    recursive: bool = True,
) -> tuple[list[str], list[LeftOut]]:
    """The same with names relative to ``folder``: a million of them fit into 100 MB."""
    root = Path(folder)
    if not root.is_dir():
        raise MediaError("Expected a folder, found none there: check the path.")
    unknown = [kind for kind in kinds if kind not in _SUFFIXES]
    if unknown:
        raise MediaError(
            f"Expected kinds out of {', '.join(_SUFFIXES)}, got {unknown[0]!r}: correct it."
        )
    inside = root.resolve()
    found: list[str] = []
    left_out: list[LeftOut] = []
    for place, folders, files in os.walk(root, onerror=_unreadable):
        closed = {name: _not_entered(Path(place, name), recursive) for name in folders}
        left_out += [LeftOut(Path(place, name), why) for name, why in closed.items() if why]
        folders[:] = [name for name in folders if not closed[name]]
        within = Path(place).relative_to(root)
        for name in files:
            excluded = _not_taken(Path(place, name), kinds, inside)
            if excluded is None:
                found.append(str(within / name))
            else:
                left_out.append(excluded)
    found.sort(key=_natural)
    left_out.sort(key=lambda each: _natural(str(each.path.relative_to(root))))
    return found, left_out


def _unreadable(error: OSError) -> None:
    reason = error.strerror or type(error).__name__
    raise MediaError(
        f"Expected a folder that can be read throughout, got {reason!r} inside: check permissions."
    ) from None


def _not_entered(folder: Path, recursive: bool) -> str:
    if folder.name.startswith("."):
        return "a hidden folder"
    if folder.is_symlink():
        return "a link to a folder, which is not followed"
    return "" if recursive else "a folder within the folder"


def _not_taken(file: Path, kinds: tuple[str, ...], inside: Path) -> LeftOut | None:
    suffix = file.suffix.lower()
    wanted = any(suffix in _SUFFIXES[kind] for kind in kinds)
    other = next((kind for kind, suffixes in _SUFFIXES.items() if suffix in suffixes), None)
    if file.is_symlink() and not file.resolve().is_relative_to(inside):
        return LeftOut(file, "a link that leads out of the folder")
    if not file.is_file():
        return LeftOut(file, "a link that leads nowhere, or no plain file")
    if file.name.startswith("."):
        return LeftOut(file, "hidden: its name starts with a dot")
    if wanted:
        return None
    if suffix in UNREADABLE_SUFFIXES:
        return LeftOut(
            file, f"{suffix} cannot be read: convert it to PNG, JPEG or MP4", refused=True
        )
    if other is not None:
        return LeftOut(file, f"{other}, where {' or '.join(kinds)} was asked for")
    return LeftOut(file, "not taken for a recording: its name has no ending that is known")


def _natural(name: str) -> str:
    """A text that sorts as people do: numbers by value and before letters, then as they are written."""
    return re.sub(r"[0-9]+", _by_value, name.replace(os.sep, "/"))


def _by_value(digits: re.Match[str]) -> str:
    value = digits[0].lstrip("0")
    return f"\0{chr(len(value))}{value}\0{digits[0]}\0"


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

    def __exit__(self, *_: object) -> None:
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
