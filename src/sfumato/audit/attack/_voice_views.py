"""What an attacker measures of a recording of speech: a speaker network, spectra, dynamics, pitch."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import numpy as np
import numpy.typing as npt
from scipy.fft import dct
from scipy.signal import resample_poly

from sfumato.models import SPEAKER_RATE, SpeakerEncoder

Floats = npt.NDArray[np.float64]
VOICE_VIEWS = ("network", "spectrum", "dynamics", "pitch", "rhythm")
_COEFFICIENTS = 20
_LOUD = 4.0  # below the loudest frames: what counts as speech


def at_speaker_rate(sound: Floats, rate: int) -> Floats:
    """Mono sound at the rate of the speaker network."""
    divisor = gcd(SPEAKER_RATE, rate)
    return np.asarray(resample_poly(sound, SPEAKER_RATE // divisor, rate // divisor))


def voice_views(sounds: Iterable[Floats], rate: int, encoder: SpeakerEncoder) -> dict[str, Floats]:
    """Views of mono recordings, one row each, by their names in ``VOICE_VIEWS``."""
    rows: dict[str, list[Floats]] = {name: [] for name in VOICE_VIEWS}
    for sound in sounds:
        resampled = at_speaker_rate(sound, rate)
        rows["network"].append(np.asarray(encoder.embed(resampled), float))
        levels = np.log(encoder.mel(resampled).numpy().astype(float) + 1e-8)
        loud = levels.mean(1) > np.quantile(levels.mean(1), 0.95) - _LOUD
        cepstra = dct(levels[loud], axis=1, norm="ortho")[:, :_COEFFICIENTS]
        spread, steps = cepstra.std(0) + 1e-3, np.diff(cepstra, axis=0)
        moved = steps.std(0) if len(steps) else np.zeros(_COEFFICIENTS)
        score = (cepstra - cepstra.mean(0)) / spread
        rows["spectrum"].append(np.concatenate([cepstra.mean(0), spread]))
        rows["dynamics"].append(
            np.concatenate(
                [
                    moved,
                    moved / spread,
                    (score**3).mean(0),
                    [loud.mean()],
                    *np.quantile(score, [0.1, 0.9], axis=0),
                ]
            )
        )
        rows["pitch"].append(pitch_statistics(resampled))
        rows["rhythm"].append(rhythm(len(sound) / rate, loud))
    return {name: np.stack(found) for name, found in rows.items()}


def rhythm(seconds: float, loud: npt.NDArray[np.bool_]) -> Floats:
    """How long the recording is, how much of it is loud, and how long it stays so: with which voice it
    was spoken plays no part, so this is what is left to tell where length and timing are kept."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], loud, [False]]).astype(int)))
    runs = np.diff(turns)[::2] / 100 if len(turns) else np.zeros(1)
    facts = [
        seconds,
        loud.sum() / 100,
        *np.quantile(runs, [0.25, 0.5, 0.75]),
        runs.std(),
        len(runs),
    ]
    return np.log(np.array(facts) + 0.05)


def pitch_statistics(sound: Floats) -> Floats:
    """Mean, spread and two quantiles of the logarithm of the pitch, and how much has one."""
    track = pitch_track(sound)
    spoken = np.log(track[track > 0])
    if len(spoken) < 3:
        return np.zeros(5)
    low, high = np.quantile(spoken, [0.1, 0.9])
    return np.array([spoken.mean(), spoken.std(), low, high, (track > 0).mean()])


def pitch_track(sound: Floats) -> Floats:
    """The pitch in Hz every 10 ms from windows of 40 ms by autocorrelation; 0 where there is none."""
    width, hop = 640, 160
    if len(sound) < width:
        return np.zeros(0)
    frames = np.lib.stride_tricks.sliding_window_view(sound, width)[::hop]
    frames = frames - frames.mean(1, keepdims=True)
    power = np.abs(np.fft.rfft(frames, 2 * width)) ** 2
    alike = np.fft.irfft(power)[:, :width]
    energy = alike[:, :1].copy()
    alike = alike / (energy + 1e-9) / (1 - np.arange(width) / (width + 1))
    least, most = SPEAKER_RATE // 400, SPEAKER_RATE // 60
    lag = least + alike[:, least:most].argmax(1)
    clear = alike[np.arange(len(frames)), lag] > 0.5
    return np.where(clear & (energy[:, 0] / width > 1e-6), SPEAKER_RATE / lag, 0.0)
