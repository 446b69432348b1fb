"""What measures write is what the report reads; intervals are as wide as they must be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sfumato.audit import Estimate, Measure, MeasureError, Result, measures_path, write_measures
from sfumato.audit.measure import ClassifierScores
from sfumato.audit.measure._scores import mean_interval, wilson
from sfumato.report import collect, parse_measures


class Mine(Measure):
    name, group, higher_is_better, bounds = "mine", "utility", True, (0.0, math.inf)

    def __init__(self, value: object) -> None:
        self.value = value

    def update(self) -> None: ...

    def reset(self) -> None: ...

    def compute(self) -> object:
        return self.value


def test_your_own_scores_in_three_lines_reach_the_report(tmp_path: Path) -> None:
    probabilities, truth = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]), [0, 1, 0]
    measure = ClassifierScores(2)
    measure.update(probabilities, truth)
    path = write_measures(tmp_path / "mine", measure.results(target="sex", release="walk.mp4"))
    assert path.name == "mine.measures.json"
    (shown,) = collect([tmp_path]).measures
    balanced, plain = shown.measures
    assert balanced.value == pytest.approx((0.5 + 1) / 2)
    assert balanced.chance == 0.5
    assert plain.chance == pytest.approx(2 / 3)
    assert plain.value == pytest.approx(2 / 3)
    assert balanced.target == "sex"
    assert balanced.higher_is_better is False


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (3.5, {"value": 3.5}),
        (Estimate(3.0, 2.0, 4.0, 0.95, 1.0), {"low": 2.0, "high": 4.0, "chance": 1.0}),
        ({"a": 1.0, "b": 2.0}, {"per_class": {"a": 1.0, "b": 2.0}}),
    ],
)
def test_every_kind_of_value_is_written_without_a_special_case(
    value: object, shape: Mapping[str, object], tmp_path: Path
) -> None:
    path = write_measures(tmp_path / "x", [Mine(value)], title="mine", settings={"clips": 3})
    (read,) = parse_measures(json.loads(path.read_text())).measures
    assert read.bounds == (0.0, math.inf)
    assert read.group == "utility"
    for name, expected in shape.items():
        assert getattr(read, name) == expected


@pytest.mark.parametrize(
    "result",
    [
        Result("a", "privacy", False, (0.0, 1.0)),
        Result("a", "privacy", False, (0.0, 1.0), value=1.5),
        Result("a", "privacy", False, (0.0, 1.0), value=math.nan),
        Result("a", "privacy", value=0.5),
    ],
)
def test_what_the_report_would_refuse_is_refused_before_it_is_written(
    result: Result, tmp_path: Path
) -> None:
    with pytest.raises(MeasureError, match="'a'"):
        write_measures(tmp_path / "x", [result])
    assert not list(tmp_path.iterdir())


def test_nothing_to_write_is_an_error_and_nothing_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="none"):
        write_measures(tmp_path / "x", [])
    write_measures(tmp_path / "x", [Mine(1.0)])
    with pytest.raises(Exception, match="force"):
        write_measures(tmp_path / "x", [Mine(2.0)])
    for given in ("x", "x.json", "x.measures.json"):
        assert measures_path(given).name == "x.measures.json"


def test_the_interval_of_balanced_accuracy_covers_the_truth() -> None:
    """Unequal classes and recalls near 1, where a bootstrap of few right answers has no width."""
    rng = np.random.default_rng(0)
    counts, recalls = np.array([12, 60, 8]), np.array([0.95, 0.7, 0.99])
    inside = 0
    for _ in range(600):
        found = (rng.binomial(counts, recalls) / counts).mean()
        low, high = mean_interval(float(found), counts)
        inside += low <= recalls.mean() <= high
    assert inside / 600 > 0.93
    assert mean_interval(1.0, [5, 5])[0] < 0.75
    assert mean_interval(0.5, [10, 10]) == pytest.approx(wilson(10, 20))
