"""A folder with recordings, and the studio on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the studio needs the extra studio")
pytest.importorskip("httpx2", reason="starlette's test client needs httpx2")

from starlette.testclient import TestClient
from studio_browser import BASE, Browser, InThisProcess, browsing, write_clip

from sfumato.jobs import _assistant, _queue
from sfumato.media import write_image


def make_root(folder: Path) -> Path:
    write_clip(folder / "walk.mp4")
    write_clip(folder / "ward" / "bed.mp4", shade=20)
    write_image(folder / "face.png", np.full((48, 64, 3), 90, np.uint8))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_queue, "Worker", InThisProcess)
    monkeypatch.setattr(_assistant, "Worker", InThisProcess)


@pytest.fixture
def browser(root: Path, in_process: None) -> Iterator[Browser]:
    with browsing(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for many tests: of requests that change nothing."""
    with browsing(make_root(tmp_path_factory.mktemp("shared") / "root")) as opened:
        yield opened


@pytest.fixture
def stranger(visitor: Browser) -> TestClient:
    """Somebody who can reach the port, even knows the place, and does not have the link."""
    # no lifespan of its own: the studio is the visitor's
    return TestClient(visitor.app, base_url=f"{BASE}{visitor.app.doorkeeper.place}")
