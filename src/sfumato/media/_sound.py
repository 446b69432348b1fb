"""Sound: mono windows for methods that listen, and a clean copy for outputs that keep it.

Kept sound is decoded and encoded again. A plain copy of packets would carry what encoders hide in
them (comment headers of Vorbis, names in AAC and MP3 frames).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, Self

import av
import av.codec.context
import numpy as np
from numpy.typing import NDArray

from sfumato.media._container import DECODING_ERRORS, open_container
from sfumato.media._errors import MediaError
from sfumato.media._sound_files import (
    PlacedSound,
    Sound,
    audio_frame,
    audio_streams,
    damaged,
    require_rate,
    require_whole_packet,
)

Samples = NDArray[np.float32]

AUDIO_NOTE = (
    "any sound of the recording, which was kept: voices, names spoken and places heard are not "
    "protected by this method"
)

_ENCODERS = {"mp4": "aac", "mov": "aac", "matroska": "flac"}
_SAMPLE_FORMATS = {"aac": "fltp", "flac": "s16"}


def audio_windows(
    path: str | os.PathLike[str], rate: int, length: int, hop: int | None = None
) -> Iterator[Samples]:
    """Mono float32 windows of ``length`` samples at ``rate`` Hz, every ``hop`` (default: length).

    Streaming: memory does not depend on the length of the recording. A last piece shorter than
    ``length`` is not a window and is left out.
    """
    step = length if hop is None else hop
    if rate < 1 or length < 1 or step < 1:
        raise MediaError(
            f"Expected positive rate, length and hop, got {rate}, {length}, {step}: correct them."
        )
    held = np.zeros(0, dtype=np.float32)
    skip = 0
    for piece in _mono(Path(path), rate):
        held = np.concatenate([held, piece])
        while True:
            dropped = min(skip, len(held))
            held, skip = held[dropped:], skip - dropped
            if skip or len(held) < length:
                break
            yield held[:length].copy()
            skip = step


def read_audio(path: str | os.PathLike[str], rate: int, *, limit_bytes: int = 1 << 30) -> Samples:
    """The first audio stream as mono float32, nominally in [-1, 1], at ``rate`` Hz.

    Refuses recordings of more than ``limit_bytes`` of samples; ``audio_windows`` has no limit.
    """
    if rate < 1:
        raise MediaError(f"Expected a positive rate in Hz, got {rate}: 16000 suits speech.")
    pieces: list[Samples] = []
    total = 0
    for piece in _mono(Path(path), rate):
        total += piece.nbytes
        if total > limit_bytes:
            raise MediaError(
                f"Expected at most {limit_bytes} bytes of sound, got more: raise limit_bytes or "
                "read it with audio_windows."
            )
        pieces.append(piece)
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.float32)


def _mono(path: Path, rate: int) -> Iterator[Samples]:
    """The mean of all channels (FFmpeg's own mixing would be louder than either channel)."""
    with open_container(path, "audio") as container:
        stream = audio_streams(container)[0]
        try:
            resampler = av.AudioResampler(format="fltp", layout=stream.layout, rate=rate)
            for frame in container.decode(stream):
                frame.pts = None  # gaps are closed up: windows are about sound, not about clocks
                for out in resampler.resample(frame):
                    yield out.to_ndarray().mean(axis=0, dtype=np.float32)
            for out in resampler.resample(None):
                yield out.to_ndarray().mean(axis=0, dtype=np.float32)
        except DECODING_ERRORS as error:
            raise damaged(error) from None


class SoundChange(Protocol):
    """What is done to one track: mono samples in, as many out, later."""

    def push(self, samples: Sound) -> Sound: ...

    def flush(self) -> Sound: ...


# The number of a track among the tracks of sound, and its rate, to what is done to it.
SoundChanges = Callable[[int, int], SoundChange]


class SoundTrack:
    """All audio streams of one file on their way into an output, never far ahead of the picture.

    With ``changes``, no sample goes through but by them: what they make of the mean of all channels is
    heard in the place of each sample, in every channel.
    """

    def __init__(
        self, source: str | os.PathLike[str], output: Any, changes: SoundChanges | None = None
    ) -> None:
        self._source = Path(source)
        self._output = output
        self._changes = changes
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            container = stack.enter_context(open_container(self._source, "audio"))
            streams = audio_streams(container)
            self._copies: dict[int, _Copied | _Changed] = {
                stream.index: _Copied(stream, self._output)
                if self._changes is None
                else _Changed(stream, self._output, self._changes(number, int(stream.rate)))
                for number, stream in enumerate(streams)
            }
            self._packets = container.demux(*streams)
            self._stack = stack.pop_all()
        self._at = Fraction(-1)
        self._done = False
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def copy_until(self, time: Fraction | None) -> None:
        """Copy sound up to ``time`` seconds, or all that is left."""
        try:
            while not self._done and (time is None or self._at < time):
                self._copy_packet()
            if time is None:
                for copy in self._copies.values():
                    copy.finish()
        except DECODING_ERRORS as error:
            raise damaged(error) from None

    def _copy_packet(self) -> None:
        packet = next(self._packets, None)
        if packet is None:
            self._done = True
            return
        require_whole_packet(packet)
        for frame in packet.decode():
            if frame.pts is not None:
                self._at = max(self._at, Fraction(frame.pts * frame.time_base))
            self._copies[packet.stream.index].add(frame)


class _Copied:
    """One track, decoded and encoded again."""

    def __init__(self, source: Any, output: Any) -> None:
        self._output = output
        self._stream, kind = _target(output, source.rate, source.layout)
        self._resampler = av.AudioResampler(format=kind, layout=source.layout, rate=source.rate)

    def add(self, frame: Any) -> None:
        for out in self._resampler.resample(frame):
            self._output.mux(self._stream.encode(out))

    def finish(self) -> None:
        self.add(None)
        self._output.mux(self._stream.encode(None))


class _Changed:
    """One track of which nothing goes through but what ``change`` makes of it."""

    def __init__(self, source: Any, output: Any, change: SoundChange) -> None:
        require_rate(int(source.rate))
        self._output, self._change, self._rate = output, change, int(source.rate)
        self._layout = "mono" if source.channels == 1 else "stereo"
        self._stream, self._kind = _target(output, source.rate, self._layout)
        self._placed = PlacedSound(source)
        self._came = self._gone = 0

    def add(self, frame: Any) -> None:
        for block in self._placed.blocks(frame):
            self._came += block.shape[1]
            self._encode(self._change.push(block.mean(0)))

    def finish(self) -> None:
        self._encode(self._change.flush())
        if self._gone != self._came:
            raise MediaError(
                f"Expected {self._came} samples of changed sound, got {self._gone}: nothing was written."
            )
        self._output.mux(self._stream.encode(None))

    def _encode(self, samples: Sound) -> None:
        # the first sample is heard when the first of the recording was; what came before 0 never was
        at = round((self._placed.start or 0) * self._rate) + self._gone
        self._gone += len(samples)
        samples, at = samples[max(-at, 0) :], max(at, 0)
        if len(samples):
            both = np.repeat(samples[None], 1 if self._layout == "mono" else 2, axis=0)
            frame = audio_frame(both, self._kind, self._layout, self._rate, at)
            self._output.mux(self._stream.encode(frame))


def _target(output: Any, rate: int, layout: Any) -> tuple[Any, str]:
    """A new track of the output, and the kind of samples that it takes."""
    encoder = _ENCODERS[output.format.name]
    stream = output.add_stream(encoder, rate=rate)
    stream.codec_context.layout = layout
    stream.codec_context.format = _SAMPLE_FORMATS[encoder]
    stream.codec_context.flags |= av.codec.context.Flags.bitexact
    return stream, _SAMPLE_FORMATS[encoder]
