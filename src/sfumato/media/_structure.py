"""Is the file whole? Read from the sizes that containers state about themselves.

Decoders happily stop at the end of a cut-off file and say nothing, or step over a damaged part to
the next they can read. A protected copy that silently lost its second half is a wrong result, so the
outermost boxes are compared with the file's length before a byte is decoded; of Matroska and GIF
every block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sfumato.media._errors import MediaError

_EBML = b"\x1aE\xdf\xa3"
_SEGMENT = b"\x18S\x80g"
_CLUSTER = b"\x1fC\xb6u"
# timestamp, simple block, block group, position, previous size, silent tracks, CRC, void, encrypted
_IN_CLUSTER = {b"\xe7", b"\xa3", b"\xa0", b"\xa7", b"\xab", b"XT", b"\xbf", b"\xec", b"\xaf"}
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
_GIFS = (b"GIF87a", b"GIF89a")
# First boxes of ISO base media files, old QuickTime files included.
_ISO_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"sidx"}
_BOXES_AT_MOST = 1_000_000  # a fragmented recording of days has fewer


def require_whole(path: Path) -> None:
    """Raise ``MediaError`` when the file says that it should be longer than it is."""
    size = readable_size(path)
    with open(path, "rb") as stream:
        head = stream.read(16)
        if head[4:8] in _ISO_BOXES:
            stated = _iso_end(stream, size)
        elif head[:4] == b"RIFF":
            stated = _riff_end(stream, size)
        elif head[:4] == _EBML:
            stated = _ebml_end(stream, size)
        elif head[:3] == _JPEG:
            stated = _trailer(stream, size, b"\xff\xd9")
        elif head[:8] == _PNG:
            stated = _trailer(stream, size, b"IEND")
        elif head[:6] in _GIFS:
            stated = _gif_end(stream, size)
        else:
            return
    if stated > size:
        raise MediaError(
            f"Expected a whole file of at least {stated} bytes, got {size}: its end is missing. "
            "Fetch it again, or pass --tolerant (tolerant=True) to use what is left."
        )


def readable_size(path: Path) -> int:
    """Bytes of a regular, readable, non-empty file; ``MediaError`` for anything else."""
    if path.is_dir():
        raise MediaError(
            "Expected a media file, got a folder: list it with list_media, or read a folder of "
            "pictures with open_sequence."
        )
    try:
        if not path.is_file():
            raise MediaError("Expected a media file, found nothing there: check the path.")
        with open(path, "rb"):
            size = os.stat(path).st_size
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MediaError(
            f"Expected a file that can be opened, got {reason!r}: check its permissions."
        ) from None
    if size == 0:
        raise MediaError("Expected a media file, got an empty one (0 bytes): fetch it again.")
    return size


def _iso_end(stream: BinaryIO, size: int) -> int:
    at = 0
    for _ in range(_BOXES_AT_MOST):
        if at >= size:
            break
        stream.seek(at)
        header = stream.read(16)
        if len(header) < 8:
            return at + 8 if header.strip(b"\0") else size  # zero padding at the end is common
        length = int.from_bytes(header[:4], "big")
        if length == 1:
            length = int.from_bytes(header[8:16], "big")
        if length == 0:  # "to the end of the file"
            return size
        if length < 8:
            # Not a box: junk after the last real one. The decoder judges it.
            return size
        at += length
    return at


def _riff_end(stream: BinaryIO, size: int) -> int:
    at = 0
    while at + 8 <= size:
        stream.seek(at)
        header = stream.read(8)
        if header[:4] != b"RIFF":
            return size  # bytes after the last chunk are not ours to judge
        at += 8 + int.from_bytes(header[4:], "little")
    return at


def _ebml_end(stream: BinaryIO, size: int) -> int:
    at, inside = 4, 0
    for identifier in (b"", _SEGMENT):
        stream.seek(at)
        if identifier:
            if stream.read(4) != identifier:
                return size
            at += 4
        length, width = _ebml_length(stream)
        if length is None:  # "unknown": a live recording
            return size
        inside = at + width
        at = inside + length
    if at <= size:
        _walk_segment(stream, inside, at)
    return at


def _walk_segment(stream: BinaryIO, start: int, end: int) -> None:
    """Blocks must fill clusters, and these the segment: a reader steps over what does not fit."""
    for identifier, at, length in _elements(stream, start, end):
        if identifier != _CLUSTER:
            continue
        for inner, _, _ in _elements(stream, at, at + length):
            if inner not in _IN_CLUSTER:
                raise _damaged()


def _elements(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Identifier, place and length of the elements between two places, which they must fill."""
    at = start
    while at < end:
        stream.seek(at)
        first = stream.read(1)
        width = 9 - first[0].bit_length() if first else 9
        if width > 4:
            raise _damaged()
        identifier = first + stream.read(width - 1)
        length, length_width = _ebml_length(stream)
        if length is None:
            if identifier == _CLUSTER:  # a live recording states no sizes
                return
            raise _damaged()
        at += width + length_width
        yield identifier, at, length
        at += length
    if at != end:
        raise _damaged()


def _damaged() -> MediaError:
    return MediaError(
        "Expected a file whose parts follow each other without a gap, got one that is broken in "
        "the middle: it is damaged. Fetch it again, or pass --tolerant (tolerant=True) to use "
        "what is left."
    )


def _gif_end(stream: BinaryIO, size: int) -> int:
    """The place after the trailer: pictures and extensions are chains of blocks that lead there."""
    stream.seek(10)
    flags = stream.read(3)[:1]
    stream.seek(13 + _gif_colours(flags))
    while kind := stream.read(1):
        if kind == b";":
            return stream.tell()
        if kind == b"!":
            stream.read(1)
        elif kind == b",":
            stream.seek(_gif_colours(stream.read(9)[8:]) + 1, os.SEEK_CUR)
        else:
            raise _damaged()
        while length := stream.read(1):
            if not length[0]:
                break
            stream.seek(length[0], os.SEEK_CUR)
    return size + 1


def _gif_colours(flags: bytes) -> int:
    """Bytes of the colour table that these flags announce."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _ebml_length(stream: BinaryIO) -> tuple[int | None, int]:
    first = stream.read(1)
    if not first or first[0] == 0:
        return None, 1
    width = 9 - first[0].bit_length()
    value = int.from_bytes(first + stream.read(width - 1), "big")
    mask = (1 << (7 * width)) - 1
    length = value & mask
    return (None if length == mask else length), width


def _trailer(stream: BinaryIO, size: int, mark: bytes) -> int:
    tail = min(size, 1 << 16)
    stream.seek(size - tail)
    return size if mark in stream.read(tail) else size + len(mark)
