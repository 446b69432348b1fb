"""The noisy transform: analyse a block of frames, put it on a lattice, add noise, synthesise, round.

Everything after the noise is post-processing: shrinkage, smoothing, clipping, rounding. Blocks never
overlap, so a frame is read into exactly one of them (R11). Where the last block would be short, the
last two share their frames evenly: blocks depend on the number of frames alone, which is public. A
block of another length has a basis of its own, and noise made for that basis. Every block draws from a part of the
key stream of its own, so that a recording may be worked on in spans of whole blocks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.privacy import KeyStream
from sfumato.protect.noise._bases import GREY, PEAK, Array, Basis, BasisError
from sfumato.protect.noise._lattice import Lattice, Numbers

# binomial weights of more frames would overflow float32
LONGEST_SMOOTHING = 60
Picture = npt.NDArray[np.uint8]


# Basis and lattice for a block of fewer frames.
Shorter = Callable[[int], tuple[Basis, Lattice]]


@dataclass(frozen=True)
class NoisyBlocks:
    """Noise on every coefficient of a basis, in whole steps of a lattice."""

    basis: Basis
    lattice: Lattice
    stream: KeyStream
    shrink: bool = False
    shorter: Shorter | None = None

    def __call__(self, pictures: Iterable[Picture]) -> Iterator[Picture]:
        """Protected pictures in the order of the originals, at most two blocks later."""
        for block in even_blocks(pictures, self.basis.block):
            basis, lattice = self._for(len(block))
            block -= GREY
            released = lattice.noised(basis.analyse(block), self.stream.next_part())
            noisy = lattice.values(released)
            if self.shrink:
                noisy = shrink_bands(noisy, lattice.scale)
            back = basis.synthesise(noisy)
            back += GREY
            np.rint(back, out=back)
            np.clip(back, 0, PEAK, out=back)
            yield from back.astype(np.uint8)

    def _for(self, length: int) -> tuple[Basis, Lattice]:
        if length == self.basis.block:
            return self.basis, self.lattice
        if self.shorter is None:
            raise BasisError(
                f"Expected whole blocks of {self.basis.block} frames, got one of {length}: "
                "pass the basis for shorter ones."
            )
        return self.shorter(length)


def even_blocks(pictures: Iterable[Picture], size: int) -> Iterator[Array]:
    """Blocks of ``size`` frames; of the last two, neither is shorter than half of that.

    A block waits until the next one is full, so that the two can still share their frames.
    """
    held: list[Picture] = []
    for picture in pictures:
        held.append(picture)
        if len(held) == 2 * size:
            yield np.stack(held[:size], dtype=np.float32)
            del held[:size]
    half = -(-len(held) // 2) if len(held) > size else len(held)
    for part in (held[:half], held[half:]):
        if part:
            yield np.stack(part, dtype=np.float32)


def block_lengths(frames: int, size: int) -> list[int]:
    """The lengths of the blocks of a recording, without the recording."""
    whole = max(0, frames // size - 1)
    rest = frames - whole * size
    half = -(-rest // 2) if rest > size else rest
    return [length for length in (*[size] * whole, half, rest - half) if length]


def smoothed(pictures: Iterable[Picture], radius: int) -> Iterator[Picture]:
    """Means over time with binomial weights, ``radius`` frames to each side (post-processing)."""
    if radius == 0:
        yield from pictures
        return
    weights = np.array([math.comb(2 * radius, n) for n in range(2 * radius + 1)], dtype=np.float32)
    near: deque[Picture] = deque(maxlen=2 * radius + 1)
    source = iter(pictures)
    # at the ends the first and the last picture stand for those that are missing
    last: Picture | None = None
    for picture in source:
        if last is None:
            near.extend([picture] * radius)
        near.append(picture)
        last = picture
        if len(near) == 2 * radius + 1:
            yield _weighted(near, weights)
    if last is None:
        return
    for _ in range(radius):
        near.append(last)
        if len(near) == 2 * radius + 1:
            yield _weighted(near, weights)


def _weighted(near: Iterable[Picture], weights: Array) -> Picture:
    total = np.tensordot(weights / weights.sum(), np.stack(list(near)).astype(np.float32), axes=1)
    return np.clip(np.rint(total), 0, PEAK).astype(np.uint8)


def shrink_bands(noisy: Numbers, scale: float) -> Numbers:
    """Positive-part James-Stein shrinkage of each band of frequencies (post-processing).

    A band that holds little more than the noise's own energy is pulled towards zero. It reads the
    noisy coefficients and the public noise scale only.
    """
    if noisy.ndim != 4:
        energy = float(np.square(noisy).sum())
        return noisy * _shrinkage(energy, noisy.size, scale)
    octave = [np.floor(np.log2(np.arange(size) + 1)).astype(int) for size in noisy.shape[:3]]
    space = np.maximum(octave[1][:, None], octave[2][None, :])
    band = octave[0][:, None, None] * (space.max() + 1) + space
    counts = np.bincount(band.ravel()) * noisy.shape[3]
    squares = np.square(noisy).sum(axis=3)
    energies = np.bincount(band.ravel(), weights=squares.ravel())
    gains = np.array([_shrinkage(energy, count, scale) for energy, count in zip(energies, counts)])
    return np.asarray(noisy * gains[band][..., None])


def _shrinkage(energy: float, count: int, scale: float) -> float:
    if energy <= 0:
        return 0.0
    return max(0.0, 1.0 - max(count - 2, 1) * scale**2 / energy)
