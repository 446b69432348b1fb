"""Random bases: every frame by itself is projected on a few public random directions."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg.blas import dsyrk

from sfumato.protect.noise._bases import (
    CHANNELS,
    GREY,
    RAISED,
    Array,
    BasisError,
    dct_matrix,
    few_frames,
    largest_number,
    largest_sum,
    rounding_of,
)
from sfumato.protect.noise._lattice import Numbers, summation_error

_ROWS_AT_ONCE = 1 << 13


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
        self._factors = [torch.from_numpy(each) for each in factors]
        self._turned = [each.T.float().contiguous() for each in self._factors]
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

    @cached_property
    def largest(self) -> float:
        return largest_number(self._factors)

    @property
    def rounding(self) -> float:
        return rounding_of(self._factors, self.largest)

    def touched(self, pixels: int, frames: int) -> int:
        return frames * self.k

    def analyse(self, block: Array) -> Numbers:
        out = torch.empty(len(block), self.k, dtype=torch.float64)
        for frames, released in few_frames(torch.from_numpy(block).flatten(1), out):
            filled = torch.zeros(len(frames), self._padded, dtype=torch.float64)
            filled[:, : self._length] = frames * self._signs
            torch.index_select(_turned_by(self._factors, filled), 1, self._kept, out=released)
        return np.asarray(out.numpy())

    def synthesise(self, coefficients: Numbers) -> Array:
        out = torch.empty(len(coefficients), self._length)
        for released, frames in few_frames(torch.from_numpy(coefficients).float(), out):
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
    The matrix is what is stored, in single precision; all that is computed with it before the
    noise is computed in double.
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
        self._gram = _gram(matrix)

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

    @property
    def _parts(self) -> tuple[torch.Tensor, ...]:
        """Rows of the matrix, as many as fit into memory once more in double precision."""
        return torch.split(self._matrix, _ROWS_AT_ONCE)

    @cached_property
    def largest_singular_value(self) -> float:
        """An upper bound, proven in floating point (Rump 2006, verification of positive definiteness).

        G is the Gram matrix, t a little more than its largest eigenvalue as computed. If the Cholesky
        factorisation of t I - G runs to its end, then t I - G has no eigenvalue below minus twice
        summation_error(k + 1) of its trace. G itself was summed, which adds at most the same function of
        the number of rows times |R|^T |R|, whose norm is at most its trace, that of G.
        """
        size, identity = self.k, torch.eye(self.k, dtype=torch.float64)
        top = float(torch.linalg.eigvalsh(self._gram)[-1])
        for raised in (1e-9, 1e-6, 1e-3):
            shifted = top * (1 + raised) * identity - self._gram
            if int(torch.linalg.cholesky_ex(shifted).info) == 0:
                factored = 2 * summation_error(size + 1) * float(shifted.trace().abs())
                summed = 2 * summation_error(len(self._matrix)) * float(self._gram.trace())
                return math.sqrt(top * (1 + raised) + factored + summed) * RAISED
        raise BasisError("The random matrix has no largest singular value: draw another one.")

    @cached_property
    def _pixel_norms(self) -> npt.NDArray[np.float64]:
        """Squared norm of the three rows of each pixel."""
        parts = [part.double().square().sum(dim=1) for part in self._parts]
        squares = torch.cat(parts).numpy()
        return np.asarray(squares.reshape(-1, CHANNELS).sum(axis=1) * RAISED)

    @cached_property
    def largest(self) -> float:
        sums = torch.stack([part.double().abs().sum(dim=0) for part in self._parts]).sum(dim=0)
        return float(GREY) * float(sums.max()) * RAISED

    @property
    def rounding(self) -> float:
        return summation_error(len(self._matrix) + 2) * self.largest

    def touched(self, pixels: int, frames: int) -> int:
        return frames * self.k

    def analyse(self, block: Array) -> Numbers:
        flat = torch.from_numpy(block).reshape(len(block), -1)
        out = torch.zeros(len(block), self.k, dtype=torch.float64)
        for values, rows in zip(torch.split(flat, _ROWS_AT_ONCE, dim=1), self._parts):
            out.addmm_(values.double(), rows.double())
        return np.asarray(out.numpy())

    def synthesise(self, coefficients: Numbers) -> Array:
        right = torch.from_numpy(coefficients).double().T
        solved = torch.cholesky_solve(right, self._factor).float()
        flat = (self._matrix @ solved).T
        return np.asarray(flat.reshape(-1, *self._picture).contiguous().numpy())

    def gain(self, pixels: int, frames: int) -> float:
        pixels = min(pixels, self._pixel_norms.size)
        count = self._pixel_norms.size - pixels
        trace = float(np.partition(self._pixel_norms, count - 1 if count else 0)[count:].sum())
        squared = min(trace, self.largest_singular_value**2)
        return math.sqrt(frames * CHANNELS * pixels * squared) * RAISED


def _gram(matrix: Array) -> torch.Tensor:
    """R^T R in double precision: half of it by BLAS, the other half mirrored."""
    size = matrix.shape[1]
    total = np.zeros((size, size), order="F")
    for start in range(0, len(matrix), _ROWS_AT_ONCE):
        part = matrix[start : start + _ROWS_AT_ONCE].astype(np.float64)
        # the transpose of a part in C order is in Fortran order: nothing is copied
        total = dsyrk(1.0, part.T, beta=1.0, c=total, overwrite_c=True)
    upper = np.triu(total)
    return torch.from_numpy(upper + np.triu(upper, 1).T)


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

    @property
    def largest(self) -> float:
        return self._inner.largest

    @property
    def rounding(self) -> float:
        return self._inner.rounding

    def touched(self, pixels: int, frames: int) -> int:
        return self._inner.touched(pixels, frames)

    def analyse(self, block: Array) -> Numbers:
        return self._inner.analyse(block)

    def synthesise(self, coefficients: Numbers) -> Array:
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
