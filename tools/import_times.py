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


def once(checkout: Path, work: list[str]) -> tuple[int, int]:
    """Milliseconds, and how many modules are imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *work],
        env={**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    times = re.findall(r"^import time: +(\d+) \|", done.stderr, re.MULTILINE)
    return sum(map(int, times)) // 1000, len(times)


def main() -> None:
    checkouts = [Path(each) for each in sys.argv[1:] or ["."]]
    for name, work in WORK.items():
        # in turn, so that a busy machine is as busy for all of them
        rounds = [[once(checkout, work) for checkout in checkouts] for _ in range(RUNS)]
        for checkout, found in zip(checkouts, zip(*rounds)):
            time, modules = min(found)
            print(f"{checkout}: {name}: {time} ms, {modules} modules", flush=True)


if __name__ == "__main__":
    main()
