"""Bases in which a block of video is analysed, noised and synthesised again.

Each basis knows, from its own matrix alone, how far a change of the picture can move its
coefficients: ``gain(pixels, frames)`` bounds ``|B D| / max|D|`` over every change D of at most
``pixels`` pixels (all three channels) in each of ``frames`` frames, wherever they lie.
For an orthonormal analysis the squared operator norm of any set of columns is at most the sum of
their leverages and at most 1 (SOUND: trace bounds the largest eigenvalue).

Analysis is part of the mechanism, so it is done in double precision, and each basis bounds what that
may add to a coefficient (``rounding``) and how many coefficients it may add it to (``touched``).
Synthesis comes after the noise, where single precision costs nothing but precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch

from sfumato.errors import SfumatoError
from sfumato.privacy import NoiseKind
from sfumato.protect.noise._lattice import Numbers, Reach, summation_error

Array = npt.NDArray[np.float32]
CHANNELS = 3
PEAK = 255.0
# A block holds levels of 8 bits about this grey, so none is larger.
GREY = np.float32(127.5)
# By this part a bound from matrices stored in double precision is raised: more than cosines, roots and
# sums of their squares can be off.
RAISED = 1 + 1e-9
FRAMES_AT_ONCE = 8


class BasisError(SfumatoError):
    """A basis that does not fit the picture, or would not fit into memory."""


class Basis(Protocol):
    """Analysis and synthesis of blocks of ``frames`` frames of ``height`` x ``width`` RGB."""

    name: ClassVar[str]

    @property
    def block(self) -> int: ...

    @property
    def coefficients(self) -> int:
        """Numbers released for each block."""

    @property
    def largest(self) -> float:
        """No coefficient of a block of 8-bit pictures is larger."""

    @property
    def rounding(self) -> float:
        """No coefficient of such a block is further from the exact one, divided by a spacing or not."""

    def touched(self, pixels: int, frames: int) -> int:
        """How many coefficients a change can move, in all blocks that the frames may lie in."""

    def analyse(self, block: Array) -> Numbers: ...

    def synthesise(self, coefficients: Numbers) -> Array: ...

    def gain(self, pixels: int, frames: int) -> float: ...


class SummedBasis(Basis, Protocol):
    """A basis that bounds the sum of all moves as well, which is what Laplace noise is made for."""

    def l1_gain(self, pixels: int, frames: int) -> float: ...


def reach_of(basis: Basis, pixels: int, frames: int, kind: NoiseKind = "gaussian") -> Reach:
    """How far pictures that differ in so many pixels of so many frames lie apart in a basis.

    In the norm that the noise is made for: l2 for Gaussian noise, l1 for Laplace noise.
    """
    laplace = kind == "laplace"
    gain = cast("SummedBasis", basis).l1_gain if laplace else basis.gain
    return Reach(
        length=PEAK * gain(pixels, frames),
        touched=basis.touched(pixels, frames),
        largest=basis.largest,
        error=basis.rounding,
        order=1 if laplace else 2,
    )


def dct_matrix(size: int, kept: int) -> npt.NDArray[np.float64]:
    """The first ``kept`` rows of the orthonormal DCT-II of length ``size``."""
    if not 1 <= kept <= size:
        raise BasisError(f"Expected between 1 and {size} kept frequencies, got {kept}.")
    # whole turns are taken off in integers, so that cosines are as good in the last row as in the first
    quarters = np.arange(kept)[:, None] * (2 * np.arange(size)[None, :] + 1) % (4 * size)
    matrix = np.cos(math.pi * quarters / (2 * size))
    matrix *= math.sqrt(2.0 / size)
    matrix[0] /= math.sqrt(2.0)
    return matrix


def largest_sum(leverages: npt.NDArray[np.float64], count: int) -> float:
    """Bound on the squared norm of ``count`` columns: the sum of the largest leverages, at most 1."""
    flat = leverages.ravel()
    if count >= flat.size:
        return RAISED
    top = np.partition(flat, flat.size - count)[flat.size - count :]
    return float(min(1.0, top.sum()) * RAISED)


def largest_number(matrices: Sequence[torch.Tensor]) -> float:
    """Of any number that a product of matrices, one for each axis, makes of 8-bit pictures."""
    sums = [float(matrix.abs().sum(dim=1).max()) for matrix in matrices]
    return float(GREY) * math.prod(sums) * RAISED


def rounding_of(matrices: Sequence[torch.Tensor], largest: float) -> float:
    """One matrix after the other, each a sum over its own columns; the division comes on top."""
    return summation_error(sum(matrix.shape[1] for matrix in matrices) + 2) * largest


def few_frames(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """A few frames at a time: enough work for every thread, and little memory."""
    return zip(*(torch.split(tensor, FRAMES_AT_ONCE) for tensor in tensors))


class Dct3:
    """Low frequencies of the orthonormal 3-D DCT: keeps what a picture mostly consists of."""

    name: ClassVar[str] = "dct"

    def __init__(
        self, height: int, width: int, *, block: int, kept_frames: int, kept_size: int
    ) -> None:
        self._block = block
        self._vertical = dct_matrix(height, min(kept_size, height))
        self._horizontal = dct_matrix(width, min(kept_size, width))
        self._temporal = dct_matrix(block, kept_frames)
        matrices = (self._temporal, self._vertical, self._horizontal)
        self._exact = [torch.from_numpy(matrix) for matrix in matrices]
        self._rough = [matrix.float() for matrix in self._exact]

    @property
    def block(self) -> int:
        return self._block

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Kept frequencies: time, height, width, channels."""
        return (len(self._temporal), len(self._vertical), len(self._horizontal), CHANNELS)

    @property
    def coefficients(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def largest(self) -> float:
        return largest_number(self._exact)

    @property
    def rounding(self) -> float:
        return rounding_of(self._exact, self.largest)

    def touched(self, pixels: int, frames: int) -> int:
        """Every frame may lie in a block of its own, all of whose coefficients depend on it."""
        return frames * self.coefficients

    def analyse(self, block: Array) -> Numbers:
        temporal, vertical, horizontal = self._exact
        kept, tall, wide = (len(matrix) for matrix in self._exact)
        small = torch.empty(len(block), tall, CHANNELS, wide, dtype=torch.float64)
        for frames, out in few_frames(torch.from_numpy(block), small):
            # the largest reduction first, on pictures as they lie in memory: (H, W C) -> (s, W C)
            rows = torch.matmul(vertical, frames.double().flatten(2))
            rows = rows.reshape(len(frames), tall, -1, CHANNELS).transpose(2, 3)
            torch.matmul(rows, horizontal.T, out=out)
        found = torch.matmul(temporal, small.flatten(1)).reshape(kept, tall, CHANNELS, wide)
        return np.asarray(found.transpose(2, 3).contiguous().numpy())

    def synthesise(self, coefficients: Numbers) -> Array:
        temporal, vertical, horizontal = self._rough
        small = torch.from_numpy(coefficients).float().transpose(2, 3)
        frames = torch.matmul(temporal.T, small.flatten(1)).reshape(-1, *small.shape[1:])
        rows = torch.matmul(frames, horizontal).transpose(2, 3).flatten(2)
        pictures = torch.matmul(vertical.T, rows)
        return np.asarray(pictures.reshape(*pictures.shape[:2], -1, CHANNELS).numpy())

    @cached_property
    def spatial_leverage(self) -> npt.NDArray[np.float64]:
        rows = (self._vertical**2).sum(axis=0)
        columns = (self._horizontal**2).sum(axis=0)
        return np.asarray(rows[:, None] * columns[None, :])

    @cached_property
    def temporal_leverage(self) -> npt.NDArray[np.float64]:
        return np.asarray((self._temporal**2).sum(axis=0))

    def gain(self, pixels: int, frames: int) -> float:
        """255-free sensitivity of SOUNDNESS 5.3, over every block that the frames can touch.

        A change touches n_b frames of block b and moves it by at most n_b min(1, lev_b(n_b)),
        squared. In noise made for n min(1, lev_b(n)) that is a share of at most n_b / n, because
        lev_b does not decrease, and the shares of all blocks add up to at most 1: also where
        blocks of different lengths have different bases, each with noise for its own gain.
        """
        pixels = min(pixels, self.spatial_leverage.size)
        space = pixels * largest_sum(self.spatial_leverage, pixels)
        time = frames * largest_sum(self.temporal_leverage, frames)
        return math.sqrt(CHANNELS * space * time)
