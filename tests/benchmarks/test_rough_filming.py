"""Badly filmed clips of the stage: truth moves with the picture, public views show nothing private."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.maskdp import gap
from benchmarks.maskdp import run as maskdp
from benchmarks.tasks import rough_filming as rough
from benchmarks.tasks import staged_pairs as pairs
from benchmarks.tasks import staged_probe as probes
from sfumato import stage
from sfumato.body import cast_of
from sfumato.stage import Staging

TINY = Staging(clips=2, actors=2, rooms=2, frames=4, width=64, height=64, seed=5)


@pytest.fixture(autouse=True)
def without_anny(monkeypatch: pytest.MonkeyPatch) -> None:
    rough._patterned.cache_clear()
    monkeypatch.setattr(
        rough, "cast_of", lambda _, **asked: cast_of("procedural", count=asked["count"])
    )


def test_rough_clips_are_the_same_motion_in_another_body_and_worse_pictures() -> None:
    (first, second), plain = list(rough.rough_clips(TINY)), next(stage.clips(TINY))
    assert (first.action, second.action) == TINY.actions[:2]
    assert np.abs(first.frames.astype(int) - plain.frames).mean() > 10
    (again,) = rough.rough_clips(TINY, first=1)
    np.testing.assert_array_equal(again.frames, second.frames)


def test_masks_and_joints_move_with_the_hand() -> None:
    clip = next(stage.clips(TINY))
    marked = np.zeros_like(clip.alpha)
    marked[:, 30:35, 20:25] = 255
    clip = dataclasses.replace(
        clip, alpha=marked, mask=marked > 0, pixels=np.full_like(clip.pixels, [[22.0, 32.0]])
    )
    made = rough.by_hand(clip, np.random.default_rng(3))
    for mask, joints in zip(made.mask, made.pixels):
        rows, columns = np.nonzero(mask)
        assert np.allclose([columns.mean(), rows.mean()], joints[0], atol=1.0)
    assert np.ptp(made.pixels[:, 0, 0]) > 0.2, "the hand shakes"


def test_a_thing_in_front_is_no_person() -> None:
    clip = next(stage.clips(TINY))
    white = dataclasses.replace(clip, alpha=np.full_like(clip.alpha, 255),
                                mask=np.ones_like(clip.mask))  # fmt: skip
    made = rough.furnished(white, np.random.default_rng(0))
    changed = (made.frames != white.frames).any(-1)
    assert changed.any()
    assert not made.mask[changed].any()
    assert made.mask[~changed].any(), "what is behind a person stays hidden"


def test_public_rooms_hide_every_pixel_that_is_not_public() -> None:
    rng = np.random.default_rng(1)
    clips = rng.integers(0, 256, (3, 2, 64, 64, 3), dtype=np.uint8)
    public = np.zeros(clips.shape[:4], bool)
    public[:, :, 20:40, 20:40] = True
    other = np.where(public[..., None], clips, 255 - clips)
    seen = pairs.in_public_rooms(clips, public)
    np.testing.assert_array_equal(seen, pairs.in_public_rooms(other, public))
    assert (seen != pairs.in_public_rooms(255 - clips, public)).any()
    assert seen[0].std() > 10, "a room is there"


def test_where_nobody_is_replaced_the_clip_stays(tmp_path: Path) -> None:
    (piece,) = pairs.pieces(TINY, tmp_path, "nobody", rough=True)
    made = piece.load()
    np.testing.assert_array_equal(made.rendered, made.real)
    assert not made.public.any()
    (clean,) = pairs.pieces(TINY, tmp_path, "nobody")
    assert clean.path.parent != piece.path.parent


def test_every_row_of_the_gap_states_its_promise(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(maskdp, "_STEPS", 2)
    monkeypatch.setattr(maskdp, "CHOICES", ((2.0, 1.0),))
    asked: list[str] = []

    def said(task: probes.StagedTask, group: str, kind: str) -> Any:
        import torch

        asked.append(kind)
        rng = torch.Generator().manual_seed(len(kind))
        return torch.randn((24, 6), generator=rng) + (group == "private")

    y = np.arange(24) % 12
    monkeypatch.setattr(probes.StagedTask, "described", said)
    monkeypatch.setattr(probes.StagedTask, "labels", lambda *_: (y, np.arange(24)))
    result = gap.run(quick=True, keep=str(tmp_path))
    assert {"real", "rendered", "avatar", "elsewhere"} == set(asked), (
        "a real person is never public"
    )
    for cell in result["cells"]:
        if cell["asked"]:
            assert cell["epsilon"] <= cell["asked"] * 1.001
            assert cell["unit"] == {"dp-sgd": "record", "maskdp": "masked-tokens"}[cell["method"]]
            assert cell["relation"] == "replace"
    made = gap.tables(result)
    assert all(name in made["grid"] for name in gap.ROWS.values())
    assert all(name in made["ends"] for name in gap.ENDS.values())
