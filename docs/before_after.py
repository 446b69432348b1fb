"""The picture at the top of README.md: python docs/before_after.py CLIP [FRAME...].

Frames of a real clip as filmed and as blur, silhouette and skeleton release them, with the tool's own
detectors; the clip is released whole, and the frames are read again from the finished files.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

from sfumato import protect
from sfumato.media import Image, open_video, write_image
from sfumato.protect import OutputSettings

PICTURE = Path(__file__).resolve().parent / "images" / "before-after.jpg"
METHODS = ("blur", "silhouette", "skeleton")
SHARES, WIDTH, GAP = (0.02, 0.35, 0.62, 0.95), 320, 4


def main(clip: Path, chosen: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [clip]
        for name in METHODS:
            target = Path(folder) / f"{name}.mkv"
            how = OutputSettings(codec="ffv1", tolerant=True)
            protect.release(protect.get(name)(), clip, target, output=how)
            files.append(target)
        rows = [_frames(file, chosen) for file in files]
    shown = _joined([_joined(row, axis=1) for row in rows], axis=0)
    write_image(PICTURE, shown, force=True)


def _frames(file: Path, chosen: list[int]) -> list[Image]:
    with open_video(file, tolerant=True) as reader:
        frames = [frame.image for frame in reader]
    numbers = chosen or [round(share * (len(frames) - 1)) for share in SHARES]
    height = round(WIDTH * frames[0].shape[0] / frames[0].shape[1])
    return [
        np.asarray(cv2.resize(frames[n], (WIDTH, height), interpolation=cv2.INTER_AREA), np.uint8)
        for n in numbers
    ]


def _joined(parts: list[Image], axis: int) -> Image:
    """Beside or below each other, with a white gap between."""
    shape = list(parts[0].shape)
    shape[axis] = GAP
    gap = np.full(shape, 255, np.uint8)
    spaced = [piece for part in parts for piece in (gap, part)][1:]
    return np.concatenate(spaced, axis=axis)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])
