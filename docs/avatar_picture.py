"""The pictures of docs/avatar.md: python docs/avatar_picture.py CLIP PICTURE FRAME [FRAME...].

Frames of a real clip, as filmed above and as ``protect --method avatar`` releases them below, with the tool's own
detectors. Frames up to the last one that is shown are released, as part of the clip.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from sfumato.media import Image, open_video, write_image
from sfumato.protect.avatar import Avatar

WIDTH, GAP, AFTER = 420, 4, 16


def main(clip: Path, picture: Path, numbers: list[int]) -> None:
    with open_video(clip, tolerant=True) as reader:
        given = list(islice(reader, max(numbers) + AFTER))
    made = [each.image for _, each in Avatar().composed(iter(given))]
    rows = [[given[n].image for n in numbers], [made[n] for n in numbers]]
    write_image(picture, joined([joined(list(map(small, row)), 1) for row in rows], 0), force=True)


def small(image: Image) -> Image:
    height = round(WIDTH * image.shape[0] / image.shape[1])
    return np.asarray(cv2.resize(image, (WIDTH, height), interpolation=cv2.INTER_AREA), np.uint8)


def joined(parts: list[Image], axis: int) -> Image:
    """Beside or below each other, with a white gap between."""
    shape = list(parts[0].shape)
    shape[axis] = GAP
    gap = np.full(shape, 255, np.uint8)
    return np.concatenate([piece for part in parts for piece in (gap, part)][1:], axis=axis)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(number) for number in sys.argv[3:]])
