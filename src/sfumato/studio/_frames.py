"""Open recordings: a few at a time, each with its index of frames, which holds no pixels."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.media import (
    IMAGE_SUFFIXES,
    FrameIndex,
    Image,
    MediaError,
    SeekableVideo,
    VideoInfo,
    open_video,
    read_image,
)

_OPEN = 3


class OpenVideos:
    """Videos that are being looked at; the one that was not asked for longest is closed.

    ``kept`` is the private folder for indexes of frames, or None to keep none.
    """

    def __init__(self, kept: Path | None) -> None:
        self._kept, self._lock = kept, threading.Lock()
        self._open: OrderedDict[tuple[str, int, int], SeekableVideo] = OrderedDict()
        self._infos: dict[tuple[str, int, int], VideoInfo | str] = {}

    def info(self, path: Path) -> VideoInfo | str:
        """Size and timing, or the sentence why it cannot be read."""
        key = _identity(path)
        if key not in self._infos:
            try:
                with open_video(path, tolerant=True) as video:
                    self._infos[key] = video.info
            except SfumatoError as error:
                self._infos[key] = str(error)
        return self._infos[key]

    def knows(self, path: Path) -> bool:
        return _identity(path) in self._infos

    def count(self, path: Path) -> int:
        return 1 if path.suffix.lower() in IMAGE_SUFFIXES else len(self.video(path))

    def frame(self, path: Path, number: int) -> Image:
        if path.suffix.lower() in IMAGE_SUFFIXES:
            if number != 0:
                raise MediaError("Expected frame 0 of a picture, got another.")
            return read_image(path)
        return self.video(path).frame(number)

    def video(self, path: Path) -> SeekableVideo:
        key = _identity(path)
        with self._lock:
            if key not in self._open:
                while len(self._open) >= _OPEN:
                    self._open.popitem(last=False)[1].close()
                self._open[key] = SeekableVideo(path, index=self._index(path, key))
            self._open.move_to_end(key)
            return self._open[key]

    def _index(self, path: Path, key: tuple[str, int, int]) -> FrameIndex:
        if self._kept is None:
            return FrameIndex.of(path)
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        place = self._kept / f"{name}.npz"
        with suppress(SfumatoError, OSError):
            return FrameIndex.load(place)
        index = FrameIndex.of(path)
        index.save(place)
        return index

    def close(self) -> None:
        with self._lock:
            for video in self._open.values():
                video.close()
            self._open.clear()


def _identity(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns
