"""What quality to expect of a noisy picture, from a public prior about pictures (R12).

Natural pictures: mean grey level and contrast (standard deviations, 8-bit), spectrum 1 / f^2 in
space, 1 / (1 + f^2) in time. Chosen once from textbook statistics, never from a private video.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

PEAK = 255.0
MEAN_SPREAD, CONTRAST = 40.0, 60.0
Energies = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Expected quality, before any private byte is read."""

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


def prior_energies(height: int, width: int) -> Energies:
    """Expected squared DCT coefficients of one channel of a picture, grey being zero."""
    vertical, horizontal = np.arange(height) / 2, np.arange(width) / 2
    squared = vertical[:, None] ** 2 + horizontal[None, :] ** 2
    squared[0, 0] = np.inf
    spatial = 1 / squared
    if total := spatial.sum():
        spatial *= CONTRAST**2 * height * width / total
    spatial[0, 0] = MEAN_SPREAD**2 * height * width
    return np.asarray(spatial)


def predicted(error: float, total: float, values: int) -> Prediction:
    """From the expected squared error and the energy of a picture of so many values."""
    return Prediction(psnr=_decibel(error / values), grey_psnr=_decibel(total / values))


def predict_dct(
    height: int, width: int, block: int, kept_frames: int, kept_size: int, scale: float
) -> Prediction:
    """Of the shrunk release of the low frequencies of a block."""
    spatial = prior_energies(height, width)
    temporal = 1 / (1 + np.arange(block, dtype=float) ** 2)
    temporal *= block / temporal.sum()
    total = float(spatial.sum() * block)
    kept = spatial[:kept_size, :kept_size, None] * temporal[:kept_frames]
    error = total - kept.sum() + (kept * scale**2 / (kept + scale**2)).sum()
    return predicted(float(error), total, height * width * block)


def predict_projection(
    length: int, k: int, variance: float, returned: float, scale: float, *, shrink: bool
) -> Prediction:
    """Of a random projection of ``length`` values to k numbers of ``variance`` times a value's.

    ``returned`` is what the way back makes of the variance of the noise on one number.
    """
    signal = MEAN_SPREAD**2 + CONTRAST**2
    gain = signal * variance / (signal * variance + scale**2) if shrink else 1.0
    share = k / length
    error = signal * (1 - share) + share * (
        (1 - gain) ** 2 * signal + gain**2 * returned * scale**2
    )
    return predicted(error, signal, 1)


def predict_means(height: int, width: int, size: int, scale: float) -> Prediction:
    """Of means of ``size`` x ``size`` pixels with Laplace noise, cut off at black and white."""
    spatial = prior_energies(height, width) / (height * width)
    response = [_mean_response(side, size) for side in (height, width)]
    kept = float((spatial * response[0][:, None] * response[1][None, :]).sum())
    shares = (np.arange(512) + 0.5) / 512
    means = stats.norm(scale=math.sqrt(kept)).ppf(shares)[::4, None]
    drawn = stats.laplace(scale=scale).ppf(shares)
    shown = np.clip(means + drawn, -PEAK / 2, PEAK / 2)
    total = float(spatial.sum())
    return predicted(total - kept + float(np.square(shown - means).mean()), total, 1)


def predict_replaced(share: float) -> Prediction:
    """Of values of which ``share`` became uniform ones."""
    signal = MEAN_SPREAD**2 + CONTRAST**2
    return predicted(share * (signal + PEAK**2 / 12), signal, 1)


def _mean_response(side: int, size: int) -> Energies:
    """Share of the energy of each frequency that means of ``size`` neighbours keep."""
    angle = math.pi * np.arange(1, side) / (2 * side)
    response = np.sin(size * angle) / (size * np.sin(angle))
    return np.concatenate([[1.0], response**2])


def _decibel(mean_squared_error: float) -> float:
    return 10 * math.log10(PEAK**2 / max(mean_squared_error, 1e-6))
