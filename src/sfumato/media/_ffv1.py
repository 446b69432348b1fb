"""Checksums of FFV1 slices (RFC 9043, 4.9): FFmpeg's decoder finds a wrong one and only logs it.

The lossless layer is the one whose pixels a guarantee speaks about, so its damage must not pass.
"""

from __future__ import annotations

import zlib

_FOOTER = 8  # three bytes of size, one of error status, four of checksum
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_ALL_ONES = 0xFFFFFFFF


class SliceCheck:
    """Tells packet by packet whether all slices are as they were written.

    Whether slices carry checksums at all is judged by the first packet, since the flag for it is
    buried in the coded header; a file without them passes.
    """

    def __init__(self) -> None:
        self._checked: bool | None = None

    def sound(self, packet: bytes) -> bool:
        slices = _slices(packet)
        if self._checked is None:
            self._checked = bool(slices) and any(_intact(part) for part in slices)
        return not self._checked or (bool(slices) and all(_intact(part) for part in slices))


def _slices(packet: bytes) -> list[bytes]:
    """The slices with their footers, found from the end; empty if the sizes do not add up."""
    found = []
    end = len(packet)
    while end > 0:
        if end < _FOOTER:
            return []
        size = int.from_bytes(packet[end - _FOOTER : end - _FOOTER + 3], "big")
        start = end - _FOOTER - size
        if start < 0:
            return []
        found.append(packet[start:end])
        end = start
    return found


def _intact(part: bytes) -> bool:
    """CRC-32, highest bit first, start 0: zero over a slice together with its own checksum.

    zlib's goes lowest bit first, so the bits of every byte are turned round.
    """
    return zlib.crc32(part.translate(_REVERSED), _ALL_ONES) == _ALL_ONES
