"""Where the tests find real data, and what they say when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; skips, saying so, when it is absent."""
    named = os.environ.get("SFUMATO_DATA")
    folder = Path(named) if named else _BESIDE_THE_PROJECT
    if not folder.is_dir():
        pytest.skip(f"no real data: set SFUMATO_DATA (looked for {folder})")
    return folder
