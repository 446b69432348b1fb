"""Bases in which a block of video is analysed, noised and synthesised again.

Each basis knows, from its own matrix alone, how far a change of the picture can move its
coefficients: ``gain(pixels, frames)`` bounds ``|B D| / max|D|`` over every change D of at most
``pixels`` pixels (all three channels) in each of ``frames`` frames, wherever they lie.
For an orthonormal analysis the squared operator norm of any set of columns is at most the sum of
their leverages and at most 1 (SOUND: trace bounds the largest eigenvalue).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sfumato.errors import SfumatoError

Array = npt.NDArray[np.float32]
CHANNELS = 3
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

    def analyse(self, block: Array) -> Array: ...

    def synthesise(self, coefficients: Array) -> Array: ...

    def gain(self, pixels: int, frames: int) -> float: ...


def dct_matrix(size: int, kept: int) -> npt.NDArray[np.float64]:
    """The first ``kept`` rows of the orthonormal DCT-II of length ``size``."""
    if not 1 <= kept <= size:
        raise BasisError(f"Expected between 1 and {size} kept frequencies, got {kept}.")
    rows = np.arange(kept)[:, None]
    matrix = np.cos(math.pi * rows * (2 * np.arange(size)[None, :] + 1) / (2 * size))
    matrix *= math.sqrt(2.0 / size)
    matrix[0] /= math.sqrt(2.0)
    return matrix


def largest_sum(leverages: npt.NDArray[np.float64], count: int) -> float:
    """Bound on the squared norm of ``count`` columns: the sum of the largest leverages, at most 1."""
    flat = leverages.ravel()
    if count >= flat.size:
        return 1.0
    top = np.partition(flat, flat.size - count)[flat.size - count :]
    # a rounding allowance: the sum must never come out too small
    return float(min(1.0, top.sum() * (1 + 1e-9)))


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
        self._tensors = [
            torch.from_numpy(matrix.astype(np.float32))
            for matrix in (self._temporal, self._vertical, self._horizontal)
        ]

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

    def analyse(self, block: Array) -> Array:
        temporal, vertical, horizontal = self._tensors
        kept, tall, wide = (len(matrix) for matrix in self._tensors)
        # the largest reduction first, on pictures as they lie in memory: (T, H, W C) -> (T, s, W C)
        rows = torch.matmul(vertical, torch.from_numpy(block).flatten(2))
        rows = rows.reshape(len(block), tall, -1, CHANNELS).transpose(2, 3)
        small = torch.matmul(rows, horizontal.T).flatten(1)
        out = torch.matmul(temporal, small).reshape(kept, tall, CHANNELS, wide)
        return np.asarray(out.transpose(2, 3).contiguous().numpy())

    def synthesise(self, coefficients: Array) -> Array:
        temporal, vertical, horizontal = self._tensors
        small = torch.from_numpy(coefficients).transpose(2, 3)
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


def hadamard_matrix(size: int) -> npt.NDArray[np.float64]:
    """The orthonormal Walsh-Hadamard matrix of a power of two."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(size)


class Srht:
    """Subsampled randomised Hadamard transform of every frame: a fast random projection.

    Random signs, then Hadamard x DCT on a length 2^a q that pads the picture by at most 1 %, then k
    random rows. Both are products of small factors (H_32 x H_32, a DCT for each divisor of q), so
    that a frame takes a few small matrix products inside the cache. Rows are orthonormal (up to
    the padding), so no change can grow; signs and rows are public.
    """

    name: ClassVar[str] = "srht"

    def __init__(
        self, height: int, width: int, *, block: int, k: int, generator: np.random.Generator
    ) -> None:
        self._block = block
        self._picture = (height, width, CHANNELS)
        self._length = height * width * CHANNELS
        if not 1 <= k <= self._length:
            raise BasisError(f"Expected k between 1 and {self._length}, got {k}.")
        self._radix, divisors = _factor_length(self._length)
        small = min(32, self._radix)
        cosines = [dct_matrix(size, size) for size in divisors]
        self._cosines = np.kron(*cosines)
        self._padded = self._radix * len(self._cosines)
        factors = [*cosines, hadamard_matrix(self._radix // small), hadamard_matrix(small)]
        self._factors = [torch.from_numpy(each.astype(np.float32)) for each in factors]
        self._turned = [each.T.contiguous() for each in self._factors]
        signs = generator.integers(0, 2, self._length).astype(np.float32) * 2 - 1
        self._signs = torch.from_numpy(signs)
        self._rows = np.sort(generator.choice(self._padded, size=k, replace=False))
        self._kept = torch.from_numpy(self._rows)

    @property
    def block(self) -> int:
        return self._block

    @property
    def k(self) -> int:
        return len(self._rows)

    @property
    def coefficients(self) -> int:
        return self._block * self.k

    def analyse(self, block: Array) -> Array:
        out = torch.empty(len(block), self.k)
        for frames, released in _together(torch.from_numpy(block).flatten(1), out):
            filled = torch.zeros(len(frames), self._padded)
            torch.mul(frames, self._signs, out=filled[:, : self._length])
            torch.index_select(_turned_by(self._factors, filled), 1, self._kept, out=released)
        return np.asarray(out.numpy())

    def synthesise(self, coefficients: Array) -> Array:
        out = torch.empty(len(coefficients), self._length)
        for released, frames in _together(torch.from_numpy(coefficients), out):
            spread = torch.zeros(len(frames), self._padded)
            spread[:, self._kept] = released
            back = _turned_by(self._turned, spread)
            torch.mul(back[:, : self._length], self._signs, out=frames)
        return np.asarray(out.reshape(-1, *self._picture).numpy())

    @cached_property
    def pixel_leverage(self) -> npt.NDArray[np.float64]:
        """Sum over the three channels of each value's leverage, from the rows really kept."""
        chosen = np.bincount(self._rows // self._radix, minlength=len(self._cosines))
        per_position = chosen @ (self._cosines**2) / self._radix
        values = np.repeat(per_position, self._radix)[: self._length]
        return np.asarray(values.reshape(-1, CHANNELS).sum(axis=1))

    def gain(self, pixels: int, frames: int) -> float:
        pixels = min(pixels, self.pixel_leverage.size)
        space = CHANNELS * pixels * largest_sum(self.pixel_leverage, pixels)
        return math.sqrt(frames * space)


def _together(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """A few frames at a time: enough work for every thread, and little memory."""
    return zip(*(torch.split(tensor, FRAMES_AT_ONCE) for tensor in tensors))


def _turned_by(factors: list[torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    """The Kronecker product of ``factors`` times every row of ``values``, one axis at a time."""
    count, inner = values.shape
    for factor in factors:
        inner //= len(factor)
        if inner > 1:
            values = torch.matmul(factor, values.reshape(-1, len(factor), inner))
        else:
            values = torch.matmul(values.reshape(-1, len(factor)), factor.T)
    return values.reshape(count, -1)


def _factor_length(length: int) -> tuple[int, tuple[int, int]]:
    """A power of two and two cofactors, together at most 1 % longer than ``length``.

    Among such cofactors the cheapest: the smaller their sum, the fewer multiplications.
    """
    radix = 1 << 10
    while radix > 1 and -length % radix > length / 100:
        radix //= 2
    shortest = -(-length // radix)
    longest = max(shortest, int(1.01 * length / radix))
    pairs = [
        (divisor, odd // divisor)
        for odd in range(shortest, longest + 1)
        for divisor in range(1, math.isqrt(odd) + 1)
        if odd % divisor == 0
    ]
    return radix, min(pairs, key=lambda pair: (sum(pair), math.prod(pair)))


class GaussianProjection:
    """The published basis: every frame times a Gaussian matrix, back by its pseudo-inverse.

    The matrix is public once drawn, so its own norms decide the sensitivity: they hold for data
    chosen after it, which Theorem 3's tail bound does not. One matrix serves every video of one
    size, and the pseudo-inverse is a solve with the k x k Gram matrix, never an SVD of d x k.
    """

    name: ClassVar[str] = "gaussian"
    memory_bound: ClassVar[int] = 8 << 30

    def __init__(
        self, height: int, width: int, *, block: int, k: int, generator: np.random.Generator
    ) -> None:
        self._block = block
        self._picture = (height, width, CHANNELS)
        length = height * width * CHANNELS
        if not 1 <= k <= length:
            raise BasisError(f"Expected k between 1 and {length}, got {k}.")
        if 4 * length * k > self.memory_bound:
            raise BasisError(
                f"The published random matrix of {length} x {k} numbers needs "
                f"{4 * length * k / 2**30:.1f} GB, more than the {self.memory_bound / 2**30:.0f} GB "
                "allowed: take a smaller k or picture, or the basis dct or srht."
            )
        matrix = np.empty((length, k), dtype=np.float32)
        for start in range(0, length, 1 << 14):
            part = matrix[start : start + (1 << 14)]
            generator.standard_normal(out=part, dtype=np.float32)
            part /= math.sqrt(k)
        self._matrix = torch.from_numpy(matrix)
        self._gram = (self._matrix.T @ self._matrix).double()

    @property
    def block(self) -> int:
        return self._block

    @property
    def k(self) -> int:
        return self._matrix.shape[1]

    @property
    def coefficients(self) -> int:
        return self._block * self.k

    @cached_property
    def _factor(self) -> torch.Tensor:
        return torch.as_tensor(torch.linalg.cholesky(self._gram))

    @cached_property
    def largest_singular_value(self) -> float:
        """Of the matrix, rounded up by more than the float32 product can be off."""
        return float(torch.linalg.eigvalsh(self._gram)[-1].sqrt()) * (1 + 1e-4)

    @cached_property
    def _pixel_norms(self) -> npt.NDArray[np.float64]:
        """Squared norm of the three rows of each pixel."""
        squares = self._matrix.square().sum(dim=1).double().numpy()
        return np.asarray(squares.reshape(-1, CHANNELS).sum(axis=1) * (1 + 1e-6))

    def analyse(self, block: Array) -> Array:
        flat = torch.from_numpy(block).reshape(len(block), -1)
        return np.asarray((flat @ self._matrix).numpy())

    def synthesise(self, coefficients: Array) -> Array:
        right = torch.from_numpy(coefficients).double().T
        solved = torch.cholesky_solve(right, self._factor).float()
        flat = (self._matrix @ solved).T
        return np.asarray(flat.reshape(-1, *self._picture).contiguous().numpy())

    def gain(self, pixels: int, frames: int) -> float:
        pixels = min(pixels, self._pixel_norms.size)
        count = self._pixel_norms.size - pixels
        trace = float(np.partition(self._pixel_norms, count - 1 if count else 0)[count:].sum())
        squared = min(trace, self.largest_singular_value**2)
        return math.sqrt(frames * CHANNELS * pixels * squared)


class Blocks:
    """One random basis for blocks of any length: it projects every frame by itself."""

    name: ClassVar[str]

    def __init__(self, inner: Srht | GaussianProjection, block: int) -> None:
        self._inner, self._block = inner, block
        self.name = inner.name  # type: ignore[misc]

    @property
    def block(self) -> int:
        return self._block

    @property
    def coefficients(self) -> int:
        return self._block * self._inner.k

    def analyse(self, block: Array) -> Array:
        return self._inner.analyse(block)

    def synthesise(self, coefficients: Array) -> Array:
        return self._inner.synthesise(coefficients)

    def gain(self, pixels: int, frames: int) -> float:
        return self._inner.gain(pixels, frames)


def johnson_lindenstrauss(k: int, points: int) -> float:
    """Distortion that a random projection to k dimensions keeps between ``points`` points.

    Smallest eta with k >= 4 log(points) / (eta^2 / 2 - eta^3 / 3), the lemma the paper cites;
    infinite where no eta below 1 suffices.
    """
    need = 4 * math.log(max(points, 2)) / k
    if need > 1 / 6:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle**2 / 2 - middle**3 / 3 < need else (low, middle)
    return high
