"""A voice made anew from what was measured of the old one: envelope, level, voicing, pitch contour.

No sample of the recording goes into the output. What goes in are few numbers a frame, each compared
with the mean and spread of its speaker and set against those of a voice that is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.fft import idct

from sfumato.protect.voice._features import Framing, cepstra
from sfumato.protect.voice._voices import Statistics, Target, measured

Floats = npt.NDArray[np.float64]
# The numbers of the speakers of some frames, given the numbers of their centres among the samples.
Who = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]

_FRAMES = 64  # a block
_LEVEL = -5.5  # of frames as loud as the median: logarithm of power
_GATE = 6.0  # below the loudest: from there on down, what is quiet becomes still quieter
_SILENCE, _NOTHING = -18.0, -60.0  # logarithm of power: what nobody hears becomes nothing
_BREATH = 0.15  # noise beside the pulses of a voiced frame


class Vocoder:
    """An effect for ``OverlapAdd``: analysis, change and synthesis of one block at a time.

    ``contrast`` presses loudness together; ``whisper`` leaves the pitch out: noise alone is shaped.
    """

    def __init__(
        self,
        framing: Framing,
        heard: Sequence[Statistics],
        targets: Sequence[Target],
        who: Who,
        generator: np.random.Generator,
        *,
        contrast: float = 1.0,
        whisper: bool = False,
    ) -> None:
        self._framing, self._who, self._noise = framing, who, generator
        self._heard, self._targets, self._whisper = heard, targets, whisper
        self._coefficients = heard[0].quantiles.shape[1]
        self._contrast = contrast
        self.block = _FRAMES * framing.hop
        # two more frames than the block has, each with its neighbours and a window around them
        self.context = 6 * framing.hop
        self._phase = 1.0
        self._made = np.zeros(2 * framing.hop)  # excitation that the next block begins with

    def __call__(self, segment: Floats, at: int) -> Floats:
        framing, hop = self._framing, self._framing.hop
        # pulses of two frames after the block reach into its last windows
        bands, pitch = measured(framing, segment, self.context, _FRAMES + 2)
        speakers = self._who(at + hop * np.arange(_FRAMES + 2))
        excitation = self._excitation(self._new_pitch(pitch, speakers))
        frames = np.lib.stride_tricks.sliding_window_view(excitation, framing.window)[::hop]
        spectrum = np.fft.rfft(frames[:_FRAMES] * framing.hann, framing.fft)
        spectrum *= np.exp(0.5 * self._new_envelope(bands[:_FRAMES], speakers[:_FRAMES]))
        shaped = np.fft.irfft(spectrum, framing.fft)[:, : framing.window] * framing.hann
        out = np.zeros(len(segment))
        for number, frame in enumerate(shaped):
            start = self.context + number * hop - framing.window // 2
            out[start : start + framing.window] += frame
        return out / 1.5  # squared Hann windows, a quarter of their length apart, add up to this

    def _new_pitch(self, pitch: Floats, speakers: npt.NDArray[np.int64]) -> Floats:
        if self._whisper:
            return np.zeros_like(pitch)
        heard, targets = self._heard, self._targets
        mean, spread = (
            np.array([getattr(each, name) for each in heard])[speakers]
            for name in ("pitch", "pitch_spread")
        )
        base, lively = (
            np.array([getattr(each, name) for each in targets])[speakers]
            for name in ("pitch", "liveliness")
        )
        score = (np.log(np.maximum(pitch, 1.0)) - mean) / spread
        return np.where(pitch > 0, base * np.exp(lively * np.clip(score, -2, 2)), 0.0)

    def _new_envelope(self, bands: Floats, speakers: npt.NDArray[np.int64]) -> Floats:
        """(frames, bins): the logarithm of the power that the excitation is given."""
        found, level = cepstra(bands, self._coefficients), bands.mean(1)
        out = np.zeros((len(bands), self._framing.fft // 2 + 1))
        for number in np.unique(speakers):
            here = speakers == number
            heard, target = self._heard[number], self._targets[number]
            shape = heard.scores(found[here]) @ target.bend.T + target.tint
            shape[:, 0] = 0.0  # the level, which has a way of its own
            loudness = _LEVEL + self._contrast * heard.level_scores(level[here])
            loudness += 3 * np.minimum(0.0, level[here] - heard.level + _GATE)
            loudness[level[here] < _SILENCE] = _NOTHING
            mels = idct(shape, n=bands.shape[1], axis=1, norm="ortho")
            # as loud as the frame was, whatever its new colour is
            mels += (loudness - np.log(np.exp(mels).mean(1)))[:, None]
            out[here] = self._warped(mels, target.warp)
        return out

    def _warped(self, mels: Floats, warp: float) -> Floats:
        """Bands to bins, with what was at f Hz at ``warp`` times f."""
        framing, count = self._framing, mels.shape[1]
        nyquist = framing.rate / 2
        hertz = np.minimum(np.linspace(0, nyquist, framing.fft // 2 + 1) / warp, nyquist)
        place = np.log1p(hertz / 700) / np.log1p(nyquist / 700) * (count + 1) - 1
        place = np.clip(place, 0, count - 1)
        below = np.minimum(place.astype(int), count - 2)
        share = place - below
        return np.asarray(mels[:, below] * (1 - share) + mels[:, below + 1] * share)

    def _excitation(self, pitch: Floats) -> Floats:
        """Pulses and noise of power one, from two hops before the block to two hops after it.

        Pulses and noise go on from block to block; each hop is made once.
        """
        hop, rate = self._framing.hop, self._framing.rate
        made = [self._made]
        for hertz in pitch[len(self._made) // hop - 2 :]:
            noise = self._noise.standard_normal(hop)
            if hertz <= 0:
                self._phase = 1.0
                made.append(noise)
                continue
            phase = self._phase + np.arange(1, hop + 1) * hertz / rate
            starts = np.diff(np.floor(phase), prepend=np.floor(self._phase)) > 0
            self._phase = float(phase[-1] % 1.0)
            made.append(np.where(starts, np.sqrt(rate / hertz), 0.0) + _BREATH * noise)
        everything = np.concatenate(made)
        self._made = everything[self.block :]
        return everything
