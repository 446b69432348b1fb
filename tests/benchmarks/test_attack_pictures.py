"""Single pictures: who is still found where somebody is, and how much of a cover comes off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.attacks import pictures
from benchmarks.attacks import stage as staging
from sfumato.people import Box

SMALL = replace(staging.QUICK, clips=4, actors=2, rooms=2, frames=2, width=48, height=48)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, staging.Truth]:
    return staging.staged_clips(SMALL, tmp_path_factory.mktemp("pictures"))


def test_a_blur_comes_off_in_part_and_one_colour_does_not(
    staged: tuple[Any, staging.Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "_public", list)
    clips, truth = staged
    found = {}
    for way in ("blur, people", "silhouette"):
        (result,) = pictures.undone(clips, staging.protected_clips(way, clips, truth), way)
        found[way] = result
        assert result.value is not None
        assert result.low is not None
        assert result.high is not None
        assert result.low <= result.value <= result.high
    blurred, filled = found["blur, people"], found["silhouette"]
    assert blurred.value is not None
    assert filled.value is not None
    assert blurred.note is not None
    assert blurred.note.startswith("Tikhonov inversion")
    assert blurred.value > (blurred.unprotected or 0) + 0.05
    assert filled.value < blurred.value / 2


def test_nothing_changed_is_nothing_to_undo(
    staged: tuple[Any, staging.Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "_public", list)
    assert pictures.undone(staged[0], staged[0], "silhouette") == []


def test_only_who_stands_where_somebody_is_counts(
    staged: tuple[Any, staging.Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    clips, truth = staged

    class Everywhere:
        def __init__(self, box: Box) -> None:
            self.box = box

        def detect(self, image: Any) -> list[Box]:
            return [self.box]

    rows, columns = (np.flatnonzero(truth.masks[0, 1].any(axis)) for axis in (1, 0))
    there = Box(*(3.0 * float(v) for v in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)))  # type: ignore[arg-type]
    for box, least, most in ((there, 0.5, 1.0), (Box(0.0, 0.0, 3.0, 3.0), 0.0, 0.0)):
        monkeypatch.setattr(pictures, "person_detector", lambda box=box: Everywhere(box))
        (result,) = pictures.still_found(clips, truth)
        assert result.value is not None
        assert least <= result.value <= most


def test_real_skeletons_tell_who_it_is(real_data: Path, tmp_path: Path) -> None:
    from benchmarks.attacks.people import real_lines, real_people
    from benchmarks.harness.cells import Cells

    (tmp_path / "utd_mhad").symlink_to(real_data / "utd_mhad")
    rows = real_people(Cells("people", {}, str(tmp_path / "keep")), str(tmp_path))
    rank = {row["protection"]: row for row in rows if row["name"] == "rank-1"}
    assert rank["skeleton"]["value"] > 0.6
    assert rank["skeleton of another body"]["value"] > 0.3
    assert rank["skeleton"]["chance"] == pytest.approx(1 / 8, abs=0.02)
    assert len(real_lines(rows)) == len(rows) + 2
