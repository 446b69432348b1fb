"""How long importing takes: ``python tools/import_times.py [CHECKOUT...]``, best of several runs.

Sums what ``python -X importtime`` says of every module; a checkout is a folder with ``src``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

RUNS = 9
WORK = {
    "sfumato.privacy": ["-c", "import sfumato.privacy"],
    "sfumato.protect": ["-c", "import sfumato.protect"],
    "sfumato --help": ["-m", "sfumato", "--help"],
}


def milliseconds(checkout: Path, work: list[str]) -> tuple[int, int]:
    """The best of several runs, and how many modules are imported."""
    found = []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *work],
            env={**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        times = re.findall(r"^import time: +(\d+) \|", done.stderr, re.MULTILINE)
        found.append((sum(map(int, times)) // 1000, len(times)))
    return min(found)


def main() -> None:
    for checkout in map(Path, sys.argv[1:] or ["."]):
        for name, work in WORK.items():
            time, modules = milliseconds(checkout, work)
            print(f"{checkout}: {name}: {time} ms, {modules} modules", flush=True)


if __name__ == "__main__":
    main()
