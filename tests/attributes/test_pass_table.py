"""The benchmark table on small data: what it keeps, that it resumes, what it shows; then real data."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribute_data import speech_like

from benchmarks.attributes import ablation as pass_ablation
from benchmarks.attributes import cases
from benchmarks.attributes import data as _pass_data
from benchmarks.attributes import run as pass_
from benchmarks.attributes.measure import Effort, best_lambda, validated_lambda
from benchmarks.attributes.page import goal_lines
from sfumato.attributes import AttributesError, DonorSet, Pass, PassTraining, read_table
from sfumato.attributes.baselines import GameSettings
from sfumato.audit import ProbeSettings
from sfumato.audit.attack import BayesAttacker
from sfumato.data import ArrayRecords, Subset
from sfumato.errors import SfumatoError


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table's ``motion`` on made-up records, with attackers and games of a moment."""
    data = tmp_path / "data"
    (data / "sisfall").mkdir(parents=True)
    renamed = {"sex": "sex", "person": "person", "word": "activity"}

    def split(_: Path) -> _pass_data.Split:
        parts = []
        for records in (speech_like(300), speech_like(200, seed=1)):
            facts = {renamed[name]: value for name, value in records.attributes.items()}
            parts.append(
                ArrayRecords(records.x, records.y, owners=records.owners, attributes=facts)
            )
        return parts[0], parts[1]

    motion = replace(cases.MOTION, donors=40, training={"steps": 5})
    monkeypatch.setattr(pass_, "SPLITS", {"motion": split})
    monkeypatch.setattr(
        pass_,
        "ALL_CASES",
        {**pass_.ALL_CASES, "motion": motion, "motion-half": replace(motion, share=0.5)},
    )
    effort = Effort(
        game=GameSettings(steps=5, batch=32, width=16),
        attack=ProbeSettings(width=32, epochs=3, batch=32, learning_rate=3e-3),
    )
    monkeypatch.setattr(pass_, "Effort", lambda: effort)
    return data


def test_lambda_is_the_most_useful_that_hides_or_the_one_that_hides_best() -> None:
    rows = {
        0.1: {"mnag": 40, "worst": 1},
        0.5: {"mnag": 60, "worst": 4},
        2.0: {"mnag": 90, "worst": 30},
    }
    assert best_lambda(rows) == 0.5
    leaking = {0.1: {"mnag": 40, "worst": 9}, 0.5: {"mnag": 60, "worst": 20}}
    assert best_lambda(leaking) == 0.1


def test_lambda_is_chosen_once_by_training_records_alone(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    motion = pass_.ALL_CASES["motion"]
    monkeypatch.setitem(pass_.ALL_CASES, "motion", replace(motion, lambdas=(0.5, 8.0)))
    asked: dict[str, Any] = {
        "data": str(tiny), "keep": str(tmp_path / "kept"), "seeds": 1, "only": "goals",
    }  # fmt: skip
    seen: list[int] = []

    def watched(case: cases.Case, train: ArrayRecords, effort: Effort) -> Any:
        seen.append(len(train))
        return validated_lambda(case, train, effort)

    monkeypatch.setattr(pass_, "validated_lambda", watched)
    assert pass_.run(**asked, minutes=0)["cases"] == {}
    first = pass_.run(**asked)["cases"]["motion"]["task"]
    assert first["settings"]["lambda_"] in (0.5, 8.0)
    assert pass_.run(**asked)["cases"]["motion"]["task"] == first
    assert seen == [300], "the training records, once"


def test_table_keeps_every_row_and_resumes(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"data": str(tiny), "keep": str(tmp_path / "kept"), "seeds": 1}
    empty = pass_.run(**asked, minutes=0)
    assert empty["cases"] == {}
    assert any("rows, for want of time" in note for note in empty["notes"])

    result = pass_.run(**asked)
    assert set(result["cases"]) == {"motion", "motion-half"}
    rows = result["cases"]["motion"]["rows"]
    assert set(rows) == {"pass", "adv", "gap", "msda", "bdq", "ppdar", "mass", "spact"}
    run = rows["pass"]["0"]
    for attacker in ("exact", "probe"):
        assert set(run["attackers"][attacker]) == {"sex", "person", "activity"}
        for score in run["attackers"][attacker].values():
            assert 0 <= score["accuracy"] <= 1
            assert score["nag"] >= 0
    assert set(run["attackers"]["unfinetuned"]) == {"activity"}
    assert run["gamma"]["sex"] > 0
    # what is shown is at least the useful class, and the sexes say the same words
    assert result["cases"]["motion"]["floor"]["sex"] == 0
    assert {each["draws"] for each in run["repeated"]["sex"]} == {1, 10, 100}
    for name, size in (("sex", 2), ("activity", 4)):
        assert np.shape(run["confusion"][name]) == (size, size)
        assert np.sum(run["confusion"][name], axis=1) == pytest.approx(1, abs=0.01)
    assert set(rows["adv"]["0"]["attackers"]["own"]) == {"sex", "person"}
    assert sum("Not run" in note for note in result["notes"]) == 2

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished row was measured again")

    for name in ("pass_row", "baseline_row", "Reference"):
        monkeypatch.setattr(pass_, name, refuse)
    assert pass_.run(**asked, minutes=0) == result

    tables = pass_.tables(result)
    text = "\n".join(tables.values())
    shown = run["attackers"]["exact"]["activity"]["nag"]
    assert f"{shown:.1f}" in text
    assert "the paper on Motion Sense" in text
    assert "more-data" in tables
    drawn = pass_.figures(result)
    assert {"motion-sex", "motion-activity", "baselines-sex", "baselines-person"} <= set(drawn)
    assert all(svg.startswith("<?xml") and "</svg>" in svg for svg in drawn.values())
    assert len(pass_.terminal(result)) > 3
    json.dumps(result, allow_nan=False)


def test_table_says_what_it_cannot_do(tmp_path: Path) -> None:
    nothing = pass_.run()
    assert nothing["cases"] == {}
    assert len(nothing["notes"]) == 3
    assert any("Not run: audio" in str(line) for line in pass_.terminal(nothing))
    assert pass_.tables(nothing) == {}
    with pytest.raises(SfumatoError, match="one of the folders audiomnist"):
        pass_.run(data=str(tmp_path))
    with pytest.raises(SfumatoError, match="parts out of speed, goals"):
        pass_.run(only="gaols")


def test_goals_are_judged_by_both_attackers() -> None:
    row = {
        "attackers": {
            "exact": {"gender": {"nag": 0.4}, "digit": {"nag": 98.0}},
            "probe": {"gender": {"nag": 0.7}, "digit": {"nag": 97.0}},
        },
        "mnag": {"exact": 60.0, "probe": 57.0},
    }
    result = {"cases": {"audio": {"rows": {"pass": {"0": row}}}}}
    lines = {line[1]: line[-1] for line in goal_lines(result)}
    assert lines == {"gender": "not met", "digit": "met", "mNAG": "not met"}


def test_every_case_names_each_attribute_once() -> None:
    assert {"audio", "motion", "faces", "motion-half", "audio-4"} <= set(pass_.ALL_CASES)
    for case in pass_.ALL_CASES.values():
        assert len(set(case.attributes)) == len(case.attributes)
        assert case.source in _pass_data.FOLDERS
    every = {"gender", "accent", "age", "speaker", "digit"}
    assert all(
        set(case.attributes) == every for case in pass_.ALL_CASES.values() if case.source == "audio"
    )


def test_ablation_changes_one_setting_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every case differs from the base in at most one of the things a case can state."""
    for group, rows in pass_ablation.GROUPS.items():
        for case, _ in rows.values():
            told = [
                getattr(case, each.name) != getattr(pass_ablation.BASE, each.name)
                for each in fields(case)
            ]
            assert sum(told) <= 1
        assert any(case == pass_ablation.BASE for case, _ in rows.values()), group

    def split(_: Path) -> _pass_data.Split:
        parts = []
        for records in (speech_like(300), speech_like(100, seed=1)):
            person = records.attributes["person"]
            facts = {"gender": (records.attributes["sex"] == "male").astype(int), "speaker": person}
            facts |= {"digit": records.y, "age": person % 3, "accent": person % 2}
            parts.append(ArrayRecords(records.x, records.y, attributes=facts))
        return parts[0], parts[1]

    (tmp_path / "audiomnist").mkdir()
    monkeypatch.setattr(pass_, "SPLITS", {"audio": split})
    attack = ProbeSettings(width=32, epochs=15, batch=32, learning_rate=3e-3)
    monkeypatch.setattr(pass_, "QUICK", Effort(steps=2, attack=attack, most_donors=40))
    result = pass_ablation.run(data=str(tmp_path), quick=True, keep=str(tmp_path / "kept"))
    assert len(result["cases"]) == sum(map(len, pass_ablation.GROUPS.values()))
    text = "\n".join(pass_ablation.tables(result).values())
    assert all(f"| {label} |" in text for rows in pass_ablation.GROUPS.values() for label in rows)
    assert "55.0 ± 0.7" in text
    assert "</svg>" in pass_ablation.figures(result)["mu"]
    assert len(pass_ablation.terminal(result)) == len(pass_ablation.GROUPS)
    nothing = pass_ablation.run()
    assert nothing["cases"] == {}
    assert nothing["notes"]


def test_donors_can_be_mixed_by_class() -> None:
    records = speech_like(400)
    donors = DonorSet.mixed(records, 50, "sex", {"female": 0.9}, declared="synthetic")
    sexes = [donors[index].attributes["sex"] for index in range(len(donors))]
    assert len(sexes) == 50
    assert sexes.count("female") == 45
    with pytest.raises(AttributesError, match="at most 1"):
        DonorSet.mixed(records, 50, "sex", {"female": 0.9, "male": 0.9}, declared="synthetic")
    with pytest.raises(AttributesError, match="fewer donors"):
        DonorSet.mixed(records, 390, "sex", {"female": 0.9}, declared="synthetic")


@pytest.mark.real_data
def test_motion_windows_of_train_and_test_share_no_sample(real_data: Path) -> None:
    train, test = _pass_data.SPLITS["motion"](real_data / "sisfall")
    # 70 % against 30 %, of which a gap of a window an activity goes to neither
    assert 2.3 < len(train) / len(test) < 3.0
    for name in ("sex", "person", "activity"):
        assert set(train.attributes[name]) == set(test.attributes[name])
    keys = {window.tobytes() for window in train.x}
    assert not any(window.tobytes() in keys for window in test.x)


@pytest.mark.real_data
def test_audiomnist_loses_gender_and_keeps_the_digit_within_a_few_steps(real_data: Path) -> None:
    """A fifth of the records, 256 donors, 40 steps: far from done, already far from the start."""
    train, test = _pass_data.SPLITS["audio"](real_data / "audiomnist")
    small = Subset(train, range(0, len(train), 5))
    tested = Subset(test, range(0, len(test), 5))
    names = ["gender", "digit"]
    known = read_table(small, names)
    other = read_table(tested, names, classes=known.classes)
    method = Pass(
        ["gender"],
        ["digit"],
        DonorSet.sample(small, 256, declared="public"),
        dimension=128,
        training=PassTraining(steps=40, batch=400),
    ).fit(small)
    rows, test_rows = method.substitution(known.x), method.substitution(other.x)
    scores = {
        name: BayesAttacker.learn(rows, known.labels[name], known.class_count(name)).score(
            test_rows, other.labels[name]
        )
        for name in names
    }
    assert scores["digit"].accuracy > 0.85
    assert scores["gender"].balanced_accuracy < 0.85
    assert scores["gender"].accuracy < 0.9
