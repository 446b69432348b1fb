"""The demo's own choices: whom it learns from, whom it is scored on, and what is private."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato import stage
from sfumato.cli import _demo
from sfumato.cli._demo import split_people
from sfumato.data import staged
from sfumato.privacy import read_card


def test_people_of_the_score_are_never_learnt_from_and_the_person_is_what_is_private() -> None:
    made = staged(stage.Staging(clips=24, actors=4, frames=2, width=16, height=16, seed=3))
    private, held_out = split_people(made, held_out=1)
    assert len(private) + len(held_out) == 24
    assert 0 < len(held_out) < 24
    last = [i for i, owner in enumerate(made.owners) if owner == ("actor03",)]
    assert np.array_equal(held_out.x, made.x[last])
    assert np.array_equal(held_out.y, made.y[last])
    # the stage calls its synthetic people public; here they stand for real ones
    assert np.array_equal(held_out.mask, ~made.mask[last])
    assert private.mask.mean() > 0.5


def test_the_training_of_the_demo_goes_through_at_the_epsilon_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``make demo`` trains, with fewer clips and steps."""
    staging, private, plain = _demo._staging, _demo._private_plan, _demo._plain_plan
    monkeypatch.setattr(_demo, "_staging", lambda clips, seed, habit: staging(48, seed, habit))
    monkeypatch.setattr(
        _demo,
        "_private_plan",
        lambda n, view: replace(private(960, view), records=n, batch=8, steps=2),
    )
    monkeypatch.setattr(
        _demo, "_plain_plan", lambda n, steps: replace(plain(320, 2), records=n, batch=8)
    )
    summary, said = _demo.Summary(), list[str]()
    _demo._train_all(tmp_path, summary, False, said.append)
    assert [made["method"] for made in summary.trainings] == ["before", "DP-SGD", "MaskDP"]
    for made in summary.trainings[1:]:
        promise = read_card(tmp_path / made["output"]).promise
        assert promise.epsilon == made["promise"]["epsilon"]
        assert 0.9 * _demo.EPSILON < promise.epsilon <= _demo.EPSILON
    assert len(said) == 4
