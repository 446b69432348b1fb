"""What exact noise costs: ``python tools/noise_times.py BEFORE .``, processor seconds of Video-DPRP with basis dct.

At 320 x 240, one thread, the least of several runs in turn; BEFORE is a worktree of a commit whose noise was
floats (7afca3e).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUNS = 5
KEPT = ("as it comes", "80 x 80 of every frame kept")
WORK = """
import time, torch, numpy as np
from fractions import Fraction
from sfumato import protect
from sfumato.media import Frame
torch.set_num_threads(1)
video = np.random.default_rng(0).integers(0, 256, (64, 240, 320, 3), dtype=np.uint8)
settings = dict(epsilon=8, delta=1e-5, unit="pixels(16, frames=1)", basis="dct")
def once(more):
    made = protect.make("dprp", settings | more)
    start = time.process_time()
    frames = (Frame(image, n, Fraction(n, 25)) for n, image in enumerate(video))
    assert sum(1 for _ in made.frames(frames, count=len(video))) == len(video)
    return time.process_time() - start
for more in ({}, dict(block=64, kept_frames=64, kept_size=80)):
    print(min(once(more) for _ in range(4)))
"""


def once(checkout: Path) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env={**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    checkouts = [Path(each) for each in sys.argv[1:] or ["."]]
    rounds = [[once(checkout) for checkout in checkouts] for _ in range(RUNS)]
    for number, kept in enumerate(KEPT):
        least = [min(found[number] for found in each) for each in zip(*rounds)]
        for checkout, seconds in zip(checkouts, least):
            share = seconds / least[0]
            print(f"{checkout}, {kept}: {seconds:.3f} s for 64 frames, {share:.2f} times the first")


if __name__ == "__main__":
    main()
