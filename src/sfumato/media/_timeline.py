"""A recording in spans: one reading tells which picture is where, and any span of it is read by itself.

Whoever reads a span knows of every picture when it is shown and what it looks like (a checksum), from the
one who read the recording from its beginning to its end. What does not fit is read from the beginning.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Self

import numpy as np

from sfumato.media._colour import orientation, to_rgb, turn
from sfumato.media._container import DECODING_ERRORS, media_streams, open_container
from sfumato.media._errors import MediaError
from sfumato.media._frame_index import FrameIndex
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._reader import open_video
from sfumato.media._seek import FrameDecoder, LostFrameError

_SPARSE = 8  # every eighth pixel of every eighth row tells pictures apart


@dataclass(frozen=True, eq=False)
class Stretch:
    """The frames from ``first`` on of a recording: the time of each, and its mark.

    ``index`` says where they stand in the file; the number of its own first frame is ``index_first``.
    """

    first: int
    pts: array[int]
    marks: array[int]
    time_base: Fraction
    index: FrameIndex | None = None
    index_first: int = 0

    @property
    def stop(self) -> int:
        return self.first + len(self.pts)

    def part(self, first: int, stop: int) -> Stretch:
        """The frames from ``first`` up to ``stop``, as far as there are such."""
        first, stop = max(first, self.first), min(stop, self.stop)
        cut = slice(first - self.first, stop - self.first)
        part = replace(self, first=first, pts=self.pts[cut], marks=self.marks[cut])
        return part if self.index is None else part._with_index(self.index)

    def _with_index(self, whole: FrameIndex) -> Stretch:
        """With the part of the index that reading these frames needs: from the key frame before the one
        before them, for pictures that are shown before a key frame may come after it."""
        key = whole.key_before(self.first - self.index_first)
        begin = whole.key_before(key - 1) if key else 0
        times = whole.times[begin : self.stop - self.index_first]
        keys = whole.keys[(whole.keys >= times[0]) & (whole.keys <= times[-1])]
        index = FrameIndex(int(times.size), times, keys)
        return replace(self, index=index, index_first=self.index_first + begin)

    def frame(self, number: int, image: Image) -> Frame | None:
        """The frame with that number if the picture is its picture."""
        place = number - self.first
        if mark_of(image) != self.marks[place]:
            return None
        return Frame(image, self.pts[place], self.pts[place] * self.time_base)


@dataclass(frozen=True, eq=False)
class FrameTimeline:
    """A whole recording, read once: its ``info``, and all of its frames."""

    info: VideoInfo
    frames: Stretch = field(repr=False)

    def __len__(self) -> int:
        return len(self.frames.pts)


class TimelineReader:
    """Iterates over the frames of a sound video, from its beginning to its end, and notes its timeline."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self._reader = Path(path), open_video(path)
        self._pts, self._marks = array("q"), array("L")
        self._whole = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def info(self) -> VideoInfo:
        return self._reader.info

    def __iter__(self) -> Iterator[Frame]:
        for frame in self._reader:
            self._pts.append(frame.pts)
            self._marks.append(mark_of(frame.image))
            yield frame
        self._whole = True

    @property
    def timeline(self) -> FrameTimeline:
        assert self._whole, "a timeline is known at the end"
        index: FrameIndex | None = FrameIndex.of(self._path)
        if index is None or not index.by_time or index.count != len(self._pts):
            index = None  # every span is then read from the beginning
        frames = Stretch(0, self._pts, self._marks, self.info.time_base, index)
        return FrameTimeline(self.info, frames)


def read_stretch(path: str | os.PathLike[str], wanted: Stretch) -> Iterator[Frame]:
    """The frames of a part of a recording, each proven by its mark to be the one that was read there."""
    number = wanted.first
    for earlier in (0, 1):
        # a seek that goes elsewhere, or a key frame that is none after all: from an earlier one
        with suppress(LostFrameError, *DECODING_ERRORS):
            for image in _sought(Path(path), wanted, number, earlier):
                frame = wanted.frame(number, image)
                if frame is None:
                    break
                yield frame
                number += 1
    if number == wanted.stop:
        return
    with open_video(path) as reader:
        for at, frame in enumerate(reader.frames_from(number), start=number):
            known = wanted.frame(at, frame.image)
            if known is None:
                raise _changed()
            yield known
            if at + 1 == wanted.stop:
                return
    raise _changed()


def _sought(path: Path, wanted: Stretch, first: int, earlier: int) -> Iterator[Image]:
    """Pictures from ``first`` on, decoded from the key frame before it, or from an ``earlier`` one."""
    index, away = wanted.index, wanted.index_first
    if not first or index is None or first == wanted.stop:
        return
    key = index.key_before(first - away)
    for _ in range(earlier):
        if key == 0:
            return
        key = index.key_before(key - 1)
    with closing(FrameDecoder(path, index)) as decoder:
        decoder.seek(key)
        way = None
        for number in range(first - away, wanted.stop - away):
            for at, frame in decoder.until(number):
                if at == number:
                    way = orientation(frame) if way is None else way
                    yield turn(to_rgb(frame), way)


def stated_seconds(path: str | os.PathLike[str]) -> Fraction | None:
    """How long a video is as its header tells, which decodes nothing; None if it does not tell."""
    with open_container(Path(path), "video") as container:
        stream = media_streams(container, "video")[0]
        if stream.duration and stream.time_base:
            return Fraction(stream.duration * stream.time_base)
        return Fraction(container.duration, 1_000_000) if container.duration else None


def _changed() -> MediaError:
    return MediaError(
        "Expected the recording as it was read a moment ago, got other pictures: nothing was released. "
        "Leave the file alone while it is worked on, or protect it without spans."
    )


def mark_of(image: Image) -> int:
    """A number that tells this picture from others."""
    return zlib.crc32(np.ascontiguousarray(image[::_SPARSE, ::_SPARSE]).data)
