"""The people table: finished files are judged, nothing is made twice, refusals are told."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.people import identity, labels, page, releases
from benchmarks.people import run as table
from sfumato import people, protect
from sfumato.errors import SfumatoError
from sfumato.media import VideoWriter
from sfumato.people import Box
from sfumato.protect.hide import Blur

FRAMES = 12


class DarkSquares:
    """Sees the dark square at the left and not the one at the right; counts its looks."""

    name, device, looks = "square", "test", 0

    def detect(self, image: Any) -> list[Box]:
        type(self).looks += 1
        rows, columns = np.nonzero(image[:, :60].max(axis=2) < 60)
        if len(rows) < 20:
            return []
        return [Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, 0.9)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A labelled clip with two heads, one of which the detector cannot see."""
    folder = tmp_path / "data" / "clips"
    folder.mkdir(parents=True)
    noise = np.random.default_rng(3)
    image = noise.integers(140, 220, (9, 16, 3)).astype(np.uint8).repeat(10, 0).repeat(10, 1)
    for left in (20, 130):
        image[20:36, left : left + 16] = noise.integers(0, 55, (4, 4, 3)).repeat(4, 0).repeat(4, 1)
    with VideoWriter(folder / "a.mkv", rate=25, size=(160, 90), codec="ffv1") as writer:
        for _ in range(FRAMES):
            writer.write(image)
    person = {"torso": None, "hard": False}
    stored = {
        "clips": [
            {
                "clip": "clips/a.mkv", "size": [160, 90], "tuning": False,
                "labels": [
                    {"frame": number, "people": [
                        {**person, "head": [28, 28], "who": 0}, {**person, "head": [138, 28], "who": 1},
                    ]}
                    for number in (2, 7)
                ],
            }
        ]
    }  # fmt: skip
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(stored))
    known = labels.labelled(path)
    monkeypatch.setattr(table, "labelled", lambda: known)
    monkeypatch.setattr(DarkSquares, "looks", 0)
    monkeypatch.setattr(
        releases.protect, "make", lambda *_: Blur(detector=DarkSquares(), check=DarkSquares())
    )
    return tmp_path / "data"


def options(root: Path, **more: Any) -> dict[str, Any]:
    return {"data": str(root), "work": str(root / "work"), "label": "test", "methods": "blur",
            "staged": 0, **more}  # fmt: skip


def test_the_head_that_nobody_found_is_open_and_the_other_is_not(root: Path) -> None:
    (row,) = table.run(**options(root))["clips"]
    assert row["points"] == {"head": {"all": 4, "hard": 0}}
    assert [(point["frame"], point["at"]) for point in row["open"]] == [
        (2, [138, 28]),
        (7, [138, 28]),
    ]
    assert row["frames"] == FRAMES
    assert 0.01 < row["covered"] < 0.4
    assert row["wrong_covers"] == []


def test_what_was_made_is_kept_and_shown_again(root: Path) -> None:
    assert table.run(**options(root, finished=True))["clips"] == []
    first = table.run(**options(root))
    looks = DarkSquares.looks
    assert table.run(**options(root))["clips"] == first["clips"]
    assert table.run(**options(root, finished=True))["clips"] == first["clips"]
    assert DarkSquares.looks == looks


def test_the_file_that_users_get_shows_the_same(root: Path) -> None:
    (row,) = table.run(**options(root, codec=True))["codec"]
    assert row["verdicts"] == 4
    assert row["verdicts_that_differ"] == 0
    assert row["noise"] > 0, "h264 changes what nobody covered"


def test_a_refused_release_is_a_row_that_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SfumatoError("Expected a face.")

    monkeypatch.setattr(protect, "release", refuse)
    result = table.run(**options(root, codec=True, sheets=str(root / "sheets")))
    assert result["clips"][0]["refused"] == "Expected a face."
    assert "| 1 of 1 |" in page.tables(result)["clips"]
    assert not (root / "sheets").exists()


def test_the_page_counts_open_heads_and_covers_of_nobody(root: Path) -> None:
    result = table.run(**options(root, sheets=str(root / "sheets")))
    result["clips"][0]["wrong_covers"] = [{"frame": 2, "share": 0.01, "length": 4}]
    (line,) = page.totals(result["clips"])
    assert line["open heads"] == "2 of 4"
    assert line["open torsos"] == ""
    assert line["clips with a long one"] == "1 of 1"
    # one cover of four frames, met on one of two labelled frames: an eighth of a cover a frame
    assert line["wrong covers a minute"] == f"{60 * 30 / 8:.1f}"
    assert [path.name for path in (root / "sheets").iterdir()] == ["clips-a.mkv-blur.png"]


def test_a_clip_that_is_not_there_is_named(root: Path) -> None:
    (root / "clips" / "a.mkv").unlink()
    with pytest.raises(SfumatoError, match=r"clips/a\.mkv"):
        table.run(**options(root))


def test_identity_switches_need_tracks_and_count_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip, source = table.labelled()[0], root / "clips" / "a.mkv"
    monkeypatch.delattr(people, "find", raising=False)
    assert identity.identity_switches(clip, source) is None

    def find(frames: Any, *, masks: bool) -> Any:
        for number, frame in enumerate(frames):
            left = SimpleNamespace(track=1, box=Box(15, 10, 45, 80))
            right = SimpleNamespace(track=2 if number < 5 else 3, box=Box(120, 10, 150, 80))
            yield frame, [left, right, SimpleNamespace(track=9, box=Box(0, 0, 160, 90))]

    monkeypatch.setattr(people, "find", find, raising=False)
    assert identity.identity_switches(clip, source) == {"compared": 2, "switches": 1}


def test_earlier_code_stands_above_this_one(root: Path) -> None:
    earlier = table.run(**options(root, label="earlier"))
    (root / "earlier.json").write_text(json.dumps(earlier), encoding="utf-8")
    result = table.run(**options(root, label="later", before=str(root / "earlier.json")))
    rows = page.tables(result)["clips"].splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == ["earlier", "later"]
