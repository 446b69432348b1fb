"""Covers of staged people, whose truth is known: how much is covered, and does it flicker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.hiding.hidden_clips import flicker
from sfumato import people, stage
from sfumato.media import Frame
from sfumato.protect.hide import Region

_FRAMES, _WIDTH, _HEIGHT = 75, 320, 240
_HEAD = [stage.JOINTS.index(name) for name in ("head", "crown")]


def run(clips: int) -> list[dict[str, Any]]:
    """People as ``silhouette`` finds them, and heads as ``blur`` does: one row each."""
    if clips < 1:
        return []
    staging = stage.Staging(
        clips=clips, actors=clips, rooms=clips, frames=_FRAMES, width=_WIDTH, height=_HEIGHT
    )
    parts: dict[str, list[float]] = {"the person": [], "the head": []}
    changes: dict[str, list[float]] = {name: [] for name in parts}
    for clip in stage.clips(replace(staging, fps=25.0)):
        for name, region in (("the person", "people"), ("the head", "faces")):
            found = [place.mask for _, place in Region(region).find(_frames(clip))]
            parts[name] += _covered(clip, found, whole=region == "people")
            areas = [float(mask.mean()) for mask in found]
            changes[name].append(flicker(areas)["largest_change_of_area"])
    return [
        {
            "of": name,
            "clips": clips,
            "frames": len(parts[name]),
            "covered": float(np.mean(parts[name])),
            "least_covered": min(parts[name]),
            "largest_change_of_area": max(changes[name]),
        }
        for name in parts
    ]


def _covered(clip: stage.Clip, found: list[people.Mask], *, whole: bool) -> list[float]:
    """Which part of the person is covered on each frame, or whether the middle of the head is."""
    if whole:
        pairs = zip(found, clip.mask, strict=True)
        return [float((mask & truth).sum() / truth.sum()) for mask, truth in pairs if truth.any()]
    columns, rows = np.floor(clip.pixels[:, _HEAD].mean(axis=1)).astype(int).T
    inside = (columns >= 0) & (columns < _WIDTH) & (rows >= 0) & (rows < _HEIGHT)
    return [
        float(mask[y, x])
        for mask, x, y, seen in zip(found, columns, rows, inside, strict=True)
        if seen
    ]


def _frames(clip: stage.Clip) -> Iterator[Frame]:
    for number, image in enumerate(clip.frames):
        yield Frame(image, number, Fraction(number, 25))
