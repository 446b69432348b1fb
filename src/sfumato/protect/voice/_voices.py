"""What a voice was, over a recording, and which voice is put in its place: both stay private."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from sfumato.protect.voice._features import Framing, cepstra, smoothed

Floats = npt.NDArray[np.float64]

_LOUD = 4.0  # below the loudest: what counts as speech (17 dB)
_PUBLIC_FRAMES = 12  # how many frames of nobody's voice are mixed into the statistics
_USUAL_PITCH, _USUAL_PITCH_SPREAD = np.log(130.0), 0.12
_MOST_FRAMES = 8192  # that are kept of a recording, however long
_SHARES = np.linspace(0.01, 0.99, 99)
_NORMAL = ndtri(_SHARES)


def usual_envelope(framing: Framing, coefficients: int) -> Floats:
    """Nobody's voice: level up to 600 Hz, from there 9 dB less an octave."""
    count = len(framing.bands)
    hertz = 700 * np.expm1(np.linspace(0, np.log1p(framing.rate / 1400), count + 2)[1:-1])
    falling = -0.9 * np.log(10) * np.log2(np.maximum(hertz / 600, 1.0))
    return np.asarray(cepstra(falling[None], coefficients)[0])


def usual_spread(framing: Framing, coefficients: int) -> Floats:
    """How far its cosine coefficients move while it speaks; the first, its level, is not used."""
    order = np.maximum(np.arange(coefficients), 1)
    return np.asarray(2.6 * order**-0.6 * np.sqrt(len(framing.bands) / 26))


@dataclass(frozen=True)
class Statistics:
    """How a voice was distributed: every coefficient of its envelope, its level, its pitch.

    ``scores`` makes of every voice the same: each coefficient distributed as a normal one (feature
    warping), and none of them telling of another (whitening). What is left is what is said.
    """

    quantiles: Floats  # (shares, coefficients)
    whitening: Floats
    levels: Floats  # (shares,)
    pitch: float  # mean of the logarithm
    pitch_spread: float

    @property
    def level(self) -> float:
        """Of the loudest frames, about."""
        return float(self.levels[-5])

    def scores(self, cepstra: Floats) -> Floats:
        """(frames, coefficients), the first of which is the level and left out: 0."""
        found = _warped(cepstra, self.quantiles)
        found[:, 0] = 0.0
        return found @ self.whitening

    def level_scores(self, levels: Floats) -> Floats:
        """The level of every frame among those that are loud enough to be speech."""
        return _warped(levels[:, None], self.levels[:, None])[:, 0]


def _warped(values: Floats, quantiles: Floats) -> Floats:
    """Each column as it would be if it were distributed normally; its tails are cut off."""
    columns = [np.interp(v, q, _NORMAL) for v, q in zip(values.T, quantiles.T, strict=True)]
    return np.stack(columns, axis=1)


class Listening:
    """Gathers the frames of one voice, block by block, in constant memory.

    Every frame at first; when there are too many, every second of them, and so on.
    """

    def __init__(self, framing: Framing, coefficients: int) -> None:
        self._framing, self._coefficients = framing, coefficients
        self._kept = np.zeros((0, coefficients + 2))
        self._every, self._came = 1, 0

    def add(self, log_bands: Floats, pitch: Floats) -> None:
        """Some frames: their envelopes and their pitch, 0 where there is none."""
        new = np.column_stack([cepstra(log_bands, self._coefficients), log_bands.mean(1), pitch])
        number = self._came + np.arange(len(new))
        self._came += len(new)
        self._kept = np.concatenate([self._kept, new[number % self._every == 0]])
        while len(self._kept) > _MOST_FRAMES:
            self._kept, self._every = self._kept[::2], 2 * self._every

    def compute(self) -> Statistics:
        """Of what was loud enough to be speech, mixed with a little of nobody's voice."""
        level = self._kept[:, -2]
        loud = self._kept[level > np.quantile(level, 0.95) - _LOUD] if len(level) else self._kept
        usual = usual_envelope(self._framing, self._coefficients)
        wide = usual_spread(self._framing, self._coefficients)
        # independent of each other: each coefficient in an order of its own
        grid = np.resize(np.arange(_PUBLIC_FRAMES), (self._coefficients, _PUBLIC_FRAMES))
        order = (grid * (2 * np.arange(self._coefficients)[:, None] + 5)) % (_PUBLIC_FRAMES + 1)
        public = usual + wide * ndtri((order.T + 1) / (_PUBLIC_FRAMES + 2))
        envelopes = np.concatenate([loud[:, : self._coefficients], public])
        quantiles = np.quantile(envelopes, _SHARES, axis=0)
        # np.interp needs levels that rise
        rising = quantiles + 1e-9 * np.arange(len(_SHARES))[:, None]
        levels = loud[:, -2] if len(loud) else np.zeros(1)
        spoken = np.log(loud[loud[:, -1] > 0, -1])
        pitch, spread = _USUAL_PITCH, _USUAL_PITCH_SPREAD
        if len(spoken) > _PUBLIC_FRAMES:
            pitch, spread = float(spoken.mean()), max(float(spoken.std()), 0.03)
        return Statistics(
            rising,
            _whitening(_warped(envelopes, rising)[:, 1:]),
            np.quantile(levels, _SHARES) + 1e-9 * np.arange(len(_SHARES)),
            float(pitch),
            spread,
        )


def _whitening(scores: Floats, shrink: float = 0.1) -> Floats:
    """The symmetric matrix after which no coefficient tells of another; the level is left alone."""
    covariance = scores.T @ scores / len(scores)
    values, vectors = np.linalg.eigh((1 - shrink) * covariance + shrink * np.eye(len(covariance)))
    whole = np.eye(len(covariance) + 1)
    whole[1:, 1:] = (vectors / np.sqrt(values)) @ vectors.T
    return whole


@dataclass(frozen=True)
class Range:
    """From what secrets are drawn: public, and the same for everybody."""

    detail: float  # the share of bands kept as cosine coefficients; what is finer is not spoken
    tint: float  # how far the mean of the envelope is moved, in its usual spreads
    bend: float  # how far its coefficients are mixed into each other
    stretch: float  # how far each of them is made livelier or duller (logarithm)
    warp: float  # how much longer or shorter the vocal tract may be (logarithm)
    contrast: float  # of loudness: 1 is as it was, 0 all alike
    pitch: tuple[float, float] = (95.0, 200.0)  # Hz
    liveliness: tuple[float, float] = (0.04, 0.12)  # spread of the logarithm of the pitch


@dataclass(frozen=True)
class Target:
    """The voice that is put in the place of one. It is a secret: it stands on no card."""

    pitch: float = field(repr=False)
    liveliness: float = field(repr=False)
    warp: float = field(repr=False)  # of the frequency axis: above 1, a shorter vocal tract
    tint: Floats = field(repr=False)  # added to the envelope, by cosine coefficient
    bend: Floats = field(repr=False)  # (coefficients, coefficients)

    @classmethod
    def draw(
        cls, generator: np.random.Generator, framing: Framing, coefficients: int, within: Range
    ) -> Target:
        wide = usual_spread(framing, coefficients)
        low, high = np.log(within.pitch)
        mixed = generator.standard_normal((coefficients, coefficients)) / np.sqrt(coefficients)
        stretch = np.exp(within.stretch * generator.standard_normal(coefficients))
        tint = within.tint * wide * generator.standard_normal(coefficients)
        return cls(
            float(np.exp(generator.uniform(low, high))),
            float(generator.uniform(*within.liveliness)),
            float(np.exp(generator.uniform(-within.warp, within.warp))),
            tint + usual_envelope(framing, coefficients),
            (wide * stretch)[:, None] * (np.eye(coefficients) + within.bend * mixed),
        )


def measured(framing: Framing, segment: Floats, first: int, count: int) -> tuple[Floats, Floats]:
    """Log bands and smoothed pitch of ``count`` frames, the first centred on sample ``first``.

    The segment must reach two hops and half a pitch window beyond them.
    """
    bands = framing.log_bands(framing.cut(segment, first, count, framing.window))
    wider = framing.cut(segment, first - 2 * framing.hop, count + 4, framing.pitch_window)
    return bands, smoothed(framing.pitch(wider))
