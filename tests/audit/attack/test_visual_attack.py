"""Attacks on pictures: they find what is there, nothing where nothing is, and name domain shift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.audit import MeasureError, measures_json
from sfumato.audit.attack import (
    Attacker,
    Attribute,
    Effort,
    action_protocols,
    cross_infer,
    views_of,
    visual_attack,
)
from sfumato.audit.attack._attacker import folds_of
from sfumato.audit.attack._probe import ProbeSettings
from sfumato.audit.attack._visual import HEADLINE, SHIFT
from sfumato.data import utkface
from sfumato.report import parse_measures


def people_in_colour(clips: int = 48) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    """Squares on noise: a person's colour is the attribute, where it moves is the action."""
    rng = np.random.default_rng(0)
    who = rng.integers(0, 12, clips)
    warm, left = who % 2, np.arange(clips) // 2 % 2
    x = rng.integers(0, 60, (clips, 6, 32, 32, 3), dtype=np.uint8)
    for i in range(clips):
        for t in range(6):
            place = 4 + 3 * t if left[i] else 22 - 3 * t
            x[i, t, 10:18, place : place + 6] = (200, 60, 60) if warm[i] else (60, 60, 200)
    return x, left, [f"p{k}" for k in who], ["warm" if w else "cool" for w in warm]


def test_grey_hides_the_colour_and_not_the_motion() -> None:
    x, left, who, colour = people_in_colour()
    grey = np.repeat(x.mean(-1, keepdims=True).astype(np.uint8), 3, -1)
    raw, shown = (views_of(each, network=False) for each in (x, grey))
    report = visual_attack(raw, shown, {"colour": Attribute.of(colour, who)})
    assert report.unprotected["colour"].balanced_accuracy > 0.95
    low, high = report.scores["colour"].balanced_interval
    assert low < 0.5 < high
    assert (
        report.multi_label.compute().cmap.value
        < 0.8
        < report.multi_label_unprotected.compute().cmap.value
    )
    rows = report.results(release="grey.mkv")
    assert {row.note for row in rows} == {HEADLINE, SHIFT}
    assert len(parse_measures(measures_json(rows)).measures) == len(rows)
    actions = {
        (row.target, row.name): row
        for row in action_protocols(raw, shown, Attribute.of(left.tolist()))
    }
    both = actions["action, tested on protected", "top-1"]
    assert both.value is not None
    assert both.value > 0.9
    assert ("action, tested on raw", "mean per-class accuracy") in actions


def test_training_on_raw_misses_a_leak_that_training_on_protected_finds() -> None:
    """Colours swapped: all is still there, and only the attacker who adapts sees it."""
    x, _, who, colour = people_in_colour()
    raw, shown = (views_of(each, network=False) for each in (x, x[..., ::-1].copy()))
    report = visual_attack(raw, shown, {"colour": Attribute.of(colour, who)})
    assert report.scores["colour"].balanced_accuracy > 0.95
    assert report.shifted["colour"].balanced_accuracy < 0.5


def test_strangers_are_tested_and_their_number_gives_the_interval() -> None:
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(10), 30)
    style = rng.normal(size=(10, 16))
    views = {"v": style[who] + 0.05 * rng.normal(size=(300, 16))}
    secret = Attribute.of((who % 2).tolist(), [str(w) for w in who])
    fold = folds_of(who, 4)
    assert all(len(set(fold[who == w])) == 1 for w in range(10))
    report = visual_attack(views, views, {"secret": secret})
    low, high = report.scores["secret"].balanced_interval
    assert high - low > 0.4  # ten people, not three hundred records
    known = visual_attack(views, views, {"secret": Attribute.of((who % 2).tolist())})
    assert known.scores["secret"].balanced_accuracy > 0.97


def test_your_own_model_and_your_own_features_in_three_lines() -> None:
    class Nearest:
        def fit(self, x: np.ndarray, y: np.ndarray) -> None:
            self.means = np.stack([x[y == k].mean(0) for k in range(2)])

        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            far = np.linalg.norm(x[:, None] - self.means, axis=2)
            return np.asarray(np.exp(-far) / np.exp(-far).sum(1, keepdims=True))

    truth = np.arange(40) % 2
    mine = {"mine": np.stack([truth, np.ones(40)], 1) + 0.1}
    report = visual_attack(mine, mine, {"sex": Attribute.of(truth.tolist())}, attacker=Nearest)
    assert report.scores["sex"].balanced_accuracy == 1
    assert cross_infer(mine, mine, truth, attacker=Nearest).shape == (40, 2)


def test_the_network_wins_where_a_line_cannot() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (500, 2))
    truth = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    effort = Effort(network_from=100, network=ProbeSettings(epochs=25, width=64, dropout=0.0))
    attacker = Attacker(2, effort).fit({"v": x[:400]}, truth[:400])
    right = (attacker.predict({"v": x[400:]}).argmax(1) == truth[400:]).mean()
    assert right > 0.85
    assert "network" in attacker.chosen
    assert (Attacker(2).fit({"v": x[:400]}, truth[:400]).predict({"v": x[400:]}).argmax(1)
            == truth[400:]).mean() < 0.7  # fmt: skip


def test_nothing_is_found_in_noise() -> None:
    rng = np.random.default_rng(3)
    views = {"a": rng.normal(size=(150, 40)), "b": rng.normal(size=(150, 300))}
    codes = rng.integers(0, 3, 150)
    report = visual_attack(views, views, {"secret": Attribute.of(codes.tolist())})
    low, high = report.scores["secret"].balanced_interval
    assert low < 1 / 3 < high


def test_surroundings_are_seen_without_the_people_in_them() -> None:
    x, _, _, colour = people_in_colour()
    masks = x.max(-1) > 100
    shown = views_of(x, masks, at="surroundings", network=False)
    report = visual_attack(shown, shown, {"colour": Attribute.of(colour)})
    assert report.scores["colour"].balanced_accuracy < 0.7
    seen = views_of(x, masks, at="people", network=False)
    found = visual_attack(seen, seen, {"colour": Attribute.of(colour)})
    assert found.scores["colour"].accuracy > 0.95


def test_faces_of_real_people_tell_their_sex_until_they_are_a_few_pixels(real_data: Path) -> None:
    faces = utkface(real_data / "utkface")
    rng = np.random.default_rng(4)
    chosen = rng.choice(len(faces), 400, replace=False)
    pictures = np.stack([faces[int(i)].x for i in chosen])
    tiny = np.broadcast_to(pictures.mean((1, 2), keepdims=True).astype(np.uint8), pictures.shape)
    sex = {"sex": Attribute.of([int(faces.attributes["gender"][i]) for i in chosen])}
    raw, shown = (views_of(list(each), network=False) for each in (pictures, tiny))
    report = visual_attack(raw, shown, sex)
    assert report.unprotected["sex"].balanced_accuracy > 0.7
    assert (
        report.scores["sex"].balanced_accuracy < report.unprotected["sex"].balanced_accuracy - 0.1
    )


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(MeasureError, match="got none"):
        views_of([])
    with pytest.raises(MeasureError, match="bytes"):
        views_of([np.zeros((2, 8, 8, 3))], network=False)  # type: ignore[list-item]
    with pytest.raises(MeasureError, match="two groups"):
        visual_attack({"v": np.zeros((4, 2))}, {"v": np.zeros((4, 2))},
                      {"a": Attribute.of([0, 1, 0, 1], ["p"] * 4)})  # fmt: skip
