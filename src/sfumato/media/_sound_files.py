"""Sound by itself: samples in, samples out, as many as there were, and nothing else of the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import av
import av.codec.context
import numpy as np
from numpy.typing import NDArray

from sfumato.files import atomic_output
from sfumato.media._container import DECODING_ERRORS, cause, open_container
from sfumato.media._errors import MediaError

Sound = NDArray[np.float64]

# Ending -> container, encoder, kind of samples. Ogg holds FLAC: Opus knows no rate but its own, and
# there is no good encoder of Vorbis everywhere.
_FORMATS = {
    ".wav": ("wav", "pcm_s16le", "s16"),
    ".flac": ("flac", "flac", "s16"),
    ".mp3": ("mp3", "libmp3lame", "fltp"),
    ".m4a": ("ipod", "aac", "fltp"),
    ".ogg": ("ogg", "flac", "s16"),
}
LEAST_RATE, MOST_RATE = 8_000, 48_000
_JITTER = Fraction(1, 20)  # s; containers round times, and a gap shorter than this is rounding


@dataclass(frozen=True)
class SoundInfo:
    """What is public about a sound file: samples a second, channels, and how many tracks it has."""

    rate: int
    channels: int
    tracks: int


def sound_suffix(source: Path) -> str:
    """The ending of a protected copy: the source's own where such files are written."""
    suffix = source.suffix.lower()
    return suffix if suffix in _FORMATS else ".flac"


def require_sound_name(target: Path) -> None:
    """Raise unless sound can be written under this name."""
    if target.suffix.lower() not in _FORMATS:
        raise MediaError(
            f"Expected an output name ending in {', '.join(_FORMATS)}, got {target.suffix!r}: rename "
            "the output."
        )


class SoundReader:
    """One track of a file, the first if nothing is said, as blocks (channels, samples) of float64, nominally in [-1, 1].

    Where times say that sound is missing there is silence, so that the k-th sample is heard k / rate
    seconds after the first. What does not decode, and samples that are no numbers, raise.
    """

    def __init__(self, path: str | os.PathLike[str], track: int = 0) -> None:
        self._path, self._track = Path(path), track
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._container = stack.enter_context(open_container(self._path, "audio"))
            if self._container.format.name == "ogg":
                _require_whole_ogg(self._path)
            if self._container.format.name == "mp3":
                _require_whole_mp3(self._path)
            streams = audio_streams(self._container)
            self._stream = streams[self._track]
            self.info = SoundInfo(int(self._stream.rate), self._stream.channels, len(streams))
            require_rate(self.info.rate)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def __iter__(self) -> Iterator[Sound]:
        placed, left = PlacedSound(self._stream), _stated_length(self._container, self._stream)
        try:
            for packet in self._container.demux(self._stream):
                require_whole_packet(packet)
                for frame in packet.decode():
                    for block in placed.blocks(frame):
                        yield block if left is None else block[:, :left]
                        left = None if left is None else max(0, left - block.shape[1])
        except DECODING_ERRORS as error:
            raise damaged(error) from None


def _stated_length(container: Any, stream: Any) -> int | None:
    """Where an MP4 says that its sound ends: AAC decodes to whole blocks, longer than was encoded."""
    if "mp4" not in container.format.name or stream.duration is None:
        return None
    samples: int = round(stream.duration * stream.time_base * stream.rate)
    return samples


def _require_whole_ogg(path: Path) -> None:
    """Raise unless the last page is all there and says that it is the last."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (1 << 17)))  # a page has at most 65,307 bytes
        tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    table = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if len(page) < 27 or not page[5] & 4 or len(page) != 27 + len(table) + sum(table):
        raise damaged(EOFError())


def _require_whole_mp3(path: Path) -> None:
    """Raise if the first frame says how long the file is (Xing, LAME), and it is shorter."""
    with open(path, "rb") as file:
        begin = file.read(10)
        tags = 0
        if begin[:3] == b"ID3":  # seven bits of each byte; pictures may make it large
            tags = 10 + sum(byte << 7 * (3 - place) for place, byte in enumerate(begin[6:10]))
        file.seek(tags)
        first = file.read(4096)
        size = file.seek(0, os.SEEK_END) - tags
    at = max(first.find(b"Xing"), first.find(b"Info"))
    flags = int.from_bytes(first[at + 4 : at + 8], "big") if at >= 0 else 0
    if flags & 2:
        place = at + 8 + (4 if flags & 1 else 0)
        # some count the first frame itself, some do not, and a frame has at most 1,441 bytes
        if size + 2 * 1441 < int.from_bytes(first[place : place + 4], "big"):
            raise damaged(EOFError())


def audio_streams(container: Any) -> list[Any]:
    """Every track of sound, or a sentence about one that cannot be decoded."""
    streams = list(container.streams.audio)
    for stream in streams:
        if stream.codec_context is None or not stream.rate or not stream.channels:
            raise MediaError(
                "Expected sound that can be decoded, got a track in a format that is not known: "
                "convert it, or drop the sound."
            )
    return streams


class PlacedSound:
    """Decoded frames of one track as blocks of samples without gaps; ``start`` is the first's time."""

    def __init__(self, stream: Any) -> None:
        self._rate = int(stream.rate)
        self.start: Fraction | None = None
        self._count = 0
        self._to_floats = av.AudioResampler(format="fltp", layout=stream.layout, rate=stream.rate)

    def blocks(self, frame: Any) -> Iterator[Sound]:
        """Silence where some is missing, then the samples of ``frame``."""
        if frame.sample_rate != self._rate:
            raise MediaError(
                f"Expected one rate throughout, got {self._rate} and then {frame.sample_rate} Hz: "
                "convert the sound to one rate first."
            )
        time = None if frame.pts is None else Fraction(frame.pts * frame.time_base)
        if self.start is None:
            self.start = Fraction(0) if time is None else time
        elif time is not None:
            missing = time - self.start - Fraction(self._count, self._rate)
            if missing > _JITTER:
                yield from self._silence(round(missing * self._rate), frame)
        frame.pts = None
        for out in self._to_floats.resample(frame):
            samples = out.to_ndarray().astype(np.float64)
            if not np.isfinite(samples).all():
                raise MediaError(
                    "Expected samples that are numbers, got NaN or infinity among them: repair the "
                    "sound, or drop it."
                )
            self._count += samples.shape[1]
            yield samples

    def _silence(self, count: int, frame: Any) -> Iterator[Sound]:
        channels = len(frame.layout.channels)
        for left in range(count, 0, -self._rate):
            piece = min(left, self._rate)
            self._count += piece
            yield np.zeros((channels, piece))


class SoundWriter:
    """Writes (channels, samples) blocks to ``path``, which appears only when the block ends well.

    Nothing but the samples is written: no tag, date or name. Values beyond [-1, 1] are cut off there.
    """

    def __init__(
        self, path: str | os.PathLike[str], rate: int, channels: int, *, force: bool = False
    ) -> None:
        self._path, self._rate, self._force = Path(path), rate, force
        require_sound_name(self._path)
        self._layout = {1: "mono", 2: "stereo"}.get(channels)
        if self._layout is None:
            raise MediaError(f"Expected one or two channels to write, got {channels}: mix them.")
        self.samples_written = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                temporary = stack.enter_context(atomic_output(self._path, force=self._force))
                self._open(stack, temporary)
            except (*DECODING_ERRORS, OSError) as error:
                raise self._refused(error) from None
            self._stack = stack.pop_all()
        return self

    def _open(self, stack: ExitStack, temporary: Path) -> None:
        container, encoder, self._format = _FORMATS[self._path.suffix.lower()]
        options = {"fflags": "+bitexact"}
        if container == "ipod":
            options["movie_timescale"] = str(self._rate)  # where the sound ends, to the sample
        self._container = av.open(f"file:{temporary}", mode="w", format=container, options=options)
        stack.callback(self._abandon)
        self._stream: Any = self._container.add_stream(encoder, rate=self._rate)
        context: Any = self._stream.codec_context
        context.layout, context.format = self._layout, self._format
        context.flags |= av.codec.context.Flags.bitexact
        self._container.start_encoding()

    def _abandon(self) -> None:
        with suppress(*DECODING_ERRORS):
            self._container.close()

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is not None:
            self._stack.__exit__(*raised)
            return
        with self._stack:
            if not self.samples_written:
                raise MediaError("Expected sound to write, got none: no file was made.")
            try:
                self._container.mux(self._stream.encode(None))
                self._container.close()
            except DECODING_ERRORS as wrong:
                raise self._refused(wrong) from None

    def write(self, samples: Sound) -> None:
        """Append a block."""
        if not samples.shape[1]:
            return
        try:
            frame = audio_frame(
                samples, self._format, str(self._layout), self._rate, self.samples_written
            )
            self._container.mux(self._stream.encode(frame))
        except DECODING_ERRORS as error:
            raise self._refused(error) from None
        self.samples_written += samples.shape[1]

    def _refused(self, error: BaseException) -> MediaError:
        return MediaError(
            f"Expected to write sound of {self._rate} Hz into {self._path.suffix}, got "
            f"{cause(error)!r}: check the output folder and its free space, or write .wav or .flac, "
            "which take any rate."
        )


def audio_frame(samples: Sound, format: str, layout: str, rate: int, at: int) -> Any:
    """(channels, samples) in [-1, 1] as a frame for an encoder, its first sample number ``at``."""
    bounded = np.clip(samples, -1.0, 1.0)
    if format == "s16":
        whole = np.rint(bounded * 32767).astype(np.int16)
        array: Any = np.ascontiguousarray(whole.T.reshape(1, -1))
    else:
        array = np.ascontiguousarray(bounded.astype(np.float32))
    frame = av.AudioFrame.from_ndarray(array, format=format, layout=layout)
    frame.sample_rate, frame.pts, frame.time_base = rate, at, Fraction(1, rate)
    return frame


def require_rate(rate: int) -> None:
    """Raise unless voices can be worked on at this rate."""
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise MediaError(
            f"Expected sound of {LEAST_RATE} to {MOST_RATE} Hz, got {rate} Hz: convert it first."
        )


def require_whole_packet(packet: Any) -> None:
    """Raise for a packet that its container marks as damaged: a decoder may pass it over."""
    if packet.is_corrupt:
        raise damaged(ValueError())


def damaged(error: BaseException) -> MediaError:
    return MediaError(
        f"Expected sound that can be decoded, got a damaged stream ({cause(error)}): fetch the "
        "file again or drop its sound."
    )
