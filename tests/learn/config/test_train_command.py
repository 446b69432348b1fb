"""``sfumato train``: one YAML file in, a model with its card out, one sentence when it is wrong."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from event_reader import read_events
from safetensors.torch import load_file
from typer.testing import CliRunner

from sfumato.cli.train import app
from sfumato.data import moving_squares
from sfumato.errors import SfumatoError
from sfumato.learn import (
    PRESETS,
    ConfigError,
    describe,
    make_job,
    parse_config,
    read_config,
    run_job,
)
from sfumato.learn.config import _job as job_module
from sfumato.learn.config._from_config import load_records, optimizer_of, preparation
from sfumato.learn.engine._step import StepEngine
from sfumato.privacy import check_outputs, read_card

SETTINGS: dict[str, Any] = {
    "method": "maskdp",
    "data": {"kind": "synthetic", "clips": 16, "people": 8},
    "held_out": {"kind": "synthetic", "clips": 8, "seed": 1},
    "view": {"kind": "masked-pixels", "private": "rest"},
    "input": {"frames": 4, "height": 16, "width": 16},
    "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2},
    "privacy": {"epsilon": 8.0, "delta": 1e-3},
    "training": {"batch": 8, "steps": 3, "evaluate_every": 3, "checkpoint_every": 1},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump({**SETTINGS, "out": str(tmp_path / "run")}))
    return path


def _run(config: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, [str(config), *arguments])


def test_a_run_writes_model_card_history_and_settings(config: Path, tmp_path: Path) -> None:
    result = _run(config, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["promise"]["unit"] == "masked-tokens"
    assert told["promise"]["epsilon"] <= 8.0
    folder = tmp_path / "run"
    card = read_card(folder / "model.safetensors")
    check_outputs(card, folder)
    assert card.promise.to_json() == told["promise"]
    assert str(tmp_path) not in (folder / "model.safetensors.card.json").read_text()
    assert "head.weight" in load_file(folder / "model.safetensors")
    assert os.stat(folder / "config.yaml").st_mode & 0o777 == 0o600
    again = read_config(folder / "config.yaml", [])
    assert again == read_config(config, [])
    with pytest.raises(Exception, match="--force"):
        run_job(make_job(again))
    before = load_file(folder / "model.safetensors")
    run_job(make_job(again), resume=True)
    after = load_file(folder / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before), "nothing left to spend"
    both = _run(config, "--resume", "--force")
    assert "--resume or --force, got both" in str(both.exception)
    # where the checkpoint is gone nothing is continued: another model would take this one's place
    content = (folder / "model.safetensors").read_bytes()
    for file in folder.glob("checkpoint*"):
        file.unlink()
    with pytest.raises(Exception, match="--force"):
        run_job(make_job(again), resume=True)
    assert (folder / "model.safetensors").read_bytes() == content


@pytest.mark.parametrize("mixed", [False, True])
def test_plan_and_card_say_in_which_precision(config: Path, tmp_path: Path, mixed: bool) -> None:
    change = f"speed.mixed_precision={mixed}".lower()
    shown = _run(config, "--dry-run", change)
    assert shown.exit_code == 0, shown.output
    assert ("Mixed precision" in shown.output) is mixed
    assert _run(config, change).exit_code == 0
    said = read_card(tmp_path / "run" / "model.safetensors").settings["precision"]
    assert ("bfloat16" in said) is mixed
    assert "float32" in said


def test_a_dry_run_opens_no_recording(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a recording was opened")

    monkeypatch.setattr(job_module, "load_records", refuse)
    said = describe(make_job(read_config(config, [])))
    assert said["unit"] == "masked-tokens"
    assert said["relation"] == "replace"
    assert said["promise"]["epsilon"] <= 8.0
    assert said["expected_seconds"] > 0
    assert said["expected_megabytes"] > 0
    assert not (config.parent / "run").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("privacy.sigma=1", "no such setting"),
        ("privacy.noise_multiplier=1", "no such setting"),
        ("method=magic", "Expected a method"),
        ("privacy.epsilon=-1", "privacy.epsilon"),
        ("privacy.relation=sideways", "privacy.relation"),
        ("training.epochs=2", "either"),
        ("data.kind=folder", "privacy.records"),
        ("preset=none", "preset"),
        ("broken", "key=value"),
    ],
)
def test_a_bad_setting_gets_one_sentence(config: Path, change: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        make_job(read_config(config, [change]))
    assert "\n" not in str(caught.value)


def test_what_is_left_out_is_chosen_strictly_and_said() -> None:
    values = {**SETTINGS, "out": "x", "method": "dp-sgd", "view": None, "privacy": {"epsilon": 1.0}}
    job = make_job(parse_config(values))
    assert job.plan.relation == "replace"
    assert str(job.plan.unit) == "record"
    assert job.plan.delta <= 1 / (10 * job.plan.records)
    assert len(job.chosen) == 3


def test_presets_fill_in_the_papers_settings_and_yield_to_the_file() -> None:
    values = {"out": "x", "preset": "maskdp", "privacy": {"epsilon": 1.0, "records": 40_000},
              "data": {"kind": "ucf101", "path": "y"}, "view": {"kind": "masked-pixels"},
              "training": {"rate": 0.02}}  # fmt: skip
    config = parse_config(values)
    assert (config.training.batch, config.training.rate, config.privacy.clip_norm) == (128, 0.02, 1)
    assert config.input.height == 224
    plan = make_job(config).plan
    assert plan.steps == 46_875, "150 epochs of 40 000 records in batches of 128"
    assert optimizer_of(config).schedule.warmup == 6250


def test_presets_have_the_numbers_of_the_papers() -> None:
    common = {"epochs": 50, "frames": 16, "size": 224, "schedule": "constant"}
    dprp = {"batch": 8, "clip_norm": 0.4, "rate": 0.01, **common}
    mask = {"batch": 128, "clip_norm": 1.0, "rate": 0.01, "warmup_epochs": 20, "schedule": "cosine"}
    expected: dict[str, dict[str, Any]] = {
        "maskdp": {"method": "maskdp", "epochs": 150, **mask},
        "maskdp-ucf101": {"method": "maskdp", "epochs": 300, **mask},
        "multiclip": {"method": "multiclip", "clips": 3, **dprp},
        "dp-sgd": {"method": "dp-sgd", "clips": 1, **dprp},
        "pose": {"method": "feature-projective", "clip_norm": 0.01, "epochs": 25},
    }
    assert set(PRESETS) == set(expected)
    for name, values in expected.items():
        assert {key: getattr(PRESETS[name], key) for key in values} == values, name


@pytest.mark.parametrize("method", ["sgd", "public-only", "person-dp-sgd", "multiclip"])
def test_methods_run_from_a_file(tmp_path: Path, method: str) -> None:
    values: dict[str, Any] = {**SETTINGS, "out": str(tmp_path / "run"), "method": method}
    if method != "public-only":
        values["view"] = None
    if method in {"sgd", "public-only"}:
        values["privacy"] = {"epsilon": None, "delta": None}
    if method == "multiclip":
        values["training"] = {**values["training"], "clips": 2}
    run, card = run_job(make_job(parse_config(values)))
    assert card is not None
    words = str(run.guarantee)
    assert ("infinite" in words) is (method in {"sgd", "public-only"})


def _files(folder: Path) -> str:
    """Everything that a run leaves behind except its tensors, as text."""
    kept = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix != ".safetensors"]
    assert len(kept) >= 5
    return "\n".join(p.read_bytes().decode("latin-1") for p in kept)


def _tags(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for path in (folder / "tensorboard").iterdir():
        for event in read_events(path)[1:]:
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(value.simple_value)
    return found


def test_tensorboard_holds_public_held_out_and_noised_things_only(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, drawn: Any) -> Any:
        raise AssertionError("the private loss was computed")

    monkeypatch.setattr(StepEngine, "_private_loss", refuse)
    shown: list[Any] = []
    run, _ = run_job(make_job(read_config(config, [])), progress=shown.append)
    tags = _tags(tmp_path / "run")
    terms = f"unit masked-tokens, relation replace, delta {run.guarantee.delta:g}"
    spent = f"epsilon_spent ({terms}, Poisson sampling, accountant pld)"
    assert set(tags) == {f"privacy/{spent}", "training/learning_rate", "public/loss",
                         "held_out/accuracy", "held_out/mean_class_accuracy", "held_out/loss"}  # fmt: skip
    assert tags["held_out/accuracy"][-1] == pytest.approx(run.history[-1]["held_out_accuracy"])
    assert len(tags["public/loss"]) == 3
    assert all(each.private_loss is None for each in shown)
    assert "private/loss" not in _files(tmp_path / "run")
    assert not any("loss" in each for each in run.guarantee.not_covered)


@pytest.mark.parametrize("asked", ["shown", "logged"])
def test_the_private_loss_goes_only_where_the_operator_asked(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """The value itself is looked for, in every form that a file could hold it."""
    monkeypatch.setattr(StepEngine, "_private_loss", lambda self, drawn: 1234.5625)
    shown: list[Any] = []
    run, card = run_job(
        make_job(read_config(config, [f"private_loss={asked}"])), progress=shown.append
    )
    assert card is not None
    assert [each.private_loss for each in shown] == [1234.5625] * 3
    folder = tmp_path / "run"
    logged = _tags(folder).get("private/loss_not_accounted", [])
    assert logged == ([1234.5625] * 3 if asked == "logged" else [])
    # a digest may hold these digits by chance, but not alone
    assert not re.search(r"(?<![0-9a-f])1234(?![0-9a-f])", _files(folder))
    assert any("not accounted" in each for each in run.guarantee.not_covered)
    assert "not accounted" in card.read_text()
    # a later start that shows nothing still names what an earlier one showed
    again, _ = run_job(make_job(read_config(config, [])), resume=True)
    assert any("not accounted" in each for each in again.guarantee.not_covered)


def test_the_private_loss_is_the_mean_over_those_drawn(config: Path) -> None:
    shown: list[Any] = []
    settings = ["private_loss=shown", "privacy.records=16", "training.batch=16", "training.steps=1"]
    job = make_job(read_config(config, [*settings, "training.rate=1e-9", "view.private=whole"]))
    torch.manual_seed(0)
    run, _ = run_job(job, progress=shown.append)
    data = load_records(job.config.data, job.config)
    prepare = preparation(job.config)
    x = torch.stack([prepare(data[i].x, 1) for i in range(len(data))])
    y = torch.tensor([int(data[i].y) for i in range(len(data))])
    with torch.no_grad():
        expected = torch.nn.functional.cross_entropy(run.model(x), y)
    assert shown[0].private_loss == pytest.approx(float(expected), abs=1e-4)


def test_the_command_shows_scores_by_class_and_takes_the_flags(config: Path) -> None:
    result = _run(config, "--show-private-loss", "--as-published")
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "as published (one batch for both streams)" in words
    assert "not accounted" in words
    assert "mean over classes" in words
    assert all(name in words for name in moving_squares(1).classes)
    card = read_card(config.parent / "run" / "model.safetensors")
    # the noise was calibrated as the paper does; what the card shows is the true epsilon
    assert card.promise.epsilon > 8.0  # type: ignore[union-attr]


def test_synthetic_clips_have_masks_owners_and_classes() -> None:
    data = moving_squares(12, frames=3, size=16, people=4)
    assert data[0].x.shape == (3, 16, 16, 3)
    assert data[0].mask is not None
    assert data[0].mask.any()
    assert len(data.classes) == 4
    assert len({data[i].owners for i in range(12)}) == 4
    assert (
        moving_squares(12, frames=3, size=16).x == moving_squares(12, frames=3, size=16).x
    ).all()


@pytest.mark.parametrize(
    "name",
    ["maskdp-ntu", "maskdp-toyota", "maskdp-ucf101", "maskdp-hmdb51", "maskdp-ucf101-mvit-b"],
)
def test_the_papers_own_settings_are_shipped(name: str) -> None:
    shipped = Path(__file__).resolve().parents[3] / "docs" / "configs" / f"{name}.yaml"
    config = read_config(shipped, [])
    assert config.privacy.delta is not None
    assert config.privacy.delta <= 1 / (2 * (config.privacy.records or 0))
    job = make_job(config)
    assert str(job.plan.unit) == "masked-tokens"
    assert job.plan.steps == round(config.training.epochs * job.plan.records / job.plan.batch)  # type: ignore[operator]
    with pytest.raises(SfumatoError, match="Expected"):  # the recordings are the user's
        load_records(config.data, config)
