"""Means of square blocks of pixels, frame by frame; blocks of one pixel are the picture itself.

Pictures are filled up with grey, which is public, to a whole number of blocks, so that a block at
the border is no more sensitive than any other.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from sfumato.protect.noise._bases import CHANNELS, GREY, Array, BasisError
from sfumato.protect.noise._lattice import Numbers, summation_error


class BlockMean:
    """``size`` x ``size`` pixels become their mean and come back as one flat square."""

    name: ClassVar[str] = "block mean"
    block: ClassVar[int] = 1

    def __init__(self, height: int, width: int, *, size: int) -> None:
        if size < 1:
            raise BasisError(f"Expected blocks of at least one pixel, got {size}.")
        self.size = size
        self._picture = (height, width)
        self._rows, self._columns = -(-height // size), -(-width // size)

    @property
    def coefficients(self) -> int:
        return self._rows * self._columns * CHANNELS

    @property
    def largest(self) -> float:
        return float(GREY)

    @property
    def rounding(self) -> float:
        """Sums of half levels are exact in double precision; two divisions are not."""
        return summation_error(2) * self.largest

    def touched(self, pixels: int, frames: int) -> int:
        """Every pixel lies in one mean of each channel."""
        return CHANNELS * frames * min(pixels, self._rows * self._columns)

    def analyse(self, block: Array) -> Numbers:
        """Means of a frame whose grey is zero: what is filled up is zero as well."""
        height, width = self._picture
        below, right = self._rows * self.size - height, self._columns * self.size - width
        filled = np.pad(block, ((0, 0), (0, below), (0, right), (0, 0)))
        tiles = filled.reshape(
            len(block), self._rows, self.size, self._columns, self.size, CHANNELS
        )
        return np.asarray(tiles.mean(axis=(2, 4), dtype=np.float64))

    def synthesise(self, coefficients: Numbers) -> Array:
        height, width = self._picture
        tall = coefficients.astype(np.float32).repeat(self.size, axis=1)
        return np.ascontiguousarray(tall.repeat(self.size, axis=2)[:, :height, :width])

    def gain(self, pixels: int, frames: int) -> float:
        """In the l2 norm, worst when the pixels fill whole blocks."""
        whole, rest = divmod(pixels, self.size**2)
        return math.sqrt(CHANNELS * frames * (whole + (rest / self.size**2) ** 2))

    def l1_gain(self, pixels: int, frames: int) -> float:
        """In the l1 norm: every pixel moves one mean by 1 / size^2, wherever it lies."""
        return CHANNELS * frames * pixels / self.size**2
