"""The table of avatars: its measures are right where the answer is known, and it goes on after a stop."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import results_path
from benchmarks.avatar import run as table
from benchmarks.avatar import stage
from benchmarks.avatar.clips import ghost_share
from benchmarks.tasks.staged_pairs import BY_TRUTH
from sfumato.body import INDEX, JOINTS, cast_of
from sfumato.errors import SfumatoError


def walking(steps_a_minute: float, length: float, seconds: float = 8.0) -> np.ndarray:
    """Ankles that swing past each other: apart by ``length`` at every step."""
    times = np.arange(int(seconds * stage.FPS)) / stage.FPS
    joints = np.zeros((len(times), len(JOINTS), 3))
    swing = length / 2 * np.sin(np.pi * times * steps_a_minute / 60)
    joints[:, INDEX["left_ankle"], 2], joints[:, INDEX["right_ankle"], 2] = swing, -swing
    return joints


@pytest.mark.parametrize("pace", [80.0, 110.0])
def test_cadence_and_step_length_of_a_known_walk(pace: float) -> None:
    found, length = stage.gait(walking(pace, 0.7))
    assert found == pytest.approx(pace, rel=0.03)
    assert length == pytest.approx(0.7, rel=0.05)


def test_angles_of_a_bent_knee() -> None:
    joints = np.zeros((1, len(JOINTS), 3))
    for name, place in {"hip": (0, 1, 0), "knee": (0, 0, 0), "ankle": (0, 0, 1)}.items():
        joints[0, INDEX[f"left_{name}"]] = place
    for name, place in {"shoulder": (0, 1, 0), "elbow": (0, 0, 0), "wrist": (0, -1, 0)}.items():
        joints[0, INDEX[f"left_{name}"]] = place
    with np.errstate(invalid="ignore"):
        found = stage.angles(joints)
    assert found[0, :2] == pytest.approx([90, 180])


def test_noise_of_ten_levels_is_28_decibels() -> None:
    error = np.random.default_rng(0).choice([-10.0, 10.0], (50, 50, 3))
    assert stage.psnr(error) == pytest.approx(28.13, abs=0.01)


def test_a_renderer_that_writes_elsewhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    (clip,) = stage.staged((101,), 1, 4)
    body = cast_of("procedural")[0]
    assert stage.judged(clip, body, None)["wrong public pixels"] == 0
    right = stage.replace

    def wrong(*given: Any, **named: Any) -> Any:
        made = right(*given, **named)
        made.public[:, 0, 0] = True
        return made

    monkeypatch.setattr(stage, "replace", wrong)
    assert stage.judged(clip, body, None)["wrong public pixels"] >= 4


def test_a_run_is_whole_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {
        "body": "procedural", "seeds": 101, "clips": 2, "length": 4, "estimate": False,
        "speed": False, "work": str(tmp_path),
    }  # fmt: skip
    result = table.run(**options)
    assert result["staged clips"] == 2
    assert result["staged"]["IoU of r"] >= 0.8
    assert result["worst staged clip"]["IoU of r"] <= result["staged"]["IoU of r"]
    json.dumps(result, allow_nan=False)
    assert len(table.terminal(result)) >= 3
    monkeypatch.setattr(table, "judged", lambda *_: pytest.fail("measured again"))
    assert table.run(**options) == result
    with pytest.raises(SfumatoError, match="tuned"):
        table.run(seeds="101,11")


STAGED = {"joint error cm": 1.7, "IoU of r": 0.81, "wrong public pixels": 0.0}
FOUND = {"estimated joint error cm": 11.3, "person left share": 0.026}


def judged_page(staged: dict[str, float]) -> dict[str, list[str]]:
    result = {"body": "anny", "staged clips": 2, "staged": staged, "worst staged clip": {}}
    text = table.tables(result | {"real": {"pose agreement": 0.9}, "clips": []})["measures"]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in rows}


def test_a_goal_met_with_true_joints_and_masks_is_not_called_met() -> None:
    shown = judged_page(STAGED | FOUND)
    for name in map(table.shown_name, STAGED):
        assert shown[name][0] == "truth"
        assert shown[name][-1] == "met, given the truth"
    assert shown[table.shown_name("estimated joint error cm")] == [
        "detectors",
        "11.3",
        "at most 7",
        "MISSED",
    ]
    assert shown["pose agreement"][::3] == ["detectors", "met"]


def test_every_table_of_true_joints_says_so() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs" / "results"
    for name in ("maskdp", "context"):
        module = import_module(f"benchmarks.{name}.run")
        result = json.loads(results_path(name).read_text())
        assert BY_TRUTH in " ".join((docs / f"{name}.md").read_text().split())
        assert BY_TRUTH in module.terminal(result)


def row(**changes: Any) -> dict[str, Any]:
    return {
        "frames": 10, "size": "320x240", "people": 1, "frames with a face": 5,
        "frames with an original face left": 0, "identity distance": 0.8, "joints compared": 100,
        "joints found again": 90, "frames a second": 2.0, "frames a CPU second": 4.0,
        "labelled people": 10, "by one avatar": 9, "by a stand-in": 1, "left open": 0,
        "identity switches": 1, "frames with grey outside people": 0,
        "vectors": [[0.0, 0.0]], "avatar vectors": [],
    } | changes  # fmt: skip


def test_real_clips_are_summed_up() -> None:
    rows = [
        row(**{"avatar vectors": [[9.0, 12.0]]}),
        row(vectors=[[3.0, 4.0]], **{"frames with an original face left": 2, "people": 3}),
        row(
            vectors=[], **{"identity distance": None, "joints compared": 0, "joints found again": 0}
        ),
        # faces of ten pixels: whose they are cannot be told
        row(
            vectors=[[9.0, 9.0]],
            size="224x126",
            **{"identity distance": 0.1, "people": 2, "joints found again": 60, "left open": 2},
        ),
        {"refused": "cannot be read"},
    ]
    found = table.together(rows)
    assert found["identity distance, nearest clip"] == 0.8
    assert found["identity distance, strangers"] == 5.0  # of different clips, never of one
    assert found["identity distance, avatar beyond strangers"] == pytest.approx(0.8 - 5.0)
    assert found["identity distance, avatar to other people"] == pytest.approx(10.0)
    assert found["frames with an original face left"] == 2
    assert (found["clips"], found["refused"]) == (4, 1)
    assert found["pose agreement"] == pytest.approx(0.8)
    assert found["worst clip's pose agreement"] == pytest.approx(0.6)
    assert found["labelled people replaced by an avatar"] == pytest.approx(0.9)
    assert found["labelled people left open"] == pytest.approx(0.05)
    assert found["identity switches of labelled people"] == 4


def test_a_ghost_is_seen_by_its_outline_and_a_floor_taken_for_a_person_is_none() -> None:
    avatars = np.zeros((2, 60, 80), dtype=bool)
    avatars[0, 20:40, 30:40] = True
    empty = np.zeros((2, 60, 80, 3), dtype=np.uint8)
    assert ghost_share(empty, avatars, lambda image: np.ones((60, 80))) == 0.0
    assert ghost_share(empty, avatars, lambda image: np.zeros((60, 80))) == 0.0
    outline = avatars[0].astype(float)
    assert ghost_share(empty, avatars, lambda image: outline) == 1.0
    outline[:, 35:] = 0
    assert ghost_share(empty, avatars, lambda image: outline) == 0.5
    assert ghost_share(empty, np.zeros_like(avatars), lambda image: outline) is None


def test_what_is_left_of_a_person_is_counted_in_all_and_in_the_worst_frame() -> None:
    before = np.full((2, 10, 10, 3), 100, np.uint8)
    after, person = before.copy(), np.zeros((2, 10, 10), bool)
    person[:, :4] = True
    after[0, :4] = 30  # gone
    after[1, :3] = 104  # as it was, but for what a codec does
    after[1, 3] = 30
    left = stage.left_as_it_was(before, after, person)
    assert left["person left share"] == pytest.approx(3 / 8)
    assert left["person left share, worst frame"] == pytest.approx(3 / 4)
