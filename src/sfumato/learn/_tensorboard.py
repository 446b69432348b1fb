"""TensorBoard's event files, written directly: a run is no reason to install TensorBoard.

A file is a sequence of records (TFRecord): length as 8 bytes, its checksum, the data, its checksum.
Each record is one ``tensorflow.Event`` in protobuf, of which only four fields are needed here.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

_CASTAGNOLI = 0x82F63B78
_MASK_DELTA = 0xA282EAD8

# Fields of Event, Summary and Summary.Value, with their protobuf wire types.
_WALL_TIME, _STEP, _VERSION, _SUMMARY = 1, 2, 3, 5
_VALUE = 1
_TAG, _SIMPLE_VALUE = 1, 2
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


class EventFile:
    """Scalars over steps, for ``tensorboard --logdir FOLDER``; readable by its user alone.

    Every start of a run writes a file of its own, named after the time and nothing else:
    TensorBoard joins them, and no host name leaves the machine.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(clock() * 1e6)}.sfumato"
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._stream = os.fdopen(handle, "wb")
        self._write(_field(_VERSION, _BYTES, b"brain.Event:2"))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """One event with all ``scalars`` of a step, on disk at once."""
        values = [
            _field(_TAG, _BYTES, tag.encode()) + _field(_SIMPLE_VALUE, _FLOAT, value)
            for tag, value in scalars.items()
        ]
        if values:
            summary = b"".join(_field(_VALUE, _BYTES, value) for value in values)
            self._write(_field(_STEP, _VARINT, step) + _field(_SUMMARY, _BYTES, summary))

    def close(self) -> None:
        self._stream.close()

    def _write(self, event: bytes) -> None:
        self._stream.write(framed(_field(_WALL_TIME, _DOUBLE, self._clock()) + event))
        self._stream.flush()


def framed(data: bytes) -> bytes:
    """``data`` as one record: length, masked checksum of the length, data, masked checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join(
        (length, struct.pack("<I", masked(length)), data, struct.pack("<I", masked(data)))
    )


def masked(data: bytes) -> int:
    """The checksum as records store it: rotated and moved, so that checksums of checksums differ."""
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli, RFC 3720), which zlib does not have."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_CASTAGNOLI if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


def _field(number: int, wire: int, value: float | bytes) -> bytes:
    key = _varint(number << 3 | wire)
    if isinstance(value, bytes):
        return key + _varint(len(value)) + value
    if wire == _VARINT:
        return key + _varint(int(value))
    return key + struct.pack("<d" if wire == _DOUBLE else "<f", value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
