"""The command line, called in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Run, caller


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """``run(*words)``: exit code, output and error output, in an empty folder without network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_OFFLINE", "1")
    for name in ("SFUMATO_TRACEBACK", "SFUMATO_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    return caller(monkeypatch, capsys)
