"""From the command line: a folder of one's own, a list, a model of one's own, a promise to persons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from sfumato.cli.train import app
from sfumato.errors import SfumatoError
from sfumato.learn import ConfigError, parse_config, read_config
from sfumato.learn.config import build_model
from sfumato.media import write_image
from sfumato.privacy import Guarantee, read_card

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes, width=4):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, 2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes),
        )

    def forward(self, x):
        return self.layers(x)

def make(classes):
    return Net(classes)
"""
PEOPLE = 6


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three pictures each of six people, a list, a model and a training file."""
    rng = np.random.default_rng(0)
    rows = ["path,label,owner,split"]
    for person in range(PEOPLE + 2):
        for number in range(3):
            name = f"p{person}/{number}.png"
            (tmp_path / name).parent.mkdir(exist_ok=True)
            write_image(tmp_path / name, rng.integers(0, 256, (20, 24, 3)).astype(np.uint8))
            split = "train" if person < PEOPLE else "test"
            rows.append(f"{name},{'left' if number % 2 else 'right'},person {person},{split}")
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "own_net_for_tests.py").write_text(NET)
    told = {
        "out": str(tmp_path / "run"), "method": "person-dp-sgd",
        "data": {"kind": "manifest", "file": str(tmp_path / "labels.csv"), "split": "train"},
        "held_out": {"kind": "manifest", "file": str(tmp_path / "labels.csv"), "split": "test"},
        "model": {"import": "own_net_for_tests.Net", "args": {"classes": 2}, "norms": "group"},
        "input": {"kind": "picture", "height": 16, "width": 16},
        "privacy": {"epsilon": 8.0, "records": PEOPLE}, "training": {"batch": 3, "steps": 3},
    }  # fmt: skip
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(told))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_net_for_tests", raising=False)
    return tmp_path


def test_persons_of_ones_own_folder_and_model_from_the_command_line(folder: Path) -> None:
    done = CliRunner().invoke(app, ["train.yaml"])
    assert done.exit_code == 0, done.output
    card = read_card(folder / "run" / "model.safetensors")
    assert isinstance(card.promise, Guarantee)
    assert str(card.promise.unit) == "person"
    assert 7 < card.promise.epsilon <= 8
    assert "own_net_for_tests.Net" in card.done
    # a constructor may load anything
    assert any("starting weights saw none" in said for said in card.promise.assumptions)
    again = read_config(folder / "run" / "config.yaml", [])
    assert again == read_config(folder / "train.yaml", [])


def _refused(*changes: str) -> str:
    result = CliRunner().invoke(app, ["train.yaml", *changes])
    assert isinstance(result.exception, SfumatoError), result.output
    said = str(result.exception)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(("change", "sentence"), [
    ("model.import=nowhere_to_be_found.Net", "No module named 'nowhere_to_be_found'"),
    ("model.import=own_net_for_tests.Nett", "Nett"),
    ("model.import=Net", "my_package.Net"),
    ("model.import=own_net_for_tests.make", "wrap a function"),
    ("model.import=os.system", "wrap a function"),
    ("model.args={classes: 2, depth: 3}", "depth"),
    ("model.args={}", "classes"),
    ("model.args={classes: 1}", "scores for 2 classes"),
    ("input.kind=video", "which fails on them"),
    ("model.pretrained=true", "without model.pretrained"),
    ("model.import=null", "model.import with model.args"),
    ("privacy.records=18", "of 6 persons"),
    ("held_out.classes=[right, left]", "same order"),
    ("data.file=other.csv", "no file other.csv"),
    ("model.trainable=head", "steps()"),
])  # fmt: skip
def test_what_does_not_fit_is_one_sentence(folder: Path, change: str, sentence: str) -> None:
    assert sentence in _refused(change)


def test_a_dry_run_opens_no_list(folder: Path) -> None:
    (folder / "labels.csv").unlink()
    result = CliRunner().invoke(app, ["train.yaml", "--dry-run"])
    assert result.exit_code == 0, result.output


def test_a_class_in_this_folder_is_for_the_operators_own_file_alone(folder: Path) -> None:
    """A configuration that came with somebody's model imports nothing from where it lies."""
    config = read_config(folder / "train.yaml", [])
    with pytest.raises(ConfigError, match="No module named"):
        build_model(config, 2)
    build_model(config, 2, here=True)
    assert str(folder) not in sys.path


def test_a_picture_is_a_video_of_one_frame_to_a_model_of_videos(folder: Path) -> None:
    told: dict[str, Any] = yaml.safe_load((folder / "train.yaml").read_text())
    told["model"] = {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2}
    told["input"] = {"frames": 2, "height": 16, "width": 16}
    (folder / "train.yaml").write_text(yaml.safe_dump(told))
    result = CliRunner().invoke(app, ["train.yaml"])
    assert result.exit_code == 0, result.output
    told["input"]["kind"] = "picture"
    with pytest.raises(ConfigError, match=r"model\.import"):
        parse_config(told)
