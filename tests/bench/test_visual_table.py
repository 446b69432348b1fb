"""Table ``visual``: every row of the paper has one of ours, and the page shows what was measured."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from sfumato import protect
from sfumato.bench import _visual_page as shown
from sfumato.bench import visual
from sfumato.privacy import Guarantee


def made_up() -> dict[str, Any]:
    cell = {"action_on_raw": 0.5, "action_on_protected": 0.61, "cmap": 0.4, "cmap_low": 0.3,
            "cmap_high": 0.5, "cmap_chance": 0.35, "f1": 0.2}  # fmt: skip
    ways = visual.ways()
    return {
        "staging": {"clips": 4, "actors": 2, "actions": ["a", "b"], "frames": 2, "width": 8, "height": 8},
        "parts": {"raw": "table 1"} | {way.name: way.part for way in ways},
        "rows": {"raw": [cell]} | {way.name: [cell, cell | {"cmap": 0.6}] for way in ways},
        "seconds": {"size": [320, 240], "frames": 180, "rows": dict.fromkeys(shown.PAPER_SECONDS, 1.5)},
        "real": {"clips": 3, "people": 8, "actions": 27, "rows": {"raw": cell}},
        "true_epsilon": {"Video-DPRP, published, epsilon 2": 4.2e6},
        "notes": [],
    }  # fmt: skip


def test_every_row_of_the_paper_has_one_of_ours() -> None:
    names = {"raw", *(way.name for way in visual.ways())}
    assert set(shown.PAPER) <= names
    page = shown.page(made_up())
    for k in shown.PAPER_K:
        assert f"| {k} |" in page
    for b in shown.PAPER_B:
        assert f"| {b} |" in page
    assert "4.2e+06 at 2" in page
    assert "| 61.7 / 50.0 / 53.0 / 55.1 |" in page
    assert "| 50 ± 0 | 61 ± 0 | 50 ± 14 | 20 ± 0 |" in page


def test_only_sound_rows_promise_something() -> None:
    for way in visual.ways():
        if way.method != "dprp":
            continue
        method = protect.make(way.method, way.settings)
        promise = method.promise(protect.Shape(64, 64, visual.SET.frames))
        assert isinstance(promise, Guarantee)
        published = "published" in way.name
        asked = way.settings["epsilon"]
        assert (
            (promise.epsilon > 1e3)
            if published
            else promise.epsilon == pytest.approx(asked, rel=1e-3)
        )


def test_figures_are_drawn() -> None:
    found = shown.figures(made_up())
    assert set(found) == {"action-on-protected", "cmap"}
    for text in found.values():
        ElementTree.fromstring(text)
    assert shown.words(made_up())
