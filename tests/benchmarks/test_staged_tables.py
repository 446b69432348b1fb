"""Tables on staged people: groups share nobody, pieces are made once, every row states its promise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import training_tasks
from benchmarks.accounting import run as accounting
from benchmarks.cells import Cells
from benchmarks.context import run as context
from benchmarks.maskdp import run as maskdp
from benchmarks.maskdp.page import ROWS, verdict
from benchmarks.multiclip import run as multiclip
from benchmarks.staged import backbone as backbones
from benchmarks.staged import pairs
from benchmarks.staged import probe as probes
from benchmarks.staged.backbone import FRAMES, JOINTS, PoseViT
from benchmarks.summary import markdown, mean_and_error, shown
from sfumato import stage
from sfumato.privacy import format_epsilon
from sfumato.stage import Staging

torch.set_num_threads(1)
TINY = probes.Scale(private=24, held_out=12, public=7, side=32, epochs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def masked(folder: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maskdp, "QUICK", TINY)
        patch.setattr(maskdp, "_STEPS", 3)
        patch.setattr(maskdp, "CHOICES", ((2.0, 1.0), (8.0, 0.1)))
        return maskdp.run(quick=True, keep=str(folder))


def test_a_larger_staging_goes_on_from_a_smaller_one(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(pairs, "_PIECE", 2)
    small = Staging(clips=2, actors=2, rooms=2, frames=3, width=32, height=32, seed=3)
    large = Staging(clips=4, actors=2, rooms=2, frames=3, width=32, height=32, seed=3)
    first = pairs.staged_pairs(small, tmp_path)
    calls: list[int] = []
    monkeypatch.setattr(pairs, "clips", _counted(stage.clips, calls))
    whole = pairs.staged_pairs(large, tmp_path)
    assert calls == [2], "only the new clips are staged"
    np.testing.assert_array_equal(whole.rendered[:2], first.rendered)


def _counted(real: Any, calls: list[int]) -> Any:
    def counted(staging: Staging, *, first: int) -> Any:
        calls.append(first)
        return real(staging, first=first)

    return counted


def test_an_avatar_stands_where_the_mask_says_and_the_person_is_gone(tmp_path: Path) -> None:
    made = pairs.staged_pairs(
        Staging(clips=3, actors=2, rooms=2, frames=4, width=64, height=64, seed=8), tmp_path
    )
    changed = (made.real != made.rendered).any(-1)
    assert changed[made.person].mean() > 0.9
    alone = made.clips("avatar")
    assert not alone[~made.public].any()
    np.testing.assert_array_equal(alone[made.public], made.rendered[made.public])
    background = made.clips("background")
    assert (background == background[:, :1]).all(), "a room alone does not move"


def test_groups_share_no_actor_room_or_action_with_the_public() -> None:
    stagings = probes.Scale().stagings()
    assert len({staging.seed for staging in stagings.values()}) == 3
    assert not set(stagings["public"].actions) & set(stagings["private"].actions)
    assert stagings["private"].actions == stagings["held-out"].actions


def test_votes_for_the_right_cell_put_a_joint_into_it() -> None:
    model = PoseViT(32)
    rng = torch.Generator().manual_seed(0)
    joints = torch.rand((2, FRAMES, JOINTS, 2), generator=rng)
    votes = 50.0 * torch.nn.functional.one_hot(model.cells(joints), 16).float()
    assert (model.places(votes) - joints).abs().max() <= 0.5 / 4 + 1e-5
    assert (model.cells(joints + 1) == -1).all(), "outside the picture there is nothing to vote for"


def test_each_cell_of_votes_is_a_token_of_that_place_and_time() -> None:
    model = PoseViT(32).eval()
    clips = torch.zeros((1, 3, FRAMES, 32, 32))
    with torch.no_grad():
        # without attention and position a token knows its own pixels alone
        model.vit.position.zero_()
        for block in model.vit.blocks:
            block.attention.out.weight.zero_()  # type: ignore[union-attr, operator]
        still = model.votes(clips)
        clips[0, :, 9, 8:16, 24:32] = 1.0
        changed = (model.votes(clips) != still).any(2)[0]
    assert changed.nonzero().tolist() == [[frame, 1 * 4 + 3] for frame in range(8, 12)]


def test_joints_move_with_the_picture() -> None:
    clip = np.zeros((2, 20, 20, 3), np.uint8)
    clip[:, 10, 7] = 255
    for seed in range(5):
        moved, (dx, dy) = backbones._moved(clip, np.random.default_rng(seed))
        there = np.argwhere(moved[0].any(-1))
        assert there.tolist() == [[10 + round(20 * dy), 7 + round(20 * dx)]]


def test_the_head_answers_to_public_pixels_where_the_rest_is_hidden() -> None:
    head = probes.Head(3, 2)
    torch.nn.init.ones_(head.linear.weight)
    said = torch.tensor([[[1.0, 2.0, 3.0], [10.0, 0.0, 0.0]]])
    assert head(said)[0, 0] == 6
    assert head(said * torch.tensor([0.0, 1.0])[:, None])[0, 0] == 10


def test_settings_are_chosen_by_private_people_alone(
    folder: Path, masked: dict[str, Any], monkeypatch: Any
) -> None:
    task = probes.StagedTask(folder / "staged", TINY, "video-vit")
    cells, asked, test = Cells("choices", {}, str(folder)), [], task.test

    def noted(head: Any, **given: Any) -> dict[str, object]:
        asked.append(given["group"])
        return test(head, **given)

    monkeypatch.setattr(task, "test", noted)
    assert maskdp._choice(cells, task, "rendered", "dp-sgd", 0.5) in maskdp.CHOICES
    assert asked == ["private"] * len(maskdp.CHOICES)


def test_every_private_row_promises_what_was_asked(masked: dict[str, Any]) -> None:
    private = [cell for cell in masked["cells"] if cell["asked"] is not None]
    assert {(cell["kind"], cell["method"]) for cell in private} == set(ROWS)
    for cell in private:
        assert cell["epsilon"] <= cell["asked"]
        assert cell["relation"] == "replace"
    free = [cell for cell in masked["cells"] if cell["method"] == "sgd"]
    assert all(cell["unit"] == "none" and cell["epsilon"] is None for cell in free)


def test_the_published_batch_is_shown_with_its_true_epsilon(masked: dict[str, Any]) -> None:
    for cell in masked["published"]:
        assert cell["epsilon"] > cell["asked"]
        true = format_epsilon(cell["epsilon"])
        assert f"| {cell['asked']:g} | {true} |" in maskdp.page(masked)


def test_unequal_classes_are_unequal() -> None:
    y = np.repeat(np.arange(4), 10)
    assert np.bincount(y[maskdp._unequal(y)]).tolist() == [10, 8, 6, 5]


def test_the_page_says_where_masks_help_and_where_they_do_not() -> None:
    def row(kind: str, method: str, top1: float, seed: int) -> dict[str, Any]:
        return {"kind": kind, "method": method, "asked": 0.5, "top1": top1, "seed": seed}

    cells = [row("rendered", "maskdp", 0.6 + 0.01 * s, s) for s in range(3)]
    cells += [row("real", "dp-sgd", 0.3 + 0.01 * s, s) for s in range(3)]
    cells += [row("rendered", "dp-sgd", 0.5 + 0.1 * s, s) for s in range(3)]
    cells += [row("rendered", "public-only", 0.9, s) | {"asked": None} for s in range(3)]
    said = verdict({"cells": cells})
    assert "Beside DP on real clips, MaskDP on avatars is above at 0.5 (61.0, 31.0)." in said
    assert "Beside DP on avatars, MaskDP on avatars is not told apart at 0.5 (61.0, 60.0)." in said
    assert (
        "Beside the avatars' pixels alone, MaskDP on avatars is below at 0.5 (61.0, 90.0)." in said
    )


def test_pages_and_figures_come_from_the_numbers_alone(masked: dict[str, Any]) -> None:
    assert {"accuracy", "classes"} == set(maskdp.figures(masked))
    assert "the paper, NTU" in maskdp.page(masked)
    assert len(maskdp.words(masked)) >= 2
    both = masked | {"i3d": masked | {"scale": {**masked["scale"], "private": 77}}}
    assert "With I3D, trained on Kinetics-400, in the place of the VideoViT: 77 of" in maskdp.page(
        both
    )
    assert "With I3D" not in maskdp.page(masked)


def test_context_trains_on_each_kind_and_tests_as_filmed(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(context, "QUICK", TINY)
    monkeypatch.setattr(context, "_STEPS", 2)
    result = context.run(quick=True, keep=str(folder))
    assert [cell["kind"] for cell in result["cells"]] == list(context.KINDS)
    real = result["cells"][0]
    assert real["real"] == real["same"]
    assert "Background alone" in context.page(result)
    assert "<svg" in context.figures(result)["kinds"]


def test_multiclip_rows_state_their_own_units(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(training_tasks, "QUICK", training_tasks.Size((8, 8, 8), 1, 1, 4))
    result = multiclip.run(quick=True, keep=str(tmp_path))
    units = {cell["way"]: cell["unit"] for cell in result["cells"]}
    assert units["DP-SGD"] == units["MultiClip-DP, 3 clips"] == "record"
    assert units["Video-DPRP, sound"] == "frame"
    true = {cell["way"]: cell["epsilon"] for cell in result["cells"]}
    assert true["Video-DPRP, sound"] <= 8
    assert true["Video-DPRP as published"] is None or true["Video-DPRP as published"] > 8
    assert "UTD-MHAD was not measured" in multiclip.page(result)
    assert set(multiclip.figures(result)) == {"staged"}


def test_claims_are_shown_beside_what_is_true(tmp_path: Path) -> None:
    result = accounting.run(quick=True, keep=str(tmp_path))
    page = accounting.page(result)
    for row in result["rows"]:
        assert f"| {row['stated']} |" in page
    assert any(row["epsilon"] and row["epsilon"] > 2 * row["claimed"] for row in result["rows"])


def test_an_interval_of_three_repeats_is_students() -> None:
    mean, error = mean_and_error([{"a": 1.0}, {"a": 2.0}, {"a": 3.0}], "a")
    assert mean == 2.0
    assert error == pytest.approx(4.302653 / math.sqrt(3), rel=1e-5)
    assert mean_and_error([{"a": 1.0}], "a") == (1.0, 0.0)
    assert shown([{"a": 0.5}, {"a": 0.5}], "a") == "50.0 ± 0.0"
    assert shown([], "a") == "-"
    assert markdown(["x", "y"], [["a", "1"]]) == "| x | y |\n| --- | --: |\n| a | 1 |"
