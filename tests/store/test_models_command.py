"""``sfumato models`` as a new user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato import store


def _run(*words: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SFUMATO_CACHE": str(cache.parent), "COLUMNS": "200"}
    command = [sys.executable, "-c", "from sfumato.cli.main import main; main()", "models", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_list_shows_licence_size_and_state(cache: Path) -> None:
    shown = _run(cache=cache)
    assert shown.returncode == 0, shown.stderr
    assert "centerface" in shown.stdout
    listed = json.loads(_run("--json", cache=cache).stdout)
    assert [row["name"] for row in listed["models"]] == list(store.MODELS)
    assert {row["state"] for row in listed["models"]} == {"not pulled"}
    for name, entry in store.MODELS.items():
        line = next(row for row in shown.stdout.splitlines() if row.startswith(f"{name} "))
        assert entry.licence in line
        assert f"{entry.total_size / 1e6:.1f} MB" in line


@pytest.mark.parametrize("words", [("pull", "all", "--offline"), ("pull", "nothing")])
def test_pull_that_cannot_be_done_is_a_sentence_and_a_failure(
    cache: Path, words: tuple[str, ...]
) -> None:
    failed = _run(*words, cache=cache)
    assert failed.returncode == 1
    assert failed.stderr.startswith("sfumato: Expected the ")
    assert failed.stderr.count("\n") == 1
