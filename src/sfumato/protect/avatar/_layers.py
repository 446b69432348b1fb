"""What an avatar release consists of: the video, the public mask and the public layer.

An ordinary codec mixes private pixels into public ones (R8). So the mask and the pixels that training
may read as public are stored beside the video in lossless RGB; the video itself is for looking at.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from sfumato.media import VideoInfo, VideoReader, VideoWriter, open_video

MASK, LAYER = ".mask.mkv", ".public.mkv"


def layer_paths(video: Path) -> tuple[Path, Path]:
    """Where mask and public layer of a released video lie."""
    return video.with_suffix(MASK), video.with_suffix(LAYER)


class LayerWriter:
    """Writes mask and public layer of a video, frame by frame, losslessly."""

    def __init__(self, video: Path, info: VideoInfo, *, force: bool = False) -> None:
        size, rate = (info.width, info.height), info.rate
        mask, layer = layer_paths(video)
        # frames are numbered, not timed: they belong one to one to the frames of the video
        self._mask = VideoWriter(mask, rate=rate, size=size, codec="ffv1", grey=True, force=force)
        self._layer = VideoWriter(layer, rate=rate, size=size, codec="ffv1", force=force)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._mask)
            stack.enter_context(self._layer)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, public: npt.NDArray[np.bool_], image: npt.NDArray[np.uint8]) -> None:
        self._mask.write(public.astype(np.uint8) * 255)
        self._layer.write(np.where(public[..., None], image, np.uint8(0)))


def read_layers(
    video: Path,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]:
    """The public mask (T, H, W) and the public pixels (T, H, W, 3) of a released video."""
    mask, layer = layer_paths(video)
    return _read(mask)[..., 0] > 127, _read(layer)


def _read(file: Path) -> npt.NDArray[np.uint8]:
    reader: VideoReader
    with open_video(file) as reader:
        return np.stack([frame.image for frame in reader])
