"""Streaming equals working on the whole signal at once, however the sound is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.privacy import Randomness
from sfumato.protect.voice import OverlapAdd, Timeline, effect_for
from sfumato.protect.voice._mcadams import McAdams

RATE = 8000


def buzz(samples: int, rate: int = RATE, pitch: float = 120.0) -> np.ndarray:
    """Something like a vowel: harmonics under two formants, with some noise."""
    generator = np.random.default_rng(samples)
    time = np.arange(samples) / rate
    sound = sum(
        np.exp(-(((n * pitch - 600) / 500) ** 2)) * np.sin(2 * np.pi * n * pitch * time)
        for n in range(1, 20)
    )
    loud = 0.6 + 0.4 * np.sin(2 * np.pi * 2 * time)
    return 0.2 * loud * sound + 0.002 * generator.standard_normal(samples)


def made(algorithm: str, sound: np.ndarray, cuts: list[int]) -> np.ndarray:
    who = Timeline([], RATE)
    through = OverlapAdd(effect_for(algorithm, lambda: [sound], RATE, who, Randomness(7)))
    pieces = [through.push(piece) for piece in np.split(sound, cuts)]
    return np.concatenate([*pieces, through.flush()])


class Delta:
    """Adds up frames that do nothing: with squared Hann windows, the signal itself."""

    block, context, hop = 64, 16, 8

    def __call__(self, segment: np.ndarray, at: int) -> np.ndarray:
        window = np.hanning(17)[:-1]
        out = np.zeros(len(segment))
        for start in range(self.context - 8, self.context - 8 + self.block, self.hop):
            out[start : start + 16] += window * segment[start : start + 16]
        return out


@given(st.lists(st.integers(0, 1000), max_size=6), st.integers(1, 1000))
def test_every_sample_comes_back_in_its_place(cuts: list[int], length: int) -> None:
    sound = np.random.default_rng(length).standard_normal(length)
    through = OverlapAdd(Delta())
    pieces = [through.push(piece) for piece in np.split(sound, sorted(c % length for c in cuts))]
    assert np.allclose(np.concatenate([*pieces, through.flush()]), sound, atol=1e-12)


@pytest.mark.parametrize("algorithm", ["world", "mcadams", "distort"])
@pytest.mark.parametrize("length", [1, 50, 511, 9001])
def test_any_cutting_gives_the_same_samples(algorithm: str, length: int) -> None:
    sound = buzz(length)
    whole = made(algorithm, sound, [])
    assert len(whole) == length
    for cuts in ([length // 3], list(range(0, length, 777)), list(range(1, min(length, 40)))):
        assert np.array_equal(made(algorithm, sound, cuts), whole)


def test_mcadams_equals_frame_by_frame_on_the_whole_signal() -> None:
    """The slow obvious way: scipy's filters, numpy's roots, one frame after the other."""
    from scipy.linalg import solve_toeplitz
    from scipy.signal import lfilter

    sound, coefficient = buzz(3000), 0.8
    hop = 80
    window = np.sqrt(np.hanning(2 * hop + 1)[:-1])
    padded = np.concatenate([np.zeros(hop), sound, np.zeros(3 * hop)])
    expected = np.zeros(len(padded))
    for start in range(0, len(sound) + hop, hop):
        frame = padded[start : start + 2 * hop] * window
        r = np.correlate(frame, frame, "full")[2 * hop - 1 :][:21]
        r[0] = r[0] * 1.0001 + 1e-9
        a = np.concatenate([[1.0], -solve_toeplitz(r[:20], r[1:21])])
        poles = np.roots(a)
        turned = np.minimum(np.abs(poles), 0.998) * np.exp(
            1j
            * np.sign(np.angle(poles))
            * np.minimum(np.abs(np.angle(poles)) ** coefficient, np.pi)
        )
        poles = np.where(np.abs(poles.imag) > 1e-9, turned, poles)
        new = lfilter([1.0], np.poly(poles).real, lfilter(a, [1.0], frame))
        new *= np.sqrt((frame**2).sum()) / max(np.sqrt((new**2).sum()), 1e-12)
        expected[start : start + 2 * hop] += new * window
    expected = expected[hop : hop + len(sound)]
    through = OverlapAdd(McAdams(RATE, [coefficient], Timeline([], RATE)))
    got = np.concatenate([through.push(sound), through.flush()])
    assert np.abs(got - expected).max() < 1e-6 * np.abs(expected).max()
