"""Where faces were, frame by frame: written down on the first try for the check and the next one."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator

from sfumato import people

_HEAD, _BOX = struct.Struct("<?i"), struct.Struct("<5d")
_UNKNOWN = -1


class Trail:
    """Boxes of every frame, kept in a nameless file: memory does not grow with the recording."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the trail
        self.frames = 0

    def add(self, faces: tuple[people.Box, ...] | None, blank: bool) -> None:
        """The next frame; None if nobody looked for faces on it."""
        count = _UNKNOWN if faces is None else len(faces)
        self._file.write(_HEAD.pack(blank, count))
        for box in faces or ():
            self._file.write(_BOX.pack(box.x0, box.y0, box.x1, box.y1, box.score))
        self.frames += 1

    def __iter__(self) -> Iterator[tuple[tuple[people.Box, ...] | None, bool]]:
        self._file.seek(0)
        for _ in range(self.frames):
            blank, count = _HEAD.unpack(self._file.read(_HEAD.size))
            boxes = tuple(
                people.Box(*_BOX.unpack(self._file.read(_BOX.size))) for _ in range(max(count, 0))
            )
            yield (None if count == _UNKNOWN else boxes), blank
