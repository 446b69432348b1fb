"""Processor time and memory of ``protect --method avatar``, here and in another checkout, in turn.

    python benchmarks/avatar/beside.py OTHER_CHECKOUT CLIP [RUNS]

Each run is a process of its own on one core; the best of ``RUNS`` (1) counts. What a process does before its
first frame (imports, models, bodies) is in it, so a longer clip says more about a frame.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from sfumato.media import open_video

HERE = Path(__file__).resolve().parents[2]


def measured(checkout: Path, clip: Path) -> tuple[float, float]:
    """Processor seconds and the largest size in MB of one release."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "sfumato", "protect", str(clip), f"{folder}/out.mp4",
                 "--method", "avatar"]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        quiet = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_WRONLY, 0) for n in (1, 2)]
        process = os.posix_spawn(words[0], words, environment, file_actions=quiet)
        _, status, used = os.wait4(process, 0)
        if status:
            raise SystemExit(f"{checkout} failed on {clip.name} ({status})")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    other, clip = Path(sys.argv[1]), Path(sys.argv[2])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with open_video(clip, tolerant=True) as reader:
        frames = sum(1 for _ in reader)
    best = {name: (float("inf"), float("inf")) for name in ("other", "here")}
    for _ in range(runs):
        for name, checkout in (("other", other), ("here", HERE)):
            found = measured(checkout, clip)
            best[name] = min(best[name][0], found[0]), min(best[name][1], found[1])
    for name, (seconds, size) in best.items():
        print(f"{name}: {seconds / frames:.2f} processor seconds a frame, {size:.0f} MB")
    print(f"{frames} frames: {best['other'][0] / best['here'][0]:.2f} times as fast")


if __name__ == "__main__":
    main()
