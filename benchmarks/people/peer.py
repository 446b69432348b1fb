"""deface on the same clips: heads that it leaves open, and both speeds one after the other."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.people.clip_measures import judged_points, pairs
from benchmarks.people.covers import Image, changed, codec_noise
from benchmarks.people.labels import LabelledClip, LabelledFrame
from benchmarks.people.releases import DEFAULT, released
from benchmarks.protect.blur import deface_seconds, first_frame
from sfumato.errors import SfumatoError
from sfumato.media import open_video

# The peer decodes with other rounding than we do, so even its lossless file differs a little everywhere.
# It also enlarges pictures to multiples of 16, unless it is told not to.
_LOSSLESS = '{"codec": "ffv1", "pixelformat": "bgr0", "macro_block_size": 1}'
_SHIFT = 3  # frames that the peer may have left out before


def peer_row(work: Path, clip: LabelledClip, source: Path, command: str) -> dict[str, Any]:
    """Frames a second of both, as they come and without their start, and the peer's open heads."""
    shutil.rmtree(work, ignore_errors=True)  # of a run that was stopped: both speeds are of one run
    work.mkdir(parents=True)
    short = first_frame(source, work / "first.mp4")
    ours = released(work, source.parent, source.name, "blur", DEFAULT)
    begun = released(work, work, short.name, "blur", DEFAULT)
    if "refused" in ours or "refused" in begun:
        return {"refused": ours.get("refused", begun.get("refused"))}
    used = _children()
    seconds = deface_seconds(command, source, work / "deface.mp4")
    used, start = _children() - used, deface_seconds(command, short, work / "deface-first.mp4")
    if isinstance(seconds, str) or isinstance(start, str):
        return {"refused": "deface did not run: pass peer= with the command of deface 1.5."}
    return {
        "frames": ours["frames"],
        "ours": {"seconds": ours["seconds"], "start": begun["seconds"],
                 "processor_seconds": ours["processor_seconds"]},
        "deface": {"seconds": seconds, "start": start, "processor_seconds": used},
        "points": _open_heads(work, clip, source, command),
    }  # fmt: skip


def _open_heads(
    work: Path, clip: LabelledClip, source: Path, command: str
) -> list[dict[str, Any]] | None:
    """Labelled heads in the peer's lossless file; None if it makes none."""
    try:
        noise = _rounding(work, command)
        target = _lossless(command, source, work / "deface.mkv")
        return [
            point
            for frame, before, after in _aligned(clip, source, target)
            for point in judged_points(frame, before, changed(before, after, noise), ("head",))
        ]
    except SfumatoError:
        return None


def _aligned(
    clip: LabelledClip, source: Path, target: Path
) -> Iterator[tuple[LabelledFrame, Image, Image]]:
    """Labelled frames with the peer's picture of them: it may leave frames out, so the most alike counts."""
    ours, theirs = _small(source), _small(target)
    places = {
        frame.number: min(
            range(max(0, frame.number - _SHIFT), min(len(theirs), frame.number + _SHIFT + 1)),
            key=lambda n, before=ours[frame.number]: float(np.abs(before - theirs[n]).mean()),  # type: ignore[misc]
        )
        for frame in clip.frames
    }
    before, after = _chosen(source, set(places)), _chosen(target, set(places.values()))
    for frame in clip.frames:
        yield frame, before[frame.number], after[places[frame.number]]


def _small(path: Path) -> list[npt.NDArray[np.int16]]:
    with open_video(path, tolerant=True) as video:
        return [frame.image[::4, ::4].astype(np.int16) for frame in video]


def _chosen(path: Path, numbers: set[int]) -> dict[int, Image]:
    with open_video(path, tolerant=True) as video:
        return {n: frame.image for n, frame in enumerate(video) if n in numbers}


def _rounding(work: Path, command: str) -> float:
    """By how much a picture that the peer only reads and writes differs from ours."""
    source = work / "first.mp4"
    same = _lossless(command, source, work / "deface-same.mkv", "--replacewith", "none")
    before, after = next(pairs(source, same))
    return codec_noise(before, after, np.ones(before.shape[:2], bool))


def _lossless(command: str, source: Path, target: Path, *options: str) -> Path:
    done = subprocess.run(
        [command, str(source), "-o", str(target), "--ffmpeg-config", _LOSSLESS, *options],
        capture_output=True, timeout=3600, check=False,
    )  # fmt: skip
    if done.returncode or not target.is_file():
        raise SfumatoError(f"Expected {target.name} of the peer, got none.")
    return target


def _children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def rate(row: dict[str, Any], who: str) -> float:
    """Frames a second once it runs: the first frame's time is taken off."""
    spent = row[who]["seconds"] - row[who]["start"]
    return float((row["frames"] - 1) / max(spent, 1e-3))
