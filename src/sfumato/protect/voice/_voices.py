"""What a voice was, over a recording, and which voice is put in its place: both stay private."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.protect.voice._features import Framing, cepstra, smoothed

Floats = npt.NDArray[np.float64]

_BINS, _QUIETEST, _STEP = 120, -24.0, 0.25  # of the level: logarithm of power, by frames
_LOUD = 4.0  # below the loudest: what counts as speech (17 dB)
_PUBLIC_FRAMES = 12  # how many frames of nobody's voice are mixed into the statistics
_USUAL_PITCH, _USUAL_PITCH_SPREAD = np.log(130.0), 0.12


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
    """Mean and spread of a voice: of its envelope, and of the logarithm of its pitch; its level."""

    envelope: Floats
    spread: Floats
    pitch: float
    pitch_spread: float
    level: float


@dataclass
class Listening:
    """Adds up the statistics of one voice, block by block, in constant memory.

    Frames are sorted by their level, since what is loud enough to be speech is known at the end only.
    """

    framing: Framing
    coefficients: int
    counts: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = (_BINS, self.coefficients)
        self.counts, self._sums, self._squares = np.zeros(_BINS), np.zeros(shape), np.zeros(shape)
        self._voiced, self._pitch, self._pitch_squares = (np.zeros(_BINS) for _ in range(3))

    def add(self, log_bands: Floats, pitch: Floats) -> None:
        """Some frames: their envelopes and their pitch, 0 where there is none."""
        found = cepstra(log_bands, self.coefficients)
        level = log_bands.mean(1)
        place = np.clip((level - _QUIETEST) / _STEP, 0, _BINS - 1).astype(int)
        np.add.at(self.counts, place, 1.0)
        np.add.at(self._sums, place, found)
        np.add.at(self._squares, place, found**2)
        spoken = pitch > 0
        log_pitch = np.log(pitch[spoken])
        np.add.at(self._voiced, place[spoken], 1.0)
        np.add.at(self._pitch, place[spoken], log_pitch)
        np.add.at(self._pitch_squares, place[spoken], log_pitch**2)

    def compute(self) -> Statistics:
        """Of what was loud enough to be speech, mixed with a little of nobody's voice."""
        total = self.counts.cumsum()
        top = int(np.searchsorted(total, 0.95 * total[-1])) if total[-1] else 0
        loud = slice(max(0, top - round(_LOUD / _STEP)), None)
        usual = usual_envelope(self.framing, self.coefficients)
        wide = usual_spread(self.framing, self.coefficients)
        count, extra = self.counts[loud].sum(), float(_PUBLIC_FRAMES)
        # the level of a recording is no mean of anything: it is set apart below
        usual[0] = self._sums[loud, 0].sum() / count if count else 0.0
        mean = (self._sums[loud].sum(0) + extra * usual) / (count + extra)
        squares = self._squares[loud].sum(0) + extra * (usual**2 + wide**2)
        spread = np.sqrt(np.maximum(squares / (count + extra) - mean**2, 0.01))
        voiced = self._voiced[loud].sum() + extra
        pitch = (self._pitch[loud].sum() + extra * _USUAL_PITCH) / voiced
        if voiced > 4 * extra:
            # of a voice that was heard long enough, the pitch is its own
            pitch = self._pitch[loud].sum() / (voiced - extra)
        around = extra * (_USUAL_PITCH_SPREAD**2 + pitch**2)
        variance = (self._pitch_squares[loud].sum() + around) / voiced
        variance -= ((self._pitch[loud].sum() + extra * pitch) / voiced) ** 2
        return Statistics(
            mean, spread, float(pitch), float(np.sqrt(max(variance, 1e-3))), _QUIETEST + _STEP * top
        )


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
