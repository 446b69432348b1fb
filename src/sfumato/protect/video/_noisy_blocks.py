"""The noisy transform: analyse a block of frames, add noise, synthesise, round.

Everything after the noise is post-processing: shrinkage, smoothing, clipping, rounding. Blocks never
overlap, so a frame is read into exactly one of them (R11); the last block is filled up with grey
frames, which are public, so that every block has the same sensitivity.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.protect.video._bases import Array, Basis

GREY = np.float32(127.5)
PEAK = 255.0
Picture = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class NoisyBlocks:
    """Noise of standard deviation (or Laplace scale) ``scale`` on every coefficient of a basis."""

    basis: Basis
    scale: float
    generator: np.random.Generator
    noise: Literal["gaussian", "laplace"] = "gaussian"
    shrink: bool = False

    def __call__(self, pictures: Iterable[Picture]) -> Iterator[Picture]:
        """Protected pictures in the order of the originals, one block later."""
        for block, length in _blocks(pictures, self.basis.block):
            block -= GREY
            noisy = self._noised(self.basis.analyse(block))
            if self.shrink:
                noisy = shrink_bands(noisy, self.scale)
            back = self.basis.synthesise(noisy)[:length]
            back += GREY
            yield from np.clip(np.rint(back), 0, PEAK).astype(np.uint8)

    def _noised(self, coefficients: Array) -> Array:
        if self.noise == "laplace":
            drawn = self.generator.laplace(size=coefficients.shape).astype(np.float32)
        else:
            drawn = self.generator.standard_normal(coefficients.shape, dtype=np.float32)
        drawn *= np.float32(self.scale)
        drawn += coefficients
        return drawn


def _blocks(pictures: Iterable[Picture], size: int) -> Iterator[tuple[Array, int]]:
    block: Array | None = None
    filled = 0
    for picture in pictures:
        if block is None:
            block = np.full((size, *picture.shape), GREY, dtype=np.float32)
        block[filled] = picture
        filled += 1
        if filled == size:
            yield block, filled
            block, filled = None, 0
    if block is not None:
        yield block, filled


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


def shrink_bands(noisy: Array, scale: float) -> Array:
    """Positive-part James-Stein shrinkage of each band of frequencies (post-processing).

    A band that holds little more than the noise's own energy is pulled towards zero. It reads the
    noisy coefficients and the public noise scale only.
    """
    if noisy.ndim != 4:
        energy = float(np.square(noisy, dtype=np.float64).sum())
        return noisy * np.float32(_shrinkage(energy, noisy.size, scale))
    octave = [np.floor(np.log2(np.arange(size) + 1)).astype(int) for size in noisy.shape[:3]]
    space = np.maximum(octave[1][:, None], octave[2][None, :])
    band = octave[0][:, None, None] * (space.max() + 1) + space
    counts = np.bincount(band.ravel()) * noisy.shape[3]
    squares = np.square(noisy, dtype=np.float64).sum(axis=3)
    energies = np.bincount(band.ravel(), weights=squares.ravel())
    gains = np.array(
        [_shrinkage(energy, count, scale) for energy, count in zip(energies, counts)],
        dtype=np.float32,
    )
    return np.asarray(noisy * gains[band][..., None])


def _shrinkage(energy: float, count: int, scale: float) -> float:
    if energy <= 0:
        return 0.0
    return max(0.0, 1.0 - max(count - 2, 1) * scale**2 / energy)


@dataclass(frozen=True)
class Prediction:
    """What quality to expect, from a public prior about pictures, before any private byte is read."""

    psnr: float
    grey_psnr: float

    @property
    def useful(self) -> bool:
        """At least one decibel better than releasing a grey picture."""
        return self.psnr > self.grey_psnr + 1.0

    def __str__(self) -> str:
        verdict = (
            "something of the picture will be left"
            if self.useful
            else "nothing useful can be released at this unit and epsilon"
        )
        return f"expected quality {self.psnr:.1f} dB, a grey picture has {self.grey_psnr:.1f} dB: {verdict}"


# Natural pictures: mean grey level and contrast (standard deviations, 8-bit), spectrum 1 / f^2 in
# space, 1 / (1 + f^2) in time. Chosen once from textbook statistics, never from a private video.
_MEAN_SPREAD, _CONTRAST = 40.0, 60.0


def predict_dct(
    height: int, width: int, block: int, kept_frames: int, kept_size: int, scale: float
) -> Prediction:
    """Expected quality of the shrunk DCT release under the public prior."""
    vertical, horizontal = np.arange(height) / 2, np.arange(width) / 2
    squared = vertical[:, None] ** 2 + horizontal[None, :] ** 2
    squared[0, 0] = np.inf
    spatial = 1 / squared
    spatial *= _CONTRAST**2 * height * width / spatial.sum()
    spatial[0, 0] = _MEAN_SPREAD**2 * height * width
    temporal = 1 / (1 + np.arange(block, dtype=float) ** 2)
    temporal *= block / temporal.sum()
    total = spatial.sum() * block
    kept = spatial[:kept_size, :kept_size, None] * temporal[:kept_frames]
    error = total - kept.sum() + (kept * scale**2 / (kept + scale**2)).sum()
    pixels = height * width * block
    return Prediction(psnr=_decibel(error / pixels), grey_psnr=_decibel(total / pixels))


def _decibel(mean_squared_error: float) -> float:
    return 10 * math.log10(PEAK**2 / mean_squared_error)
