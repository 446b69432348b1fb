"""Sound: mono windows for methods that listen, and a clean copy for outputs that keep it.

Kept sound is decoded and encoded again. A plain copy of packets would carry what encoders hide in
them (comment headers of Vorbis, names in AAC and MP3 frames).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import av
import av.codec.context
import numpy as np
from numpy.typing import NDArray

from sfumato.media._container import DECODING_ERRORS, cause, open_container
from sfumato.media._errors import MediaError

Samples = NDArray[np.float32]

AUDIO_NOTE = (
    "The sound of the recording was kept: voices, names spoken and places heard are not protected "
    "by this method."
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
        stream = container.streams.audio[0]
        try:
            resampler = av.AudioResampler(format="fltp", layout=stream.layout, rate=rate)
            for frame in container.decode(stream):
                frame.pts = None  # gaps are closed up: windows are about sound, not about clocks
                for out in resampler.resample(frame):
                    yield out.to_ndarray().mean(axis=0, dtype=np.float32)
            for out in resampler.resample(None):
                yield out.to_ndarray().mean(axis=0, dtype=np.float32)
        except DECODING_ERRORS as error:
            raise _damaged(error) from None


def _damaged(error: BaseException) -> MediaError:
    return MediaError(
        f"Expected sound that can be decoded, got a damaged stream ({cause(error)}): fetch the "
        "file again or drop its sound."
    )


class SoundTrack:
    """All audio streams of one file on their way into an output, never far ahead of the picture."""

    def __init__(self, source: str | os.PathLike[str], output: Any) -> None:
        self._source = Path(source)
        self._output = output
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            container = stack.enter_context(open_container(self._source, "audio"))
            self._targets = {
                stream.index: self._target(stream) for stream in container.streams.audio
            }
            self._packets = container.demux(*container.streams.audio)
            self._stack = stack.pop_all()
        self._at = Fraction(-1)
        self._done = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def copy_until(self, time: Fraction | None) -> None:
        """Copy sound up to ``time`` seconds, or all that is left."""
        try:
            while not self._done and (time is None or self._at < time):
                self._copy_packet()
            if time is None:
                for stream, resampler in self._targets.values():
                    for frame in resampler.resample(None):
                        self._output.mux(stream.encode(frame))
                    self._output.mux(stream.encode(None))
        except DECODING_ERRORS as error:
            raise _damaged(error) from None

    def _copy_packet(self) -> None:
        packet = next(self._packets, None)
        if packet is None:
            self._done = True
            return
        stream, resampler = self._targets[packet.stream.index]
        for frame in packet.decode():
            if frame.pts is not None:
                self._at = max(self._at, Fraction(frame.pts * frame.time_base))
            for out in resampler.resample(frame):
                self._output.mux(stream.encode(out))

    def _target(self, source: Any) -> tuple[Any, Any]:
        encoder = _ENCODERS[self._output.format.name]
        stream = self._output.add_stream(encoder, rate=source.rate)
        stream.codec_context.layout = source.layout
        stream.codec_context.format = _SAMPLE_FORMATS[encoder]
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        resampler = av.AudioResampler(
            format=_SAMPLE_FORMATS[encoder], layout=source.layout, rate=source.rate
        )
        return stream, resampler
