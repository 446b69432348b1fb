"""Faces that tracking leaves open when not every frame is looked at by the strong detector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.media import open_video
from sfumato.people._tracker import BoxTracker

WAYS = ((1, True), (2, True), (3, True), (4, True), (5, True), (3, False))
_SURE, _COVERED = 0.5, 0.6


def misses(clips: Sequence[Path]) -> list[dict[str, Any]]:
    """For every way to look: boxes that either detector is sure of, on any frame, and how many of
    them the tracks cover by less than 60 %."""
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


def _tracked(
    seen: Sequence[tuple[list[people.Box], list[people.Box]]], row: dict[str, Any]
) -> list[people.TrackedBoxes]:
    tracker = BoxTracker(people.DetectorStatus("bench", "cpu"), every=row["every"])
    answers: list[people.TrackedBoxes] = []
    for number, (one, other) in enumerate(seen):
        if number % row["every"] == 0:
            tracker.push(people.unite([*one, *other]))
        else:
            tracker.push(other if row["glances"] else None, thorough=False)
        answers += tracker.answers()
    return [*answers, *tracker.answers(finished=True)]
