"""Faces that tracking misses when the full detection does not run on every frame."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import people
from sfumato.media import Frame, Image, open_video

WAYS = ((1, True), (2, True), (3, True), (4, True), (5, True), (3, False))
_SURE, _COVERED = 0.5, 0.6


def misses(clips: Sequence[Path]) -> list[dict[str, Any]]:
    """For every interval of the full detection: boxes that either detector is sure of, on any
    frame, and how many of them the tracks cover by less than 60 %."""
    strong, fast = people.face_detector("centerface"), people.face_detector("blazeface")
    rows = [{"every": n, "glances": glances, "boxes": 0, "open": 0} for n, glances in WAYS]
    for clip in clips:
        with open_video(clip, tolerant=True) as video:
            seen = [(strong.detect(f.image), fast.detect(f.image)) for f in video]
        for row in rows:
            for (one, other), answer in zip(seen, _tracked(seen, row), strict=True):
                for box in (*one, *other):
                    if box.score >= _SURE:
                        row["boxes"] += 1
                        cover = max((each.covers(box) for each in answer.boxes), default=0.0)
                        row["open"] += not answer.blank and cover < _COVERED
    return rows


class _Replay:
    """Gives again what a detector found: a picture is the number of its frame."""

    name, device = "replay", "none"

    def __init__(self, found: Sequence[list[people.Box]]) -> None:
        self._found = found

    def detect(self, image: Image) -> list[people.Box]:
        return self._found[int(image)]


def _tracked(
    seen: Sequence[tuple[list[people.Box], list[people.Box]]], row: dict[str, Any]
) -> list[people.TrackedBoxes]:
    frames = [Frame(np.array(i), i, Fraction(i)) for i in range(len(seen))]
    strong = _Replay([people.unite([*one, *other]) for one, other in seen])
    glances = _Replay([other for _, other in seen]) if row["glances"] else None
    stream = people.track_boxes(frames, strong, every=row["every"], between=glances)
    return [found for _, found in stream]
