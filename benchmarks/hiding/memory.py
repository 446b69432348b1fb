"""Peak memory of covering faces, by the length of the recording."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import protect
from sfumato.media import VideoWriter

LENGTHS = (240, 960, 2000)
_WIDTH, _HEIGHT = 320, 240


def run(folder: Path, lengths: tuple[int, ...] = LENGTHS) -> list[dict[str, Any]]:
    """Each length in a process of its own, so that no run inherits another one's peak."""
    context, rows = multiprocessing.get_context("spawn"), []
    for frames in lengths:
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_peak, args=(frames, str(folder), send))
        process.start()
        send.close()
        rows.append({"frames": frames, "peak_bytes": int(receive.recv())})
        process.join()
    return rows


def _peak(frames: int, folder: str, pipe: Any) -> None:
    source, target = Path(folder) / f"{frames}.mkv", Path(folder) / f"{frames}-out.mp4"
    noise = np.random.default_rng(0).integers(0, 256, (_HEIGHT, _WIDTH, 3)).astype(np.uint8)
    with VideoWriter(source, rate=25, size=(_WIDTH, _HEIGHT)) as writer:
        for number in range(frames):
            writer.write(np.roll(noise, number, axis=1))
    protect.release(protect.make("blur", {"every": 5}), source, target)
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            pipe.send(int(line.split()[1]) * 1024)
