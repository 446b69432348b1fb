"""The command: words, JSON, refusal."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from sfumato.cli.report import app
from sfumato.report import PictureError

RUNNER = CliRunner()


def test_words_and_json_tell_what_was_found(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    spoken = RUNNER.invoke(app, [str(run / "walk.mp4"), "-o", str(target)])
    assert spoken.exit_code == 0, spoken.output
    assert "releases: 1, with a proven guarantee: 1" in spoken.output
    told = json.loads(RUNNER.invoke(app, [str(run), "-o", str(target), "--force", "--json"]).stdout)
    assert told["ok"] is True
    assert told["report"] == "report.html"
    assert (told["releases"], told["proven"], told["leaking"], told["figures"]) == (3, 2, 2, 6)


def test_original_is_refused_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    (run / "sheet.png").rename(tmp_path / "original.png")
    target = tmp_path / "report.html"
    refused = RUNNER.invoke(app, [str(tmp_path / "original.png"), "-o", str(target)])
    assert isinstance(refused.exception, PictureError)
    assert not target.exists()
