"""Pictures with coloured squares for people, and detectors that see exactly these."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import cv2
import numpy as np

from sfumato.media import Frame, Image
from sfumato.people import Box

HEIGHT, WIDTH = 48, 64
FACE = (230, 30, 30)


def draw_faces(places: Sequence[tuple[int, int]], side: int = 12) -> Image:
    """A textured room with striped red squares for faces."""
    rows, columns = np.indices((HEIGHT, WIDTH))
    grey = (90 + 40 * np.sin(rows / 3) + 30 * np.cos(columns / 4)).astype(np.uint8)
    image = np.repeat(grey[..., None], 3, axis=2)
    for x, y in places:
        image[y : y + side, x : x + side] = FACE
        image[y : y + side : 4, x : x + side] = (255, 120, 120)
    return image


class RedFaces:
    """Finds striped red squares; ``blind`` names the looks (counted from 0) that see nothing."""

    device = "test"

    def __init__(self, name: str = "red", blind: Sequence[int] = ()) -> None:
        self.name, self._blind, self.looks = name, set(blind), 0

    def detect(self, image: Image) -> list[Box]:
        self.looks += 1
        if self.looks - 1 in self._blind:
            return []
        # blurred or averaged with its stripes, the red is another one
        red = (np.abs(image.astype(int) - FACE) < 8).all(axis=-1)
        _, _, stats, _ = cv2.connectedComponentsWithStats(
            cv2.morphologyEx(red.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
        )
        rows = [[int(value) for value in row] for row in stats[1:]]
        return [Box(x, y, x + w, y + h, 0.9, self.name) for x, y, w, h, n in rows if n > 20]


class RedPeople:
    """A segmenter for the same squares."""

    name = "red people"
    device = "test"

    def segment(self, image: Image) -> Any:
        red = image[..., 0].astype(int) - image[..., 1] > 100
        return red.astype(np.float32)


def moving_face(count: int) -> list[Frame]:
    return [
        Frame(draw_faces([(5 + number, 10)]), number, Fraction(number, 25))
        for number in range(count)
    ]
