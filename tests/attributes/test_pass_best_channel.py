"""The linear programme of the best channel against channels drawn at random and known optima."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.attributes import AttributesError, best_channel


def cells_of(labels: dict[str, np.ndarray]) -> np.ndarray:
    return np.unique(np.stack(list(labels.values()), 1), axis=0, return_inverse=True)[1]


def bayes_nags(
    channel: np.ndarray, seen: np.ndarray, labels: dict[str, np.ndarray]
) -> dict[str, float]:
    """NAG (unprotected 100 per cent right) by counting what the attacker would count."""
    found = {}
    for name, codes in labels.items():
        joint = np.stack([channel[seen[codes == code]].sum(0) for code in np.unique(codes)])
        guessing = np.bincount(codes).max() / len(codes)
        found[name] = 100 * (joint.max(0).sum() / len(codes) - guessing) / (1 - guessing)
    return found


@pytest.fixture
def people() -> dict[str, np.ndarray]:
    """Two useful attributes that depend on the private one."""
    generator = np.random.default_rng(3)
    sex = generator.integers(0, 2, 3000)
    work = (generator.random(3000) < np.where(sex == 1, 0.6, 0.35)).astype(np.int64)
    age = np.clip(generator.integers(0, 3, 3000) + (generator.random(3000) < 0.2 * sex), 0, 2)
    return {"sex": sex, "work": work, "age": age}


def test_independent_attributes_cost_nothing() -> None:
    sex, work = np.divmod(np.arange(4), 2)
    best = best_channel(
        np.arange(4),
        {"sex": sex, "work": work},
        private=["sex"],
        unprotected={"sex": 1.0, "work": 1.0},
        most=0,
    )
    assert best.mnag == pytest.approx(100)
    assert best.nags["sex"] == pytest.approx(0, abs=1e-6)


def test_a_copy_of_the_private_attribute_cannot_be_kept() -> None:
    sex = np.array([0, 1] * 50)
    best = best_channel(
        sex,
        {"sex": sex, "copy": sex},
        private=["sex"],
        unprotected={"sex": 1.0, "copy": 1.0},
        most=7,
    )
    assert best.mnag == pytest.approx(0, abs=1e-6)
    assert best.nags["copy"] == pytest.approx(best.nags["sex"], abs=1e-6)


@pytest.mark.parametrize("most", [0.0, 5.0, 100.0])
def test_no_random_channel_is_better(people: dict[str, np.ndarray], most: float) -> None:
    seen = cells_of(people)
    best = best_channel(
        seen, people, private=["sex"], unprotected=dict.fromkeys(people, 1.0), most=most
    )
    assert best.nags["sex"] <= most + 1e-6
    assert best.mnag > 60
    generator = np.random.default_rng(0)
    allowed = 0
    for sharpness in np.geomspace(0.01, 1, 60):
        for outputs in (2, 6, 30):
            channel = generator.dirichlet(np.full(outputs, sharpness), seen.max() + 1)
            nags = bayes_nags(channel, seen, people)
            if nags["sex"] <= most:
                allowed += 1
                assert (nags["work"] + nags["age"]) / 2 - nags["sex"] <= best.mnag + 1e-6
    assert allowed > 0 or most == 0


def test_hiding_harder_never_helps_and_showing_everything_is_worse(
    people: dict[str, np.ndarray],
) -> None:
    seen = cells_of(people)
    plain = bayes_nags(np.eye(seen.max() + 1), seen, people)
    scale = {"sex": 1.0, "work": 0.8, "age": 0.7}
    found = [
        best_channel(seen, people, private=["sex"], unprotected=scale, most=most).mnag
        for most in (0, 2, 100)
    ]
    assert found == sorted(found)
    assert (plain["work"] + plain["age"]) / 2 - plain["sex"] < found[0]


def test_a_channel_that_sees_less_keeps_less(people: dict[str, np.ndarray]) -> None:
    blurred = np.where(np.random.default_rng(1).random(3000) < 0.7, cells_of(people), 0)
    better, worse = (
        best_channel(seen, people, private=["sex"], unprotected=dict.fromkeys(people, 1.0), most=5)
        for seen in (cells_of(people), blurred)
    )
    assert worse.mnag < better.mnag - 10


def test_bad_requests_are_named(people: dict[str, np.ndarray]) -> None:
    with pytest.raises(AttributesError, match="private and of other attributes"):
        best_channel(
            cells_of(people), people, private=list(people), unprotected=dict.fromkeys(people, 1.0)
        )
    wide = {"sex": people["sex"], "person": np.arange(3000)}
    with pytest.raises(AttributesError, match="fewer attributes or classes"):
        best_channel(np.arange(3000), wide, private=["sex"], unprotected=dict.fromkeys(wide, 1.0))
