"""What a whole training waits for: its loader, and a second process.

``python -m benchmarks.speed.training`` prints the share of a training's time that waits for records, clips of
320 x 240 from disk as UCF101 has them, without and with reading ahead; and how much faster two processes of one
thread each are than one: by the clock, and by the processor time of the slower one, which is what cores of their
own would give. Clips are made up; by the clock an idle machine is needed for a number to mean anything.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from benchmarks.speed.run import CLIP
from sfumato.data import ArrayRecords, ReadAhead, Sampling, video_folder
from sfumato.learn import Plan, Sgd, Speed, VideoClips, train
from sfumato.media import VideoWriter
from sfumato.models import VideoViT

_CLASSES, _BATCH, _FRAMES = 2, 8, 120


def make_clips(folder: Path, clips: int) -> None:
    """Noise that moves, so that an encoder has work to do, and a decoder too."""
    for number in range(clips):
        place = folder / f"class{number % _CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        picture = np.random.default_rng(number).integers(0, 256, (60, 80, 3), np.uint8)
        large = picture.repeat(4, 0).repeat(4, 1)
        with VideoWriter(place / f"{number:03d}.mp4", rate=Fraction(25), size=(320, 240)) as out:
            for frame in range(_FRAMES):
                out.write(np.ascontiguousarray(np.roll(large, 3 * frame, 1)))


def waiting(read_ahead: int, clips: int, steps: int) -> dict[str, float]:
    """Seconds of a training, and those in which its step stood still for a record."""
    waited = 0.0
    real = ReadAhead.get

    def timed(self: ReadAhead, index: int) -> Any:
        nonlocal waited
        began = time.perf_counter()
        try:
            return real(self, index)
        finally:
            waited += time.perf_counter() - began

    with tempfile.TemporaryDirectory(prefix="sfumato-speed-") as place:
        make_clips(Path(place), clips)
        records = video_folder(place, sampling=Sampling(CLIP[1]))  # as ``sfumato train`` reads it
        plan = Plan.for_(records, epsilon=8.0, steps=steps, batch=_BATCH)
        model = VideoViT(_CLASSES, clip=CLIP)
        ReadAhead.get = timed  # type: ignore[method-assign]
        try:
            began = time.perf_counter()
            train(model, records, plan, speed=Speed(read_ahead=read_ahead), optimizer=Sgd(0.01),
                  prepare=VideoClips(CLIP[1], CLIP[2], CLIP[3]))  # fmt: skip
            taken = time.perf_counter() - began
        finally:
            ReadAhead.get = real  # type: ignore[method-assign]
    return {"threads": read_ahead, "seconds": taken, "waited": waited, "share": waited / taken}


def _rank(rank: int, size: int, port: int, steps: int, answer: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    draw = np.random.default_rng(0)
    records = ArrayRecords(
        draw.normal(size=(64, *CLIP)).astype(np.float32), draw.integers(0, 2, 64)
    )
    model = VideoViT(_CLASSES, clip=CLIP)
    best = cpu = float("inf")
    for turn in range(4):  # the first looks at the model
        plan = Plan.for_(records, epsilon=8.0, steps=steps, batch=32)
        dist.barrier()
        began, used = time.perf_counter(), time.process_time()
        train(model, records, plan, optimizer=Sgd(0.01))
        if turn:
            best = min(best, time.perf_counter() - began)
            cpu = min(cpu, time.process_time() - used)
    Path(f"{answer}{rank}").write_text(json.dumps([best, cpu]), encoding="utf-8")
    dist.destroy_process_group()


def ranks(size: int, steps: int) -> dict[str, float]:
    """Best seconds, and processor seconds of the slowest, of a training that ``size`` processes share."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="sfumato-speed-") as place:
        answer = str(Path(place, "seconds"))
        processes.spawn(_rank, (size, port, steps, answer), nprocs=size)  # type: ignore[attr-defined, no-untyped-call]
        found = [
            json.loads(Path(f"{answer}{rank}").read_text(encoding="utf-8")) for rank in range(size)
        ]
    seconds, cpu = (max(each) for each in zip(*found))
    return {"seconds": seconds, "cpu_seconds": cpu}


def main(steps: int, clips: int, out: Path | None) -> None:
    torch.manual_seed(0)
    loader = [waiting(threads, clips, steps) for threads in (0, 2)]
    one, two = (ranks(size, steps) for size in (1, 2))
    found = {
        "loader": loader, "one": one, "two": two, "load": os.getloadavg()[0],
        "faster": {name: one[name] / two[name] for name in one},
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--clips", type=int, default=32)
    options.add_argument("--out", type=Path, default=None)
    main(**vars(options.parse_args()))
