"""Miniature videos and pictures in the layouts that data sets publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest


@pytest.fixture
def write_video() -> Callable[..., Path]:
    """A video whose frame i is grey of level 20 + 10 i, so that a frame says which one it is."""

    def write(path: Path, frames: int = 6, size: tuple[int, int] = (32, 24)) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        codec = "mpeg4" if path.suffix == ".avi" else "libx264"
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, rate=10)
            stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
            for i in range(frames):
                level = np.full((size[1], size[0], 3), 20 + 10 * i, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(level, format="rgb24")))
            container.mux(stream.encode(None))
        return path

    return write


@pytest.fixture
def frame_numbers() -> Callable[[np.ndarray], list[int]]:
    """Which frames of ``write_video`` these are."""

    def read(x: np.ndarray) -> list[int]:
        return [round((float(frame.mean()) - 20) / 10) for frame in x]

    return read


@pytest.fixture
def write_picture() -> Callable[..., Path]:
    def write(path: Path, size: tuple[int, int] = (40, 60), level: int = 90) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = np.full((*size, 3), level, np.uint8)
        assert cv2.imwrite(str(path), picture)
        return path

    return write
