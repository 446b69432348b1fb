"""Table ``protect``: Video-DPRP beside the published algorithm, face blur beside deface.

Every contender runs in a fresh process of its own, one after the other in one run, so that time and
peak memory are its own. The published algorithm is written as printed: a random matrix, two products,
a singular value decomposition, a pseudo-inverse.
"""

from __future__ import annotations

import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from sfumato import protect
from sfumato.bench.methods import staged_clip
from sfumato.media import Frame, VideoWriter, open_video
from sfumato.people._centerface import CenterFace
from sfumato.protect.video import Blur, VideoDprp, faces_left

SIZES = {True: (120, 160, 768, 32), False: (240, 320, 3072, 64)}
_DEFACE = "deface"


def run(
    *,
    quick: bool = False,
    clip: str | None = None,
    deface: str | None = None,
    published: bool = True,
    threads: int = 2,
) -> dict[str, Any]:
    """Both tables; ``clip`` is a video with faces, ``deface`` the command of a peer in its own venv."""
    return {
        "dprp": _dprp(SIZES[quick], published, threads),
        "blur": _blur(clip, deface, quick),
    }


def _video(height: int, width: int, frames: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (frames, height, width, 3)).astype(np.uint8)


def published_in_torch(video: Any, k: int, epsilon: float, delta: float, b: float = 0.8) -> Any:
    """Algorithm 1 of the Video-DPRP paper, line 10 repaired, without any thought for cost."""
    from sfumato.protect.video._dprp_published import published_noise

    noise = published_noise(epsilon, delta, k, b)
    flat = torch.from_numpy(video).float().reshape(len(video), -1)
    matrix = torch.randn(flat.shape[1], k) / math.sqrt(k)
    projected = flat @ matrix
    noisy = projected + noise.sigma_1 * torch.randn_like(projected)
    covariance = projected.T @ projected + noise.sigma_2 * torch.randn(k, k)
    _, _, right = torch.linalg.svd(covariance)
    rotated = right.T
    back = noisy @ rotated @ torch.linalg.pinv(matrix @ rotated)
    return back.reshape(video.shape).clamp(0, 255).round().to(torch.uint8)


def _ours(basis: str) -> Callable[[Any, int], Any]:
    def release(video: Any, k: int) -> Any:
        method = VideoDprp(
            epsilon=8.0, delta=1e-4, unit="frame", basis=basis, block=len(video), k=k,
            kept_frames=4, kept_size=16,
        )  # fmt: skip
        frames = (Frame(image, n, Fraction(n, 25)) for n, image in enumerate(video))
        return [frame.image for frame in method.frames(frames)]

    return release


def _measured(name: str, size: tuple[int, int, int, int], threads: int, pipe: Any) -> None:
    """In a process of its own: seconds, and bytes above what was there before."""
    height, width, k, frames = size
    torch.set_num_threads(threads)
    video = _video(height, width, frames)
    _ours("dct")(_video(24, 32, 4)[:4], 16)  # imports and first calls are not what is measured
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    before = _status("VmRSS")
    start = time.perf_counter()
    if name == "published":
        published_in_torch(video, k, 8.0, 1e-4)
    else:
        _ours(name)(video, k)
    pipe.send((time.perf_counter() - start, _status("VmHWM") - before))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _dprp(size: tuple[int, int, int, int], published: bool, threads: int) -> dict[str, Any]:
    height, width, k, frames = size
    rows = {}
    context = multiprocessing.get_context("spawn")
    for name in ("dct", "srht", *(["published"] if published else [])):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_measured, args=(name, size, threads, send))
        process.start()
        send.close()
        try:
            seconds, memory = receive.recv()
            rows[name] = {"seconds": seconds, "bytes": memory}
        except EOFError:
            rows[name] = {"seconds": None, "bytes": None}
        process.join()
    return {"size": [width, height], "k": k, "frames": frames, "threads": threads, "rows": rows}


def _blur(clip: str | None, deface: str | None, quick: bool) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(clip) if clip else staged_clip(Path(folder) / "staged.mp4", 64)
        if clip is None:
            notes.append("No clip was given: a staged one has no faces that detectors know.")
        frames, alone = _floor(source, Path(folder) / "floor.mp4")
        rows["decode and encode alone"] = {"frames_per_second": frames / alone}
        contenders = {"every frame": 1, "every 5th frame": 5}
        for words_, every in contenders.items():
            target = Path(folder) / f"every-{every}.mp4"
            # deface gives the network the picture as it is; ours would enlarge small ones
            same = CenterFace(sides=(1, 1 << 20))
            method = Blur(detector=same, every=every, check=None)
            start = time.perf_counter()
            protect.release(method, source, target, output=protect.OutputSettings(tolerant=True))
            rows[f"sfumato blur, {words_}"] = {
                "frames_per_second": frames / (time.perf_counter() - start),
                "frames_with_a_face_left": _left(source, target, quick),
            }
        peer = _deface(deface or _DEFACE, source, Path(folder) / "deface.mp4")
        if isinstance(peer, str):
            notes.append(peer)
        else:
            rows["deface"] = {
                "frames_per_second": frames / peer,
                "frames_with_a_face_left": _left(source, Path(folder) / "deface.mp4", quick),
            }
    return {"frames": frames, "rows": rows, "notes": notes}


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


def _deface(command: str, source: Path, target: Path) -> float | str:
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


def words(result: dict[str, Any]) -> Sequence[Any]:
    dprp = result["dprp"]
    first = Table("Video-DPRP", "seconds", "peak memory", "", box=None, pad_edge=False)
    slow = dprp["rows"].get("published", {"seconds": None, "bytes": None})
    for name, row in dprp["rows"].items():
        if row["seconds"] is None:
            first.add_row(name, "did not end", "", "")
            continue
        against = ""
        if slow["seconds"] is not None and name != "published":
            against = (
                f"{slow['seconds'] / row['seconds']:.0f} times as fast, "
                f"1/{slow['bytes'] / max(row['bytes'], 1):.0f} of the memory"
            )
        memory = f"{row['bytes'] / 2**20:.0f} MB"
        first.add_row(name, f"{row['seconds']:.2f}", memory, against)
    blur = result["blur"]
    second = Table("face blur", "frames a second", "frames with a face left", box=None)
    for name, row in blur["rows"].items():
        left = row.get("frames_with_a_face_left")
        second.add_row(name, f"{row['frames_per_second']:.0f}", "" if left is None else str(left))
    size = "x".join(map(str, dprp["size"]))
    return [
        f"{size}, k = {dprp['k']}, {dprp['frames']} frames, {dprp['threads']} threads",
        first,
        second,
        *blur["notes"],
    ]
