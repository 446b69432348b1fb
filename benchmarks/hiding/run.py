"""Table ``hiding``: blur, pixelate and silhouette on every clip of a folder.

For each clip and method: are frames, rate and duration those of the input, on how many frames does a
detector that took no part in the search still find a face of the original, how much does the covered
area flicker. On staged clips, whose truth is known: how much of the people is covered, and flicker.
Peak memory by length. Single results are kept, and a run that was stopped resumes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.harness.cells import Cells
from benchmarks.harness.markdown import markdown
from benchmarks.hiding import hidden_clips as _hidden_clips
from benchmarks.hiding import memory as _hiding_memory
from benchmarks.hiding import staged_covers as _staged_covers
from sfumato.errors import SfumatoError
from sfumato.files import write_json
from sfumato.media import list_media
from sfumato.settings import Count

METHODS = ("silhouette", "blur", "pixelate")
JUDGES = ("blazeface-short",)
_JUMP = 0.25


def run(
    *,
    data: str | None = None,
    work: str | None = None,
    methods: str | None = ",".join(METHODS),
    judges: str = ",".join(JUDGES),
    step: Count = 1,
    staged: Count = 6,
    memory: bool = True,
    finished: bool = False,
    quick: bool = False,
) -> dict[str, Any]:
    """Every ``step``-th clip of the folders ``data`` (separated by commas); ``work`` keeps outputs and
    single results, without it single results are kept in the cache. ``staged`` clips are made for the
    truth. ``finished`` shows what former runs left in ``work``, and measures nothing. ``quick`` takes
    few of everything.
    """
    if quick:
        staged = min(staged, 1)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"data": data, "quick": quick, "judges": judges, "version": 1}
        kept = Path(work) if work else Cells("hiding", settings).folder
        kept.mkdir(parents=True, exist_ok=True)
        clips = [clip for each in (data.split(",") if data else ()) for clip in _clips(each, step)]
        if quick:
            clips = sorted(clips, key=lambda clip: clip.stat().st_size)[:2]
        names = methods.split(",") if methods else []
        rows = [
            row
            for clip in clips
            for row in _hidden_clips.covered(
                kept, Path(work or folder), clip, names, judges.split(","), finished=finished
            )
        ]
        sizes = (25, 50) if quick else _hiding_memory.LENGTHS
        return {
            "clips": rows,
            "staged": _once(kept, f"staged-{staged}", lambda: _staged_covers.run(staged)),
            "memory": _once(kept, "memory", lambda: _hiding_memory.run(Path(folder), sizes))
            if memory
            else [],
        }


def _once(kept: Path, name: str, measure: Callable[[], list[dict[str, Any]]]) -> Any:
    """What ``measure`` gives, or what it gave before."""
    note = kept / f"part-{name}.json"
    if not note.exists():
        write_json(note, {"rows": measure()})
    return json.loads(note.read_text(encoding="utf-8"))["rows"]


def _clips(folder: str, step: int) -> list[Path]:
    found = list_media(Path(folder))[::step]
    if not found:
        raise SfumatoError("Expected folders with recordings as data, found none in one of them.")
    return found


def terminal(result: dict[str, Any]) -> Sequence[Any]:
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
    return [table, *refused, *_totals(result["clips"]), *_rest(result)]


def totals(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All clips of a method in one line."""
    for name in sorted({row["method"] for row in rows}):
        mine = [row for row in rows if row["method"] == name]
        done = [row for row in mine if "refused" not in row]
        if not done:
            continue
        yield {
            "method": name,
            "clips": len(mine),
            "refused": len(mine) - len(done),
            "frames": sum(row["frames"] for row in done),
            "other_times": sum(not row["same_frames_rate_and_duration"] for row in done),
            "left": sum(sum(row["frames_with_a_face_left"].values()) for row in done),
            "area": float(
                np.average(
                    [row["mean_area"] for row in done], weights=[row["frames"] for row in done]
                )
            ),
            "steady": sum(row["largest_change_of_area"] < _JUMP for row in done),
            "jumps": float(
                np.average(
                    [row["share_of_changes_above_a_quarter"] for row in done],
                    weights=[row["frames"] for row in done],
                )
            ),
        }


def _totals(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in totals(rows):
        yield (
            f"{row['method']}: {row['clips']} clips, {row['refused']} refused; {row['frames']} frames "
            f"released, {row['left']} with a face left, {row['other_times']} clips with other times; "
            f"{row['jumps']:.1%} of the changes of area above a quarter."
        )


def tables(result: dict[str, Any]) -> dict[str, str]:
    """Totals over all clips, staged truth, memory."""
    per_cent = "{:.1%}".format
    made = {
        "clips": markdown(
            ("method", "clips", "refused", "frames released", "with a face left", "clips with other times",
             "of the picture covered", "changes of area above 25 %", "clips without any"),
            [(f"`{row['method']}`", *(str(row[key]) for key in ("clips", "refused", "frames", "left",
              "other_times")), f"{row['area']:.0%}", f"{row['jumps']:.2%}", str(row["steady"]))
             for row in totals(result["clips"])],
        ),
        "staged": markdown(
            ("staged", "clips", "covered, worst frame", "covered, mean", "largest change of area"),
            [(row["of"], str(row["clips"]), per_cent(row["least_covered"]), per_cent(row["covered"]),
              f"{row['largest_change_of_area']:.0%}") for row in result["staged"]],
        ),
        "memory": markdown(
            ("frames", "peak memory"),
            [(str(row["frames"]), f"{row['peak_bytes'] / 2**20:.0f} MB") for row in result["memory"]],
        ),
    }  # fmt: skip
    return {name: table for name, table in made.items() if result[name]}


def _rest(result: dict[str, Any]) -> Iterator[str]:
    for row in result["staged"]:
        yield (
            f"Staged, {row['clips']} clips: at least {row['least_covered']:.1%} of "
            f"{row['of']} covered on any frame, {row['covered']:.1%} in the mean; area changes by at "
            f"most {row['largest_change_of_area']:.0%} from one frame to the next."
        )
    for row in result["memory"]:
        yield f"Peak memory at {row['frames']} frames: {row['peak_bytes'] / 2**20:.0f} MB."
