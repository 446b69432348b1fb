"""Table ``avatar``: how good avatars are, on staged truth and on real clips, and where time goes.

Staged clips come from seeds that no setting was tuned on. Results of single clips are kept in
``work``, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table

from benchmarks.avatar.clips import Eyes, judged_clip
from benchmarks.avatar.stage import HELD_OUT, TUNED_SEED, judged, speeds, staged, write_sheet
from benchmarks.harness.markdown import markdown
from benchmarks.people.labels import labelled
from sfumato.body import cast_of
from sfumato.errors import SfumatoError
from sfumato.files import write_json
from sfumato.media import list_media
from sfumato.protect.avatar import Avatar
from sfumato.settings import Count, Numbers, Seed
from sfumato.stage import ACTIONS

Row = dict[str, Any]
# measure -> (what the issue asks for, in words; whether a value meets it)
TARGETS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "joint error cm": ("at most 5", lambda v: v <= 5),
    "estimated joint error cm": ("at most 7", lambda v: v <= 7),
    "estimated IoU of r": ("at least 0.72", lambda v: v >= 0.72),
    "estimated PSNR inside q dB": ("at least 24", lambda v: v >= 24),
    "person left share": ("at most 0.01", lambda v: v <= 0.01),
    "person left share beside avatars": ("at most 0.01", lambda v: v <= 0.01),
    "foot slide cm a frame": ("at most 2", lambda v: v <= 2),
    "labelled people replaced by an avatar": ("at least 0.95", lambda v: v >= 0.95),
    "labelled people left open": ("at most 0.005", lambda v: v <= 0.005),
    "frames with grey outside people": ("0", lambda v: v == 0),
    "IoU of r": ("at least 0.80", lambda v: v >= 0.80),
    "PSNR inside q dB": ("at least 24", lambda v: v >= 24),
    "wrong public pixels": ("0", lambda v: v == 0),
    "frames with an original face left": ("0", lambda v: v == 0),
    "identity distance, avatar beyond strangers": ("at least 0", lambda v: v >= 0),
    "pose agreement": ("at least 0.85", lambda v: v >= 0.85),
    "render 320x240 frames a second": ("at least 15", lambda v: v >= 15),
    "stage 64x64 frames a second": ("at least 60", lambda v: v >= 60),
    "frames a second at 320x240, one person": ("at least 8", lambda v: v >= 8),
}

# Measures of staged clips whose people were found in the pictures, as in a recording. All others of
# these clips start from the stage's true joints and masks: they judge fitting, drawing and erasing alone.
BY_DETECTORS = (
    "estimated joint error cm",
    "estimated frames share",
    "estimated IoU of r",
    "estimated PSNR inside q dB",
    "foot slide cm a frame",
    "person left share",
    "person left share, worst frame",
    "person left share beside avatars",
)
HEAD = ("measure", "people by", "value", "asked for", "")
# names of measures that the JSON files keep, in plain words
PLAIN_NAMES = {
    "IoU of r": "overlap (IoU) of avatar and person",
    "PSNR inside q dB": "PSNR of the filled-in background, dB",
    "angle error deg": "error of joint angles, degrees",
    "cadence error 1/min": "error of the cadence, steps a minute",
    "estimated IoU of r": "overlap (IoU) of avatar and person, people found by detectors",
    "estimated PSNR inside q dB": "PSNR of the filled-in background, people found by detectors, dB",
    "foot slide cm a frame": "how far an avatar's foot slides while the true one stands, cm a frame",
    "estimated frames share": "share of frames on which the person was found",
    "estimated joint error cm": "joint error, people found by detectors, cm",
    "joint error cm": "joint error, true joints given, cm",
    "never seen share": "share of the erased background that no frame shows",
    "person left share": "share of the person's pixels left unchanged",
    "person left share, worst frame": "share of the person's pixels left unchanged, worst frame",
    "person left share beside avatars": "the same without pixels that the renderer wrote, which are as "
    "they were by chance",
    "step length error cm": "error of the step length, cm",
    "wrong public pixels": "pixels wrongly marked as synthetic",
    # of tables that were measured before people were posed over whole tracks
    "frames greyed by the last look": "frames greyed out by the residual face check",
    "ghost share": "visible remains of the person in the background",
    "largest ghost share": "visible remains of the person, worst clip",
}

# lower pictures show faces of ten pixels, whose embeddings say nothing about who it is
_LEAST_LINES = 180
_SEEDS, _CLIPS = ",".join(map(str, HELD_OUT)), len(ACTIONS)


def run(
    *,
    body: Literal["anny", "procedural"] = "anny",
    seeds: Numbers | Seed = _SEEDS,
    clips: Count = _CLIPS,
    length: Count = 30,
    estimate: bool = True,
    data: str | None = None,
    step: Count = 1,
    frames: Count = 48,
    work: str | None = None,
    sheet: str | None = None,
    speed: bool = True,
    finished: bool = False,
) -> dict[str, Any]:
    """``clips`` staged clips a seed, and the clips of the folders ``data`` (with commas), every
    ``step``-th of each; ``FOLDER:5`` is every fifth of that one.

    ``finished`` shows the real clips that former runs left in ``work``, without going on.
    """
    try:
        chosen = tuple(int(seed) for seed in str(seeds).split(","))
    except ValueError:
        raise SfumatoError(f"Expected seeds such as 101,202, got {seeds!r}.") from None
    if TUNED_SEED in chosen:
        raise SfumatoError(
            f"Expected seeds that nothing was tuned on, got {TUNED_SEED}: choose others."
        )
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(work) if work else Path(folder)
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        rows = _staged(kept, body, chosen, clips, length, estimate)
        real = _real(kept, body, data, step, frames, finished)
    result: dict[str, Any] = {
        "body": body,
        "seeds": list(chosen),
        "staged clips": len(rows),
        "staged": means(rows),
        "worst staged clip": worst(rows),
        "clips": [{k: v for k, v in row.items() if "vectors" not in k} for row in real],
    }
    if real:
        result["real"] = together(real)
    if speed:
        result["speed"] = speeds(body)
    if sheet:
        write_sheet(sheet, body, min(clips, 6), length)
    return result


def _staged(
    kept: Path, body: Any, seeds: tuple[int, ...], count: int, length: int, estimate: bool
) -> list[Row]:
    cast, finder, rows = cast_of(body), None, []
    for number, clip in enumerate(staged(seeds, count, length)):
        if estimate and finder is None:
            finder = Avatar(body=body).finder
        seed = seeds[number // count]
        note = kept / f"staged-{body}-{seed}-{number % count}-{length}-{estimate}.json"
        person = cast[(5 * number) % len(cast)]
        rows.append(_resumed(note, partial(judged, clip, person, finder)))
    return rows


def _real(
    kept: Path, body: Any, data: str | None, step: int, frames: int, finished: bool
) -> list[Row]:
    eyes, rows = cache(Eyes), []
    labels = {Path(each.name).name: each for each in labelled()}
    for given in data.split(",") if data else []:
        folder, _, own = given.rpartition(":")
        if not folder or not own.isdigit():
            folder, own = given, str(step)
        for clip in list_media(Path(folder))[:: int(own)]:
            note = kept / f"clip-{body}-{frames}-{clip.stem}.json"
            if finished and not note.exists():
                continue
            # a method of its own for every clip: its finder remembers who ended the last window
            rows.append(
                _resumed(
                    note,
                    partial(
                        judged_clip, clip, Avatar(body=body), frames, eyes, labels.get(clip.name)
                    ),
                )
            )
    return rows


def _resumed(note: Path, measure: Callable[[], Row]) -> Row:
    if not note.exists():
        try:
            row = measure()
        except SfumatoError as error:
            row = {"refused": str(error)}
        write_json(note, row)
    found: Row = json.loads(note.read_text(encoding="utf-8"))
    return found


def means(rows: Iterable[Row]) -> dict[str, float]:
    """The mean of every measure over the clips that have it."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, int | float):
                values.setdefault(name, []).append(float(value))
    return {name: float(np.mean(each)) for name, each in values.items()}


def worst(rows: Sequence[Row]) -> dict[str, float]:
    """The worst single clip of what has a target: a mean hides clips below it."""
    out = {}
    for name, high in (
        ("joint error cm", True), ("IoU of r", False), ("PSNR inside q dB", False),
        ("estimated joint error cm", True), ("estimated IoU of r", False),
        ("estimated PSNR inside q dB", False), ("person left share", True),
    ):  # fmt: skip
        each = [row[name] for row in rows if name in row]
        if each:
            out[name] = float(max(each) if high else min(each))
    return out


def together(rows: Sequence[Row]) -> dict[str, Any]:
    """What the real clips say as one."""
    fine = [row for row in rows if "refused" not in row]
    told = [row for row in fine if int(row["size"].partition("x")[2]) >= _LEAST_LINES]
    strangers = _apart((one["vectors"], two["vectors"]) for one, two in combinations(told, 2))
    mistaken = _apart((one["vectors"], two["avatar vectors"]) for one, two in permutations(told, 2))
    compared = [row for row in told if row["identity distance"] is not None]
    own, usual = _mean(row["identity distance"] for row in compared), _mean(strangers)
    small = [row for row in fine if row["size"] in {"320x240", "320x180"} and row["people"] == 1]
    asked = sum(row.get("labelled people", 0) for row in fine)

    def share(name: str) -> float | None:
        return sum(row.get(name, 0) for row in fine) / asked if asked else None

    joints = sum(row["joints compared"] for row in fine)
    return {
        "clips": len(fine),
        "refused": len(rows) - len(fine),
        "frames": sum(row["frames"] for row in fine),
        "frames with a face": sum(row["frames with a face"] for row in fine),
        "frames with an original face left": sum(
            row["frames with an original face left"] for row in fine
        ),
        "labelled people": asked,
        "labelled people replaced by an avatar": share("by one avatar"),
        "labelled people with a grey stand-in": share("by a stand-in"),
        "labelled people left open": share("left open"),
        "identity switches of labelled people": sum(
            row.get("identity switches", 0) for row in fine
        ),
        "frames with grey outside people": sum(
            row.get("frames with grey outside people", 0) for row in fine
        ),
        "identity distance, original to avatar": own,
        "identity distance, nearest clip": min(
            (row["identity distance"] for row in compared), default=None
        ),
        "identity distance, avatar to other people": _mean(mistaken),
        "identity distance, strangers": usual,
        "identity distance, avatar beyond strangers": (
            None if own is None or usual is None else own - usual
        ),
        "identity distance, nearest twentieth of strangers": (
            float(np.percentile(strangers, 5)) if strangers else None
        ),
        "pose agreement": (
            sum(row["joints found again"] for row in fine) / joints if joints else None
        ),
        "worst clip's pose agreement": min(
            (r["joints found again"] / r["joints compared"] for r in fine if r["joints compared"]),
            default=None,
        ),
        "frames a second at 320x240, one person": _mean(row["frames a second"] for row in small),
        "frames a CPU second at 320x240, one person": _mean(
            row["frames a CPU second"] for row in small
        ),
    }


def _apart(pairs: Iterable[tuple[list[list[float]], list[list[float]]]]) -> list[float]:
    """Distances of every vector of one from every vector of the other."""
    return [
        float(np.linalg.norm(np.subtract(a, b))) for one, two in pairs for a in one for b in two
    ]


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return float(np.mean(given)) if given else None


def _lines(result: dict[str, Any]) -> list[list[str]]:
    """Measure, how people were found, value, what is asked for, and whether it is met."""
    lines = []
    for part in ("staged", "real", "speed"):
        for name, value in result.get(part, {}).items():
            by = people_by(part, name)
            if isinstance(value, dict):
                each = ", ".join(f"{k} {v:.0f}" for k, v in value.items() if v is not None)
                lines.append([name, by, each.replace("last look", "residual face check"), "", ""])
                continue
            asked, met = TARGETS.get(name, ("", None))
            shown = (
                "none"
                if value is None
                else f"{value:,}"
                if isinstance(value, int)
                else f"{value:.3g}"
            )
            verdict = "" if met is None or value is None else "met" if met(value) else "MISSED"
            if verdict == "met" and by == "truth":
                verdict = "met, given the truth"
            lines.append([shown_name(name), by, shown, asked, verdict])
    return lines


def shown_name(name: str) -> str:
    return PLAIN_NAMES.get(name, name)


def people_by(part: str, name: str) -> str:
    """Whether a measure starts from the stage's truth, from detectors, or shows nobody's pose."""
    if part == "speed":
        return ""
    return "detectors" if part == "real" or name in BY_DETECTORS else "truth"


BY_WHOM = (
    "Rows by truth start from the stage's true joints and masks: they judge fitting, drawing and erasing, "
    "not what a recording gets. Rows by detectors start from what the detectors find, as every release does."
)


def tables(result: dict[str, Any]) -> dict[str, str]:
    worst = [
        [shown_name(name), f"{value:.3g}"] for name, value in result["worst staged clip"].items()
    ]
    return {
        "measures": markdown(HEAD, _lines(result), left=5),
        "worst-clip": markdown(["worst single staged clip", "value"], worst),
    }


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    table = Table(*HEAD, box=None, pad_edge=False)
    for line in _lines(result):
        table.add_row(*line)
    clips = f"{result['staged clips']} staged clips, {result['body']} bodies. {BY_WHOM}"
    refused = [f"{row['refused']}" for row in result["clips"] if "refused" in row]
    worst = ", ".join(f"{shown_name(k)} {v:.3g}" for k, v in result["worst staged clip"].items())
    return [clips, table, f"Worst single staged clip: {worst}.", *refused]
