"""A few frames of a protected video in a row; only of files that a card vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from sfumato.media import Image, MediaError, open_video
from sfumato.report._pictures import jpeg_uri

VIDEOS = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"})
_FRAMES, _HEIGHT, _WIDEST = 5, 150, 300
_QUALITY = 82


@dataclass(frozen=True)
class Strip:
    """Frames of one released video, left to right in time, as one picture in a data URI."""

    name: str
    uri: str
    width: int
    height: int
    shown: tuple[int, ...]


def read_strip(video: Path) -> Strip | None:
    """Frames spread over ``video``; None if it cannot be read, which is no reason to stop a report."""
    try:
        with open_video(video) as reader:
            expected = max(1, reader.info.expected_frames or 1)
            wanted = {round(place * (expected - 1) / (_FRAMES - 1)) for place in range(_FRAMES)}
            last, frames = max(wanted), {}
            for number, frame in enumerate(reader):
                if number in wanted:
                    frames[number] = _small(frame.image)
                if number >= last:
                    break
    except MediaError:
        return None
    if not frames:
        return None
    row = np.concatenate([frames[number] for number in sorted(frames)], axis=1)
    uri, (height, width) = jpeg_uri(row, _QUALITY), row.shape[:2]
    return None if uri is None else Strip(video.name, uri, width, height, tuple(sorted(frames)))


def _small(picture: Image) -> Image:
    height, width = picture.shape[:2]
    scale = min(_HEIGHT / height, _WIDEST / width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
