"""What a folder job has published, so that it can go on after a stop.

A line is written before the outputs of an item are moved into place and names their digests. What
counts as finished is then judged by the files themselves: a crash at any point leaves either all of
an item or something that is seen to be incomplete. The manifest names inputs and their digests, so
it is for the owner only (mode 0600) and never lies in the release (R14).
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sfumato.files import sha256
from sfumato.media._errors import MediaError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Published:
    """One item: digests of its source, of the settings and of every output (relative names)."""

    source: str
    digest: str
    settings: str
    outputs: dict[str, str] = field(default_factory=dict)
    main: str = ""
    result: Any = None

    def state(self, out_dir: Path) -> str:
        """``whole``, ``missing`` (some output is not there) or ``changed`` (not as we wrote it)."""
        missing = False
        for name, digest in self.outputs.items():
            file = out_dir / name
            if not file.is_file():
                missing = True
            elif sha256(file) != digest:
                return "changed"
        return "missing" if missing or not self.outputs else "whole"


class Manifest:
    """The open manifest of one job; a second job on the same folder is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items: dict[str, Published] = {}

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(self._file, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._load()
        except BlockingIOError:
            os.close(self._file)
            raise MediaError(
                "Expected one job at a time for this output folder, another one is running: "
                "wait for it or choose another folder."
            ) from None
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def add(self, item: Published) -> None:
        """Record an item, durably, before its outputs are moved."""
        self._append({"version": _VERSION, **asdict(item)})
        self.items[item.source] = item

    def _append(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, sort_keys=True, allow_nan=False) + "\n"
        data = text.encode()
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)

    def _load(self) -> None:
        lines = self.path.read_bytes().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            # A stop in the middle of a write: that item was not moved yet.
            os.ftruncate(self._file, sum(map(len, lines[:-1])))
            lines.pop()
        for line in lines:
            try:
                entry = json.loads(line)
                version = entry.pop("version")
                item = Published(**entry)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise self._unreadable() from None
            if version != _VERSION:
                raise self._unreadable()
            self.items[item.source] = item

    def _unreadable(self) -> MediaError:
        return MediaError(
            f"Expected a job manifest of version {_VERSION} beside the output folder, got one that "
            "cannot be read: remove it together with the output folder and start again."
        )
