"""Releases of staged clips, whose truth is known: is the person covered, and how much else?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.people.clip_measures import pairs
from benchmarks.people.covers import changed
from benchmarks.people.releases import LOSSLESS, released
from sfumato import stage
from sfumato.media import VideoWriter

_FRAMES, _WIDTH, _HEIGHT, _FPS = 75, 320, 240, 25
_HEAD = [stage.JOINTS.index(name) for name in ("head", "crown")]
_SEED = 20  # nothing is tuned on it


def staged_row(work: Path, number: int, clips: int, method: str) -> dict[str, Any]:
    """Clip ``number`` of ``clips``: of the person's pixels the share covered, cover over person, heads open."""
    staging = stage.Staging(
        clips=clips, actors=clips, rooms=clips, frames=_FRAMES, width=_WIDTH, height=_HEIGHT,
        seed=_SEED,
    )  # fmt: skip
    made = next(
        c for n, c in enumerate(stage.clips(replace(staging, fps=float(_FPS)))) if n == number
    )
    name = f"staged-{number}-of-{clips}.mkv"
    _written(made, work / name)
    row = released(work, work, name, method, LOSSLESS)
    if "refused" in row:
        return {"refused": row["refused"]}
    person, hidden, cover, heads, heads_open = 0, 0, 0, 0, 0
    middles = made.pixels[:, _HEAD].mean(axis=1)
    for t, (before, after) in enumerate(pairs(work / name, row["path"])):
        mask, truth = changed(before, after), made.mask[t]
        person, hidden = person + int(truth.sum()), hidden + int((mask & truth).sum())
        cover += int(mask.sum())
        x, y = np.floor(middles[t]).astype(int)
        if 0 <= x < _WIDTH and 0 <= y < _HEIGHT:
            heads, heads_open = heads + 1, heads_open + int(not mask[y, x])
    return {"person": person, "hidden": hidden, "cover": cover, "heads": heads,
            "heads_open": heads_open}  # fmt: skip


def _written(clip: stage.Clip, target: Path) -> None:
    if target.is_file():
        return
    with VideoWriter(target, rate=_FPS, size=(_WIDTH, _HEIGHT), codec=LOSSLESS) as writer:
        for image in clip.frames:
            writer.write(image)
