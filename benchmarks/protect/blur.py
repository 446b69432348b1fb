"""Table ``protect-blur``: face blur beside deface, on the same recording and with the same network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.harness.markdown import markdown
from benchmarks.methods.run import staged_clip
from sfumato import protect
from sfumato.media import VideoWriter, open_video
from sfumato.people.detect._centerface import CenterFace
from sfumato.protect.hide import Blur, faces_left

_DEFACE = "deface"


def run(
    *, quick: bool = False, clip: str | None = None, deface: str | None = None
) -> dict[str, Any]:
    """``clip`` is a video with faces, ``deface`` the command of a peer in its own venv."""
    return {"blur": _blur(clip, deface, quick)}


def _blur(clip: str | None, deface: str | None, quick: bool) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(clip) if clip else staged_clip(Path(folder) / "staged.mp4", 64)
        if clip is None:
            notes.append("No clip was given: a staged one has no faces that detectors know.")
        frames, alone = _floor(source, Path(folder) / "floor.mp4")
        rows["decode and encode alone"] = {"frames_per_second": frames / alone}
        contenders = {"every frame": 1, "every 5th frame": 5, "every 8th frame": 8}
        for label, every in contenders.items():
            target = Path(folder) / f"every-{every}.mp4"
            # deface gives the network the picture as it is; ours would enlarge small ones
            same = CenterFace(sides=(1, 1 << 20))
            method = Blur(detector=same, every=every, check=None)
            _warm_up(same, source)  # start-up is left out of the peer's time too
            start = time.perf_counter()
            protect.release(method, source, target, output=protect.OutputSettings(tolerant=True))
            rows[f"sfumato blur, {label}"] = {
                "frames_per_second": frames / (time.perf_counter() - start),
                "frames_with_a_face_left": _left(source, target, quick),
            }
        target, start = Path(folder) / "default.mp4", time.perf_counter()
        protect.release(Blur(), source, target, output=protect.OutputSettings(tolerant=True))
        rows["sfumato blur as it comes: three detectors, output checked"] = {
            "frames_per_second": frames / (time.perf_counter() - start),
            "frames_with_a_face_left": _left(source, target, quick),
        }
        first = first_frame(source, Path(folder) / "first.mp4")
        start_up = deface_seconds(deface or _DEFACE, first, Path(folder) / "deface-first.mp4")
        peer = deface_seconds(deface or _DEFACE, source, Path(folder) / "deface.mp4")
        if isinstance(peer, str) or isinstance(start_up, str):
            notes.append(str(peer))
        else:
            rows["deface"] = {
                "frames_per_second": (frames - 1) / (peer - start_up),
                "frames_with_a_face_left": _left(source, Path(folder) / "deface.mp4", quick),
            }
    return {"frames": frames, "rows": rows, "notes": notes}


def _warm_up(detector: CenterFace, source: Path) -> None:
    with open_video(source, tolerant=True) as reader:
        detector.detect(next(iter(reader)).image)


def first_frame(source: Path, target: Path) -> Path:
    with open_video(source, tolerant=True) as reader, VideoWriter(target, reader.info) as writer:
        frame = next(iter(reader))
        writer.write(frame.image, frame.pts)
    return target


def _left(source: Path, target: Path, quick: bool) -> int | None:
    if quick:
        return None
    return sum(1 for _ in faces_left(source, target, second="blazeface", tolerant=True))


def _floor(source: Path, target: Path) -> tuple[int, float]:
    start = time.perf_counter()
    with open_video(source, tolerant=True) as reader, VideoWriter(target, reader.info) as writer:
        for frame in reader:
            writer.write(frame.image, frame.pts)
    return writer.frames_written, time.perf_counter() - start


def deface_seconds(command: str, source: Path, target: Path) -> float | str:
    """Seconds of the peer, or why it was not measured."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [command, str(source), "-o", str(target)],
            capture_output=True,
            timeout=1800,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode or not target.exists():
        return (
            "deface was not measured: install it in an environment of its own "
            f"({Path(sys.executable).name} -m venv peer; peer/bin/pip install deface==1.5.0) and "
            "pass deface=peer/bin/deface."
        )
    return time.perf_counter() - start


def _lines(blur: dict[str, Any]) -> list[list[str]]:
    rows = blur["rows"]
    floor = rows["decode and encode alone"]["frames_per_second"]
    peer = rows.get("deface", {}).get("frames_per_second")
    lines = []
    for name, row in rows.items():
        speed, left = row["frames_per_second"], row.get("frames_with_a_face_left")
        lines.append([
            name, f"{speed:.0f}", f"{floor / speed:.1f}", "" if peer is None else f"{speed / peer:.1f}",
            "" if left is None else str(left),
        ])  # fmt: skip
    return lines


HEAD = (
    "face blur",
    "frames a second",
    "times decode + encode",
    "times deface",
    "frames with a face left",
)


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"blur": markdown(HEAD, _lines(result["blur"]))}


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    table = Table(*HEAD, box=None)
    for line in _lines(result["blur"]):
        table.add_row(*line)
    return [table, *result["blur"]["notes"]]
