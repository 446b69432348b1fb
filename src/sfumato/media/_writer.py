"""Writing a video: exact times, no metadata, all of it or nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import av
import av.bitstream
import av.codec.context
import numpy as np

from sfumato.files import atomic_output
from sfumato.media._clock import on_grid
from sfumato.media._codecs import choose
from sfumato.media._colour import colour_matrix
from sfumato.media._container import (
    DECODING_ERRORS,
    cause,
    max_pixels,
    media_streams,
    open_container,
)
from sfumato.media._errors import MediaError
from sfumato.media._info import Image, VideoInfo
from sfumato.media._sound import SoundChanges, SoundTrack

_FINEST = (1 << 31) - 1
_FORMATS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
_MATRICES = {"itu709": 1, "itu601": 6}  # numbers of ITU-T H.273


class VideoWriter:
    """Writes frames to ``path``, which appears only when the ``with`` block ends well.

    ``VideoWriter(path, info)`` takes size and timing from a reader's ``info``;
    ``VideoWriter(path, rate=Fraction(30), size=(width, height))`` states them. Codecs: ``h264``
    (lossy; ``quality`` is x264's constant rate factor, default 18), ``h264rgb`` and ``ffv1`` (both
    give back every byte). Only these two keep public pixels independent of private ones (R8). ``grey``
    (``ffv1`` only) is for masks: pictures are (height, width), and take half of the encoder's memory.
    Nothing of the container's metadata is ever written, but for a ``note`` of one's own. Sound is
    dropped unless ``keep_audio_from`` names a file; kept sound narrows or voids a Guarantee (R14), and
    so does sound that ``change_audio`` changes on the way.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        info: VideoInfo | None = None,
        *,
        rate: Fraction | int | None = None,
        size: tuple[int, int] | None = None,
        time_base: Fraction | None = None,
        codec: str = "h264",
        quality: int | None = None,
        keep_audio_from: str | os.PathLike[str] | None = None,
        change_audio: SoundChanges | None = None,
        note: str | None = None,
        grey: bool = False,
        force: bool = False,
    ) -> None:
        self._path = Path(path)
        self._codec, self._options = choose(codec, self._path, quality)
        if grey and codec != "ffv1":
            raise MediaError(f"Expected codec ffv1 for grey pictures, got {codec}: use it.")
        self._shown = "gray" if grey else "rgb24"  # how pictures are given
        self._rate, self.size = _layout(info, rate, size)
        given = time_base or (info.time_base if info else 1 / self._rate)
        self._given_base = Fraction(given)
        self.time_base = _common_clock(self._given_base, self._rate)
        self._step = max(1, round(1 / (self._rate * self.time_base)))
        self._aspect = info.pixel_aspect if info else Fraction(1)
        self._audio_source, self._audio_changes = keep_audio_from, change_audio
        self._note, self._force = note, force
        self._stack = ExitStack()
        self._last: int | None = None
        self.frames_written = 0

    @property
    def lossless(self) -> bool:
        return self._codec.lossless

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                self._temporary = stack.enter_context(atomic_output(self._path, force=self._force))
                self._open(stack)
            except (*DECODING_ERRORS, OSError) as error:
                raise self._refused(error) from None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is not None:
            self._stack.__exit__(*raised)
            return
        with self._stack:
            self._finish()

    def write(self, image: Image, when: int | Fraction | None = None) -> None:
        """Append a uint8 (height, width, 3) RGB image.

        ``when`` is a time in seconds (``Fraction``), a pts in the time base of ``info`` (``int``),
        or ``None`` for one step of the nominal rate after the last frame.
        """
        self._check(image)
        pts = self._ticks(when)
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format=self._shown)
        try:
            frame = frame.reformat(format=self._stream.pix_fmt, **self._conversion)
            frame.pts, frame.time_base, frame.duration = pts, self.time_base, self._step
            self._mux(self._stream.encode(frame))
            if self._sound:
                self._sound.copy_until(pts * self.time_base)
        except DECODING_ERRORS as error:
            raise self._refused(error) from None
        self._last = pts
        self.frames_written += 1

    def require_times(self, times: Iterable[int | Fraction | None]) -> None:
        """Raise unless frames can be written with these times; for who writes them later."""
        try:
            for when in times:
                self._last = self._ticks(when)
        finally:
            self._last = None

    def _open(self, stack: ExitStack) -> None:
        suffix = self._path.suffix.lower()
        self._container = av.open(
            f"file:{self._temporary}",
            mode="w",
            format=_FORMATS[suffix],
            options=self._muxer_options(suffix),
        )
        stack.callback(self._abandon)
        if self._note is not None:
            self._container.metadata["comment"] = self._note
        self._stream = self._add_stream()
        self._sound = None
        if self._audio_source is not None:
            self._sound = stack.enter_context(
                SoundTrack(self._audio_source, self._container, self._audio_changes)
            )
        self._container.start_encoding()
        self._filter = None
        if units := self._drop_units():
            self._filter = av.bitstream.BitStreamFilterContext(units, self._stream, self._stream)

    def _drop_units(self) -> str:
        return self._codec.drop_units

    def _abandon(self) -> None:
        """Close after an error, whose report matters more than what closing may add to it."""
        with suppress(*DECODING_ERRORS):
            self._container.close()

    def _muxer_options(self, suffix: str) -> dict[str, str]:
        options = {"fflags": "+bitexact"}  # no dates, no version of the writing library
        if suffix != ".mkv":
            # A first frame later than zero is stored in ticks of the whole film, 1/1000 s unless
            # told otherwise: too coarse for a rational rate.
            ticks = self.time_base.denominator
            options["movie_timescale"] = str(ticks * max(1, -(-1000 // ticks)))
        return options

    def _add_stream(self) -> Any:
        stream: Any = self._container.add_stream(
            self._codec.encoder, rate=self._rate, options=self._options
        )
        context = stream.codec_context
        stream.width, stream.height = self.size
        stream.pix_fmt, self._conversion = self._pixel_format()
        stream.time_base = context.time_base = self.time_base
        context.flags |= av.codec.context.Flags.bitexact | av.codec.context.Flags.frame_duration
        if self._aspect != 1:
            context.sample_aspect_ratio = self._aspect
        if self._conversion:
            context.colorspace = _MATRICES[self._conversion["dst_colorspace"]]
            context.color_range = av.video.reformatter.ColorRange.MPEG
        return stream

    def _pixel_format(self) -> tuple[str, dict[str, Any]]:
        if self._codec.name == "ffv1":
            return ("gray" if self._shown == "gray" else "bgr0"), {}
        if self._codec.lossless:
            return "bgr24", {}
        # Half-size colour planes need even sides; full-size ones keep the exact size.
        even = self.size[0] % 2 == 0 and self.size[1] % 2 == 0
        matrix = colour_matrix(self.size[1])
        return ("yuv420p" if even else "yuv444p"), {
            "dst_colorspace": matrix,
            "dst_color_range": "MPEG",
        }

    def _check(self, image: Image) -> None:
        shape = (self.size[1], self.size[0], *((3,) if self._shown == "rgb24" else ()))
        if image.dtype != np.uint8 or image.shape != shape:
            raise MediaError(
                f"Expected a uint8 image of shape {shape}, got {image.dtype} {image.shape}: "
                "convert or resize it before writing."
            )

    def _ticks(self, when: int | Fraction | None) -> int:
        if when is None:
            return 0 if self._last is None else self._last + self._step
        time = when if isinstance(when, Fraction) else when * self._given_base
        ticks = time / self.time_base
        if ticks.denominator != 1:
            raise MediaError(
                f"Expected a time that is a multiple of {self.time_base} s, got {time}: "
                "pass a finer time_base to VideoWriter."
            )
        if ticks < 0:
            raise MediaError(
                f"Expected a time of 0 or later, got {time}: players drop what comes before 0, "
                "so shift all times."
            )
        if self._last is not None and ticks <= self._last:
            raise MediaError(
                f"Expected a time after {self._last * self.time_base} s, got {time}: "
                "write frames in the order they are shown."
            )
        if self._path.suffix.lower() == ".mkv" and not self._survives_milliseconds(time):
            raise MediaError(
                f"Expected a time that Matroska can store (milliseconds, or a multiple of 1/rate), "
                f"got {time} s at rate {self._rate}: write .mp4 or .mov instead."
            )
        return ticks.numerator

    def _survives_milliseconds(self, time: Fraction) -> bool:
        return on_grid(Fraction(round(time * 1000), 1000), self._rate) == time

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            for kept in self._filter.filter(packet) if self._filter else (packet,):
                kept.stream = self._stream
                self._container.mux(kept)

    def _finish(self) -> None:
        if not self.frames_written:
            raise MediaError("Expected at least one frame to write, got none: no file was made.")
        try:
            self._flush()
            if self._sound:
                self._sound.copy_until(None)
            self._container.close()
        except DECODING_ERRORS as error:
            raise self._refused(error) from None

    def _flush(self) -> None:
        self._mux(self._stream.encode(None))
        if self._filter:
            for packet in self._filter.filter(None):
                packet.stream = self._stream
                self._container.mux(packet)

    def _refused(self, error: BaseException) -> MediaError:
        return MediaError(
            f"Expected {self._codec.encoder} to write {self.size[0]} x {self.size[1]} "
            f"frames into {self._path.suffix}, got {cause(error)!r}: check the output folder and "
            "its free space, or try another codec or size."
        )


class VideoJoiner(VideoWriter):
    """Joins closed pieces that a ``VideoWriter`` of the same settings wrote, without coding them again.

    ``pieces`` are the files in their order with the times of their frames, as ``write`` takes them. Frames
    are shown as they are in the pieces, for each begins with a key frame of its own; a piece with other
    parameters or another number of frames is refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        info: VideoInfo,
        pieces: Sequence[tuple[Path, Sequence[int | None]]],
        **settings: Any,
    ) -> None:
        super().__init__(path, info, **settings)
        self._pieces = pieces

    def join(self, joined: Callable[[int], None] = lambda frames: None) -> None:
        """Write all pieces; ``joined`` hears how many frames there are so far."""
        for path, times in self._pieces:
            try:
                self._append(path, times)
            except DECODING_ERRORS as error:
                raise self._refused(error) from None
            joined(self.frames_written)

    def _append(self, path: Path, times: Sequence[int | None]) -> None:
        came = 0
        with open_container(path, "video") as piece:
            stream = media_streams(piece, "video")[0]
            self._require_alike(stream)
            for packet in piece.demux(stream):
                if not packet.size:
                    continue
                if came == len(times) or (not came and not packet.is_keyframe):
                    raise self._other_piece(f"{came} or more", len(times))
                pts = self._ticks(times[came])
                packet.stream = self._stream
                packet.time_base, packet.duration = self.time_base, self._step
                packet.pts = packet.dts = pts
                self._container.mux(packet)
                if self._sound:
                    self._sound.copy_until(pts * self.time_base)
                self._last, came = pts, came + 1
                self.frames_written += 1
        if came != len(times):
            raise self._other_piece(str(came), len(times))

    def _require_alike(self, stream: Any) -> None:
        """A decoder that was set up for the first piece must show every other one as it is."""
        if self._parameters != _parameters(stream):
            raise MediaError(
                "Expected pieces of one video to have the same parameters, got others: install the same "
                "version everywhere. Nothing was released."
            )

    def _other_piece(self, got: str, expected: int) -> MediaError:
        return MediaError(
            f"Expected a piece of {expected} frames that begins with a key frame, got one of {got}: "
            "nothing was released."
        )

    def _add_stream(self) -> Any:
        with open_container(self._pieces[0][0], "video") as first:
            like = media_streams(first, "video")[0]
            self._parameters = _parameters(like)
            if self._parameters[1] != self.size:
                raise self._refused(ValueError("pieces of another size"))
            stream = self._container.add_stream_from_template(like)
        stream.time_base = self.time_base
        stream.codec_context.framerate = self._rate  # Matroska keeps no other
        return stream

    def _drop_units(self) -> str:
        return ""  # they are no more in the pieces

    def _flush(self) -> None:
        """There is no encoder that holds frames back."""


def _parameters(stream: Any) -> tuple[Any, ...]:
    context = stream.codec_context
    shown = context.format.name if context.format else ""
    return context.name, (context.width, context.height), shown, bytes(context.extradata or b"")


def _layout(
    info: VideoInfo | None, rate: Fraction | int | None, size: tuple[int, int] | None
) -> tuple[Fraction, tuple[int, int]]:
    if info is not None:
        rate = info.rate if rate is None else rate
        size = (info.width, info.height) if size is None else size
    if rate is None or size is None:
        raise MediaError(
            "Expected the info of a reader, or rate= and size=(width, height): pass either."
        )
    width, height = size
    if rate <= 0 or width < 1 or height < 1 or width * height > max_pixels():
        raise MediaError(
            f"Expected a positive rate and 1 to {max_pixels()} pixels, got rate {rate} and "
            f"{width} x {height}: correct them."
        )
    return Fraction(rate), (width, height)


def _common_clock(base: Fraction, rate: Fraction) -> Fraction:
    """A time base that holds both the given times and every multiple of 1/rate."""
    finest = math.lcm(base.denominator, rate.numerator)
    return Fraction(1, finest) if finest <= _FINEST else base
