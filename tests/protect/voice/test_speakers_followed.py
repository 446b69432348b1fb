"""Who speaks when, by vectors that a network would give."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.privacy import Randomness
from sfumato.protect.voice import OverlapAdd, Timeline, effect_for, follow_speakers
from sfumato.protect.voice._features import Framing
from sfumato.protect.voice._voices import Listening

RATE = 8000


def by_sign(sound: np.ndarray) -> np.ndarray:
    """Two speakers: one has positive samples, the other negative ones."""
    return np.array([1.0, 0.0]) if sound.mean() > 0 else np.array([0.0, 1.0])


@pytest.mark.parametrize("size", [100, 5000, 80_000])
def test_speakers_are_told_apart_however_the_sound_comes(size: int) -> None:
    sound = np.concatenate([np.full(5 * RATE, v) for v in (0.5, -0.5, 0.5)])
    blocks = [sound[k : k + size] for k in range(0, len(sound), size)]
    who = follow_speakers(blocks, RATE, by_sign)
    assert who.speakers == 2
    assert who(np.array([RATE, 7 * RATE, 13 * RATE])).tolist() == [0, 1, 0]
    assert who(np.array([0, len(sound) - 1])).tolist() == [0, 0]


def test_silence_belongs_to_whoever_spoke_last_and_short_sound_to_somebody() -> None:
    sound = np.concatenate([np.full(4 * RATE, -0.5), np.zeros(4 * RATE)])
    assert follow_speakers([sound], RATE, by_sign)(np.array([7 * RATE])).tolist() == [0]
    assert follow_speakers([np.full(10, 0.5)], RATE, by_sign).speakers == 1
    assert follow_speakers([], RATE, by_sign).speakers == 1


def test_each_speaker_has_a_secret_of_their_own() -> None:
    time = np.arange(8 * RATE) / RATE
    sound = 0.2 * np.sign(np.sin(2 * np.pi * 110 * time))
    made = {}
    for name, labels in (("one", [0] * 9), ("two", [0] * 5 + [1] * 4)):
        who = Timeline(labels, RATE)
        through = OverlapAdd(effect_for("mcadams", lambda: [sound], RATE, who, Randomness(1)))
        made[name] = np.concatenate([through.push(sound), through.flush()])
    assert np.array_equal(made["one"][: 4 * RATE], made["two"][: 4 * RATE])
    assert not np.allclose(made["one"][-2 * RATE :], made["two"][-2 * RATE :], atol=1e-3)


def test_statistics_make_every_voice_the_same() -> None:
    """A voice that is brighter, livelier, louder and higher has the same scores."""
    framing, generator = Framing(RATE), np.random.default_rng(0)
    bands = np.cumsum(generator.standard_normal((600, len(framing.bands))), axis=1) * 0.4 - 8
    pitch = 100 * np.exp(0.1 * generator.standard_normal(600))
    slope = np.linspace(-2, 2, bands.shape[1])
    heard = []
    for scale, tilt, gain, higher in ((1.0, 0.0, 0.0, 1.0), (1.5, 1.0, 2.0, 1.7)):
        own = bands.mean(1, keepdims=True)
        other = own + gain + scale * (bands - own) + tilt * slope
        voice = Listening(framing, 10)
        for start in range(0, 600, 50):
            voice.add(other[start : start + 50], higher * pitch[start : start + 50])
        from sfumato.protect.voice._features import cepstra

        found = voice.compute()
        heard.append((found.scores(cepstra(other, 10)), found))
    assert np.corrcoef(heard[0][0][:, 1], heard[1][0][:, 1])[0, 1] > 0.97
    assert abs(heard[0][0].mean() - heard[1][0].mean()) < 0.02
    assert heard[1][1].pitch - heard[0][1].pitch == pytest.approx(np.log(1.7), abs=0.01)


def test_what_is_gathered_does_not_grow_with_the_recording() -> None:
    framing = Framing(RATE)
    voice = Listening(framing, 8)
    for _ in range(40):
        voice.add(
            np.random.default_rng(0).standard_normal((1000, len(framing.bands))), np.ones(1000)
        )
    assert len(voice._kept) <= 8192
    assert len(voice._kept) > 2000
