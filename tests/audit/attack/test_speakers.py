"""Speaker verification: what the equal error rate is, and that attackers find what is there."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.audit import MeasureError
from sfumato.audit.attack import SpeakerVerification, attack_speakers, equal_error_rate, pitch_track
from sfumato.audit.attack._speakers import trained_scores
from sfumato.audit.attack._voice_views import rhythm


def slow_rate(genuine: np.ndarray, impostor: np.ndarray) -> float:
    """Every threshold between scores; where both errors are nearest, their mean."""
    scores = np.sort(np.concatenate([genuine, impostor]))
    levels = [scores[0] - 1, *((scores[:-1] + scores[1:]) / 2), scores[-1] + 1]
    errors = [((genuine < t).mean(), (impostor >= t).mean()) for t in levels]
    return min((abs(a - b), (a + b) / 2) for a, b in errors)[1]


def test_equal_error_rate_is_that_of_every_threshold_tried() -> None:
    generator = np.random.default_rng(0)
    for shift in (0.0, 0.5, 1.0, 3.0, -1.0):
        genuine, impostor = generator.normal(shift, 1, 400), generator.normal(0, 1, 1200)
        assert equal_error_rate(genuine, impostor) == pytest.approx(
            slow_rate(genuine, impostor), abs=0.003
        )


def test_edge_cases_of_the_equal_error_rate() -> None:
    assert equal_error_rate([2, 3], [0, 1]) == 0
    assert equal_error_rate([0, 1], [2, 3]) == 1
    assert equal_error_rate([1, 1, 1], [1, 1]) == pytest.approx(0.5)
    with pytest.raises(MeasureError, match="Expected"):
        equal_error_rate([], [1.0])


def test_the_interval_contains_the_rate_and_rank_one_is_counted() -> None:
    measure = SpeakerVerification()
    generator = np.random.default_rng(1)
    truth = np.arange(60) % 3
    scores = generator.normal(0, 1, (60, 3)) + 1.5 * np.eye(3)[truth]
    measure.update(scores, truth)
    rate = measure.compute()
    assert rate.low <= rate.value <= rate.high
    assert rate.low < rate.high
    assert measure.rank_one().value == (scores.argmax(1) == truth).mean()
    assert [each.name for each in measure.results()] == ["equal error rate", "rank-1"]


def test_a_trained_attacker_finds_what_cosines_do_not() -> None:
    """Speakers differ in one small direction; large ones are noise, other in every protected recording."""
    generator = np.random.default_rng(2)
    ids = np.arange(120) % 4

    def views(shown: bool) -> dict[str, np.ndarray]:
        vectors = generator.normal(0, 1, (120, 16)) * np.r_[np.full(15, 3.0), 0.02]
        vectors[:, 15] += 0.2 * ids
        return {"network": vectors if shown else 1 + 5 * np.eye(16)[ids]}

    found = attack_speakers(views(False), views(True), views(True), [ids, ids, ids])
    assert found["ignorant"].compute().value > 0.3
    assert found["semi-informed, network"].compute().value < 0.15
    assert set(found) == {"ignorant", "lazy-informed", "semi-informed, network",
                          "semi-informed, everything"}  # fmt: skip


def test_the_pitch_of_a_tone_is_found_and_silence_has_none() -> None:
    time = np.arange(16_000) / 16_000
    tone = 0.3 * sum(np.sin(2 * np.pi * 130 * n * time) / n for n in (1, 2, 3))
    found = pitch_track(tone)
    assert np.median(found) == pytest.approx(130, abs=2)
    assert not pitch_track(np.zeros(16_000)).any()


def test_a_number_that_slept_while_the_attacker_learned_does_not_blind_it() -> None:
    """Vectors after a rectifier have such numbers: 0 in all that was enrolled, and not in what is asked."""
    generator = np.random.default_rng(3)
    ids = np.arange(80) % 4
    known, asked = (np.eye(8)[ids] + 0.1 * generator.normal(0, 1, (80, 8)) for _ in range(2))
    known = np.hstack([known, np.zeros((80, 60))])
    woken = np.where(generator.random((80, 60)) < 0.1, 0.3, 0.0)
    views = {"network": known}
    found = attack_speakers(views, views, {"network": np.hstack([asked, woken])}, [ids, ids, ids])
    assert found["semi-informed, network"].compute().value < 0.1


def test_timing_alone_tells_speakers_of_another_pace() -> None:
    """The same noise for everybody; one speaks in longer words than the other."""

    def spoken(word: int, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        lengths = generator.integers(word - 300, word + 300, 6)
        pause = np.zeros(1600)
        return np.concatenate(
            [part for n in lengths for part in (generator.normal(0, 0.1, n), pause)]
        )

    def views(seeds: range) -> dict[str, np.ndarray]:
        sounds = [spoken(4000 if seed % 2 else 6000, seed) for seed in seeds]
        return {"rhythm": np.stack([rhythm_of(sound) for sound in sounds])}

    def rhythm_of(sound: np.ndarray) -> np.ndarray:
        levels = np.array([np.abs(sound[k : k + 160]).mean() for k in range(0, len(sound), 160)])
        return rhythm(len(sound) / 16_000, levels > 0.01)

    ids = np.arange(20) % 2
    scores = trained_scores(views(range(20))["rhythm"], ids, views(range(100, 120))["rhythm"])
    assert (scores.argmax(1) == ids).all()
    assert np.isfinite(rhythm(1.0, np.zeros(100, bool))).all()
