"""A corpus of broken files, made from small sound ones; the same on every run."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

ABSURD = (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
SECRET = "secret"  # sound videos secret.mp4 and secret.ts lie beside the corpus
TEXTS = {
    "playlist": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{SECRET}.ts\n#EXT-X-ENDLIST\n",
    "concat": f"ffconcat version 1.0\nfile {SECRET}.mp4\n",
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nm=video 1 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
    "mpd": '<?xml version="1.0"?><MPD><Period><AdaptationSet/></Period></MPD>',
    "html": "<!doctype html><title>404</title>" * 20,
    "words": "This is a note about P001.\n" * 50,
    "subtitles": "1\n00:00:01,000 --> 00:00:02,000\nHello\n",
    "json": '{"error": "not found"}',
    "pgm": "P2\n2 2\n255\n0 1 2 3\n",
}

Case = tuple[str, str, bytes]  # kind, suffix, content


def cases(sound: dict[str, bytes]) -> Iterator[Case]:
    """Broken variants of ``sound`` (suffix to content), plus files that never were media."""
    for number, (suffix, data) in enumerate(sound.items()):
        rng = np.random.default_rng(number)
        yield "sound", suffix, data
        yield "empty", suffix, b""
        for share in (1, 10, 35, 60, 85, 95, 99):
            yield "truncated", suffix, data[: len(data) * share // 100]
        for cut in (1, 7):
            yield "truncated", suffix, data[:-cut]
        for reach in (16, 64, 256, 1024):
            yield "header", suffix, _scattered(data, 0, min(reach, len(data)), rng)
            yield "header", suffix, _scattered(data, 0, min(reach, len(data)), rng)
        for _ in range(8):
            at = int(rng.integers(len(data) // 4, len(data)))
            yield "packet", suffix, _scattered(data, at, min(len(data), at + 64), rng)
        middle = len(data) // 2
        yield "hole", suffix, data[: middle - 100] + data[middle:]
        yield "zeroed", suffix, data[:middle] + bytes(200) + data[middle + 200 :]
        yield "repeated", suffix, data[:middle] + data[middle - 100 :]
        yield "doubled", suffix, data + data
        yield "backwards", suffix, data[::-1]
        yield "shifted", suffix, b"\0" + data
        yield "misnamed", {".mp4": ".avi", ".avi": ".mkv"}.get(suffix, ".mp4"), data
    yield from _absurd(sound)
    for kind, text in TEXTS.items():
        for suffix in (".mp4", ".avi", ".mkv"):
            yield kind, suffix, text.encode()
    for seed in range(6):
        noise = np.random.default_rng(100 + seed).bytes(4096)
        yield "noise", ".mp4", noise
        yield "noise", ".mp4", b"\0\0\0\x20ftypisom" + noise
    yield "zeros", ".mp4", bytes(4096)


def _scattered(data: bytes, start: int, stop: int, rng: np.random.Generator) -> bytes:
    broken = bytearray(data)
    for at in rng.integers(start, stop, size=max(1, (stop - start) // 8)):
        broken[at] = int(rng.integers(256))
    return bytes(broken)


def _absurd(sound: dict[str, bytes]) -> Iterator[Case]:
    """Sizes and durations that no recording has, written into the right fields."""
    mp4, mkv, avi = sound[".mp4"], sound[".mkv"], sound[".avi"]
    for value in ABSURD:
        packed = struct.pack(">I", value)
        short = struct.pack(">H", value & 0xFFFF)
        yield "absurd size", ".mp4", _patch(mp4, b"avc1", 28, short + short)
        yield "absurd size", ".mp4", _patch(mp4, b"tkhd", 80, packed + packed)
        yield "absurd duration", ".mp4", _patch(mp4, b"mvhd", 16, packed + packed)
        yield "absurd duration", ".mp4", _patch(mp4, b"mdhd", 16, packed + packed)
        yield "absurd duration", ".mp4", _patch(mp4, b"stts", 12, packed)
        yield "absurd counts", ".mp4", _patch(mp4, b"stts", 8, packed)
        yield "absurd counts", ".mp4", _patch(mp4, b"stsz", 12, packed)
        yield "absurd sizes of packets", ".mp4", _patch(mp4, b"stsz", 20, packed)
        yield "absurd offsets", ".mp4", _patch(mp4, b"stco", 12, packed)
        little = struct.pack("<I", value)
        yield "absurd size", ".avi", _patch(avi, b"strf", 8 + 4, little + little)
        yield "absurd duration", ".avi", _patch(avi, b"avih", 8, little)
        yield "absurd duration", ".avi", _patch(avi, b"strh", 8 + 20, little + little)
        yield "absurd size", ".mkv", _patch(mkv, b"\xb0\x81", 2, bytes([value & 0xFF]))
        yield "absurd size", ".mkv", _patch(mkv, b"\xba\x81", 2, bytes([value & 0xFF]))
        yield "absurd duration", ".mkv", _patch(mkv, b"\x2a\xd7\xb1\x83", 4, packed[1:])


def _patch(data: bytes, mark: bytes, offset: int, value: bytes) -> bytes:
    at = data.index(mark) + offset
    return data[:at] + value + data[at + len(value) :]
