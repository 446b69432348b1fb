"""What a cover does to a box, as one matrix along each axis: the attacker knows the method.

Blur and pixelation of a box are separable and linear up to rounding: seen = A X B'. Each class here
gives A for a ``length`` in a box whose shorter side is ``short``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.protect.hide import BLUR_SIZE, PUBLISHED_KERNEL, PUBLISHED_SIGMA, Blur, Pixelate

Matrix = npt.NDArray[np.float64]
# Neighbouring pixels of pictures correlate by about this much; rows and columns alike.
NEIGHBOURS = 0.97


class CoverMatrix(Protocol):
    """Hashable, so that what was decomposed once is kept."""

    def along(self, length: int, short: int) -> Matrix: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class FixedBlur:
    """The papers' blur: one kernel, whatever the size of the face (SOUNDNESS G5)."""

    kernel: int = PUBLISHED_KERNEL
    sigma: float = PUBLISHED_SIGMA

    def along(self, length: int, short: int) -> Matrix:
        return _gaussian(length, self.kernel, self.sigma, cv2.BORDER_DEFAULT)


@dataclass(frozen=True)
class FittingBlur:
    """Our blur: shrunk, blurred by a share of the place's shorter side, and enlarged again."""

    strength: float

    def along(self, length: int, short: int) -> Matrix:
        shrink = min(1.0, BLUR_SIZE / short)
        size, least = (max(1, math.ceil(side * shrink)) for side in (length, short))
        sigma = self.strength * least
        kernel = round(6 * sigma + 1) | 1
        down = _resized(np.eye(length), size, cv2.INTER_AREA)
        soft = _gaussian(size, kernel, sigma, cv2.BORDER_REPLICATE) @ down
        return _resized(soft, length, cv2.INTER_LINEAR)


@dataclass(frozen=True)
class Squares:
    """Pixelation: the means of squares."""

    cells: int
    least: int

    def along(self, length: int, short: int) -> Matrix:
        side = max(self.least, math.ceil(short / self.cells))
        small = _resized(np.eye(length), max(1, length // side), cv2.INTER_AREA)
        return _resized(small, length, cv2.INTER_NEAREST)


@singledispatch
def cover_matrix(method: Any) -> CoverMatrix | None:
    """The matrix of a method that has one; a new one registers its own."""
    return None


@cover_matrix.register
def _(method: Blur) -> CoverMatrix:
    return FixedBlur() if method.published else FittingBlur(method.strength)


@cover_matrix.register
def _(method: Pixelate) -> CoverMatrix:
    return Squares(method.cells, method.least)


@lru_cache(maxsize=32)
def decomposed(
    cover: CoverMatrix, length: int, short: int
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """A, and U, s, L V of the decomposition A L = U s V': L L' is how pixels of pictures correlate.

    With this prior, the least-squares picture is the mean of what may have been there, instead of
    the smallest one.
    """
    matrix = cover.along(length, short)
    apart = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    root = np.linalg.cholesky(NEIGHBOURS**apart)
    u, s, vt = np.linalg.svd(matrix @ root)
    return matrix, u, s, root @ vt.T


def _resized(rows: Matrix, length: int, how: int) -> Matrix:
    return np.asarray(cv2.resize(rows, (rows.shape[1], length), interpolation=how))


def _gaussian(length: int, kernel: int, sigma: float, border: int) -> Matrix:
    across = cv2.GaussianBlur(
        np.eye(length), (1, kernel), sigmaX=sigma, sigmaY=sigma, borderType=border
    )
    return np.asarray(across)
