"""Table ``visual``: every row of the paper has one of ours, and the page shows what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.attacks.stage import Truth
from benchmarks.harness.cells import Cells
from benchmarks.visual import page as shown
from benchmarks.visual import run as visual
from benchmarks.visual.depth import FRAMES, SIZE, depth_clips
from benchmarks.visual.ways import GRIDS, side_of, ways
from sfumato import protect
from sfumato.audit.attack import Attribute
from sfumato.privacy import Guarantee

SIZES = [(visual.SET.height, visual.SET.width, visual.SET.frames), (*SIZE, FRAMES)]


def made_up() -> dict[str, Any]:
    cell = {"action_on_raw": 0.5, "action_on_protected": 0.61, "cmap": 0.4, "cmap_chance": 0.35,
            "f1": 0.2}  # fmt: skip
    rows = ways(*SIZES[0])
    promise = {"unit": "frame", "epsilon": 4.2e6, "delta": 1e-4}
    return {
        "staging": {"clips": 4, "actors": 2, "actions": ["a", "b"], "frames": 2, "width": 64,
                    "height": 64, "sets": 2},
        "parts": {"raw": "table 1"} | {way.name: way.part for way in rows},
        "rows": {"raw": [cell]} | {way.name: [cell, cell | {"cmap": 0.6}] for way in rows},
        "promises": {way.name: promise if way.method == "dprp" else None for way in rows},
        "seconds": {"size": [320, 240], "frames": 180,
                    "rows": {name: [1.5, 1.7] for name in shown.PAPER_SECONDS}},
        "real": {"clips": 3, "people": 8, "actions": 27, "shares": 3, "frames": 8, "size": [60, 80],
                 "rows": {"raw": [cell]}, "promises": {}},
        "notes": [],
    }  # fmt: skip


def test_every_row_of_the_paper_has_one_of_ours() -> None:
    names = {"raw", *(way.name for way in ways(*SIZES[0]))}
    assert set(shown.PAPER) <= names
    page = "\n".join(shown.tables(made_up()).values())
    for k in shown.PAPER_K:
        assert f"| {k} |" in page
    for b in shown.PAPER_B:
        assert f"| {b} |" in page
    assert "| 4.2e+06 for frame |" in page
    assert "| 61.7 / 50.0 / 53.0 / 55.1 |" in page
    assert "| V-SAM | not run: no weights |" in page
    # a mean of two, and the interval of Student's t with one degree of freedom
    assert "| 50 ± 0 | 61 ± 0 | 50 ± 127 | 20 ± 0 |" in page


def test_every_value_of_k_and_b_is_measured_as_published_and_sound() -> None:
    names = {way.name for way in ways(*SIZES[0])}
    for what, paper in (("k", shown.PAPER_K), ("b", shown.PAPER_B)):
        for how in ("published", "16 pixels"):
            assert {shown._variant(what, how, value) for value in paper} <= names
            assert len({shown._variant(what, how, value) for value in paper}) == len(paper)


def test_rows_stand_in_the_order_of_the_table_whatever_the_order_of_the_file() -> None:
    result = made_up()
    mixed = result | {"rows": dict(sorted(result["rows"].items()))}
    assert shown.tables(mixed) == shown.tables(result)


@pytest.mark.parametrize("size", SIZES)
def test_only_sound_rows_promise_what_they_ask_for(size: tuple[int, int, int]) -> None:
    for way in ways(*size):
        if way.method != "dprp":
            continue
        promise = protect.make(way.method, way.settings).promise(protect.Shape(*size))
        assert isinstance(promise, Guarantee)
        asked = way.settings["epsilon"]
        if "published" in way.name:
            assert promise.epsilon > 1e3
        else:
            assert promise.epsilon == pytest.approx(asked, rel=1e-3)


def test_a_share_b_of_the_budget_is_all_that_a_sound_release_spends() -> None:
    found = {way.name: way.promise(*SIZES[0]) for way in ways(*SIZES[0])}
    for b in (0.2, 0.4, 0.5, 0.6, 0.8):
        promise = found[f"16 pixels, b {b:g}"]
        assert promise is not None
        assert promise["epsilon"] == pytest.approx(8 * b, rel=1e-3)
        assert promise["delta"] == pytest.approx(b * 1e-4)


def test_k_keeps_the_papers_share_of_a_picture() -> None:
    for k, pixels in GRIDS.items():
        side = side_of(k, 240, 320)
        assert side**2 == pytest.approx(pixels, rel=0.03)
        assert side_of(k, 60, 80) == pytest.approx(side / 4, abs=0.51)


def test_figures_are_drawn_with_intervals() -> None:
    found = shown.figures(made_up())
    assert set(found) == {"trade-off", "action-on-protected", "cmap", "k", "b"}
    for text in found.values():
        ElementTree.fromstring(text)
        assert "LineCollection" in text, "no error bars"
    assert shown.terminal(made_up())


def test_a_group_that_is_measured_is_not_looked_at_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clips = rng.integers(0, 256, (8, 2, 24, 32, 3)).astype(np.uint8)
    masks = np.zeros((8, 2, 24, 32), bool)
    masks[:, :, 6:18, 8:24] = True
    # actions are bright or dark: both protocols must see it, and hiding all must destroy it
    clips[::2] //= 8
    labels = Attribute.of([i % 2 for i in range(8)])
    truth = Truth(masks, np.zeros((8, 2, 4)), {"it": labels}, labels, labels, labels)
    isr = next(way for way in ways(24, 32, 2) if way.name == "ISR, a tenth")
    group = visual.Group(Cells("visual", {}, str(tmp_path)), lambda: (clips, truth))
    row = group.measured(isr)
    assert row["action_on_raw"] == row["action_on_protected"] == row["cmap"] == 1.0

    def never() -> Any:
        raise AssertionError("looked at again")

    again = visual.Group(Cells("visual", {}, str(tmp_path)), never)
    assert again.measured(isr) == row
    with pytest.raises(AssertionError, match="looked at again"):
        again.measured(None)


def test_depth_clips_are_of_everybody_and_shares_are_disjoint(real_data: Path) -> None:
    folder = real_data / "utd_mhad"
    seen: set[bytes] = set()
    for part in (0, 7):
        clips, truth = depth_clips(folder, part, 15)
        assert clips.shape[1:] == (FRAMES, *SIZE, 3)
        assert len(truth.identity.classes) == 8
        assert len(truth.actions.classes) == 27
        assert (clips[..., 0][~truth.masks] == 0).all()
        assert clips[..., 0][truth.masks].mean() > 50
        keys = {clip.tobytes() for clip in clips}
        assert len(keys) == len(clips)
        assert not keys & seen
        seen |= keys
