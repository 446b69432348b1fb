"""Frames made by the test, and detectors whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from sfumato.media import Frame, Image
from sfumato.people import Box

WIDTH, HEIGHT = 320, 240


class ScriptedDetector:
    """Finds on its n-th look what the script says."""

    name = "scripted"
    device = "test"

    def __init__(self, script: list[list[Box]]) -> None:
        self._script = iter(script)

    def detect(self, image: Image) -> list[Box]:
        return next(self._script)


@pytest.fixture
def scripted() -> type[ScriptedDetector]:
    return ScriptedDetector


@pytest.fixture
def frames() -> Callable[[int], Iterator[Frame]]:
    def make(count: int) -> Iterator[Frame]:
        for i in range(count):
            image = np.full((HEIGHT, WIDTH, 3), i % 256, dtype=np.uint8)
            yield Frame(image, i, Fraction(i, 30))

    return make
