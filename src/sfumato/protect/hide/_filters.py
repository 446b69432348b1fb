"""Blur, pixelate and silhouette: three ways to cover a place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import cv2
import numpy as np
from pydantic import Field

from sfumato import people
from sfumato.media import Image
from sfumato.privacy import Card
from sfumato.protect._method import Shape
from sfumato.protect.hide._hiding import Hiding
from sfumato.protect.hide._region import Filter, Place

# Ilic et al. 2022 and the Video-DPRP paper: what their tables call face blurring.
PUBLISHED_KERNEL, PUBLISHED_SIGMA = 21, 10.0
BLUR_SIZE = 12  # a place is blurred at this size: strong blur needs no more
_RIM_REACH = 6  # pixels: a rim that goes on farther is drawn reduced
RIM = 0.12  # of a place's shorter side: how far a blur goes on beyond it, ever fainter


def _put(part: Image, covered: Image, mask: people.Mask) -> None:
    """The covered pixels into the picture; a box needs no mask."""
    if mask.all():
        part[:] = covered
    else:
        part[mask] = covered[mask]


def _blend_edges(
    image: Image,
    rows: slice,
    columns: slice,
    mask: people.Mask,
    covered: Callable[[Image], Image],
) -> None:
    """Cover a place, and its surroundings less and less: no edge, and nothing of the mask left out."""
    reach = max(1, round(RIM * min(mask.shape)))
    height, width = image.shape[:2]
    top, left = min(reach, rows.start), min(reach, columns.start)
    bottom, right = min(reach, height - rows.stop), min(reach, width - columns.stop)
    part = image[rows.start - top : rows.stop + bottom, columns.start - left : columns.stop + right]
    inside = np.pad(mask, ((top, bottom), (left, right))).astype(np.uint8)
    soft = np.maximum(_rim(inside * np.uint8(255), reach), inside * np.uint8(255))[..., None]
    blended = covered(part) * soft.astype(np.uint16) + part * (255 - soft).astype(np.uint16)
    part[:] = (blended + 127) // 255


def _rim(inside: Image, reach: int) -> Image:
    """What lies around a mask, ever fainter; a large one is drawn small, for it has no detail."""
    height, width = inside.shape
    shrink = max(1.0, reach / _RIM_REACH)
    size = max(1, round(width / shrink)), max(1, round(height / shrink))
    small = cv2.resize(inside, size, interpolation=cv2.INTER_AREA) if shrink > 1 else inside
    near = round(reach / shrink) | 1
    wide = cv2.dilate(small, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (near, near)))
    soft = cv2.GaussianBlur(wide, (0, 0), reach / shrink / 3)
    return np.asarray(cv2.resize(soft, (width, height)) if shrink > 1 else soft, np.uint8)


class Blur(Hiding):
    """Gaussian blur as wide as the place is large. Guarantee: none.

    ``strength`` is the standard deviation in parts of the place's shorter side. With ``published``
    the blur is the papers' (kernel 21, sigma 10, whatever the size of the face): large faces stay
    recognisable then, and the check of the output will often refuse them.

    | edge case | what happens |
    | --- | --- |
    | a place of a few pixels | becomes its mean |
    | ``published`` | for comparison only; pass ``check=false`` to release it all the same |
    """

    name: ClassVar[str] = "blur"
    summary: ClassVar[str] = "the faces that were found, blurred as strongly as they are large"
    provides: ClassVar[str] = "no guarantee"
    manner = "blurred as strongly as they are large"

    def __init__(
        self,
        *,
        strength: Annotated[float, Field(gt=0, le=10)] = 0.35,
        published: bool = False,
        **finding: Any,
    ) -> None:
        if published:
            kernel = f"a kernel of {PUBLISHED_KERNEL} pixels, sigma {PUBLISHED_SIGMA:g}"
            self.manner = f"blurred as in the papers ({kernel}), however large they are"
        super().__init__(**finding)
        self.strength, self.published = strength, published

    @classmethod
    def settings_on(cls, card: Card) -> dict[str, Any]:
        return super().settings_on(card) | (
            {"published": True} if "kernel" in card.settings else {}
        )

    @classmethod
    def without_effect(cls, given: Mapping[str, Any]) -> tuple[frozenset[str], str]:
        names, why = super().without_effect(given)
        if given.get("published") and not names:
            return frozenset({"strength"}), "with the published blur"
        return names, why

    @property
    def settings(self) -> dict[str, Any]:
        told = super().settings
        if self.region.kind == "text":
            return told
        published, strength = told.pop("published"), told.pop("strength")
        how = {"kernel": PUBLISHED_KERNEL, "sigma": PUBLISHED_SIGMA}
        return told | (how if published else {"strength": strength})

    def make_filter(self, shape: Shape) -> Filter:
        return self._cover

    def _cover(self, image: Image, place: Place) -> Image:
        for rows, columns, mask in place.parts():
            if place.square or self.published:  # the papers' blur ends where the mask does
                part = image[rows, columns]
                _put(part, self._blurred(part), mask)
            else:
                _blend_edges(image, rows, columns, mask, self._blurred)
        return image

    def _blurred(self, part: Image) -> Image:
        if self.published:
            side = (PUBLISHED_KERNEL, PUBLISHED_KERNEL)
            return np.asarray(cv2.GaussianBlur(part, side, PUBLISHED_SIGMA), dtype=np.uint8)
        height, width = part.shape[:2]
        shrink = min(1.0, BLUR_SIZE / min(height, width))
        size = (max(1, math.ceil(width * shrink)), max(1, math.ceil(height * shrink)))
        small = cv2.resize(part, size, interpolation=cv2.INTER_AREA)
        sigma = self.strength * min(size)
        soft = cv2.GaussianBlur(small, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)
        large = cv2.resize(soft, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.asarray(large, dtype=np.uint8)


class Pixelate(Hiding):
    """Large flat squares. Guarantee: none.

    ``cells`` is how many squares lie across the shorter side of a place; ``least`` is the smallest
    square in pixels, so that small faces lose enough too.

    | edge case | what happens |
    | --- | --- |
    | a place smaller than one square | becomes its mean |
    """

    name: ClassVar[str] = "pixelate"
    summary: ClassVar[str] = "the faces that were found, pixelated"
    provides: ClassVar[str] = "no guarantee"
    manner = "pixelated"

    def __init__(
        self,
        *,
        cells: Annotated[int, Field(ge=1, le=4096)] = 4,
        least: Annotated[int, Field(ge=1, le=4096)] = 6,
        **finding: Any,
    ) -> None:
        super().__init__(**finding)
        self.cells, self.least = cells, least

    def make_filter(self, shape: Shape) -> Filter:
        return self._cover

    def _cover(self, image: Image, place: Place) -> Image:
        for rows, columns, mask in place.parts():
            part = image[rows, columns]
            _put(part, self._squares(part), mask)
        return image

    def _squares(self, part: Image) -> Image:
        height, width = part.shape[:2]
        side = max(self.least, math.ceil(min(height, width) / self.cells))
        size = (max(1, width // side), max(1, height // side))
        small = cv2.resize(part, size, interpolation=cv2.INTER_AREA)
        large = cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST)
        return np.asarray(large, dtype=np.uint8)


class Silhouette(Hiding):
    """Every person filled with one colour. Guarantee: none.

    Outline, size and motion stay; faces beside the masks are filled as well.

    | edge case | what happens |
    | --- | --- |
    | a person who is only half in view | covered where a mask or a face was found |
    """

    name: ClassVar[str] = "silhouette"
    summary: ClassVar[str] = "the people who were found, filled with one colour"
    provides: ClassVar[str] = "no guarantee"
    manner = "filled with one colour"
    default_region: ClassVar[str] = "people"

    def __init__(self, *, level: Annotated[int, Field(ge=0, le=255)] = 96, **finding: Any) -> None:
        super().__init__(**finding)
        self.level = level

    def make_filter(self, shape: Shape) -> Filter:
        return self._cover

    def _cover(self, image: Image, place: Place) -> Image:
        image[place.mask] = self.level
        return image
