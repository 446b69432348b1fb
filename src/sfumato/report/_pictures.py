"""Pictures and frames of videos: decoded and encoded again, so that only pixels enter a report."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Image, MediaError, open_video, read_image

SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
VIDEOS = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"})
_WIDEST, _QUALITY = 1600, 88
_FRAMES, _FRAME_HEIGHT, _FRAME_WIDEST, _STRIP_QUALITY = 5, 150, 300, 82
_ORIGINAL = re.compile(
    r"(?<![a-z])(originals?|raw|source|src|input|before|unprotected|private)(?![a-z])"
)


class PictureError(SfumatoError):
    """A picture that a report may not show, or cannot."""


@dataclass(frozen=True)
class Picture:
    """Pixels as a data URI. Neither the file's name nor its metadata is kept.

    ``vouched``: a card speaks for this very content. Nothing else may be called protected.
    """

    uri: str
    width: int
    height: int
    original: bool
    vouched: bool


def named_as_original(path: Path) -> bool:
    """True when the file's own name, or that of its folder, says that it shows people unprotected."""
    return any(_ORIGINAL.search(part.lower()) for part in (path.stem, path.parent.name))


def read_picture(path: Path, *, with_originals: bool = False, vouched: bool = False) -> Picture:
    """Read a PNG or JPEG; what is named as an original needs ``with_originals``."""
    original = named_as_original(path)
    if original and not with_originals:
        raise PictureError(
            f"Expected protected pictures, but {path.name!r} is named as an original: leave it out, "
            "or pass --with-originals to show the people in it to everybody who reads the report."
        )
    try:
        pixels = read_image(path)
    except MediaError as error:
        raise PictureError(f"The picture {path.name!r} cannot be shown. {error}") from None
    height, width = pixels.shape[:2]
    if width > _WIDEST:
        height = max(1, round(height * _WIDEST / width))
        width = _WIDEST
        smaller = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
        pixels = smaller.astype(pixels.dtype)
    uri = jpeg_uri(pixels, _QUALITY)
    if uri is None:
        raise PictureError(f"The picture {path.name!r} could not be encoded for the report.")
    return Picture(uri, width, height, original, vouched)


def jpeg_uri(pixels: Image, quality: int) -> str | None:
    """The pixels inside an address of their own; None if they cannot be encoded."""
    done, encoded = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    text = base64.b64encode(encoded.tobytes()).decode("ascii")
    return f"data:image/jpeg;base64,{text}" if done else None


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
    uri, (height, width) = jpeg_uri(row, _STRIP_QUALITY), row.shape[:2]
    return None if uri is None else Strip(video.name, uri, width, height, tuple(sorted(frames)))


def _small(picture: Image) -> Image:
    height, width = picture.shape[:2]
    scale = min(_FRAME_HEIGHT / height, _FRAME_WIDEST / width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
