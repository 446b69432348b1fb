"""The private mean, and heads on arrays: each against a plain computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sfumato.data import ArrayRecords
from sfumato.learn import (
    Arrays,
    ConfigError,
    Plan,
    PlanError,
    PreparationError,
    StartingWeights,
    make_job,
    parse_config,
    private_mean,
    run_job,
)
from sfumato.models import array_head, cut, feature_head
from sfumato.privacy import Guarantee, Randomness

RNG = np.random.default_rng(0)


def _plan(**changes: object) -> Plan:
    usual = {"epsilon": 1e5, "delta": 1e-5, "records": 40, "batch": 40, "steps": 1, "clip_norm": 1.0,
             "relation": "replace", "unit": "record"}  # fmt: skip
    return Plan(**usual | changes)  # type: ignore[arg-type]


def test_with_next_to_no_noise_it_is_the_mean_of_clipped_records() -> None:
    x = RNG.standard_normal((40, 6)).astype(np.float32)
    x[3] *= 100
    mean, run = private_mean(ArrayRecords(x, np.zeros(40, np.int64)), 6, _plan())
    clipped = x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    assert mean.numpy() == pytest.approx(clipped.mean(0), abs=2e-3)
    assert isinstance(run.guarantee, Guarantee)


def test_the_noise_is_the_plans_and_what_follows_is_composed() -> None:
    """A thousand coordinates without data: their spread is that of the noise over the records."""
    x = np.zeros((40, 1000), np.float32)
    plan = _plan(epsilon=1.0)
    mean, run = private_mean(
        ArrayRecords(x + np.arange(40)[:, None] * 1e-9, np.zeros(40, np.int64)), 1000, plan,
        randomness=Randomness(3),
    )  # fmt: skip
    assert float(mean.std()) == pytest.approx(plan.noise_deviation / 40, rel=0.1)
    start = StartingWeights(run.trainings, known=True)
    total = start.together(plan.guarantee)
    assert isinstance(total, Guarantee)
    assert total.epsilon > 1.3
    assert not total.is_private, "a seed behind the mean sticks"


def test_a_plan_that_is_no_mean_is_refused() -> None:
    records = ArrayRecords(np.zeros((40, 3), np.float32), np.zeros(40, np.int64))
    for wrong in ({"steps": 2}, {"batch": 20}):
        with pytest.raises(PlanError, match="one step with every record"):
            private_mean(records, 3, _plan(**wrong))


def test_arrays_keep_as_many_rows_as_asked_and_refuse_other_shapes() -> None:
    prepare = Arrays((4, 2), mean=1.0, deviation=2.0)
    x = np.arange(16.0).reshape(8, 2)
    assert prepare(x, 1).tolist() == ((x[[1, 3, 5, 7]] - 1) / 2).tolist()
    assert prepare(x[:4], 1).tolist() == ((x[:4] - 1) / 2).tolist()
    assert prepare.mask(x[:, 0] > 7, 1).shape == (4, 2)
    for wrong in (x[:, :1], np.zeros((0, 2)), np.zeros(4)):
        with pytest.raises(PreparationError, match=r"shape \(4, 2\)"):
            prepare(wrong, 1)


def test_a_probe_sees_length_one_and_starts_undecided() -> None:
    model = array_head(12, 3)
    x = torch.randn(5, 4, 3)
    seen = model.steps()[0].run(x)
    assert seen.norm(dim=1).tolist() == pytest.approx([1.0] * 5)
    assert seen.sum(1).tolist() == pytest.approx([0.0] * 5, abs=1e-5)
    assert torch.equal(model(x), torch.zeros(5, 3))
    assert torch.allclose(model.steps()[0].run(7 * x + 3), seen, atol=1e-5)
    hidden = array_head(12, 3, hidden=6)
    assert [step.name for step in hidden.steps()] == ["trunk", "hidden", "head"]


def test_only_the_head_of_a_feature_network_trains_and_the_rest_is_cached_whole() -> None:
    model = feature_head("efficientnet-lite0", 4)
    trunk, tail = cut(model)
    assert [step.name for step in trunk] == ["trunk"]
    assert [step.name for step in tail] == ["head"]
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 4 * (1792 + 1)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(torch.randn(2, 3, 96, 96))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def _file(tmp_path: Path, **sections: object) -> dict[str, object]:
    x = RNG.standard_normal((40, 6, 2)).astype(np.float32)
    np.savez(tmp_path / "records.npz", x=x, y=np.arange(40) % 2,
             owner=np.array([f"p{i // 4}" for i in range(40)]))  # fmt: skip
    usual: dict[str, object] = {
        "out": str(tmp_path / "run"), "seed": 1,
        "data": {"kind": "npz", "file": str(tmp_path / "records.npz")},
        "model": {"name": "linear"}, "input": {"kind": "array", "shape": [6, 2]},
        "privacy": {"epsilon": 2.0, "records": 40}, "training": {"steps": 4, "batch": 40},
    }  # fmt: skip
    return usual | sections


@pytest.mark.parametrize("changes", [
    {}, {"model": {"name": "mlp", "width": 5}},
    {"training": {"steps": 8, "batch": 10, "bands": 4}},
    {"method": "person-dp-sgd", "privacy": {"epsilon": 2.0, "records": 10},
     "training": {"steps": 2, "batch": 10}},
])  # fmt: skip
def test_a_training_file_reads_arrays(tmp_path: Path, changes: dict[str, object]) -> None:
    job = make_job(parse_config(_file(tmp_path, **changes)))
    run, card = run_job(job)
    assert card is not None
    assert isinstance(run.guarantee, Guarantee)
    assert run.guarantee.epsilon <= 2.0 + 1e-9


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"input": {"kind": "array"}}, "input.shape with input.kind array"),
    ({"input": {"kind": "picture", "shape": [6, 2]}}, "input.shape with input.kind array"),
    ({"model": {"name": "i3d"}}, "input.kind video with model.name i3d"),
    ({"model": {"name": "video-vit"}}, "input.kind video with model.name video-vit"),
    ({"model": {"name": "efficientnet-lite0"}, "input": {"kind": "picture"}}, "model.pretrained: true"),
    ({"model": {"name": "linear"}, "input": {"kind": "video"}}, "input.kind array with model.name linear"),
])  # fmt: skip
def test_models_and_inputs_that_do_not_fit_are_one_sentence(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_config(_file(tmp_path, **changes))
