"""Canaries and conformance checks against the code that really trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sfumato.audit import AuditError
from sfumato.audit.certify import canary_run, check_training
from sfumato.data import ArrayRecords
from sfumato.learn import BlurFeatures, LowFrequency, MaskedPixels, PixelateFeatures, Plan, Subspace
from sfumato.learn.engine import _noise as noise_module
from sfumato.learn.engine import _step as step_module
from sfumato.learn.engine._clipped import clipped_rows
from sfumato.learn.engine._streams import Streams
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
    """F1 against our own code: certified above the claimed 0.5, below its true epsilon."""
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


def subspace() -> Subspace:
    """Turns the projector on; audits bring public records of their own."""
    return Subspace(ArrayRecords(np.zeros((1, 1)), np.zeros(1)), rank=1)


def lossy(view: Any) -> dict[str, Any]:
    return {"public_view": view, "unit": f"features({view.name})", "relation": "replace"}


SWITCHES: dict[str, dict[str, Any]] = {
    "clips": {"clips": 3},
    "person": {"unit": "person(2)", "relation": "replace"},
    "projector": {"projector": subspace()},
    "pixelate": lossy(PixelateFeatures(4)),
    "low frequency": lossy(LowFrequency(8, 16.0)),
    "feature-projective": lossy(PixelateFeatures(4)) | {"projector": subspace()},
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_of_the_step_carries_canaries(switch: str) -> None:
    found = canary_run(plan(**SWITCHES[switch]), canaries=200, randomness=Randomness(1))
    assert 0.5 < found.lower_bound().epsilon <= 4.0


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_of_the_step_conforms(switch: str) -> None:
    settings = {"records": 20, "batch": 10, "steps": 1} | SWITCHES[switch]
    findings = check_training(plan(**settings), randomness=Randomness(3))
    more = 2 * ("public_view" in settings) + ("projector" in settings)
    assert len(findings) == 4 + more
    assert all(found.conforms for found in findings), findings


def test_a_projection_that_reads_private_records_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Streams, "clear", lambda self, records: self.private(range(len(self._records)))
    )
    settings = {"records": 20, "batch": 10, "steps": 1, "projector": subspace()}
    findings = check_training(plan(**settings), randomness=Randomness(3))
    wrong = [found.check for found in findings if not found.conforms]
    assert len(wrong) == 1
    assert "ignores private records" in wrong[0]


def test_a_person_clipped_record_by_record_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(
        model: Any, loss: Any, persons: Any, clip_norm: float, speed: Any, look: Any
    ) -> Any:
        total: dict[str, torch.Tensor] = {}
        for rows in persons:
            sums, norms = clipped_rows(model, loss, rows, clip_norm, speed)
            total = {name: total.get(name, 0) + part for name, part in sums.items()}
        return total, norms

    monkeypatch.setattr(step_module, "clipped_persons", one_by_one)
    findings = check_training(plan(**SWITCHES["person"], records=20, batch=10, steps=1))
    assert [f.check for f in findings if not f.conforms] == ["sensitivity with the noise off"]


def test_a_view_that_shows_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SWITCHES["pixelate"] | {"records": 20, "batch": 10, "steps": 1}
    monkeypatch.setattr(Streams, "_public", Streams._private)
    findings = check_training(plan(**settings), randomness=Randomness(3))
    wrong = [found.check for found in findings if not found.conforms]
    assert wrong == ["non-interference of the public view"]


def test_plans_without_neighbours_are_refused() -> None:
    with pytest.raises(AuditError, match="share their view"):
        canary_run(plan(**lossy(BlurFeatures())))
    free = plan(epsilon=float("inf"))
    for audit in (canary_run, check_training):
        with pytest.raises(AuditError, match="noise"):
            audit(free)
