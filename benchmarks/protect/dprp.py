"""Table ``protect-dprp``: Video-DPRP beside the published algorithm, seconds and peak memory, in one run on one machine.

Every contender runs in a fresh process of its own, so that its peak memory is its own. The published
algorithm is written as printed, without any thought for cost: a random matrix, two products, a
singular value decomposition, a pseudo-inverse.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks.harness.markdown import markdown
from sfumato.media import Frame
from sfumato.protect.noise import VideoDprp
from sfumato.protect.noise._dprp_published import published_noise
from sfumato.settings import Count

EPSILON, DELTA, BLOCK = 8.0, 1e-4, 64
PUBLISHED = "published, in torch"


@dataclass(frozen=True)
class Size:
    """What is protected: ``frames`` pictures, each as ``side`` x ``side`` x 3 numbers."""

    height: int
    width: int
    side: int
    frames: int

    @property
    def k(self) -> int:
        return 3 * self.side**2


SIZES = {True: Size(120, 160, 16, 32), False: Size(240, 320, 32, 64)}
LENGTHS = (16, 32, 64, 128, 256)
# one block, and what an hour at 25 frames a second is sampled by; the hour itself in small pictures
LONG = {True: (128, 512), False: (128, 512, 2048)}
HOUR = 25 * 3600


def run(
    *, quick: bool = False, published: bool = True, threads: Count = 2, rounds: Count = 5
) -> dict[str, Any]:
    """Time, memory, growth with the length, and memory of long recordings."""
    size = SIZES[quick]
    ours = ("dct", "srht")
    rows = {name: _child(_measured, name, size, threads, rounds) for name in ours}
    grown = {name: _child(_growth, name, size, threads, rounds) for name in ours}
    long = {str(frames): _child(_long, size, frames, threads) for frames in LONG[quick]}
    hour = None if quick else _child(_long, Size(60, 80, 16, BLOCK), HOUR, threads)
    if published:
        rows[PUBLISHED] = _child(_measured, PUBLISHED, size, threads, 1)
    found = {
        "size": [size.width, size.height],
        "k": size.k,
        "frames": size.frames,
        "threads": threads,
        "rows": rows,
        "seconds_by_length": grown,
        "bytes_by_length": long,
        "hour_of_80x60": hour,
    }
    return {"dprp": found}


def published_in_torch(video: Any, k: int, epsilon: float, delta: float, b: float = 0.8) -> Any:
    """Algorithm 1 of the Video-DPRP paper, line 10 repaired."""
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


def _child(measure: Any, *arguments: Any) -> Any:
    """``measure`` in a process of its own; None if that did not end well (too little memory)."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(send, measure, arguments))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return None
    finally:
        process.join()


def _report(pipe: Any, measure: Any, arguments: tuple[Any, ...]) -> None:
    pipe.send(measure(*arguments))


def _measured(name: str, size: Size, threads: int, rounds: int) -> dict[str, float]:
    """Least seconds of some rounds, and peak bytes above what was there before."""
    torch.set_num_threads(threads)
    video = _video(size, size.frames)
    _released("dct", _video(Size(24, 32, 4, 4), 4), Size(24, 32, 4, 4))  # imports, first calls
    before = _from_here()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        if name == PUBLISHED:
            published_in_torch(video, size.k, EPSILON, DELTA)
        else:
            _released(name, video, size)
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds), "bytes": _status("VmHWM") - before}


def _growth(name: str, size: Size, threads: int, rounds: int) -> dict[str, float]:
    """Least seconds for recordings of different lengths, in blocks."""
    torch.set_num_threads(threads)
    found = {}
    for frames in LENGTHS:
        video = _video(size, frames)
        _released(name, video, size)
        seconds = []
        for _ in range(rounds):
            start = time.perf_counter()
            _released(name, video, size)
            seconds.append(time.perf_counter() - start)
        found[str(frames)] = min(seconds)
    return found


def _long(size: Size, frames: int, threads: int) -> dict[str, float]:
    """Peak bytes and seconds of a stream whose frames nobody keeps."""
    torch.set_num_threads(threads)
    (picture,) = _video(size, 1)
    made = _method("dct", size)
    before, start = _from_here(), time.perf_counter()
    stream = (Frame(np.roll(picture, n, axis=1), n, Fraction(n, 25)) for n in range(frames))
    count = sum(1 for _ in made.frames(stream))
    assert count == frames
    return {"bytes": _status("VmHWM") - before, "seconds": time.perf_counter() - start}


def _method(basis: Any, size: Size) -> VideoDprp:
    """With as many numbers a frame as the published algorithm: nothing is saved in time."""
    return VideoDprp(
        epsilon=EPSILON, delta=DELTA, unit="frame", basis=basis, block=BLOCK, k=size.k,
        kept_frames=BLOCK, kept_size=size.side,
    )  # fmt: skip


def _released(basis: str, video: Any, size: Size) -> list[Any]:
    def frames() -> Iterator[Frame]:
        for number, image in enumerate(video):
            yield Frame(image, number, Fraction(number, 25))

    made = _method(basis, size)
    return [frame.image for frame in made.frames(frames(), count=len(video))]


def _video(size: Size, frames: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    generator = np.random.default_rng(0)
    return generator.integers(0, 256, (frames, size.height, size.width, 3), dtype=np.uint8)


def _from_here() -> int:
    """Forget the peak so far; bytes in use now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def tables(result: dict[str, Any]) -> dict[str, str]:
    """Time and memory beside the published algorithm, time by length, peak memory by length."""
    found = result["dprp"]
    slow, lines = found["rows"].get(PUBLISHED), []
    for name, row in sorted(found["rows"].items(), key=lambda item: item[1]["seconds"]):
        ratios = ["", ""]
        if slow is not None and row is not slow:
            ratios = [
                f"{slow['seconds'] / row['seconds']:.0f} x",
                f"1/{slow['bytes'] / row['bytes']:.0f}",
            ]
        lines.append([name, f"{row['seconds']:.2f}", f"{row['bytes'] / 2**20:.0f} MB", *ratios])
    lengths = sorted(map(int, found["seconds_by_length"]["dct"]))  # JSON's keys are text
    by_length = [
        [f"{name}, ms a frame", *(f"{1000 * seconds[str(n)] / n:.1f}" for n in lengths)]
        for name, seconds in found["seconds_by_length"].items()
    ]
    memory = [
        [f"{frames} frames", f"{row['bytes'] / 2**20:.0f} MB"]
        for frames, row in sorted(found["bytes_by_length"].items(), key=lambda item: int(item[0]))
    ]
    if (hour := found["hour_of_80x60"]) is not None:
        memory.append([f"an hour of 80x60 ({HOUR} frames)", f"{hour['bytes'] / 2**20:.0f} MB"])
    return {
        "contenders": markdown(("Video-DPRP", "seconds", "peak memory", "faster", "memory"), lines),
        "by-length": markdown(("frames", *map(str, lengths)), by_length),
        "memory": markdown(("stream (`dct`)", "peak memory"), memory),
    }


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    """The tables for a person."""
    result = result["dprp"]
    table = Table("Video-DPRP", "seconds", "peak memory", "", box=None, pad_edge=False)
    slow = result["rows"].get(PUBLISHED)
    for name, row in result["rows"].items():
        if row is None:
            table.add_row(name, "did not end", "", "")
            continue
        against = ""
        if slow is not None and name != PUBLISHED:
            against = (
                f"{slow['seconds'] / row['seconds']:.0f} times as fast, "
                f"1/{slow['bytes'] / max(row['bytes'], 1):.0f} of the memory"
            )
        table.add_row(name, f"{row['seconds']:.2f}", f"{row['bytes'] / 2**20:.0f} MB", against)
    growth = Table("milliseconds a frame", *map(str, LENGTHS), box=None, pad_edge=False)
    for name, seconds in result["seconds_by_length"].items():
        growth.add_row(name, *(f"{1000 * seconds[str(n)] / n:.2f}" for n in LENGTHS))
    size = "x".join(map(str, result["size"]))
    said: list[Any] = [
        f"{size}, k = {result['k']}, {result['frames']} frames, {result['threads']} threads",
        table,
        growth,
    ]
    said += [
        f"{frames} frames take {row['bytes'] / 2**20:.0f} MB"
        for frames, row in result["bytes_by_length"].items()
    ]
    if (hour := result["hour_of_80x60"]) is not None:
        said.append(f"an hour of 80x60 takes {hour['bytes'] / 2**20:.0f} MB")
    return said
