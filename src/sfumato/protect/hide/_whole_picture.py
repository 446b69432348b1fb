"""Skeletons, tiny pictures and sketches: the whole picture gives way to something simpler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import cv2
import numpy as np
import numpy.typing as npt
from pydantic import Field

from sfumato import people
from sfumato.media import Frame
from sfumato.protect._method import Method, ProtectError, Shape, SpanRule
from sfumato.protect._searched import CoveredSpan, FoundFrame, SearchedMethod, SpanLooks
from sfumato.settings import Named, Seed

_SIZE = r"^[1-9][0-9]{0,3}x[1-9][0-9]{0,3}$"


class Skeleton(SearchedMethod):
    """The skeletons of the people on black, and nothing else. Guarantee: none.

    No pixel of the recording is shown, but pose, proportions and gait are, which are biometric.

    | edge case | what happens |
    | --- | --- |
    | a person whose joints nobody sees | is not shown at all |
    """

    name: ClassVar[str] = "skeleton"
    summary: ClassVar[str] = "skeletons of the people who were found, on black"
    provides: ClassVar[str] = "no guarantee; no pixel of the recording"
    reason: ClassVar[str] = (
        "Pose and proportions are shown as they were found, and they are biometric."
    )
    leaves: ClassVar[tuple[str, ...]] = (
        "gait, proportions and the way of moving",
        "how many people there are",
    )
    draws_at_random: ClassVar[bool] = False
    works_with: ClassVar[tuple[str, ...]] = ("opencv-python-headless",)

    def __init__(self, *, detector: Named | None = None, seed: Seed | None = None) -> None:
        super().__init__(seed=seed)
        self.detector = detector
        self._stream: people.PeopleStream | None = None

    @property
    def lookahead(self) -> int:
        return people.held_back(people.LOOKAHEAD, people.EVERY, people.threads())

    @property
    def settings(self) -> dict[str, Any]:
        return {"detector": getattr(self.detector, "name", self.detector) or "default"}

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        if self._stream is None:
            return ()
        return self._stream.status.used

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        self._stream = people.find(frames, self.detector, masks=False)
        for frame, found in self._stream:
            yield self._drawn(frame, found)

    def spans(self, shape: Shape) -> SpanRule | None:
        named = self.detector is None or isinstance(self.detector, str)
        return SpanRule(1, searched=True) if named else None

    @property
    def span_looks(self) -> SpanLooks:
        return SpanLooks(self.detector, every=people.EVERY)

    def follow(
        self,
        frames: Iterator[Frame],
        known: people.KnownLooks,
        text: Iterator[tuple[people.TextLine, ...]],
        text_stream: people.TextFound | None,
    ) -> Iterator[FoundFrame]:
        self._stream = people.find(frames, self.detector, masks=False, known=known)
        return zip(self._stream, text)

    def transform_found(
        self, span: CoveredSpan, found: Iterator[FoundFrame], shape: Shape
    ) -> Iterator[Frame]:
        for (frame, everybody), _ in found:
            yield self._drawn(frame, everybody)

    def _drawn(self, frame: Frame, found: people.People) -> Frame:
        return replace(frame, image=people.draw_skeletons(np.zeros_like(frame.image), found))


class InverseSuperResolution(Method):
    """ISR: tiny pictures after a random shift, scale and rotation (Ryoo et al. 2017). Guarantee: none.

    Every recording gets one random transformation; means over areas make 32 x 24 (or 16 x 12)
    pixels, which are shown as large squares so that the size of the video stays.

    | edge case | what happens |
    | --- | --- |
    | a video smaller than the tiny picture | refused |
    """

    name: ClassVar[str] = "isr"
    summary: ClassVar[str] = "tiny pictures after a random shift, scale and rotation (ISR)"
    provides: ClassVar[str] = "no guarantee"
    reason: ClassVar[str] = "A small picture is still a picture: nothing bounds what it gives away."
    leaves: ClassVar[tuple[str, ...]] = (
        "motion, colours of clothes and surroundings",
        *people.NOT_COVERED,
    )
    works_with: ClassVar[tuple[str, ...]] = ("opencv-python-headless",)
    audits: ClassVar[frozenset[str]] = Method.audits | {"learned"}

    def __init__(
        self,
        *,
        size: Annotated[
            str, Field(pattern=_SIZE, description="WIDTHxHEIGHT, such as 32x24")
        ] = "32x24",
        shift: Annotated[float, Field(ge=0, lt=0.5)] = 0.05,
        scale: Annotated[float, Field(ge=0, lt=0.5)] = 0.1,
        rotation: Annotated[float, Field(ge=0, le=45)] = 5.0,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        width, height = size.split("x")
        self.size = (int(width), int(height))
        self.shift, self.scale, self.rotation = shift, scale, rotation

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"size": f"{self.size[0]}x{self.size[1]}"}

    def transformation(
        self, shape: Shape, generator: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """A random 2 x 3 matrix for a whole recording."""
        shift, scale, turn = generator.uniform(-1, 1, 2), *generator.uniform(-1, 1, 2)
        centre = (shape.width / 2, shape.height / 2)
        turned = cv2.getRotationMatrix2D(centre, self.rotation * turn, 1 + self.scale * scale)
        matrix = np.asarray(turned, dtype=np.float64)
        matrix[:, 2] += self.shift * shift * np.array([shape.width, shape.height])
        return matrix

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        if shape.width < self.size[0] or shape.height < self.size[1]:
            raise ProtectError(
                f"Expected a video larger than {self.size[0]} x {self.size[1]}, got "
                f"{shape.width} x {shape.height}: choose a smaller size."
            )
        matrix = self.transformation(shape, self.randomness.generator())
        whole = (shape.width, shape.height)
        for frame in frames:
            moved = cv2.warpAffine(frame.image, matrix, whole, borderMode=cv2.BORDER_REPLICATE)
            tiny = cv2.resize(moved, self.size, interpolation=cv2.INTER_AREA)
            shown = cv2.resize(tiny, whole, interpolation=cv2.INTER_NEAREST)
            yield replace(frame, image=np.asarray(shown, dtype=np.uint8))


class Edges(Method):
    """A line drawing of the whole picture. Guarantee: none.

    | edge case | what happens |
    | --- | --- |
    | a flat picture | an empty sheet |
    """

    name: ClassVar[str] = "edges"
    summary: ClassVar[str] = "a line drawing of the whole picture"
    provides: ClassVar[str] = "no guarantee"
    reason: ClassVar[str] = (
        "Lines keep the outline of faces and bodies, and nothing bounds what they tell."
    )
    leaves: ClassVar[tuple[str, ...]] = ("outlines of faces and bodies, text and surroundings",)
    draws_at_random: ClassVar[bool] = False
    works_with: ClassVar[tuple[str, ...]] = ("opencv-python-headless",)

    def __init__(
        self,
        *,
        blur: Annotated[float, Field(gt=0, le=100)] = 1.5,
        low: Annotated[int, Field(ge=1, le=10_000)] = 40,
        high: Annotated[int, Field(ge=1, le=10_000)] = 110,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        if low > high:
            raise ProtectError(f"Expected low of edges to be at most high, got {low} and {high}.")
        self.blur, self.low, self.high = blur, low, high

    def remarks(self, shape: Shape) -> list[str]:
        return [
            "Lines of a face near the camera are a portrait: hide faces first (--method blur+edges)."
        ]

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        for frame in frames:
            grey = cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)
            lines = cv2.Canny(cv2.GaussianBlur(grey, (0, 0), self.blur), self.low, self.high)
            sheet = np.repeat(255 - np.asarray(lines, dtype=np.uint8)[..., None], 3, axis=2)
            yield replace(frame, image=sheet)
