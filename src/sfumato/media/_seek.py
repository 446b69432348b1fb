"""Any frame of a video by its number: the very picture that reading from the beginning would give.

A decoder starts at the key frame before the wanted one and passes over pictures that no other one needs.
What it gives is known by its time, so that a file which does not seek as it should is found out; then, and
where times say nothing, frames are counted from the beginning.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np

from sfumato.media._colour import orientation, to_rgb, turn
from sfumato.media._container import (
    DECODING_ERRORS,
    cause,
    media_streams,
    open_container,
    prepare_decoder,
)
from sfumato.media._errors import MediaError
from sfumato.media._frame_index import FrameIndex
from sfumato.media._info import Image, VideoInfo
from sfumato.media._reader import VideoReader, open_video

CACHED_BYTES = 96 << 20
_DECODERS = 2  # kept where they are, so that the next frame costs one frame
_NEAR = 16  # frames before a wanted one that are kept: stepping back must not decode anew
_FAR = 1 << 30


class LostFrameError(Exception):
    """A decoder did not come by the wanted frame."""


class FrameDecoder:
    """One decoder on its way forward; ``at`` is the number of the frame that it gave last."""

    def __init__(self, path: Path, index: FrameIndex) -> None:
        self._index = index
        self.at = self.start = -1
        with ExitStack() as stack:
            self._container = stack.enter_context(open_container(path, "video"))
            self._stream = media_streams(self._container, "video")[0]
            prepare_decoder(self._stream, tolerant=False)
            self._packets = self._container.demux(self._stream)
            self._ready: list[Any] = []
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def seek(self, key: int) -> None:
        """Go to the key frame with the number ``key``."""
        time = int(self._index.times[key])
        self._container.seek(time, stream=self._stream, backward=True, any_frame=False)
        self._packets, self._ready = self._container.demux(self._stream), []
        self.at, self.start = key - 1, key

    def until(self, wanted: int) -> Iterator[tuple[int, Any]]:
        """Frames up to ``wanted``; those far before it that no other one needs may be missing."""
        times = self._index.times
        full = int(times[max(0, wanted - _NEAR)])
        while self.at < wanted:
            while not self._ready:
                packet = next(self._packets, None)
                if packet is None:
                    raise LostFrameError
                needed = packet.pts is None or packet.pts >= full
                self._stream.codec_context.skip_frame = "DEFAULT" if needed else "NONREF"
                self._ready = list(packet.decode())
            frame = self._ready.pop(0)
            number = int(np.searchsorted(times, _FAR << 31 if frame.pts is None else frame.pts))
            if number >= times.size or times[number] != frame.pts or number <= self.at < self.start:
                raise LostFrameError
            if number < self.start or frame.is_corrupt:
                continue  # it leans on pictures before the key frame
            self.at = number
            yield number, frame
        if self.at != wanted:
            raise LostFrameError


class _Counter:
    """One sound reader from the beginning, for files whose times say nothing."""

    def __init__(self, path: Path, tolerant: bool) -> None:
        self._video: VideoReader = open_video(path, tolerant=tolerant)
        self._frames = iter(self._video)
        self.at = -1

    def close(self) -> None:
        self._video.close()

    def until(self, wanted: int) -> Iterator[tuple[int, Image]]:
        while self.at < wanted:
            frame = next(self._frames, None)
            if frame is None:
                raise MediaError(
                    f"Expected frame {wanted} of the video, which ends after {self.at + 1}."
                )
            self.at += 1
            yield self.at, frame.image


class SeekableVideo:
    """A video whose frames are read by number, in any order, from any thread.

    ``frame(n)`` is the n-th picture of ``open_video``. Memory is bounded by ``cached`` bytes of decoded
    pictures and two decoders. Where frames have to be counted (``index.by_time`` is false) a jump
    backwards decodes from the beginning.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        index: FrameIndex | None = None,
        tolerant: bool = False,
        cached: int = CACHED_BYTES,
    ) -> None:
        self._path, self._tolerant, self._most = Path(path), tolerant, cached
        with open_video(path, tolerant=tolerant) as video:
            self.info: VideoInfo = video.info
        self.index = index or FrameIndex.of(path, tolerant=tolerant)
        self._by_time = self.index.by_time
        self._decoders: list[FrameDecoder] = []
        self._counter: _Counter | None = None
        self._cache: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.index.count

    def close(self) -> None:
        with self._lock:
            self._forget()

    def frame(self, number: int) -> Image:
        """The picture with this number, from 0."""
        if not 0 <= number < self.index.count:
            raise MediaError(f"Expected a frame from 0 to {self.index.count - 1}, got {number}.")
        with self._lock:
            if number not in self._cache:
                self._find(number)
            found = self._cache[number]
            self._cache.move_to_end(number)
            try:
                return found if isinstance(found, np.ndarray) else turn(to_rgb(found), self._way)
            except DECODING_ERRORS as error:
                raise MediaError(
                    f"Expected a pixel format that converts to RGB, got {cause(error)}."
                ) from None

    def seconds(self, number: int) -> Fraction:
        """When a frame is shown, from the first one on."""
        if not self.index.by_time:
            return number / self.info.rate
        times = self.index.times
        return Fraction(int(times[number] - times[0])) * self.info.time_base

    def _find(self, number: int) -> None:
        if self._by_time:
            key = self.index.key_before(number)
            while True:
                # a key frame that is none after all, or a seek that goes elsewhere: from an earlier one
                with suppress(LostFrameError, *DECODING_ERRORS):
                    self._decode(number, key)
                    return
                self._forget()
                if key == 0:
                    break
                key = self.index.key_before(key - 1)
            self._by_time = False
        if self._counter is None or self._counter.at >= number:
            if self._counter is not None:
                self._counter.close()
            self._counter = _Counter(self._path, self._tolerant)
        for at, image in self._counter.until(number):
            if number - at <= _NEAR:
                self._keep(at, image, image.nbytes)

    def _decode(self, number: int, key: int) -> None:
        near = [each for each in self._decoders if key <= each.at < number]
        if near:
            decoder = max(near, key=lambda each: each.at)
            self._decoders.remove(decoder)
        else:
            decoder = (
                self._decoders.pop(0)
                if len(self._decoders) >= _DECODERS
                else FrameDecoder(self._path, self.index)
            )
            decoder.seek(key)
        self._decoders.append(decoder)  # used last, given up last
        for at, frame in decoder.until(number):
            if number - at <= _NEAR:
                self._keep(at, frame, sum(plane.buffer_size for plane in frame.planes))
                if not hasattr(self, "_way"):
                    self._way = orientation(frame)

    def _keep(self, number: int, frame: Any, size: int) -> None:
        if number in self._cache:
            return
        self._cache[number] = frame
        most = max(2, self._most // max(size, 1))
        while len(self._cache) > most:
            self._cache.popitem(last=False)

    def _forget(self) -> None:
        for decoder in self._decoders:
            decoder.close()
        if self._counter is not None:
            self._counter.close()
        self._decoders, self._counter = [], None
        self._cache.clear()
