"""How many pictures the packets of a video hold, so that a decoder that drops some is found out.

Decoders leave out what they cannot show (pictures whose references are gone) and say nothing. Where a
codec's packets tell how many pictures they hold, that number is compared with what came out.
"""

from __future__ import annotations

from typing import Any

# One packet, one picture. Codecs that may skip a picture on purpose (screen and web codecs with empty
# updates) are not named: for them nothing can be said.
_ONE_EACH = frozenset(
    {"h264", "hevc", "av1", "mpeg1video", "mpeg2video", "mjpeg", "ffv1", "prores", "dnxhd", "png"}
    | {"rawvideo", "huffyuv", "ffvhuff", "utvideo", "dvvideo", "h263", "flv1", "wmv1", "wmv2"}
    | {"msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "gif"}
)
_BARE = frozenset({"mpegts", "mpeg", "h264"})  # FFmpeg cuts these into packets itself
_VOP = b"\0\0\1\xb6"  # starts a picture of MPEG-4 part 2
_VOL = tuple(b"\0\0\1" + bytes([number]) for number in range(0x20, 0x30))
PLACEHOLDER = b"\x7f"  # a packet without a picture, as DivX writes it
_PLACEHOLDER_BYTES = 19  # bytes; FFmpeg's bound for a packet that says "no picture here"


class PictureCount:
    """Counts the pictures in packets of one stream of a container."""

    def __init__(self, codec: str, extradata: bytes | None, container: str) -> None:
        self._bare = container in _BARE
        self._codec = codec
        self._time_bits = _time_bits(extradata or b"")
        self._held = 0
        self.held_back = False
        self._counted = codec in _ONE_EACH or codec in {"mpeg4", "vp8", "vp9"}

    def add(self, packet: Any) -> None:
        """Note a packet on its way to the decoder.

        ``held_back`` says after it that the decoder keeps a second picture of this packet until the
        next one: DivX packs two and sends a placeholder after them, which a cut video lacks.
        """
        # a discarded packet (an edit list) is decoded for the sake of others and not shown
        if self._counted and packet.size and not packet.is_discard:
            inside = 1 if self._codec in _ONE_EACH else self._inside(bytes(packet))
            self._held += inside
            self.held_back = inside > 1

    def missing(self, shown: int, *, interlaced: bool) -> int:
        """How many of them did not come out, when ``shown`` did."""
        # in a bare stream the two fields of one H.264 frame come in packets of their own
        fields = 2 if interlaced and self._bare and self._codec == "h264" else 1
        return max(0, -(-(self._held - fields * shown) // fields))

    def _inside(self, data: bytes) -> int:
        if self._codec == "vp8":
            return data[0] >> 4 & 1  # the frame is to be shown
        if self._codec == "vp9":
            return _shown_vp9(data)
        if self._time_bits is None:
            self._time_bits = _time_bits(data)
        return _coded_pictures(data, self._time_bits)


def _shown_vp9(data: bytes) -> int:
    """0 for a hidden reference on its own; a superframe ends with the frame that is shown."""
    superframe = data[-1] & 0xE0 == 0xC0
    head = _Bits(data[:2])
    head.skip(2)
    profile = head.take(1) | head.take(1) << 1
    head.skip(1 if profile == 3 else 0)
    existing, _key, shown = head.take(1), head.take(1), head.take(1)
    return int(bool(superframe or existing or shown))


def _coded_pictures(data: bytes, time_bits: int | None) -> int:
    """MPEG-4 part 2: a packet may hold several pictures (DivX), or say that there is none."""
    found = 0
    at = data.find(_VOP)
    while at >= 0:
        if time_bits is None:
            found += len(data) > _PLACEHOLDER_BYTES
        else:
            found += _is_coded(_Bits(data[at + 4 : at + 24]), time_bits)
        at = data.find(_VOP, at + 4)
    return found


def _is_coded(bits: _Bits, time_bits: int) -> bool:
    """ISO/IEC 14496-2, 6.2.5: ``vop_coded`` comes after type, seconds and the time within one."""
    bits.skip(2)
    while bits.take(1):
        pass
    bits.skip(1 + time_bits + 1)
    return bool(bits.take(1))


def _time_bits(data: bytes) -> int | None:
    """ISO/IEC 14496-2, 6.2.3: how many bits a time takes, from the header of the layer."""
    starts = [at for mark in _VOL if (at := data.find(mark)) >= 0]
    if not starts:
        return None
    bits = _Bits(data[min(starts) + 4 : min(starts) + 44])
    bits.skip(1 + 8)
    version = 1
    if bits.take(1):
        version = bits.take(4)
        bits.skip(3)
    if bits.take(4) == 15:
        bits.skip(16)
    if bits.take(1):
        bits.skip(3)
        bits.skip(79 if bits.take(1) else 0)
    shape = bits.take(2)
    bits.skip(4 if shape == 3 and version != 1 else 0)
    bits.skip(1)
    resolution = bits.take(16)
    return max(1, (resolution - 1).bit_length()) if resolution else None


class _Bits:
    """Bits of a header, highest first; zeros after its end."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "big"), 8 * len(data)

    def take(self, count: int) -> int:
        self._left -= count
        shifted = self._value >> self._left if self._left >= 0 else self._value << -self._left
        return shifted & ((1 << count) - 1)

    def skip(self, count: int) -> None:
        self.take(count)
