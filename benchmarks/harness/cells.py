"""Parts of a table, each kept on disk as soon as it is measured, so that a stopped table goes on."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from sfumato.files import write_json
from sfumato.store import cache_folder

Row = dict[str, Any]


def bench_folder() -> Path:
    """Where tables keep what they have measured: beside the models in the user's cache."""
    return cache_folder().parent / "bench"


class Cells:
    """Measured parts of ``table`` under ``settings``: other settings, other folder, no mixing."""

    def __init__(self, table: str, settings: Mapping[str, Any], keep: str | None = None) -> None:
        self.table = table
        stated = json.dumps(settings, sort_keys=True, default=str)
        mark = hashlib.sha256(stated.encode()).hexdigest()[:12]
        self.folder = (Path(keep).expanduser() if keep else bench_folder()) / f"{table}-{mark}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._console = Console(stderr=True, highlight=False)

    def path(self, key: str) -> Path:
        """The file of one part: readable, and different for different keys."""
        readable = re.sub(r"[^A-Za-z0-9.]+", "-", key).strip("-")[:80]
        return self.folder / f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:6]}.json"

    def done(self, key: str, measure: Callable[[], Row]) -> Row:
        """The part called ``key``: read if it was measured before, else measured now and kept."""
        path = self.path(key)
        if path.is_file():
            row: Row = json.loads(path.read_text(encoding="utf-8"))["row"]
            return row
        began = time.monotonic()
        row = measure()
        seconds = time.monotonic() - began
        # two runs of a table may measure the same part: the later one stays
        write_json(path, {"key": key, "seconds": seconds, "row": row}, force=True)
        self._console.print(f"{self.table}: {key} ({seconds:.0f} s)", style="dim")
        # as it will be read back: tuples are lists, keys are text
        return dict(json.loads(json.dumps(row)))
