"""Membership inference: succeeds on a model that memorises, stays within epsilon on a private one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn
from typer.testing import CliRunner

from sfumato.audit import MeasureError
from sfumato.audit.attack import MembershipSuccess, allowed_rate, lira_scores, train_shadows
from sfumato.cli.audit import app
from sfumato.data import ArrayRecords, Subset
from sfumato.learn import Adam, Plan, make_job, parse_config, run_job, train
from sfumato.privacy import Randomness

RECORDS, SIZE, CLASSES = 120, 40, 4


def noise() -> ArrayRecords:
    """Labels that nothing predicts: whoever knows one has memorised it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((RECORDS, SIZE)).astype(np.float32)
    return ArrayRecords(x, rng.integers(CLASSES, size=RECORDS))


def fit_with(epsilon: float) -> Any:
    pool = noise()
    settings: dict[str, Any] = {
        "epsilon": epsilon, "delta": 1e-3, "records": 60, "batch": 30, "steps": 40,
        "clip_norm": 1.0, "relation": "add-remove", "unit": "record",
    }  # fmt: skip
    plan = Plan(**settings)

    def fit(indices: Any) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(SIZE, 64), nn.Tanh(), nn.Linear(64, CLASSES))
        train(
            model, Subset(pool, indices.tolist()), plan, optimizer=Adam(0.02),
            randomness=Randomness(len(indices)),
        )  # fmt: skip
        with torch.no_grad():
            right = model(torch.from_numpy(pool.x)).softmax(1)
        share = (
            right[torch.arange(RECORDS), torch.from_numpy(pool.y)].double().clamp(1e-9, 1 - 1e-9)
        )
        return (share.log() - (1 - share).log()).numpy()

    return fit, plan


def attacked(epsilon: float) -> tuple[Any, Any, Plan]:
    fit, plan = fit_with(epsilon)
    shadows = train_shadows(fit, RECORDS, 5, randomness=Randomness(1))
    scores = lira_scores(shadows.confidences[0], shadows.confidences[1:], shadows.included[1:])
    measure = MembershipSuccess("LiRA", promise=plan.guarantee)
    measure.update(scores, shadows.included[0])
    return measure, shadows, plan


def test_an_overfitted_model_gives_its_members_away() -> None:
    measure, shadows, _ = attacked(math.inf)
    found = measure.compute()
    assert found.auc > 0.9
    assert found.interval[0] > 0.8
    assert found.rates[1].interval[0] > 5 * found.rates[1].false_positive
    assert found.rates[0].allowed is None
    bound = shadows.certificate(delta=0.0)
    assert bound.epsilon > 1.0


def test_a_private_model_stays_within_its_epsilon() -> None:
    measure, shadows, plan = attacked(1.0)
    found = measure.compute()
    assert found.interval[0] < 0.6
    assert not any(rate.beyond for rate in found.rates)
    assert shadows.certificate(delta=plan.delta).epsilon <= 1.0
    for rate in found.rates:
        assert rate.allowed is not None
        # the trade-off curve is at least as strict as the pair (epsilon, delta)
        pair = math.e * rate.false_positive + plan.delta
        assert rate.false_positive < rate.allowed <= pair * (1 + 1e-6)


def test_rates_and_auc_agree_with_two_gaussians() -> None:
    """N(1, 1) against N(0, 1): AUC is Phi(1/sqrt 2), and the rates follow from quantiles."""
    rng = np.random.default_rng(0)
    measure = MembershipSuccess()
    measure.update(rng.normal(1, 1, 40_000), np.ones(40_000, bool))
    measure.update(rng.normal(0, 1, 40_000), np.zeros(40_000, bool))
    found = measure.compute()
    assert found.auc == pytest.approx(norm.cdf(1 / math.sqrt(2)), abs=0.006)
    for rate in found.rates:
        truth = norm.sf(norm.isf(rate.false_positive) - 1)
        assert rate.interval[0] - 0.01 < truth < rate.interval[1] + 0.01
    names = [result.name for result in measure.results(release="model")]
    assert len(names) == len(set(names)) == 4


def test_lira_is_the_ratio_of_fitted_gaussians() -> None:
    """Against a slow fit of one record at a time, with the pooled spread."""
    rng = np.random.default_rng(1)
    shadows, inside = rng.standard_normal((10, 7)), rng.random((10, 7)) < 0.5
    inside[0], inside[1] = True, False
    target = rng.standard_normal(7)

    def spread(chosen: Any) -> float:
        squares = sum(
            float(((shadows[chosen[:, r], r] - shadows[chosen[:, r], r].mean()) ** 2).sum())
            for r in range(7)
        )
        return math.sqrt(squares / (chosen.sum() - 7))

    for record in range(7):
        own, other = shadows[inside[:, record], record], shadows[~inside[:, record], record]
        slow = norm.logpdf(target[record], own.mean(), spread(inside)) - norm.logpdf(
            target[record], other.mean(), spread(~inside)
        )
        assert lira_scores(target, shadows, inside)[record] == pytest.approx(slow, abs=1e-6)
        offline = lira_scores(target, shadows, inside, offline=True)[record]
        assert offline == pytest.approx((target[record] - other.mean()) / spread(~inside), abs=1e-6)


def test_a_public_view_promises_nothing_about_membership() -> None:
    from sfumato.learn import MaskedPixels

    plan = Plan(
        epsilon=1.0, delta=1e-5, records=100, batch=10, steps=5, clip_norm=1.0,
        relation="zero-out", unit="masked-tokens", public_view=MaskedPixels(),
    )  # fmt: skip
    assert allowed_rate(plan.guarantee, 0.01) is None


def test_bad_questions_get_one_sentence() -> None:
    with pytest.raises(MeasureError, match="two members"):
        MembershipSuccess().compute()
    with pytest.raises(MeasureError, match="shadow"):
        train_shadows(lambda indices: np.zeros(3), 3, 1)
    with pytest.raises(MeasureError, match="shapes"):
        lira_scores(np.zeros(3), np.zeros((2, 4)), np.zeros((2, 4)))


def test_a_run_is_attacked_from_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = parse_config({
        "out": str(run), "method": "dp-sgd",
        "data": {"kind": "synthetic", "clips": 16, "people": 8},
        "input": {"frames": 2, "height": 16, "width": 16},
        "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2},
        "privacy": {"epsilon": 8.0, "delta": 1e-3},
        "training": {"batch": 8, "steps": 2},
    })  # fmt: skip
    run_job(make_job(config))
    found = CliRunner().invoke(app, ["members", str(run), "--shadows", "3", "--json"])
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert [attack["attack"] for attack in told["attacks"]] == [
        "loss threshold",
        "LiRA online",
        "LiRA offline",
    ]
    assert told["promised"] == pytest.approx(8.0, rel=0.01)
    assert told["certificate"]["epsilon_at_least"] <= 8.0
    stored = json.loads((run / "membership.measures.json").read_text())
    assert len(stored["measures"]) == 12
    assert str(tmp_path) not in json.dumps(stored)
