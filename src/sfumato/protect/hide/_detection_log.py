"""What was found, frame by frame: written down on the first try for the check and the next one."""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from sfumato import people
from sfumato.media import Frame, Image
from sfumato.protect._method import ProtectError
from sfumato.protect.hide._region import Place, heads_place

_HEAD, _BOX = struct.Struct("<I???iiIIIII"), struct.Struct("<5d")
_LINE = struct.Struct("<8fd")
_UNKNOWN = -1
_SPARSE = 8  # every eighth pixel of every eighth row tells one recording from another
Faces = tuple[people.Box, ...] | None


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """What of one frame is open on purpose, and the faces that are covered beside it."""

    as_it_is: bool
    heads: tuple[people.Box, ...]
    bodies: tuple[people.Box, ...]
    covered: tuple[people.Box, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One frame as it is kept; the mask is packed."""

    mark: int
    blank: bool
    square: bool
    as_it_is: bool
    boxes: Faces
    faces: Faces
    by_hand: tuple[people.Box, ...]
    open_heads: tuple[people.Box, ...]
    open_bodies: tuple[people.Box, ...]
    text: tuple[people.TextLine, ...]
    packed: bytes

    def place(self, height: int, width: int) -> Place:
        if self.boxes is not None:
            place = heads_place(self.boxes, self.blank, width, height, square=self.square)
            place = place.with_boxes(self.by_hand)
        else:
            bits = np.frombuffer(zlib.decompress(self.packed), dtype=np.uint8)
            mask = np.unpackbits(bits, count=height * width).reshape(height, width).astype(bool)
            place = Place(mask, self.blank, faces=self.faces, by_hand=self.by_hand)
        return replace(
            place,
            open_heads=self.open_heads,
            open_bodies=self.open_bodies,
            as_it_is=self.as_it_is,
            text=self.text,
        )


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
        by_hand = place.by_hand, place.open_heads, place.open_bodies
        flags = place.blank, place.square, place.as_it_is
        self._file.write(
            _HEAD.pack(mark, *flags, *counts, *map(len, by_hand), len(place.text), len(mask))
        )
        for box in (*(boxes or ()), *(faces or ()), *chain(*by_hand)):
            self._file.write(_BOX.pack(box.x0, box.y0, box.x1, box.y1, box.score))
        for line in place.text:
            self._file.write(_LINE.pack(*line.corners.ravel(), line.score))
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
            entry = next(found)
            if entry.mark != _mark(frame.image):
                raise _other_recording(number)
            yield frame, entry.place(*frame.image.shape[:2])

    def faces(self) -> Iterator[Faces]:
        """Where faces were on each frame; None where they were not searched for."""
        for entry in self._read():
            yield entry.boxes if entry.faces is None else entry.faces

    def open_places(self) -> Iterator[OpenPlace]:
        """What is open on purpose on each frame, and the faces that are covered there."""
        for entry in self._read():
            covered = (entry.boxes if entry.faces is None else entry.faces) or ()
            yield OpenPlace(entry.as_it_is, entry.open_heads, entry.open_bodies, covered)

    def _read(self) -> Iterator[_Entry]:
        place = 0
        for _ in range(self.frames):
            self._file.seek(place)
            head = _HEAD.unpack(self._file.read(_HEAD.size))
            mark, blank, square, as_it_is, *counts, lines, length = head
            boxes, faces, by_hand, open_heads, open_bodies = map(self._boxes, counts)
            text = tuple(self._line() for _ in range(lines))
            packed = self._file.read(length)
            place = self._file.tell()
            yield _Entry(
                mark, blank, square, as_it_is, boxes, faces,
                by_hand or (), open_heads or (), open_bodies or (), text, packed,
            )  # fmt: skip

    def _boxes(self, count: int) -> Faces:
        if count == _UNKNOWN:
            return None
        return tuple(people.Box(*_BOX.unpack(self._file.read(_BOX.size))) for _ in range(count))

    def _line(self) -> people.TextLine:
        *corners, score = _LINE.unpack(self._file.read(_LINE.size))
        return people.TextLine(np.array(corners, np.float32).reshape(4, 2), score)


def _other_recording(number: int) -> ProtectError:
    return ProtectError(
        f"Expected frame {number} to be of the recording that was searched, got one of another: "
        "search that one too."
    )


def _mark(image: Image) -> int:
    return zlib.crc32(np.ascontiguousarray(image[::_SPARSE, ::_SPARSE]).data)
