"""Where each frame of a video stands in its file: times of display and of key frames, no pixels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sfumato.errors import reading
from sfumato.files import atomic_output
from sfumato.media._container import DECODING_ERRORS, cause, media_streams, open_container
from sfumato.media._errors import MediaError
from sfumato.media._reader import open_video

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FrameIndex:
    """``times`` of all frames in the order of display and those of the ``keys``, as the file counts time.

    Both are empty where the file's times do not say which frame is which; then only ``count`` is
    known, and frames are found by counting from the beginning.
    """

    count: int
    times: Times
    keys: Times

    @property
    def by_time(self) -> bool:
        return self.times.size > 0

    def key_before(self, frame: int) -> int:
        """The number of the key frame from which ``frame`` can be decoded."""
        place = int(np.searchsorted(self.keys, self.times[frame], side="right")) - 1
        return int(np.searchsorted(self.times, self.keys[max(place, 0)]))

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, tolerant: bool = False) -> Self:
        """Read a file once without decoding it; where that is not enough, decode and count."""
        with open_container(Path(path), "video", tolerant=tolerant) as container:
            stream = media_streams(container, "video")[0]
            context = stream.codec_context
            # AVI stores no times of display, and a damaged file may have fewer frames than packets
            trusted = not tolerant and not (
                container.format.name == "avi" and getattr(context, "has_b_frames", True)
            )
            found = _times(container, stream) if trusted else None
        if found is not None:
            return cls(int(found[0].size), *found)
        with open_video(path, tolerant=tolerant) as video:
            count = sum(1 for _ in video)
        return cls(count, np.empty(0, np.int64), np.empty(0, np.int64))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep the index for the next time, for the owner only."""
        with (
            atomic_output(path, force=True, private=True) as temporary,
            open(temporary, "wb") as file,
        ):
            np.savez(file, count=np.int64(self.count), times=self.times, keys=self.keys)

    @classmethod
    @reading("an index of frames")
    def load(cls, path: str | os.PathLike[str]) -> Self:
        with np.load(path, allow_pickle=False) as kept:
            times, keys = (np.asarray(kept[name], np.int64) for name in ("times", "keys"))
            if times.size and not (np.isin(keys, times).all() and keys.size):
                raise ValueError("key frames are frames")
            return cls(int(kept["count"]), times, keys)


def _times(container: Any, stream: Any) -> tuple[Times, Times] | None:
    """Sorted times of frames and of key frames, or None where they are no reliable names."""
    times: list[int] = []
    keys: list[int] = []
    decoding: list[int] = []
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
            if packet.pts is None or packet.is_corrupt:
                return None
            if packet.dts is not None:
                decoding.append(packet.dts)
            if packet.is_discard:
                continue  # of an edit list: decoded for the sake of others and not shown
            times.append(packet.pts)
            if packet.is_keyframe:
                keys.append(packet.pts)
    except DECODING_ERRORS as error:
        raise MediaError(
            f"Expected a file that can be read to its end, got {cause(error)}: the video is damaged."
        ) from None
    if not keys or len(set(times)) < len(times) or min(times) < keys[0]:
        return None
    if any(after <= before for before, after in pairwise(decoding)):
        return None  # times begin anew somewhere
    return np.sort(np.array(times, np.int64)), np.sort(np.array(keys, np.int64))
