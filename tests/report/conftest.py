"""Runs to report on; the page of the full one is drawn once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_material import make_release, make_run, page_of


@pytest.fixture
def release(tmp_path: Path) -> Callable[..., Path]:
    """Makes a released file of the given name with its card."""

    def make(name: str = "walk.mp4", *args: Any, **kwargs: Any) -> Path:
        return make_release(tmp_path / "run" / name, *args, **kwargs)

    return make


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture(scope="session")
def untouched_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("untouched") / "run")


@pytest.fixture(scope="session")
def page(untouched_run: Path) -> str:
    return page_of(untouched_run)
