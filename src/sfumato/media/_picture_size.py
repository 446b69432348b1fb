"""The size that a picture file states, read from its header before anything is decoded.

A file of a few megabytes may ask for gigabytes of memory. Every format that can be read is named
here; what is in no known format is refused before a decoder sees it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from sfumato.media._container import max_pixels
from sfumato.media._errors import MediaError

_PNG = b"\x89PNG\r\n\x1a\n"
_TIFF = {b"II*\0": "<", b"MM\0*": ">"}
_BIG_TIFF = {b"II+\0": "<", b"MM\0+": ">"}
# Start of frame, in all ways of coding: 0xC0 to 0xCF without tables (C4, CC) and JPG (C8).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length
_TIFF_SIZES = {256: "width", 257: "height", 322: "tile width", 323: "tile height"}
_TIFF_NUMBERS = {3: "H", 4: "I", 16: "Q"}


def require_bounded(path: Path) -> None:
    """Raise ``MediaError`` unless the file is a known kind of picture of a size we decode."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            sizes = list(_stated(data))
        except (struct.error, IndexError, ValueError):
            sizes = []
    if not sizes:
        raise MediaError(
            "Expected a picture (PNG, JPEG, WebP, BMP or TIFF), got something that cannot be "
            "decoded: check that it is what its name says."
        )
    for width, height in sizes:
        if width * height > max_pixels():
            raise MediaError(
                f"Expected a picture of at most {max_pixels()} pixels, the file claims {width} x "
                f"{height}: scale it down, check that it is sound, or raise SFUMATO_MAX_PIXELS."
            )


def _stated(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Every size that the decoder may reserve memory for; nothing for an unknown format."""
    head = data[:16]
    if head[:8] == _PNG:
        yield struct.unpack(">II", data[16:24])
    elif head[:3] == b"\xff\xd8\xff":
        yield _jpeg(data)
    elif head[:2] == b"BM":
        yield _bmp(data)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        yield _webp(data)
    elif head[:4] in _TIFF:
        yield from _tiff(data, _TIFF[head[:4]], big=False)
    elif head[:4] in _BIG_TIFF:
        yield from _tiff(data, _BIG_TIFF[head[:4]], big=True)


def _jpeg(data: mmap.mmap) -> tuple[int, int]:
    """Walks the segments as decoders do; a thumbnail lies inside of one and is stepped over."""
    at = 2
    while (at := data.find(b"\xff", at)) >= 0:
        marker = data[at + 1]
        if marker == 0xFF:  # fill
            at += 1
        elif marker == 0 or marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        elif marker == 0xDA:
            break  # coded pixels before any size
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError("no frame header")


def _bmp(data: mmap.mmap) -> tuple[int, int]:
    if data[14] == 12:  # OS/2
        return struct.unpack("<HH", data[18:22])
    width, height = struct.unpack("<ii", data[18:26])
    return abs(width), abs(height)


def _webp(data: mmap.mmap) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        return width + 1, height + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError("no picture chunk")


def _tiff(data: mmap.mmap, order: str, *, big: bool) -> Iterator[tuple[int, int]]:
    """The picture and, if it has tiles, one tile of the first directory; the largest if repeated."""
    pointer, counter, step, value_at = ("Q", "Q", 20, 12) if big else ("I", "H", 12, 8)
    (offset,) = struct.unpack_from(f"{order}{pointer}", data, 8 if big else 4)
    (count,) = struct.unpack_from(f"{order}{counter}", data, offset)
    first = offset + struct.calcsize(counter)
    found = dict.fromkeys(_TIFF_SIZES.values(), 0)
    for entry in range(first, min(first + step * count, len(data) - step + 1), step):
        tag, kind = struct.unpack_from(f"{order}HH", data, entry)
        if tag in _TIFF_SIZES:
            (value,) = struct.unpack_from(f"{order}{_TIFF_NUMBERS[kind]}", data, entry + value_at)
            found[_TIFF_SIZES[tag]] = max(found[_TIFF_SIZES[tag]], value)
    if found["width"] and found["height"]:
        yield found["width"], found["height"]
        yield found["tile width"], found["tile height"]
