"""The check of the output for whole people: what looks as before is open, whatever covers it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from sfumato.media import VideoWriter
from sfumato.people import Box, Pose
from sfumato.protect.hide._residual_faces import people_left, still_shows

BOX = Box(20, 10, 60, 70)


def room(seed: int = 3) -> Any:
    noise = np.random.default_rng(seed).integers(0, 256, (80, 96, 3)).astype(np.uint8)
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), 1.5), np.uint8)


def covered(how: str) -> Any:
    image = room()
    part = image[10:70, 20:60]
    if how == "flat":
        part[:] = 96
    elif how == "noise":
        part[:] = np.random.default_rng(1).integers(0, 256, part.shape)
    elif how == "blur":
        part[:] = cv2.GaussianBlur(part, (0, 0), 8)
    elif how == "other":
        part[:] = room(9)[10:70, 20:60]
    elif how == "codec":
        image = np.clip(image + np.random.default_rng(2).normal(0, 3, image.shape), 0, 255)
    return image.astype(np.uint8)


@pytest.mark.parametrize(
    ("how", "is_open"),
    [("flat", False), ("noise", False), ("blur", False), ("other", False), ("none", True), ("codec", True)],
)  # fmt: skip
def test_only_what_looks_as_before_is_open(how: str, is_open: bool) -> None:
    assert still_shows(room(), covered(how), BOX) == is_open


def test_a_plain_place_is_open_if_its_colour_is_the_same() -> None:
    plain = np.full((80, 96, 3), 90, np.uint8)
    assert still_shows(plain, plain.copy(), BOX)
    assert not still_shows(plain, np.full_like(plain, 130), BOX)
    assert not still_shows(plain, plain, Box(200, 200, 240, 260)), "nothing is seen outside"


class Always:
    name, device = "always", "test"

    def estimate(self, image: Any, previous: Any = (), search: bool = True) -> tuple[Pose, ...]:
        points = np.zeros((33, 3), np.float32)
        points[:, :2] = (40, 5)
        points[[11, 12, 23, 24], :2] = [(20, 10), (60, 10), (20, 70), (60, 70)]
        return (Pose(points, points, np.ones(33, np.float32), 0.9),)


def test_open_people_are_named_by_frame(tmp_path: Path) -> None:
    for name, hidden in (("in.mkv", ()), ("out.mkv", (0, 1, 2, 3, 4))):
        with VideoWriter(tmp_path / name, rate=25, size=(96, 80), codec="ffv1") as writer:
            for number in range(9):
                writer.write(covered("flat") if number in hidden else room())
    left = people_left(tmp_path / "in.mkv", tmp_path / "out.mkv", second=Always(), every=2)
    assert [number for number, _ in left] == [6, 8]
