"""Speaker verification: what the equal error rate is, and that attackers find what is there."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.audit import MeasureError
from sfumato.audit.attack import SpeakerVerification, attack_speakers, equal_error_rate, pitch_track


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
