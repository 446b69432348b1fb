"""The exact Bayes attacker, the probe that may not beat it, NAG, and the attacker who collects."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from sfumato.audit import MeasureError, ProbeSettings
from sfumato.audit.attack import BayesAttacker, probe, repeated_release, unfinetuned
from sfumato.audit.measure import ClassifierScores, NormalizedAccuracyGain, mnag, nag
from sfumato.audit.measure._scores import mean_auc, plug_in_information, wilson
from sfumato.data import ArrayRecords


def channel(rng: np.random.Generator, n: int, donors: int, sharpness: float) -> np.ndarray:
    p = np.exp(sharpness * rng.normal(size=(n, donors)))
    return p / p.sum(1, keepdims=True)


def test_bayes_attacker_equals_the_best_of_all_guessing_rules() -> None:
    """Enumerate every rule donor -> class on a small channel; none does better on the same rows."""
    rng = np.random.default_rng(0)
    rows, codes = channel(rng, 12, 5, 2.0), np.array([0, 1, 2] * 4)
    score = BayesAttacker.learn(rows, codes, 3).score(rows, codes)
    best = best_fair = 0.0
    for rule in itertools.product(range(3), repeat=5):
        hit = np.array(
            [sum(rows[i, k] for k in range(5) if rule[k] == codes[i]) for i in range(12)]
        )
        best = max(best, float(hit.mean()))
        best_fair = max(best_fair, float(np.mean([hit[codes == c].mean() for c in range(3)])))
    assert score.accuracy == pytest.approx(best, abs=1e-12)
    assert score.balanced_accuracy == pytest.approx(best_fair, abs=1e-12)
    joint = np.stack([rows[codes == c].sum(0) for c in range(3)]) / 12
    expected = sum(
        joint[c, k] * math.log(joint[c, k] / (joint[c].sum() * joint[:, k].sum()))
        for c in range(3)
        for k in range(5)
    )
    assert score.information == pytest.approx(expected, abs=1e-12)


def test_expected_auc_equals_that_of_many_draws() -> None:
    rng = np.random.default_rng(1)
    rows, codes = channel(rng, 40, 6, 1.5), rng.integers(0, 2, 40)
    attacker = BayesAttacker.learn(rows, codes, 2)
    drawn = np.array([[rng.choice(6, p=row) for _ in range(400)] for row in rows])
    seen = attacker.posterior.T[drawn.ravel()]
    assert attacker.score(rows, codes).auc == pytest.approx(
        mean_auc(seen, np.repeat(codes, 400)), abs=0.01
    )


def test_a_leak_free_channel_looks_leaky_on_its_own_rows_only() -> None:
    """Why the posterior comes from training records and the score from test records."""
    rng = np.random.default_rng(2)
    train, test = channel(rng, 400, 300, 4.0), channel(rng, 400, 300, 4.0)
    codes, test_codes = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    attacker = BayesAttacker.learn(train, codes, 2)
    assert attacker.score(train, codes).accuracy > 0.65
    honest = attacker.score(test, test_codes)
    assert honest.interval[0] < 0.55
    assert honest.accuracy < 0.57


def test_nag_is_blind_to_a_leak_that_balanced_accuracy_shows() -> None:
    """80/20 prior: the posterior of the rare class reaches 0.45, so the guess never changes."""
    codes = np.array([0] * 800 + [1] * 200)
    rows = np.empty((1000, 2))
    rows[codes == 0] = [0.35, 0.65]
    rows[codes == 1] = [0.95, 0.05]
    score = BayesAttacker.learn(rows, codes, 2).score(rows, codes)
    assert nag(score.accuracy, guessing=score.guessing, unprotected=0.99) == pytest.approx(0)
    assert score.balanced_accuracy > 0.75
    assert score.auc > 0.75
    assert score.information > 0.1


class ToDonors:
    """A channel on one-hot samples: sample i goes to donor k with rows[i, k]."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def obfuscate(self, x: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
        which = x.argmax(1).numpy()
        cumulative = self.rows.cumsum(1)[which]
        drawn = (generator.random((len(x), 1)) > cumulative).sum(1)
        return torch.eye(self.rows.shape[1])[torch.from_numpy(drawn)]


def test_no_trained_attacker_beats_the_exact_one_beyond_noise() -> None:
    """And it comes close: the probe is not a straw man."""
    rng = np.random.default_rng(3)
    kinds, records = 20, 3000
    kind_rows = channel(rng, kinds, 10, 1.5)
    kind_code = rng.integers(0, 3, kinds)

    def records_of(seed: int) -> tuple[ArrayRecords, np.ndarray]:
        kind = np.random.default_rng(seed).integers(0, kinds, records)
        data = ArrayRecords(
            np.eye(kinds, dtype=np.float32)[kind], kind, attributes={"secret": kind_code[kind]}
        )
        return data, kind

    (train, train_kind), (test, test_kind) = records_of(1), records_of(2)
    exact = BayesAttacker.learn(kind_rows[train_kind], kind_code[train_kind], 3).score(
        kind_rows[test_kind], kind_code[test_kind]
    )
    settings = ProbeSettings(width=32, epochs=12, learning_rate=3e-3)
    trained = probe(ToDonors(kind_rows), train, test, ["secret"], settings=settings)
    found = trained.scores["secret"]
    noise = 3 * math.sqrt(exact.accuracy * (1 - exact.accuracy) / records)
    assert found.accuracy <= exact.accuracy + noise
    assert found.accuracy >= exact.accuracy - 0.05
    assert found.information <= exact.information + 0.05
    clear = probe(None, train, test, ["secret"], settings=settings)
    assert clear.scores["secret"].accuracy > 0.99
    assert 0 < trained.nag(clear)["secret"] < 100


def test_probe_together_has_a_head_for_each_attribute() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 6)).astype(np.float32)
    data = ArrayRecords(
        x, x[:, 0] > 0, attributes={"a": (x[:, 0] > 0).astype(int), "b": (x[:, 1] > 0).astype(int)}
    )
    settings = ProbeSettings(width=32, epochs=15, batch=32, learning_rate=3e-3)
    report = probe(None, data, data, ["a", "b"], settings=settings, together=True)
    assert set(report.scores) == {"a", "b"}
    assert all(score.accuracy > 0.9 for score in report.scores.values())


def test_unfinetuned_classifier_survives_substitution_by_the_same_kind_only() -> None:
    """Trained on originals: right where the release looks like the original, lost where not."""
    rng = np.random.default_rng(8)
    x = np.eye(6, dtype=np.float32)[rng.integers(0, 6, 600)]
    data = ArrayRecords(x, x.argmax(1), attributes={"kind": x.argmax(1) % 3})
    settings = ProbeSettings(width=32, epochs=15, batch=32, learning_rate=3e-3)
    same_class = np.zeros((6, 6))
    for i in range(6):
        same_class[i, [i % 3, i % 3 + 3]] = 0.5
    kept = unfinetuned(ToDonors(same_class), data, data, ["kind"], settings=settings)
    lost = unfinetuned(
        ToDonors(np.roll(same_class, 1, axis=1)), data, data, ["kind"], settings=settings
    )
    assert kept.scores["kind"].accuracy > 0.98
    assert lost.scores["kind"].accuracy < 0.1


def test_repeated_release_adds_up_and_memory_stops_it() -> None:
    """H10 in small: a weak leak per draw names the person after many draws, unless remembered."""
    rng = np.random.default_rng(5)
    people, each, donors = 8, 5, 60
    tilt = 0.25 * rng.normal(size=(people, donors))
    p = np.exp(tilt)
    rows = np.repeat(p / p.sum(1, keepdims=True), each, axis=0)
    codes = np.repeat(np.arange(people), each)
    owners = [f"p{c}" for c in codes]
    attacker = BayesAttacker.learn(rows, codes, people)
    fresh = repeated_release(attacker, rows, codes, owners, draws=(1, 30, 600), trials=20)
    accuracy = [found.accuracy for found in fresh]
    assert accuracy[0] < 0.35
    assert accuracy[2] > 0.95
    assert accuracy[0] < accuracy[1] < accuracy[2]
    kept = repeated_release(attacker, rows, codes, owners, draws=(600,), trials=20, remembered=True)
    assert kept[0].accuracy < 0.6


def test_nag_scale_and_refusals() -> None:
    assert nag(0.9, guessing=0.8, unprotected=1.0) == pytest.approx(50)
    assert nag(0.7, guessing=0.8, unprotected=1.0) == 0
    # Table 2 of the paper, PASS: mean(46.4, 27.6, 49.7, 96.5) - 0.0 = 55.05
    kept = {"accent": 46.4, "age": 27.6, "id": 49.7, "digit": 96.5}
    assert mnag(private={"gender": 0.0}, kept=kept) == pytest.approx(55.05)
    with pytest.raises(MeasureError, match="to beat guessing"):
        nag(0.8, guessing=0.8, unprotected=0.8)
    with pytest.raises(MeasureError, match="one side empty"):
        mnag(private={}, kept=kept)
    measure = NormalizedAccuracyGain(guessing=0.5, unprotected=1.0)
    with pytest.raises(MeasureError, match="got none"):
        measure.compute()
    measure.update(60, 80)
    measure.update(15, 20)
    assert measure.compute() == pytest.approx(50)
    assert not measure.higher_is_better


def test_classifier_scores_of_a_perfect_and_of_a_blind_attacker() -> None:
    codes = np.array([0] * 60 + [1] * 40)
    perfect = ClassifierScores(2)
    perfect.update(np.eye(2)[codes], codes)
    found = perfect.compute()
    assert (found.accuracy, found.balanced_accuracy, found.auc) == (1, 1, 1)
    assert found.information == pytest.approx(-(0.6 * math.log(0.6) + 0.4 * math.log(0.4)))
    blind = ClassifierScores(2)
    blind.update(np.tile([0.6, 0.4], (100, 1)), codes)
    found = blind.compute()
    assert found.accuracy == found.guessing == 0.6
    assert found.auc == pytest.approx(0.5)
    assert found.information == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(MeasureError, match="call update first"):
        ClassifierScores(2).compute()


def test_wilson_interval_covers_at_its_level() -> None:
    rng = np.random.default_rng(6)
    hits = 0
    for seen in rng.binomial(200, 0.05, 2000):
        low, high = wilson(float(seen), 200)
        hits += low <= 0.05 <= high
    assert hits / 2000 > 0.93


def test_plug_in_information_of_independent_and_equal_variables() -> None:
    assert plug_in_information(np.full((2, 3), 1 / 6)) == pytest.approx(0)
    assert plug_in_information(np.eye(4) / 4) == pytest.approx(math.log(4))
