"""The hiding table: one search serves all methods, and what was measured is not measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.hiding import hidden_clips as _hidden_clips
from benchmarks.hiding import run as hiding
from sfumato.media import VideoWriter
from sfumato.people import Box
from sfumato.protect.hide import Blur, Pixelate


class OneFace:
    """Sees the dark square; ``looks`` counts over all methods."""

    name, device, looks = "square", "test", 0

    def detect(self, image: Any) -> list[Box]:
        type(self).looks += 1
        rows, columns = np.nonzero(image.max(axis=2) < 60)
        if len(rows) < 20:
            return []
        return [Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, 0.9)]


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    folder = tmp_path / "clips"
    folder.mkdir()
    with VideoWriter(folder / "a.mkv", rate=25, size=(64, 48), codec="ffv1") as writer:
        for number in range(12):
            image = np.full((48, 64, 3), 180, np.uint8)
            image[10:22, 8 + number : 20 + number] = 20
            image[14:18, 10 + number : 18 + number] = 58
            writer.write(image)
    return folder


@pytest.fixture
def _methods(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"blur": Blur, "pixelate": Pixelate}
    monkeypatch.setattr(
        _hidden_clips, "_method", lambda name: kinds[name](detector=OneFace(), check=OneFace())
    )
    monkeypatch.setattr(OneFace, "looks", 0)


@pytest.mark.usefixtures("_methods")
def test_rows_are_kept_and_read(clips: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "data": str(clips), "work": str(tmp_path / "work"), "methods": "blur,pixelate",
        "judges": "blazeface-short", "staged": 0, "memory": False,
    }  # fmt: skip
    assert hiding.run(**options, finished=True)["clips"] == []
    rows = list(
        _hidden_clips.covered(
            _made(tmp_path / "work"), tmp_path, clips / "a.mkv", ["blur", "pixelate"], []
        )
    )
    assert [row["searched"] for row in rows] == [True, False]
    assert all(row["same_frames_rate_and_duration"] and row["frames"] == 12 for row in rows)
    looks = OneFace.looks
    assert hiding.run(**options)["clips"] == rows
    assert OneFace.looks == looks, "nothing is measured twice"
    shown = hiding.tables({"clips": rows, "staged": [], "memory": []})
    assert set(shown) == {"clips"}
    assert "| `blur` | 1 | 0 | 12 | 0 | 0 |" in shown["clips"]
    kept = json.loads((tmp_path / "work" / "blur-a.json").read_text())
    assert kept == rows[0]


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
