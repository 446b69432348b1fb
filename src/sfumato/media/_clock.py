"""Exact times of frames, whatever the container does to them.

AVI stores no display times, Matroska rounds them to milliseconds, broken files repeat or omit them.
The clock turns what comes into times that increase strictly and are exact wherever the file still
knows them.
"""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from itertools import pairwise
from typing import Any

_MILLISECOND = Fraction(1, 1000)
_USUAL_RATE = Fraction(25)
# A protected recording may show one of these, chosen without looking at any recording.
USUAL_RATES = tuple(
    sorted(
        [Fraction(rate) for rate in (1, 2, 5, 8, 10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 100, 120)]
        + [Fraction(1000 * rate, 1001) for rate in (24, 30, 60)]
    )
)
_FASTEST = 1_000_000
_FINEST = (1 << 31) - 1
_LATEST = 1 << 62
_LOOK_AT = 1000
_REORDERED = 16  # the longest reordering of H.264 and HEVC


def nominal_rate(stream: Any) -> Fraction:
    """The rate the stream is meant to have; 25 when it says nothing believable."""
    for rate in (stream.guessed_rate, stream.base_rate, stream.average_rate):
        if rate and 0 < rate <= _FASTEST:
            return Fraction(rate)
    return _USUAL_RATE


def usual_rate(rate: Fraction) -> Fraction:
    """The usual rate that is nearest by ratio: all that a protected recording tells of its own."""
    return min(USUAL_RATES, key=lambda usual: max(usual / rate, rate / usual))


def on_grid(time: Fraction, rate: Fraction) -> Fraction:
    """The multiple of 1/rate that rounds to the same millisecond, else ``time`` itself."""
    nearest = Fraction(round(time * rate)) / rate
    return nearest if abs(nearest - time) <= _MILLISECOND / 2 else time


def has_variable_rate(container: Any, stream: Any) -> bool:
    """Do the first thousand packets come unevenly, or does the average miss the nominal rate?"""
    average = stream.average_rate
    if average and abs(average / nominal_rate(stream) - 1) > Fraction(1, 1000):
        return True
    avi = container.format.name == "avi"
    stamps = []
    for packet in container.demux(stream):
        stamp = packet.dts if avi else packet.pts
        if packet.size and stamp is not None:
            stamps.append(stamp)
        if len(stamps) == _LOOK_AT:
            break
    stamps.sort()
    if len(stamps) == _LOOK_AT:
        del stamps[-_REORDERED:]
    steps = [after - before for before, after in pairwise(stamps)]
    coarse = stream.time_base is not None and stream.time_base >= _MILLISECOND and not avi
    return bool(steps) and max(steps) - min(steps) > (1 if coarse else 0)


class Clock:
    """Gives every decoded frame its pts and time; ``mended`` counts those it had to invent."""

    def __init__(self, format_name: str, stream: Any) -> None:
        self.rate = nominal_rate(stream)
        self.mended = 0
        self._base = Fraction(stream.time_base or Fraction(1, 90_000))
        self._avi = format_name == "avi"
        self._rounded = "matroska" in format_name and self._base == _MILLISECOND
        self._decoding_times: deque[int] = deque()
        self._last: int | None = None
        self._offset = 0
        self.time_base = self._base
        if self._rounded:
            finer = math.lcm(1000, self.rate.numerator)
            self._rounded = finer <= _FINEST
            self.time_base = Fraction(1, finer) if self._rounded else self._base
        self._step = max(1, round(1 / (self.rate * self.time_base)))

    def sent(self, packet: Any) -> None:
        """Note a packet that goes to the decoder (AVI: only packets have times)."""
        if self._avi and packet.size and packet.dts is not None:
            self._decoding_times.append(packet.dts)

    def lost(self) -> None:
        """The packet noted last gives no frame."""
        if self._decoding_times:
            self._decoding_times.pop()

    def stamp(self, frame: Any) -> tuple[int, Fraction]:
        """(pts, time) of the next frame in display order."""
        pts = self._read(frame)
        if pts is not None:
            pts += self._offset
        if pts is None or abs(pts) >= _LATEST or (self._last is not None and pts <= self._last):
            self.mended += self._last is not None or pts is None
            pts = 0 if self._last is None else self._last + self._step
        if self._last is None and pts < 0:
            self._offset, pts = -pts, 0  # no container of ours can start before zero
        self._last = pts
        return pts, pts * self.time_base

    def _read(self, frame: Any) -> int | None:
        if self._avi:
            # In AVI the k-th picture shown takes the k-th slot, in whatever order it was coded.
            return self._decoding_times.popleft() if self._decoding_times else None
        if frame.pts is None:
            return None
        if not self._rounded:
            return int(frame.pts)
        exact = on_grid(frame.pts * self._base, self.rate) / self.time_base
        return exact.numerator
