"""The command line: every verb answers, every error is one sentence, no traceback reaches a person."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sfumato.cli import main as entry
from sfumato.cli.verify import app as verify
from sfumato.privacy import Bounds, Card, Gaussian, Guarantee, Output


def sfumato(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sfumato", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    made = tmp_path / "model.safetensors"
    made.write_bytes(b"weights")
    promise = Guarantee(
        mechanism="test",
        unit="record",
        relation="replace",
        delta=1e-5,
        event=Gaussian(4.0, Bounds.DIFFERENCE),
        accountant="analytic-gaussian",
    )
    card = Card(method="dp-sgd", done="Trained.", promise=promise, outputs=(Output.of(made),))
    card.write(made)
    return made


def test_help_lists_every_verb_without_importing_them() -> None:
    done = sfumato("--help")
    assert done.returncode == 0
    for verb in entry.VERBS:
        assert verb in done.stdout


@pytest.mark.parametrize("verb", sorted(entry.VERBS))
def test_every_verb_has_a_module_with_an_app(verb: str) -> None:
    from importlib import import_module

    assert import_module(f"sfumato.cli.{verb}").app is not None


def test_an_error_is_one_sentence_and_a_failing_exit_code(tmp_path: Path) -> None:
    done = sfumato("verify", "missing.mp4", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("sfumato: Expected a privacy card")
    assert done.stderr.count("\n") == 1
    machine = sfumato("verify", "missing.mp4", "--json", cwd=tmp_path)
    assert machine.returncode == 1
    assert json.loads(machine.stdout)["ok"] is False


def test_a_bug_shows_its_kind_but_neither_traceback_nor_content(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ValueError("Anna Example, ward 3")

    monkeypatch.delenv("SFUMATO_TRACEBACK", raising=False)
    monkeypatch.setattr(entry, "app", broken)
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    assert stopped.value.code == 1
    told = capsys.readouterr().err
    assert "ValueError" in told
    assert "Anna" not in told
    assert "Traceback" not in told


def test_verify_agrees_signs_and_notices_a_change(output: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(verify, [str(output)]).exit_code == 0
    assert runner.invoke(verify, ["--make-key", str(tmp_path / "key")]).exit_code == 0
    assert runner.invoke(verify, [str(output), "--sign", str(tmp_path / "key")]).exit_code == 0
    signed = runner.invoke(verify, [str(output), "--key", str(tmp_path / "key.pub"), "--json"])
    assert json.loads(signed.stdout)["signed_by"] == (tmp_path / "key.pub").read_text().strip()
    entry_text = runner.invoke(verify, [str(output), "--registry"]).stdout
    product = yaml.safe_load(entry_text)["deployment"]["product"]
    assert product["data_product_type"] == "Machine learning model"
    output.write_bytes(b"other weights")
    assert "changed" in str(runner.invoke(verify, [str(output)]).exception)
