"""A measures file says what it must, and a reading never says more than the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from report_material import a_measure, all_kinds

from sfumato.report import MeasuresError, parse_measures


def test_bare_list_and_whole_object_are_the_same() -> None:
    bare = parse_measures(all_kinds())
    whole = parse_measures({"schema": "sfumato-measures", "version": 1, "measures": all_kinds()})
    assert bare.measures == whole.measures
    assert len(bare.measures) == len(all_kinds())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"higher_is_better": None}, "higher_is_better"),
        ({"bounds": None}, "bounds"),
        ({"bounds": [1, 0]}, "bounds"),
        ({"value": 1.2, "low": None, "high": None}, "outside its bounds"),
        ({"low": 0.72}, "outside its own interval"),
        ({"high": None}, "one end"),
        ({"group": "speed"}, "privacy"),
        ({"value": None}, "exactly one"),
        ({"per_class": {"a": 0.5}}, "exactly one"),
        ({"value": "0.7"}, "number"),
        ({"value": float("nan")}, "finite"),
        ({"target": "/home/ann/walk.mp4"}, "path"),
        ({"name": "\x00 "}, "empty"),
        ({"epsilon": 0.0}, "greater than 0"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_every_wrong_entry_is_refused_in_one_sentence(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(MeasuresError, match=problem) as caught:
        parse_measures([a_measure(**changes)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("matrix", [[[1, 2]], [[1, 2], [3]], [[0, 0], [0, 0]], [[1, -1], [0, 1]]])
def test_confusion_matrices_are_square_counted_and_not_empty(matrix: list[list[int]]) -> None:
    with pytest.raises(MeasuresError):
        parse_measures([{"name": "m", "group": "privacy", "labels": ["a", "b"], "matrix": matrix}])


def test_bounds_may_be_open_ended() -> None:
    entry = a_measure(name="PSNR", value=31.5, low=30, high=33, bounds=[0, None], chance=None)
    one = parse_measures([{**entry, "unprotected": None}]).measures[0]
    assert one.bounds == (0.0, float("inf"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Leaks"),
        ({"value": 0.52, "low": 0.45, "high": 0.6}, "Not told apart"),
        ({"value": 0.3, "low": 0.2, "high": 0.4}, "Worse than guessing"),
        ({"low": None, "high": None}, "No interval"),
        ({"chance": None}, "Guessing not stated"),
        # an anonymity measure runs the other way: low is the leak
        ({"higher_is_better": True}, "Worse than guessing"),
        ({"higher_is_better": True, "value": 0.3, "low": 0.2, "high": 0.4}, "Leaks"),
    ],
)
def test_reading_follows_interval_chance_and_direction(changes: dict[str, Any], words: str) -> None:
    one = parse_measures([a_measure(**changes)]).measures[0]
    assert one.reading.startswith(words)
    assert one.leaks == (words == "Leaks")


def test_usefulness_is_never_read_as_a_leak() -> None:
    one = parse_measures([a_measure(group="utility")]).measures[0]
    assert one.reading == ""
    assert not one.leaks
