"""Noise that moves as the picture does: appearance-free video, and the same on chosen regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import cv2
import numpy as np

from sfumato.media import Frame, Image
from sfumato.protect._method import Method, Shape
from sfumato.protect.hide._hiding import Hiding
from sfumato.protect.hide._region import Filter, Place


class MovingNoise:
    """A noise picture carried along by the optical flow (DIS) from each frame to the next."""

    def __init__(self, shape: Shape, generator: np.random.Generator) -> None:
        self._size = (shape.height, shape.width, 3)
        self._generator = generator
        self._flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        rows, columns = np.indices((shape.height, shape.width), dtype=np.float32)
        self._grid = np.stack([columns, rows], axis=2)
        self._grey: Image | None = None
        self._noise = self._fresh()

    def _fresh(self) -> Image:
        return self._generator.integers(0, 256, self._size, dtype=np.uint8)

    def __call__(self, image: Image) -> Image:
        grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), dtype=np.uint8)
        if self._grey is not None:
            # where each pixel came from; what comes from outside the picture is new noise
            flow = self._flow.calc(grey, self._grey, np.zeros_like(self._grid))
            origin = np.asarray(self._grid + flow, dtype=np.float32)
            carried = cv2.remap(self._noise, origin[..., 0], origin[..., 1], cv2.INTER_NEAREST)
            limits = np.array([self._size[1] - 0.5, self._size[0] - 0.5], dtype=np.float32)
            inside = np.all((origin > -0.5) & (origin < limits), axis=2, keepdims=True)
            self._noise = np.where(inside, carried, self._fresh())
        self._grey = grey
        return self._noise


class AppearanceFree(Method):
    """Nothing but noise, warped by the optical flow of the video (Ilic et al. 2022). Guarantee: none.

    A single frame is noise; in motion the outlines of what moves can be seen.

    | edge case | what happens |
    | --- | --- |
    | a picture, or a video in which nothing moves | pure noise |
    """

    name: ClassVar[str] = "appearance-free"
    summary: ClassVar[str] = "noise that moves as the video does"
    provides: ClassVar[str] = "no guarantee"
    reason: ClassVar[str] = (
        "The noise moves as the people do, and nothing bounds what motion gives away."
    )
    leaves: ClassVar[tuple[str, ...]] = (
        "gait, outline and the way of moving, which the motion shows",
    )
    works_with: ClassVar[tuple[str, ...]] = ("opencv-python-headless",)

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        noise = MovingNoise(shape, self.randomness.generator())
        for frame in frames:
            yield replace(frame, image=noise(frame.image))


class Selective(Hiding):
    """Noise that moves as the video does, on the chosen region only (Ilic et al. 2024). No guarantee.

    | edge case | what happens |
    | --- | --- |
    | nobody found | the recording is released as it is |
    """

    name: ClassVar[str] = "selective"
    summary: ClassVar[str] = "the people who were found, covered by noise that moves as they do"
    provides: ClassVar[str] = "no guarantee"
    manner = "covered by noise that moves as they do"
    draws_at_random: ClassVar[bool] = True
    default_region: ClassVar[str] = "people"
    leaves: ClassVar[tuple[str, ...]] = ("the way of moving, which the motion of the noise shows",)

    def make_filter(self, shape: Shape) -> Filter:
        noise = MovingNoise(shape, self.randomness.generator())

        def cover(image: Image, place: Place) -> Image:
            return np.where(place.mask[..., None], noise(image), image)

        return cover
