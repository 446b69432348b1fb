"""An empty cache, and an index beside it that pip reads through its own settings."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from tiny_index import Index

from sfumato.store import ModelEntry


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; returns the folder the models will lie in."""
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SFUMATO_OFFLINE", raising=False)
    return tmp_path / "cache" / "models"


@pytest.fixture
def index(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    models: dict[str, ModelEntry] = {}

    def register(entry: ModelEntry) -> None:
        models[entry.name] = entry

    monkeypatch.setattr("sfumato.store._cache.MODELS", MappingProxyType(models))
    return Index(folder, register)
