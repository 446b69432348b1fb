"""Public feature maps psi: many-to-one pictures of a record that may be shown without noise.

With a feature map, the guarantee covers what psi does *not* determine, so a map is only as good as
it is hard to invert: each says how much it keeps and whether two different records can share it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import cv2
import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.fft import dct, dctn, idctn
from torch import nn

from sfumato.data import Record
from sfumato.errors import SfumatoError
from sfumato.learn.views._prepare import Preparation
from sfumato.learn.views._public_view import Canaries, PublicView

Array = npt.NDArray[Any]
Pixels = Annotated[int, Field(ge=1, le=4096)]


class FeatureMapError(SfumatoError):
    """A feature map that cannot be built or does not fit a record."""


@dataclass(frozen=True)
class Invertibility:
    """How much of a record a map gives away.

    ``kept`` is the share of the dimensions that survive, ``condition`` the factor by which undoing
    the map magnifies errors (infinite: impossible), ``many_to_one`` whether different records share
    an image in exact arithmetic.
    """

    kept: float
    condition: float
    many_to_one: bool

    @property
    def sentence(self) -> str:
        if self.many_to_one:
            return f"keeps {100 * self.kept:.3g} % of the dimensions; many records share one view"
        return (
            f"keeps every dimension (condition {self.condition:.3g}): in exact arithmetic the view "
            "determines the record, so the guarantee is empty there"
        )


@dataclass(frozen=True)
class FeatureMap(PublicView):
    """A view of pictures that stays a picture: ``psi(x)`` has the shape and type of ``x``."""

    @property
    def warning(self) -> str | None:
        """What the card must say about this map, if anything."""
        return None

    @property
    def not_covered(self) -> tuple[str, ...]:
        return () if self.warning is None else (self.warning,)

    @property
    def stored(self) -> str:
        # plans were stored before the classes got the ending Features
        return repr(self).replace("Features(", "(", 1)

    def public_input(
        self, record: Record, prepare: Preparation, model: nn.Module, clips: int
    ) -> Any:
        return prepare(self(record.x), clips)

    def check(self, shape: tuple[int, ...]) -> None:
        found = self.invertibility(shape)
        if found.kept >= 1 and self.warning is None:
            raise FeatureMapError(
                f"Expected a public view that loses something, got {self.name}, which "
                f"{found.sentence} at this size: keep fewer coefficients or use larger blocks."
            )

    def __call__(self, x: Array) -> Array:
        axes = _picture_axes(x)
        out = self._apply(x.astype(np.float64), axes)
        if x.dtype == np.uint8:
            return np.clip(np.rint(out), 0, 255).astype(np.uint8)
        return out.astype(x.dtype)

    @abstractmethod
    def _apply(self, x: Array, axes: tuple[int, ...]) -> Array: ...

    @abstractmethod
    def invertibility(self, shape: tuple[int, ...]) -> Invertibility:
        """For records of this shape."""


@dataclass(frozen=True)
class LowFrequency(FeatureMap):
    """Keep the ``size`` lowest DCT coefficients along each picture axis, rounded to ``step``.

    The default. Neighbours are all records with the same kept, rounded coefficients.
    """

    size: Pixels = 8
    step: Annotated[float, Field(gt=0, le=10**6)] = 16.0
    kind: ClassVar[str] = "low-frequency"

    def __post_init__(self) -> None:
        if self.size < 1 or not (math.isfinite(self.step) and self.step > 0):
            raise FeatureMapError(
                f"Expected size >= 1 and a rounding step > 0, got {self.size} and {self.step}."
            )

    @property
    def name(self) -> str:
        return f"low-frequency size={self.size} step={self.step:g}"

    def canary(self, count: int) -> Canaries:
        """Waves of higher frequencies than the map keeps."""
        waves = dct(np.eye(count + self.size), axis=0, norm="ortho")
        return Canaries(np.ascontiguousarray(waves[self.size :], dtype=np.float32))

    def coefficients(self, x: Array) -> Array:
        """What is public: whole numbers, the rounded coefficients."""
        axes = _picture_axes(x)
        spectrum = dctn(x.astype(np.float64), axes=axes, norm="ortho")
        return np.asarray(np.rint(spectrum[self._corner(x.shape, axes)] / self.step))

    def _apply(self, x: Array, axes: tuple[int, ...]) -> Array:
        spectrum = np.zeros_like(x)
        spectrum[self._corner(x.shape, axes)] = self.coefficients(x) * self.step
        return np.asarray(idctn(spectrum, axes=axes, norm="ortho"))

    def _corner(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(
            slice(self.size) if axis in axes else slice(None) for axis in range(len(shape))
        )

    def invertibility(self, shape: tuple[int, ...]) -> Invertibility:
        axes = _picture_axes(np.empty(shape))
        kept = math.prod(min(1.0, self.size / shape[axis]) for axis in axes)
        return Invertibility(kept, math.inf, True)


@dataclass(frozen=True)
class PixelateFeatures(FeatureMap):
    """Means over square blocks, rounded: strong pixelation."""

    block: Pixels = 16
    kind: ClassVar[str] = "pixelate"

    def __post_init__(self) -> None:
        if self.block < 2:
            raise FeatureMapError(f"Expected blocks of at least 2 pixels, got {self.block}.")

    @property
    def name(self) -> str:
        return f"pixelate block={self.block}"

    def canary(self, count: int) -> Canaries:
        """Two pixels of a block against each other: its mean stays."""
        rows = np.zeros((count, count * self.block), dtype=np.float32)
        first = np.arange(count) * self.block
        rows[np.arange(count), first] = math.sqrt(0.5)
        rows[np.arange(count), first + 1] = -math.sqrt(0.5)
        return Canaries(rows)

    def _apply(self, x: Array, axes: tuple[int, ...]) -> Array:
        for axis in axes:
            starts = np.arange(0, x.shape[axis], self.block)
            sums = np.add.reduceat(x, starts, axis=axis)
            sizes = np.diff(np.append(starts, x.shape[axis]))
            shape = [1] * x.ndim
            shape[axis] = len(sizes)
            x = np.repeat(sums / sizes.reshape(shape), sizes, axis=axis)
        return np.rint(x)

    def invertibility(self, shape: tuple[int, ...]) -> Invertibility:
        axes = _picture_axes(np.empty(shape))
        kept = math.prod(math.ceil(shape[axis] / self.block) / shape[axis] for axis in axes)
        return Invertibility(kept, math.inf, True)


@dataclass(frozen=True)
class BlurFeatures(FeatureMap):
    """Gaussian blur as published: an invertible linear map, offered with its warning."""

    size: Pixels = 25
    sigma: Annotated[float, Field(gt=0, le=10**4)] = 10.0
    kind: ClassVar[str] = "blur"

    def __post_init__(self) -> None:
        if self.size < 3 or self.size % 2 == 0 or not self.sigma > 0:
            raise FeatureMapError(
                f"Expected an odd size >= 3 and sigma > 0, got {self.size} and {self.sigma}."
            )

    @property
    def name(self) -> str:
        return f"blur size={self.size} sigma={self.sigma:g}"

    def canary(self, count: int) -> None:
        return None

    @property
    def warning(self) -> str:
        return (
            "the public view is a blur, an invertible linear map: in exact arithmetic the guarantee "
            "is empty, and a deconvolution recovers recognisable faces from its 8-bit form"
        )

    def _apply(self, x: Array, axes: tuple[int, ...]) -> Array:
        for axis in axes:
            x = np.moveaxis(np.tensordot(self._matrix(x.shape[axis]), x, (1, axis)), 0, axis)
        return x

    def _matrix(self, length: int) -> Array:
        """The one-dimensional blur with reflected borders, as a matrix."""
        kernel = cv2.getGaussianKernel(self.size, self.sigma)[:, 0]
        half = self.size // 2
        matrix = np.zeros((length, length))
        for row in range(length):
            for offset, weight in zip(range(-half, half + 1), kernel):
                matrix[row, _reflected(row + offset, length)] += weight
        return matrix

    def invertibility(self, shape: tuple[int, ...]) -> Invertibility:
        axes = _picture_axes(np.empty(shape))
        condition = math.prod(float(np.linalg.cond(self._matrix(shape[axis]))) for axis in axes)
        singular = condition > 1e15
        return Invertibility(1.0, math.inf if singular else condition, singular)


def _reflected(index: int, length: int) -> int:
    if length == 1:
        return 0
    index %= 2 * (length - 1)
    return index if index < length else 2 * (length - 1) - index


def _picture_axes(x: Array) -> tuple[int, ...]:
    """(T, H, W, C) and (H, W, C): height and width; (time, channels) and vectors: the first axis."""
    if x.ndim in {3, 4}:
        return (x.ndim - 3, x.ndim - 2)
    if x.ndim in {1, 2}:
        return (0,)
    raise FeatureMapError(
        f"Expected video (T, H, W, C), an image (H, W, C) or a window (time, channels), "
        f"got {x.ndim} axes."
    )
