"""What is measured of a voice, frame by frame: pitch, and the envelope of its spectrum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.fft import dct

Floats = npt.NDArray[np.float64]

_LOWEST, _HIGHEST = 60.0, 400.0  # Hz: of the pitch of speech
_VOICED = 0.5  # of the normalised autocorrelation at one period
FLOOR = 1e-10


@dataclass(frozen=True)
class Framing:
    """Frames every 8 ms: 32 ms for the spectrum, 48 ms for the pitch, centred on each other."""

    rate: int

    @cached_property
    def hop(self) -> int:
        return max(8, round(self.rate * 0.008))

    @property
    def window(self) -> int:
        return 4 * self.hop

    @property
    def pitch_window(self) -> int:
        return 6 * self.hop

    @cached_property
    def fft(self) -> int:
        return 1 << (self.window - 1).bit_length()

    @cached_property
    def hann(self) -> Floats:
        return np.hanning(self.window + 1)[:-1]

    @cached_property
    def bands(self) -> Floats:
        """(mels, bins): triangles evenly spaced on the mel scale, each of weight one."""
        nyquist = self.rate / 2
        count = round(9.5 * math.log2(1 + nyquist / 700))
        top = np.log1p(nyquist / 700)
        edges = 700 * np.expm1(np.linspace(0, top, count + 2))
        bins = np.linspace(0, nyquist, self.fft // 2 + 1)
        left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
        found = np.maximum(0, np.minimum(rising, falling))
        return np.asarray(found / np.maximum(found.sum(1, keepdims=True), 1e-9))

    def cut(self, samples: Floats, first: int, count: int, width: int) -> Floats:
        """(count, width): frame k is centred on sample ``first + k * hop``."""
        start = first - width // 2
        inside = np.lib.stride_tricks.sliding_window_view(samples, width)
        return inside[start :: self.hop][:count]

    def log_bands(self, frames: Floats) -> Floats:
        """(frames, mels): the logarithm of the power in each band."""
        spectrum = np.abs(np.fft.rfft(frames * self.hann, self.fft)) ** 2 / self.window
        return np.log(spectrum @ self.bands.T + FLOOR)

    def pitch(self, frames: Floats) -> Floats:
        """(frames,): the pitch in Hz, 0 where there is none."""
        centred = frames - frames.mean(1, keepdims=True)
        width = frames.shape[1]
        size = 1 << (2 * width - 1).bit_length()
        power = np.abs(np.fft.rfft(centred, size)) ** 2
        correlation = np.fft.irfft(power)[:, :width]
        energy = correlation[:, :1]
        least, most = int(self.rate / _HIGHEST), int(self.rate / _LOWEST)
        most = min(most, width - 2)
        tapered = correlation / (energy + FLOOR) / (1 - np.arange(width) / (width + 1))
        # of peaks nearly as high, the shortest period is the true one: octaves below repeat it
        peaks = tapered[:, least:most] - 0.002 * np.arange(least, most) * 8000 / self.rate
        lag = least + peaks.argmax(1)
        rows = np.arange(len(frames))
        before, at, after = (tapered[rows, lag + d] for d in (-1, 0, 1))
        bend = before - 2 * at + after
        shift = np.where(bend < 0, 0.5 * (before - after) / np.minimum(bend, -1e-9), 0.0)
        found = self.rate / (lag + np.clip(shift, -0.5, 0.5))
        return np.where((at > _VOICED) & (energy[:, 0] / width > 1e-7), found, 0.0)


def cepstra(log_bands: Floats, count: int) -> Floats:
    """The first ``count`` cosine coefficients of every envelope; the first of them is the level."""
    return np.asarray(dct(log_bands, axis=1, norm="ortho")[:, :count])


def smoothed(pitch: Floats) -> Floats:
    """The median of five neighbours, two less at either end."""
    return np.median(np.lib.stride_tricks.sliding_window_view(pitch, 5), axis=1)
