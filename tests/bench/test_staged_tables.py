"""Tables on staged people: groups share nobody, pieces are made once, every row states its promise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sfumato.bench import _people as people
from sfumato.bench import _staged_pairs as pairs
from sfumato.bench import _staged_probe as probes
from sfumato.bench import accounting, context, maskdp, multiclip
from sfumato.bench._summary import markdown, mean_and_error, shown
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
        return maskdp.run(quick=True, keep=str(folder))


def test_a_larger_staging_goes_on_from_a_smaller_one(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(pairs, "_PIECE", 2)
    small = Staging(clips=2, actors=2, rooms=2, frames=3, width=32, height=32, seed=3)
    large = Staging(clips=4, actors=2, rooms=2, frames=3, width=32, height=32, seed=3)
    first = pairs.staged_pairs(small, tmp_path)
    calls = []
    monkeypatch.setattr(pairs, "clips", _counted(pairs.clips, calls))
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
    alone = made.records("avatar").x
    assert not alone[~made.public].any()
    np.testing.assert_array_equal(alone[made.public], made.rendered[made.public])
    background = made.records("background").x
    assert (background == background[:, :1]).all(), "a room alone does not move"


def test_groups_share_no_actor_room_or_action_with_the_public() -> None:
    stagings = probes.Scale().stagings()
    assert len({staging.seed for staging in stagings.values()}) == 3
    assert not set(stagings["public"].actions) & set(stagings["private"].actions)
    assert stagings["private"].actions == stagings["held-out"].actions


def test_every_private_row_promises_what_was_asked(masked: dict[str, Any]) -> None:
    private = [cell for cell in masked["cells"] if cell["asked"] is not None]
    assert {(cell["kind"], cell["method"]) for cell in private} == set(maskdp.ROWS)
    for cell in private:
        assert cell["epsilon"] <= cell["asked"]
        assert cell["relation"] == "replace"
    free = [cell for cell in masked["cells"] if cell["method"] == "sgd"]
    assert all(cell["unit"] == "none" and cell["epsilon"] is None for cell in free)


def test_the_published_batch_is_shown_with_its_true_epsilon(masked: dict[str, Any]) -> None:
    for cell in masked["published"]:
        assert cell["epsilon"] > cell["asked"]
        assert f"| {cell['asked']:g} | {cell['epsilon']:.3g} |" in maskdp.page(masked)


def test_unequal_classes_are_unequal(folder: Path) -> None:
    y = np.repeat(np.arange(4), 10)
    blank = np.zeros((40, 1))
    given = pairs.Pairs(blank, blank, blank, blank, blank, blank, y, y, tuple("abcd"))  # type: ignore[arg-type]
    assert np.bincount(maskdp._unequal(given).y).tolist() == [10, 8, 6, 5]


def test_the_page_says_where_masks_help_and_where_they_do_not() -> None:
    def row(kind: str, method: str, top1: float, seed: int) -> dict[str, Any]:
        return {"kind": kind, "method": method, "asked": 0.5, "top1": top1, "seed": seed}

    clear = [row("rendered", "maskdp", 0.6 + 0.01 * s, s) for s in range(3)]
    clear += [row("real", "dp-sgd", 0.3 + 0.01 * s, s) for s in range(3)]
    assert "above at 0.5 (61.0 against 31.0)" in maskdp.verdict({"cells": clear})
    for cell in clear:
        cell["top1"] = 0.5 + 0.1 * cell["seed"]
    assert "not told apart from at 0.5" in maskdp.verdict({"cells": clear})


def test_pages_and_figures_come_from_the_numbers_alone(masked: dict[str, Any]) -> None:
    assert {"accuracy", "classes"} == set(maskdp.figures(masked))
    assert "the paper, NTU" in maskdp.page(masked)
    assert len(maskdp.words(masked)) >= 2


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
    monkeypatch.setattr(people, "QUICK", people.Size((8, 8, 8), 1, 1, 4))
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
