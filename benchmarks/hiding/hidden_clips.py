"""One recording covered in several ways after one search, and what is left to be seen in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import protect
from sfumato.errors import SfumatoError
from sfumato.files import write_json
from sfumato.media import open_video
from sfumato.protect.hide import DetectionLog, Hiding, faces_left

_JUMP = 0.25
_TOLERANT = protect.OutputSettings(tolerant=True)


def covered(
    kept: Path,
    outputs: Path,
    clip: Path,
    names: Sequence[str],
    judges: Sequence[str],
    *,
    finished: bool = False,
) -> Iterable[dict[str, Any]]:
    """A row for each method; rows that a former run left in the folder ``kept`` are read, and with
    ``finished`` only these. Covered clips are written to ``outputs``.

    People are searched for once: whoever looks for people finds their faces beside them, so the
    methods that cover people come first and the others follow their log.
    """
    log: DetectionLog | None = None
    for name in sorted(names, key=lambda name: _method(name).region.kind != "people"):
        note = kept / f"{name}-{clip.stem}.json"
        if note.exists():
            done: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
            yield done
            continue
        if finished:
            continue
        method = _method(name)
        if log is not None:
            method.reuse_detections(log)
        row = {"clip": clip.name, "method": name, "searched": log is None}
        row |= _accept(clip, outputs / f"{name}-{clip.stem}.mp4", method, judges)
        log = method.detection_log
        write_json(note, row)
        yield row


def _method(name: str) -> Hiding:
    method = protect.make(name, {})
    if not isinstance(method, Hiding):
        raise SfumatoError(f"Expected methods that hide, such as blur, got {name!r}.")
    return method


def _accept(clip: Path, target: Path, method: Hiding, judges: Sequence[str]) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        protect.release(method, clip, target, force=True, output=_TOLERANT)
    except SfumatoError as error:
        return {"refused": str(error)}
    seconds = time.perf_counter() - start
    before, after = _times(clip), _times(target)
    with open_video(clip, tolerant=True) as video:
        areas = [float(place.mask.mean()) for _, place in method.places(video)]
    return {
        "frames": len(after["times"]),
        "same_frames_rate_and_duration": before == after,
        "frames_per_second": len(after["times"]) / seconds,
        "frames_with_a_face_left": {
            judge: sum(1 for _ in faces_left(clip, target, second=judge, tolerant=True))
            for judge in judges
        },
        "mean_area": float(np.mean(areas)),
        **flicker(areas),
    }


def _times(path: Path) -> dict[str, Any]:
    with open_video(path, tolerant=True) as video:
        return {"rate": video.info.rate, "times": [frame.time for frame in video]}


def flicker(areas: Sequence[float]) -> dict[str, float]:
    """How much the covered part of the picture changes from one frame to the next.

    A cover that appears in an empty picture, or leaves it empty, changes it by all of its area.
    """
    changes = [abs(b - a) / max(a, b) for a, b in pairwise(areas) if max(a, b) > 0]
    return {
        "largest_change_of_area": max(changes, default=0.0),
        "share_of_changes_above_a_quarter": float(np.mean([c > _JUMP for c in changes]))
        if changes
        else 0.0,
    }
