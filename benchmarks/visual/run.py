"""Table ``visual``: the Video-DPRP paper's Tables 1, 3, 4 and 5 on staged and real people.

Actions by both protocols of the paper (trained on protected clips; tested on raw, or on protected)
against what an attacker reads off protected clips, who trains and tests on protected ones. The
paper's own cross-data protocol needs VISPR and PA-HMDB51 (``audit.cross_data``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attacks.stage import STAGING, Clips, Truth, released, staged_clips
from benchmarks.harness.cells import Cells, Row
from benchmarks.harness.recordings import recordings
from benchmarks.visual.depth import FRAMES, SIZE, depth_clips
from benchmarks.visual.page import figures, tables, terminal
from benchmarks.visual.ways import DELTA, Way, ways
from sfumato import protect
from sfumato.audit.attack import Attribute, infer, multi_label, views_of
from sfumato.audit.measure import TopOne
from sfumato.media import Frame
from sfumato.settings import Count

__all__ = ["figures", "run", "tables", "terminal"]

SET = replace(STAGING, clips=144, actors=24, width=64, height=64, seed=51)
QUICK = replace(SET, clips=48, actors=12, frames=4)
QUICK_ROWS = ("face blurring", "ISR, a tenth", "selective privacy", "Video-DPRP, published, epsilon 8",
              "Video-DPRP, 16 pixels, epsilon 8", "published, k 64x80", "published, b 0.2")  # fmt: skip
# finders of faces, skeletons and bodies need colour
ON_DEPTH = ("ISR", "appearance free", "selective privacy", "silhouette",
            "Video-DPRP, published", "Video-DPRP, 16 pixels", "Video-DPRP, frame")  # fmt: skip
_SECONDS_SIZE, _SECONDS_FRAMES = (320, 240), 180
_TIMED: dict[str, tuple[str, dict[str, Any]]] = {
    "ISR (32x24)": ("isr", {}),
    "appearance free": ("appearance-free", {}),
    "face blurring": ("blur", {"region": "faces", "published": True, "check": False}),
    "Video-DPRP, sound": ("dprp", {"epsilon": 8.0, "delta": DELTA, "unit": "frame",
                                   "kept_size": 32}),
}  # fmt: skip


class Group:
    """Clips that are protected in every way and attacked; looked at only if something is missing."""

    def __init__(self, cells: Cells, load: Callable[[], tuple[Clips, Truth]]) -> None:
        self.cells, self._load = cells, load

    @cached_property
    def loaded(self) -> tuple[Clips, Truth]:
        return self._load()

    @cached_property
    def _raw(self) -> dict[str, Any]:
        return self._views(self.loaded[0])

    def measured(self, way: Way | None) -> Row:
        """One row of one group: as it is, or protected with noise of its own."""
        if way is None:
            return self.cells.done("raw", lambda: self._scores(self._raw))
        return self.cells.done(way.name, lambda: self._scores(self._shown(way)))

    def _shown(self, way: Way) -> dict[str, Any]:
        return self._views(released(way.method, way.settings, *self.loaded))

    def _views(self, clips: Clips) -> dict[str, Any]:
        return views_of(clips, self.loaded[1].masks, at="people", pictures=1)

    def _scores(self, shown: dict[str, Any]) -> Row:
        """Actions by both protocols, and the attributes by one who trains and tests on protected."""
        truth = self.loaded[1]
        guesses = {name: infer(shown, shown, each) for name, each in truth.attributes.items()}
        private = multi_label(guesses, truth.attributes).compute()
        return {
            "action_on_raw": _top(shown, self._raw, truth.actions),
            "action_on_protected": _top(shown, shown, truth.actions),
            "cmap": private.cmap.value, "cmap_chance": private.cmap.chance, "f1": private.f1.value,
        }  # fmt: skip


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    seeds: Count = 3,
    only: str | None = None,
) -> dict[str, Any]:
    """``seeds`` sets of staged people and shares of UTD-MHAD, each with noise of its own; ``data`` is
    a folder with ``utd_mhad``; ``only`` names rows by their beginnings, with semicolons between."""
    staging, count = (QUICK, 1) if quick else (SET, seeds)
    wanted = None if only is None else tuple(each.strip() for each in only.split(";"))

    def chosen(height: int, width: int, frames: int, names: tuple[str, ...] = ("",)) -> list[Way]:
        return [
            way for way in ways(height, width, frames)
            if way.name.startswith(names)
            and (not quick or way.name in QUICK_ROWS)
            and (wanted is None or way.name.startswith(wanted))
        ]  # fmt: skip

    groups = [_staged(replace(staging, seed=staging.seed + seed), keep) for seed in range(count)]
    size = (staging.height, staging.width, staging.frames)
    rows = chosen(*size)
    found = {
        "staging": {k: v for k, v in asdict(staging).items() if k != "actions"}
        | {"actions": list(staging.actions), "sets": count},
        "parts": {"raw": "table 1"} | {way.name: way.part for way in rows},
        "rows": _measured(groups, rows),
        "promises": {way.name: way.promise(*size) for way in rows},
        "seconds": groups[0].cells.done("seconds", lambda: _seconds(groups[0].loaded[0][0], quick)),
        "real": None,
        "notes": [] if data else ["UTD-MHAD: not run, no data= given."],
    }
    if data is not None:
        size = (*SIZE, FRAMES)
        folder = recordings(data, "utd_mhad")["utd_mhad"]
        rows = chosen(*size, ON_DEPTH)
        groups = [_real(folder, part, count, quick, keep) for part in range(count)]
        found["real"] = groups[0].cells.done("facts", lambda: _facts(groups[0].loaded[1])) | {
            "shares": count,
            "rows": _measured(groups, rows),
            "promises": {way.name: way.promise(*size) for way in rows},
        }
    return found


def _measured(groups: list[Group], rows: list[Way]) -> dict[str, list[Row]]:
    """Row -> what every group gave."""
    return {
        "raw" if way is None else way.name: [group.measured(way) for group in groups]
        for way in (None, *rows)
    }


def _staged(staging: Any, keep: str | None) -> Group:
    cells = Cells("visual", {"staging": asdict(staging), "version": 2}, keep)
    return Group(cells, lambda: staged_clips(staging, cells.folder))


def _real(folder: Path, part: int, parts: int, quick: bool, keep: str | None) -> Group:
    """A fifth of UTD-MHAD for each of three seeds; 58 clips for a quick run."""
    # clips are in order of action, person and trial, 32 an action: an odd step meets everybody
    shares = 15 if quick else max(parts, 5) | 1
    settings = {"depth": [part, shares], "size": SIZE, "version": 2}
    return Group(Cells("visual", settings, keep), lambda: depth_clips(folder, part, shares))


def _facts(truth: Truth) -> Row:
    return {"clips": len(truth.identity.codes), "people": len(truth.identity.classes),
            "actions": len(truth.actions.classes), "frames": FRAMES, "size": list(SIZE)}  # fmt: skip


def _top(taught: Any, asked: Any, actions: Attribute) -> float:
    measure = TopOne()
    measure.update(infer(taught, asked, actions), actions.codes)
    return float(measure.compute().value)


def _seconds(clip: Clips, quick: bool) -> Row:
    """Seconds for a video of the paper's size, three times, the methods in turn."""
    import cv2

    large = [np.asarray(cv2.resize(frame, _SECONDS_SIZE), np.uint8) for frame in clip]
    count, times = (30, 1) if quick else (_SECONDS_FRAMES, 3)
    spent: dict[str, list[float]] = {name: [] for name in _TIMED}
    for _ in range(times):
        for name, (method, settings) in _TIMED.items():
            frames = (Frame(large[n % len(large)], n, Fraction(n, 25)) for n in range(count))
            made = protect.make(method, settings)
            began = time.perf_counter()
            for _each in made.frames(frames, count=count):
                pass
            spent[name].append(time.perf_counter() - began)
    return {"size": list(_SECONDS_SIZE), "frames": count, "rows": spent}
