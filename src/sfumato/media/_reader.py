"""Reading a video one frame at a time, with exact times."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import av

from sfumato.media._clock import Clock, has_variable_rate
from sfumato.media._colour import degrees, orientation, to_rgb, turn
from sfumato.media._container import (
    DECODING_ERRORS,
    cause,
    media_streams,
    open_container,
    prepare_decoder,
)
from sfumato.media._errors import MediaError
from sfumato.media._ffv1 import SliceCheck
from sfumato.media._info import Frame, Image, VideoInfo
from sfumato.media._pictures import PLACEHOLDER, PictureCount

_LONGEST = 1 << 40  # seconds; a header that claims more claims nothing


@dataclass(slots=True)
class Damage:
    """What a tolerant reader passed over; all zero for a sound file.

    ``frames_missing`` are pictures that the file holds and the decoder left out without a word.
    ``times_mended`` may be positive for a sound file too: some containers omit or repeat times.
    """

    packets_lost: int = 0
    frames_corrupt: int = 0
    frames_missing: int = 0
    end_missing: bool = False
    times_mended: int = 0

    def __str__(self) -> str:
        """What is not as it was recorded, or nothing for a sound file."""
        losses = (
            (self.packets_lost, "packets could not be decoded"),
            (self.frames_corrupt, "frames are corrupt"),
            (self.frames_missing, "frames were left out by the decoder"),
            (self.end_missing, "the end is missing"),
        )
        return ", ".join(
            words if count is True else f"{count} {words}" for count, words in losses if count
        )


class VideoReader:
    """Iterates over the frames of a video; memory does not depend on its length.

    A context manager. By default a file that is cut off, has packets that cannot be decoded,
    pictures that the decoder marks as corrupt or fewer frames than its packets hold raises
    ``MediaError``: frames are never dropped in silence. With ``tolerant=True`` the reader goes on and counts in ``damage`` what it passed over.
    A reader can be iterated once.
    """

    def __init__(self, path: str | os.PathLike[str], *, tolerant: bool = False) -> None:
        self.damage = Damage()
        self._tolerant = tolerant
        self._read = 0
        self._path = Path(path)
        with ExitStack() as stack:
            opened = open_container(self._path, "video", tolerant=tolerant)
            self._container = stack.enter_context(opened)
            self._stream = media_streams(self._container, "video")[0]
            prepare_decoder(self._stream, tolerant=tolerant)
            ffv1 = self._stream.codec_context.name == "ffv1"
            self._slices = SliceCheck() if ffv1 else None
            context = self._stream.codec_context
            self._pictures = PictureCount(
                context.codec.canonical_name, context.extradata, self._container.format.name
            )
            self._clock = Clock(self._container.format.name, self._stream)
            self._decoded = self._decode()
            self._next = next(self._decoded, None)
            if self._next is None:
                raise MediaError(
                    "Expected a video with at least one frame, got none that can be decoded: "
                    "fetch the file again or leave it out."
                )
            self._coded_size = (self._next.width, self._next.height)
            self._way = orientation(self._next)
            self.info = self._describe(self._next)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; a closed reader yields nothing more."""
        self._decoded.close()
        self._stack.close()

    def __iter__(self) -> Iterator[Frame]:
        return (self._show(frame) for frame in self._in_order())

    def frames_from(self, first: int) -> Iterator[Frame]:
        """The frames from number ``first`` on; those before are decoded and not converted."""
        for number, frame in enumerate(self._in_order()):
            if number >= first:
                yield self._show(frame)
            else:
                self._require_size(frame)
                self._clock.stamp(frame)

    def pictures_at(self, places: Collection[int]) -> tuple[dict[int, Image], int]:
        """The pictures at ``places``, and how many there are in all.

        The others are decoded, since later ones build on them, and not converted, which is half the time.
        """
        kept, count = dict[int, Image](), 0
        for count, frame in enumerate(self._in_order(), start=1):
            if count - 1 in places:
                kept[count - 1] = self._show(frame).image
            else:
                self._require_size(frame)
                self._clock.stamp(frame)
        self.damage.times_mended = self._clock.mended
        return kept, count

    def _in_order(self) -> Iterator[Any]:
        frame, self._next = self._next, None
        if frame is None:
            raise MediaError(
                "Expected a fresh reader, got one that was read already: open the video again."
            )
        while frame is not None:
            yield frame
            frame = next(self._decoded, None)

    def _require_size(self, frame: Any) -> None:
        if (frame.width, frame.height) != self._coded_size:
            raise MediaError(
                f"Expected {self._coded_size[0]} x {self._coded_size[1]} frames throughout, got "
                f"one of {frame.width} x {frame.height}: split the video where its size changes."
            )

    def _show(self, frame: Any) -> Frame:
        self._require_size(frame)
        try:
            image = turn(to_rgb(frame), self._way)
        except DECODING_ERRORS as error:
            raise MediaError(
                f"Expected a pixel format that converts to RGB, got {frame.format.name!r} "
                f"({cause(error)}): convert the video first."
            ) from None
        pts, time = self._clock.stamp(frame)
        self.damage.times_mended = self._clock.mended
        return Frame(image, pts, time)

    def _decode(self) -> Generator[Any, None, None]:
        """Decoded frames in display order; every loss is an error or counted."""
        shown = 0
        interlaced = False
        try:
            for packet in self._packets():
                self._clock.sent(packet)
                self._pictures.add(packet)
                for frame in self._decode_packet(packet):
                    shown += 1
                    interlaced |= bool(frame.interlaced_frame)
                    yield frame
        except DECODING_ERRORS as error:
            self._lose("a file that can be read to its end", cause(error))
            self.damage.end_missing = True
        if self._read < self._stream.frames:
            self._lose(f"{self._stream.frames} frames as its header says", f"{self._read}")
            self.damage.end_missing = True
        left_out = self._pictures.missing(shown, interlaced=interlaced) - self.damage.packets_lost
        if left_out > 0:
            self._lose(f"{shown + left_out} frames, as many as its packets hold", f"{shown}")
            self.damage.frames_missing = left_out

    def _packets(self) -> Iterator[Any]:
        for packet in self._container.demux(self._stream):
            self._read += bool(packet.size)
            if not packet.size and self._pictures.held_back:
                placeholder = av.Packet(PLACEHOLDER)
                placeholder.stream = self._stream
                yield placeholder
            yield packet

    def _decode_packet(self, packet: Any) -> Iterator[Any]:
        if self._slices and packet.size and not self._slices.sound(bytes(packet)):
            self._lose("packets as they were written", "one whose checksum differs")
            self.damage.frames_corrupt += 1
        if packet.is_corrupt:
            self._lose("packets without a gap", "one that its container marks as damaged")
            self.damage.frames_corrupt += 1
        try:
            frames = packet.decode()
        except DECODING_ERRORS as error:
            self._lose("packets that can be decoded", f"one that cannot ({cause(error)})")
            self.damage.packets_lost += 1
            self._clock.lost()
            return
        for frame in frames:
            if frame.is_corrupt:
                self._lose("sound frames", "one that the decoder marks as corrupt")
                self.damage.frames_corrupt += 1
            yield frame

    def _lose(self, expected: str, got: str) -> None:
        if not self._tolerant:
            raise MediaError(
                f"Expected {expected}, got {got}: the video is damaged. Fetch it again, or pass "
                "--tolerant (tolerant=True) to use the frames that are left."
            ) from None

    def _describe(self, frame: Any) -> VideoInfo:
        stream, (width, height) = self._stream, self._coded_size
        aspect = Fraction(stream.sample_aspect_ratio or 1)
        if self._way[0]:
            width, height, aspect = height, width, 1 / aspect
        return VideoInfo(
            width=width,
            height=height,
            rate=self._clock.rate,
            time_base=self._clock.time_base,
            frame_count=stream.frames or None,
            duration=self._duration(),
            has_audio=bool(self._container.streams.audio),
            rotation=degrees(self._way),
            variable_rate=self._variable(),
            interlaced=bool(frame.interlaced_frame),
            pixel_aspect=aspect if aspect > 0 else Fraction(1),
            codec=stream.codec_context.name,
            pixel_format=frame.format.name,
        )

    def _duration(self) -> Fraction | None:
        if self._stream.duration and self._stream.time_base:
            seconds = Fraction(self._stream.duration * self._stream.time_base)
        elif self._container.duration:
            seconds = Fraction(self._container.duration, 1_000_000)
        else:
            return None
        return seconds if 0 < seconds < _LONGEST else None

    def _variable(self) -> bool:
        # A second handle, so that looking ahead does not disturb the decoder's place in the file.
        with open_container(self._path, "video", tolerant=self._tolerant) as container:
            try:
                return has_variable_rate(container, media_streams(container, "video")[0])
            except DECODING_ERRORS:
                return True


def open_video(path: str | os.PathLike[str], *, tolerant: bool = False) -> VideoReader:
    """Open a video for reading: ``with open_video(path) as video: for frame in video: ...``.

    Rotation is applied, transparency becomes black, interlaced frames stay woven, ten-bit and grey
    pictures become 8-bit RGB. Broken files raise ``MediaError`` unless ``tolerant``.
    """
    return VideoReader(path, tolerant=tolerant)
