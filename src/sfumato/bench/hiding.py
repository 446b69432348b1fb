"""Table ``hiding``: blur, pixelate and silhouette on every clip of a folder.

For each clip and method: are frames, rate and duration those of the input, on how many frames does a
detector still find a face of the original (one that took no part in the search, and the strongest one
on every whole frame), how much does the covered area flicker, and how fast was it. Results are kept
beside each other in ``work`` and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from sfumato import protect
from sfumato.bench import _face_misses
from sfumato.errors import SfumatoError
from sfumato.files import write_json
from sfumato.media import VideoWriter, list_media, open_video
from sfumato.protect.video import faces_left

METHODS = ("blur", "pixelate", "silhouette")
JUDGES = ("blazeface-short", "centerface")
_JUMP = 0.25


def run(
    *,
    data: str | None = None,
    work: str | None = None,
    methods: str | None = ",".join(METHODS),
    judges: str = ",".join(JUDGES),
    step: int = 1,
    memory: bool = True,
    misses: bool = False,
) -> dict[str, Any]:
    """Every ``step``-th clip of the folder ``data``; ``work`` keeps outputs and single results.

    ``misses`` also counts the faces that are left open when not every frame is looked at.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(work) if work else Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        clips = list_media(Path(data))[::step] if data else []
        if data and not clips:
            raise SfumatoError("Expected a folder with recordings as data, found none in it.")
        rows = [
            _resumed(kept, clip, name, judges.split(","))
            for clip in clips
            for name in (methods.split(",") if methods else ())
        ]
        lengths = _memory(Path(folder)) if memory else []
        looks = _face_misses.misses(clips) if misses else []
    return {"clips": rows, "memory": lengths, "misses": looks}


def _resumed(kept: Path, clip: Path, name: str, judges: Sequence[str]) -> dict[str, Any]:
    note = kept / f"{name}-{clip.stem}.json"
    if note.exists():
        done: dict[str, Any] = json.loads(note.read_text())
        return done
    row = {"clip": clip.name, "method": name} | _accept(
        clip, kept / f"{name}-{clip.stem}.mp4", name, judges
    )
    write_json(note, row)
    return row


def _accept(clip: Path, target: Path, name: str, judges: Sequence[str]) -> dict[str, Any]:
    method: Any = protect.make(name, {})
    areas: list[float] = []
    method.region.watchers.append(lambda frame, found: areas.append(_area(frame, found)))
    start = time.perf_counter()
    try:
        protect.release(
            method, clip, target, force=True, output=protect.OutputSettings(tolerant=True)
        )
    except SfumatoError as error:
        return {"refused": str(error)}
    seconds = time.perf_counter() - start
    before, after = _times(clip), _times(target)
    return {
        "frames": len(after["times"]),
        "same_frames_rate_and_duration": before == after,
        "frames_per_second": len(after["times"]) / seconds,
        "frames_with_a_face_left": {
            judge: sum(1 for _ in faces_left(clip, target, second=judge, tolerant=True))
            for judge in judges
        },
        **flicker(areas[: len(after["times"])]),
    }


def _area(frame: Any, found: Any) -> float:
    from sfumato import people

    height, width = frame.image.shape[:2]
    mask = people.box_mask(found.boxes, width, height) if hasattr(found, "boxes") else found.mask
    return float(mask.mean())


def _times(path: Path) -> dict[str, Any]:
    with open_video(path, tolerant=True) as video:
        return {"rate": video.info.rate, "times": [frame.time for frame in video]}


def flicker(areas: Sequence[float]) -> dict[str, float]:
    """How much the covered part of the picture changes from one frame to the next."""
    changes = [abs(b - a) / max(a, b) for a, b in pairwise(areas) if max(a, b) > 0]
    return {
        "largest_change_of_area": max(changes, default=0.0),
        "share_of_changes_above_a_quarter": float(np.mean([c > _JUMP for c in changes]))
        if changes
        else 0.0,
    }


def _peak(frames: int, folder: str, pipe: Any) -> None:
    """In a process of its own: peak memory of blur on a video of that length."""
    source, target = Path(folder) / f"{frames}.mkv", Path(folder) / f"{frames}-out.mp4"
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3)).astype(np.uint8)
    with VideoWriter(source, rate=25, size=(160, 120), codec="ffv1") as writer:
        for number in range(frames):
            writer.write(np.roll(noise, number, axis=1))
    protect.release(protect.make("blur", {"every": 5}), source, target)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            pipe.send(int(line.split()[1]) * 1024)


def _memory(folder: Path) -> list[dict[str, int]]:
    context, rows = multiprocessing.get_context("spawn"), []
    for frames in (60, 240):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_peak, args=(frames, str(folder), send))
        process.start()
        send.close()
        rows.append({"frames": frames, "peak_bytes": int(receive.recv())})
        process.join()
    return rows


def words(result: dict[str, Any]) -> Sequence[Any]:
    table = Table(
        "clip", "method", "frames", "same times", "faces left", "largest change", "frames a second",
        box=None, pad_edge=False,
    )  # fmt: skip
    refused = []
    for row in result["clips"]:
        if "refused" in row:
            refused.append(f"{row['clip']}, {row['method']}: {row['refused']}")
            continue
        left = ", ".join(f"{name} {n}" for name, n in row["frames_with_a_face_left"].items())
        table.add_row(
            row["clip"],
            row["method"],
            str(row["frames"]),
            "yes" if row["same_frames_rate_and_duration"] else "NO",
            left,
            f"{row['largest_change_of_area']:.0%}",
            f"{row['frames_per_second']:.1f}",
        )
    lengths = [
        f"Peak memory at {row['frames']} frames: {row['peak_bytes'] / 2**20:.0f} MB."
        for row in result["memory"]
    ]
    looks = [
        f"A strong look on every {row['every']}. frame, glances between: "
        f"{'yes' if row['glances'] else 'no'}: {row['open']} of {row['boxes']} faces left open."
        for row in result["misses"]
    ]
    return [table, *refused, *lengths, *looks]
