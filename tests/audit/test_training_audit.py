"""Canaries and conformance checks against the code that really trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sfumato.audit import AuditError, canary_run, check_training
from sfumato.learn import MaskedPixels, Plan
from sfumato.learn import _noise as noise_module
from sfumato.privacy import Randomness


def plan(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "epsilon": 4.0, "delta": 1e-5, "records": 100, "batch": 100, "steps": 4, "clip_norm": 0.5,
        "relation": "add-remove", "unit": "record",
    }  # fmt: skip
    return Plan(**{**settings, **changes})


def masked(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "epsilon": 0.5, "records": 500, "batch": 10, "steps": 100, "relation": "zero-out",
        "unit": "masked-tokens", "public_view": MaskedPixels(private="rest"),
    }  # fmt: skip
    return plan(**{**settings, **changes})


@pytest.mark.parametrize("relation", ["add-remove", "replace", "zero-out"])
def test_canaries_find_much_of_epsilon_and_never_more(relation: str) -> None:
    found = canary_run(plan(relation=relation), canaries=1000, randomness=Randomness(1))
    bound = found.lower_bound()
    assert 1.0 < bound.epsilon <= 4.0
    # the scores are log-likelihood ratios: e^-score averages to one over those who were in
    assert np.exp(-found.scores[found.included]).mean() == pytest.approx(1, abs=0.2)


def test_canaries_notice_missing_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    real = noise_module.GaussianNoise.draw
    monkeypatch.setattr(noise_module.GaussianNoise, "draw", lambda self, n: real(self, n) / 4)
    found = canary_run(plan(epsilon=1.0), canaries=1000, randomness=Randomness(1)).lower_bound()
    assert found.exceeds(1.0)


def test_the_shared_batch_attack_breaks_the_published_form_and_not_ours() -> None:
    """V1 against our own code: certified above the claimed 0.5, below its true epsilon."""
    published = canary_run(masked(as_published=True), canaries=600, randomness=Randomness(2))
    bound = published.lower_bound(confidence=0.999)
    truth = published.plan.guarantee.epsilon  # type: ignore[union-attr]
    assert 0.5 < bound.epsilon < truth
    ours = canary_run(masked(), canaries=600, randomness=Randomness(2))
    assert ours.lower_bound(confidence=0.999).epsilon < 0.1


def test_every_check_conforms_on_the_code_as_it_is() -> None:
    for each in (plan(), masked(records=20, batch=10, steps=1, epsilon=2.0)):
        findings = check_training(each, randomness=Randomness(3))
        assert len(findings) == (4 if each.public_view is None else 6)
        assert all(found.conforms for found in findings), findings


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (lambda draw: lambda self, n: draw(self, n) * 0.9, "noise"),
        (lambda draw: lambda self, n: torch.cat([draw(self, n - 9), torch.zeros(9)]), "noise"),
        (lambda draw: lambda self, n: _once(self, draw, n), "noise"),
    ],
    ids=["a tenth too small", "nine values without", "repeated"],
)
def test_wrong_noise_is_named(bug: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_module.GaussianNoise, "draw", bug(noise_module.GaussianNoise.draw))
    findings = check_training(plan(), randomness=Randomness(3))
    wrong = [found.check for found in findings if not found.conforms]
    assert len(wrong) == 2
    assert all(check in each for each in wrong)


def _once(noise: Any, draw: Any, count: int) -> torch.Tensor:
    if not hasattr(noise, "_kept"):
        noise._kept = draw(noise, count)
    return noise._kept


def test_the_published_plan_fails_the_independence_check_alone() -> None:
    findings = check_training(masked(records=20, batch=10, steps=1, as_published=True))
    wrong = [found.check for found in findings if not found.conforms]
    assert wrong == ["independence of the two streams"]


def test_plans_that_cannot_carry_canaries_are_refused() -> None:
    with pytest.raises(AuditError, match="single records"):
        canary_run(plan(clips=2))
    with pytest.raises(AuditError, match="noise"):
        check_training(plan(unit="person"))
