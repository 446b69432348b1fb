"""What was found, frame by frame: written down on the first try for the check and the next one."""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

from sfumato import people
from sfumato.media import Frame, Image
from sfumato.protect._method import ProtectError
from sfumato.protect.hide._region import Place, boxes_place

_HEAD, _BOX = struct.Struct("<I?iiI"), struct.Struct("<5d")
_UNKNOWN = -1
_SPARSE = 8  # every eighth pixel of every eighth row tells one recording from another
Faces = tuple[people.Box, ...] | None


class DetectionLog:
    """The place of every frame, kept in a nameless file: memory does not grow with the recording.

    A log belongs to the recording it was made of: on other frames it is refused.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the log
        self.frames = 0
        self._first: int | None = None

    def add(self, image: Image, place: Place) -> None:
        """The next frame and what was found on it."""
        boxes, faces = place.boxes, None if place.faces is place.boxes else place.faces
        mask = b""
        if boxes is None:
            mask = zlib.compress(np.packbits(place.mask).tobytes(), 1)
        mark = _mark(image)
        self._first = mark if self._first is None else self._first
        counts = (_UNKNOWN if each is None else len(each) for each in (boxes, faces))
        self._file.write(_HEAD.pack(mark, place.blank, *counts, len(mask)))
        for box in (*(boxes or ()), *(faces or ())):
            self._file.write(_BOX.pack(box.x0, box.y0, box.x1, box.y1, box.score))
        self._file.write(mask)
        self.frames += 1

    def begins_with(self, image: Image) -> bool:
        """Whether this is the first frame of the recording that the log was made of."""
        return self._first == _mark(image)

    def places(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Place]]:
        """The same frames again, with their places."""
        found = self._read()
        for number, frame in enumerate(frames):
            if number == self.frames:
                raise _other_recording(number)
            mark, blank, boxes, faces, packed = next(found)
            if mark != _mark(frame.image):
                raise _other_recording(number)
            height, width = frame.image.shape[:2]
            if boxes is not None:
                yield frame, boxes_place(boxes, blank, width, height)
                continue
            bits = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
            mask = np.unpackbits(bits, count=height * width).reshape(height, width).astype(bool)
            yield frame, Place(mask, blank, faces=faces)

    def faces(self) -> Iterator[Faces]:
        """Where faces were on each frame; None where they were not searched for."""
        for _, _, boxes, faces, _ in self._read():
            yield faces if boxes is None else boxes

    def _read(self) -> Iterator[tuple[int, bool, Faces, Faces, bytes]]:
        place = 0
        for _ in range(self.frames):
            self._file.seek(place)
            mark, blank, boxes, faces, length = _HEAD.unpack(self._file.read(_HEAD.size))
            found = self._boxes(boxes), self._boxes(faces)
            packed = self._file.read(length)
            place = self._file.tell()
            yield mark, blank, *found, packed

    def _boxes(self, count: int) -> Faces:
        if count == _UNKNOWN:
            return None
        return tuple(people.Box(*_BOX.unpack(self._file.read(_BOX.size))) for _ in range(count))


def _other_recording(number: int) -> ProtectError:
    return ProtectError(
        f"Expected frame {number} to be of the recording that was searched, got one of another: "
        "search that one too."
    )


def _mark(image: Image) -> int:
    return zlib.crc32(np.ascontiguousarray(image[::_SPARSE, ::_SPARSE]).data)
