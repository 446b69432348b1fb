"""Recordings that the tests make with PyAV itself, so that the writer under test is not its own judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from media_pictures import smooth_picture

MakeVideo = Callable[..., Path]


@pytest.fixture
def make_video(tmp_path: Path) -> MakeVideo:
    """Writes a video with plain PyAV: ``make_video("a.mp4", codec=..., pix_fmt=..., ...)``."""

    def make(
        name: str,
        *,
        codec: str = "libx264",
        pix_fmt: str = "yuv420p",
        size: tuple[int, int] = (32, 24),
        frames: int = 10,
        rate: Fraction = Fraction(25),
        stamps: Iterable[int] | None = None,
        time_base: Fraction | None = None,
        options: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
        sound: int = 0,
        convert: Callable[[np.ndarray], av.VideoFrame] | None = None,
        picture: Callable[[int, int, int], np.ndarray] = smooth_picture,
    ) -> Path:
        target = tmp_path / name
        with av.open(str(target), "w") as container:
            container.metadata.update(metadata or {})
            stream: Any = container.add_stream(codec, rate=rate, options=options or {})
            stream.width, stream.height = size
            stream.pix_fmt = pix_fmt
            base = time_base or 1 / rate
            stream.time_base = stream.codec_context.time_base = base
            audio: Any = container.add_stream("aac", rate=16000, layout="mono") if sound else None
            for number, pts in zip(range(frames), stamps or range(frames)):
                image = picture(*size, number)
                frame = (
                    convert(image) if convert else av.VideoFrame.from_ndarray(image, format="rgb24")
                )
                frame.pts, frame.time_base = pts, base
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
            if audio is not None:
                wave = np.sin(2 * np.pi * 440 * np.arange(sound) / 16000).astype(np.float32)
                tone = av.AudioFrame.from_ndarray(wave[None] * 0.5, format="fltp", layout="mono")
                tone.sample_rate, tone.pts, tone.time_base = 16000, 0, Fraction(1, 16000)
                container.mux(audio.encode(tone))
                container.mux(audio.encode(None))
        return target

    return make
