"""Table ``methods``: what every release method costs, beside decoding and encoding alone."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.harness.markdown import markdown
from benchmarks.methods import dp_quality
from sfumato import protect, stage
from sfumato.errors import SfumatoError
from sfumato.media import VideoWriter, open_video
from sfumato.settings import Count

FRAMES, WIDTH, HEIGHT = 64, 320, 240
# What a person has to say anyway; everything else is the default.
_DP = {"epsilon": 8.0, "delta": 1e-5, "unit": "pixels(16, frames=1)"}
_COPY = (
    f"{sys.executable} -c 'import shutil, sys; shutil.copy(*sys.argv[1:3])' {{input}} {{output}}"
)


def run(
    *,
    only: str | None = None,
    frames: Count = FRAMES,
    rounds: Count = 1,
    data: str | None = None,
    step: Count = 1,
) -> dict[str, Any]:
    """Time of each method on one staged clip, as a multiple of decoding and encoding it.

    With ``data``, folders of recordings, also what is left of real pictures under each guarantee.
    """
    pictures = [name for name in protect.names() if protect.get(name).medium == "picture"]
    names = only.split(",") if only else pictures
    costs: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        source = staged_clip(Path(folder) / "staged.mp4", frames)
        alone = min(_copied(source, Path(folder) / f"alone-{n}.mp4") for n in range(rounds + 1))
        for name in names:
            try:
                seconds = min(
                    _protected(name, source, Path(folder) / f"{name}-{n}.mp4")
                    for n in range(rounds)
                )
            except SfumatoError as error:
                notes.append(f"{name} was not measured: {error}")
                continue
            costs[name] = {"ratio": seconds / alone, "frames_per_second": frames / seconds}
    return {
        "frames": frames,
        "size": [WIDTH, HEIGHT],
        "decode_and_encode_seconds": alone,
        "methods": costs,
        "quality": dp_quality.run(data, step=step) if data else [],
        "notes": notes,
    }


def staged_clip(path: Path, frames: int, *, width: int = WIDTH, height: int = HEIGHT) -> Path:
    """A recording of nobody."""
    staging = stage.Staging(clips=1, actors=1, rooms=1, frames=frames, width=width, height=height)
    (clip,) = stage.clips(replace(staging, fps=25.0))
    with VideoWriter(path, rate=25, size=(width, height)) as writer:
        for image in clip.frames:
            writer.write(image)
    return path


def _copied(source: Path, target: Path) -> float:
    start = time.perf_counter()
    with open_video(source) as reader, VideoWriter(target, reader.info) as writer:
        for frame in reader:
            writer.write(frame.image, frame.pts)
    return time.perf_counter() - start


def _protected(name: str, source: Path, target: Path) -> float:
    accepted = protect.get(name).accepted_settings()
    settings: dict[str, Any] = {key: value for key, value in _DP.items() if key in accepted}
    if name == "external":
        settings = {"command": _COPY}
    method = protect.make(name, settings)
    start = time.perf_counter()
    method.apply(source, target)
    return time.perf_counter() - start


def tables(result: dict[str, Any]) -> dict[str, str]:
    """Every release method there is with its guarantee and its cost; real pictures under noise."""
    costs = []
    for name, method in sorted((protect.methods() | protect.dataset_methods()).items()):
        cost = result["methods"].get(name)
        shown = f"{cost['ratio']:.1f}" if cost else "not measured"
        costs.append((f"`{name}`", method.summary, method.provides, shown))
    made = {"costs": markdown(("method", "what it does", "what it proves", "cost"), costs, left=4)}
    if result["quality"]:
        made["quality"] = dp_quality.table(result["quality"])
    return made


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    table = Table("method", "times decode + encode", "frames a second", box=None, pad_edge=False)
    for name, cost in sorted(result["methods"].items(), key=lambda item: item[1]["ratio"]):
        table.add_row(name, f"{cost['ratio']:.1f}", f"{cost['frames_per_second']:.0f}")
    alone = result["frames"] / result["decode_and_encode_seconds"]
    size = "x".join(map(str, result["size"]))
    return [
        f"{result['frames']} frames of {size}; decoding and encoding alone: {alone:.0f} a second.",
        table,
        *dp_quality.sentences(result["quality"]),
        *result["notes"],
    ]
