"""The attacker who trains on other speakers: it learns what changes within a voice, and nothing of its targets."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.voice import strangers
from benchmarks.voice.strangers import by_stranger, cosine, every_pair, every_pair_by_length


def voices(speakers: int, each: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """Speakers differ in two columns; three others change more with every recording."""
    generator = np.random.default_rng(seed)
    who = np.repeat(np.arange(speakers), each)
    own = generator.standard_normal((speakers, 2))[who]
    loud = 6 * generator.standard_normal((len(who), 3))
    return np.hstack([own, loud]) + 0.1 * generator.standard_normal((len(who), 5)), who.tolist()


def test_what_others_taught_tells_speakers_apart_whom_cosines_do_not() -> None:
    learned, names = voices(40, 8, 1)
    targets, who = voices(6, 8, 2)
    known = np.tile([True] * 4 + [False] * 4, 6)
    ids = np.array(who)
    scores = by_stranger(
        {"v": learned}, names, {"v": targets[known]}, ids[known].tolist(), {"v": targets[~known]}
    )
    means = np.stack([targets[known & (ids == k)].mean(0) for k in range(6)])
    plain = cosine(targets[~known], means)
    assert (scores.argmax(1) == ids[~known]).mean() > (plain.argmax(1) == ids[~known]).mean() + 0.2


def test_targets_are_never_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    values, who = voices(4, 6, 3)
    made, makers = voices(3, 6, 4)
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def watch(learned, speakers, enrolled, ids, asked):  # type: ignore[no-untyped-def]
        seen.append((learned["v"], enrolled["v"]))
        return by_stranger(learned, speakers, enrolled, ids, asked)

    monkeypatch.setattr(strangers, "by_stranger", watch)
    measure = every_pair({"v": made}, makers, {"v": values}, who, {"v": values}, who)
    assert len(seen) == 6, "every two of four speakers"
    for learned, enrolled in seen:
        assert not (learned[:, None] == enrolled[None]).all(2).any()
        assert len(learned) == 12 + 18
    assert measure.rank_one().value > 0.5


def test_lengths_of_speakers_who_talk_alike_are_guessed() -> None:
    generator = np.random.default_rng(5)
    who = np.repeat(np.arange(4), 50)
    alike = np.exp(generator.standard_normal(200))
    apart = np.exp(3.0 * who + generator.standard_normal(200))
    same, other = (
        every_pair_by_length(who.tolist(), x, who.tolist(), x).compute().value
        for x in (alike, apart)
    )
    assert same is not None
    assert other is not None
    assert other < 0.15 < 0.35 < same
