"""The benchmark table on small data: what it stores, that it resumes, and real data for a moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attribute_data import speech_like

from sfumato.audit import BayesAttacker
from sfumato.bench import pass_
from sfumato.data import Subset
from sfumato.protect.attributes import DonorSet, Pass, Training, read_table


def tiny_split(_: Path) -> pass_.Split:
    return speech_like(300), speech_like(200, seed=1)


def test_table_stores_every_run_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = pass_.Case("tiny", tiny_split, ("sex",), ("word",), ("person",), donors=40)
    monkeypatch.setitem(pass_.CASES, "tiny", case)
    monkeypatch.setattr(
        pass_,
        "_ATTACK",
        pass_.ProbeSettings(width=32, epochs=15, batch=32, learning_rate=3e-3),
    )
    results, said = tmp_path / "pass.json", []
    pass_.run(
        tmp_path,
        results,
        cases=["tiny"],
        seeds=[0],
        methods=["pass", "adv"],
        steps=5,
        say=said.append,
    )
    stored = json.loads(results.read_text())
    assert {"tiny/pass/0", "tiny/adv/0", "tiny_split/unprotected/sex"} <= set(stored)
    run = stored["tiny/pass/0"]
    assert set(run["bayes_nag"]) == set(run["probe"]["nag"]) == {"sex", "word", "person"}
    assert 0 <= run["bayes"]["sex"]["balanced_accuracy"] <= 1
    assert run["gamma_sex"] > 0
    assert {each["draws"] for each in run["repeated_sex"]} == {1, 10, 100}
    assert len(run["confusion"]["word"]) == 4
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in run["confusion"]["word"])
    assert set(stored["tiny/adv/0"]["protector_nag"]) == {"sex"}
    assert "unfinetuned_nag" in run

    def refuse(*_: object) -> None:
        raise AssertionError("a finished run was repeated")

    monkeypatch.setattr(pass_, "_fitted", refuse)
    monkeypatch.setattr(pass_, "_adversarial", refuse)
    again = pass_.run(
        tmp_path, results, cases=["tiny"], seeds=[0], methods=["pass", "adv"], steps=5
    )
    assert again == stored


def test_every_case_of_the_table_names_its_task() -> None:
    assert {"audio", "motion", "faces", "motion-half", "audio-four"} <= set(pass_.CASES)
    for name, case in pass_.CASES.items():
        assert case.name == name
        assert len(set(case.attributes)) == len(case.attributes)


@pytest.mark.real_data
def test_audiomnist_loses_gender_and_keeps_the_digit_within_a_few_steps(real_data: Path) -> None:
    """A fifth of the records, 256 donors, 40 steps: far from done, already far from the start."""
    train, test = pass_.audio_split(real_data)
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
        training=Training(steps=40, batch=400),
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
