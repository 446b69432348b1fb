"""Masks as a video that any player shows and any editor can paint on: white people, black rest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame, VideoInfo, VideoWriter, open_video
from sfumato.people._person import People, bounds, by_hand
from sfumato.people.detect._protocols import Mask

_HALF = 128


class MaskVideoWriter:
    """Writes masks losslessly (FFV1 in Matroska); a blank frame becomes all white.

    The ``note`` stands inside the file, as its comment.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        info: VideoInfo,
        *,
        note: str | None = None,
        force: bool = False,
    ) -> None:
        self._writer = VideoWriter(path, info, codec="ffv1", note=note, force=force)

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def write(self, frame: Frame, mask: Mask, *, blank: bool = False) -> None:
        grey = np.where(mask | blank, np.uint8(255), np.uint8(0))
        self._writer.write(np.repeat(grey[..., None], 3, axis=2), frame.pts)


def read_mask_video(
    frames: Iterable[Frame], path: str | os.PathLike[str]
) -> Iterator[tuple[Frame, People]]:
    """The video's frames with the masks of a mask video: what is brighter than half is a person.

    The mask video must have as many frames as the video, and their size; anything else raises, for
    a frame without a mask would be a frame without protection.
    """
    with open_video(path) as masks:
        drawn = iter(masks)
        count = 0
        for frame in frames:
            mask_frame = next(drawn, None)
            if mask_frame is None or mask_frame.image.shape != frame.image.shape:
                got = "its end" if mask_frame is None else "a frame of another size"
                raise SfumatoError(
                    f"Expected the mask video to have a mask for frame {count}, got {got}: "
                    "export it from this very video and keep its length and size."
                )
            mask: Mask = np.asarray(mask_frame.image.max(axis=2) >= _HALF)
            yield frame, everybody(mask, count)
            count += 1
        if next(drawn, None) is not None:
            raise SfumatoError(
                f"Expected the mask video to end after {count} frames, but it goes on: "
                "export it from this very video and keep its length."
            )


def everybody(mask: Mask, index: int) -> People:
    """Those whom one mask shows, as one."""
    shape = mask.shape[0], mask.shape[1]
    return People([by_hand(bounds(mask), shape, -1, mask)] if mask.any() else (), index)
