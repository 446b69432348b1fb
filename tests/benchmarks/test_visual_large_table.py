"""Table ``visual-large``: rows promise what they are called, faces stay where they are looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.visual import large
from benchmarks.visual.ways import EPSILONS
from sfumato.errors import SfumatoError


def test_sound_rows_promise_the_unit_and_epsilon_in_their_names() -> None:
    sound = [way for way in large.ways() if way.part == "sound"]
    assert len(sound) == len(large.UNITS) * len(EPSILONS)
    for way in sound:
        promise = way.promise(240, 320, large.FRAMES)
        assert promise is not None
        assert way.name == f"{promise['unit']}, epsilon {round(promise['epsilon'], 6):g}"
        assert promise["epsilon"] <= way.settings["epsilon"]
        assert (promise["relation"], promise["delta"]) == ("replace", 1e-4)


def test_rows_that_a_stopped_table_needs_come_first() -> None:
    order = sorted(large.ways(), key=large._worth)
    assert {way.settings["epsilon"] for way in order[:3]} == {8.0}
    assert {way.settings["unit"] for way in order[3:5]} == {large.UNITS[0]}
    assert {way.part for way in order[-3:]} == {"published"}


def _faces(tmp_path: Path, count: int) -> Path:
    import cv2

    for number in range(count):
        picture = np.full((96, 96, 3), 10 * number + 5, np.uint8)
        cv2.imwrite(str(tmp_path / f"{20 + number}_{number % 2}_{number % 5}_2017.jpg"), picture)
    return tmp_path


def test_a_reader_meets_every_face_once_in_its_own_order(tmp_path: Path, monkeypatch: Any) -> None:
    faces = large.Faces(_faces(tmp_path, 8), 8)
    looked: list[int] = []

    def features(pictures: Any) -> Any:
        looked.extend(int(picture[20, 20, 0]) for picture in pictures)
        return np.zeros((len(looked), 2))

    monkeypatch.setattr(large, "picture_features", features)
    assert len(faces.views(faces.clips())["efficientnet"]) == 8
    shown = [int(faces._records[i].x[20, 20, 0]) for i in faces._chosen]
    assert shown != sorted(shown), "a sheet shows no one age"
    assert np.allclose(looked[:8], shown, atol=2)
    assert faces.truth["age"].classes == ("younger",)
    for attribute in faces.truth.values():
        assert attribute.people == ("sheet 0",) * 6 + ("sheet 1",) * 2, (
            "a sheet is never cut by a fold"
        )
    assert [clip.shape for clip in faces.clips()] == [(large.FRAMES, 240, 320, 3)] * 2


def test_noise_is_measured_and_belongs_to_the_clip() -> None:
    way = next(way for way in large.ways() if way.name == "frame, epsilon 8")
    clip = np.full((large.FRAMES, 240, 320, 3), 90, np.uint8)
    errors: list[float] = []
    first, second = large._protected(iter([clip, clip]), way, errors.append)
    assert first.shape == clip.shape
    assert (first != second).any()
    assert len(errors) == 2
    assert min(errors) > 1


def test_without_data_it_says_what_it_needs() -> None:
    with pytest.raises(SfumatoError, match="data="):
        large.run()


def test_the_page_shows_intervals_guessing_and_dashes() -> None:
    def score(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1, "chance": 0.5}

    row = {"action_on_raw": score(0.9), "action_on_protected": score(0.8),
           "action_on_protected_by_class": score(0.7), "psnr": None}  # fmt: skip
    result = {
        "rows": {"actions": {"raw": row, "frame, epsilon 8": row | {"psnr": 20.04}}, "faces": {}},
        "order": ["raw", "frame, epsilon 8"],
        "promises": {"frame, epsilon 8": {"epsilon": 8.0, "unit": "frame", "delta": 1e-4}},
        "kept": {"frame, epsilon 8": {"kept_frames": 1, "kept_size": 64}},
    }
    lines = large.tables(result)["large"].splitlines()
    assert "90 (80 to 100) | 80 (70 to 90)" in lines[3]
    assert "| 8 for frame | 1 x 64² |" in lines[3]
    assert lines[3].endswith("| 20.0 | - | - | - |")
    assert lines[4].startswith("| *guessing* |  |  | 50 | 50 | 50 |")
