"""Table ``protect``: Video-DPRP beside the published algorithm, face blur beside deface."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from benchmarks.methods.run import staged_clip
from benchmarks.protect import dprp_speed as _dprp_speed
from sfumato import protect
from sfumato.media import VideoWriter, open_video
from sfumato.people.detect._centerface import CenterFace
from sfumato.protect.hide import Blur, faces_left
from sfumato.settings import Count

_DEFACE = "deface"


def run(
    *,
    quick: bool = False,
    clip: str | None = None,
    deface: str | None = None,
    published: bool = True,
    threads: Count = 2,
    rounds: Count = 5,
    only: Literal["dprp", "blur"] | None = None,
) -> dict[str, Any]:
    """Both tables; ``clip`` is a video with faces, ``deface`` the command of a peer in its own venv."""
    found: dict[str, Any] = {}
    if only != "blur":
        found["dprp"] = _dprp_speed.run(
            quick=quick, published=published, threads=threads, rounds=rounds
        )
    if only != "dprp":
        found["blur"] = _blur(clip, deface, quick)
    return found


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
        for words_, every in contenders.items():
            target = Path(folder) / f"every-{every}.mp4"
            # deface gives the network the picture as it is; ours would enlarge small ones
            same = CenterFace(sides=(1, 1 << 20))
            method = Blur(detector=same, every=every, check=None)
            _warm_up(same, source)  # start-up is left out of the peer's time too
            start = time.perf_counter()
            protect.release(method, source, target, output=protect.OutputSettings(tolerant=True))
            rows[f"sfumato blur, {words_}"] = {
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


def page(result: dict[str, Any]) -> str:
    """The Markdown of both tables, as far as they were run."""
    parts = [_dprp_page(result["dprp"])] if "dprp" in result else []
    return "\n".join([*parts, *([_blur_page(result["blur"])] if "blur" in result else [])])


def _dprp_page(found: dict[str, Any]) -> str:
    slow = found["rows"].get("published, in torch")
    lines = [
        "| Video-DPRP | seconds | peak memory | faster | memory |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, row in sorted(found["rows"].items(), key=lambda item: item[1]["seconds"]):
        ratios = ["", ""]
        if slow is not None and row is not slow:
            ratios = [
                f"{slow['seconds'] / row['seconds']:.0f} x",
                f"1/{slow['bytes'] / row['bytes']:.0f}",
            ]
        shown = [name, f"{row['seconds']:.2f}", f"{row['bytes'] / 2**20:.0f} MB", *ratios]
        lines.append(f"| {' | '.join(shown)} |")
    lengths = sorted(map(int, found["seconds_by_length"]["dct"]))
    lines += [
        "",
        f"| frames | {' | '.join(map(str, lengths))} |",
        "| --- " * (len(lengths) + 1) + "|",
    ]
    for name, seconds in found["seconds_by_length"].items():
        known = {int(n): value for n, value in seconds.items()}  # JSON's keys are text
        each = (f"{1000 * known[n] / n:.1f}" for n in lengths)
        lines.append(f"| {name}, ms a frame | {' | '.join(each)} |")
    memory = ", ".join(
        f"{row['bytes'] / 2**20:.0f} MB for {frames} frames"
        for frames, row in sorted(found["bytes_by_length"].items(), key=lambda item: int(item[0]))
    )
    size, hour = "x".join(map(str, found["size"])), found["hour_of_80x60"]
    long = "" if hour is None else (
        f"; an hour of 80x60 (90000 frames): {hour['bytes'] / 2**20:.0f} MB"
    )  # fmt: skip
    lines += [
        "",
        f"At {size}, {found['k']} numbers a frame, {found['frames']} frames, {found['threads']} "
        f"threads, each contender in a process of its own. Peak memory of a stream (`dct`): "
        f"{memory}{long}.",
    ]
    return "\n".join(lines) + "\n"


def _blur_page(blur: dict[str, Any]) -> str:
    rows = blur["rows"]
    floor = rows["decode and encode alone"]["frames_per_second"]
    peer = rows.get("deface", {}).get("frames_per_second")
    lines = [
        "| face blur | frames a second | times decode + encode | times deface | frames with a face "
        "left |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name, row in rows.items():
        speed, left = row["frames_per_second"], row.get("frames_with_a_face_left")
        beside = "" if peer is None else f"{speed / peer:.1f}"
        shown = "" if left is None else str(left)
        lines.append(f"| {name} | {speed:.0f} | {floor / speed:.1f} | {beside} | {shown} |")
    lines += [
        "",
        f"{blur['frames']} frames; the same network for all but ours as it comes.",
    ]
    return "\n".join([*lines, *blur["notes"]]) + "\n"


def words(result: dict[str, Any]) -> Sequence[Any]:
    said: list[Any] = []
    if "dprp" in result:
        said += _dprp_speed.words(result["dprp"])
    if "blur" in result:
        said += _blur_words(result["blur"])
    return said


def _blur_words(blur: dict[str, Any]) -> Sequence[Any]:
    second = Table(
        "face blur", "frames a second", "times decode + encode", "frames with a face left", box=None
    )
    for name, row in blur["rows"].items():
        left = row.get("frames_with_a_face_left")
        floor = blur["rows"]["decode and encode alone"]["frames_per_second"]
        speed = row["frames_per_second"]
        second.add_row(
            name, f"{speed:.0f}", f"{floor / speed:.1f}", "" if left is None else str(left)
        )
    return [second, *blur["notes"]]
