"""A few frames as they would be released: to look at before the release, never a release."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sfumato import people
from sfumato.media import Frame, SeekableVideo, VideoWriter
from sfumato.progress import tell
from sfumato.protect._command import with_defaults
from sfumato.protect._corrected import CATEGORIES, corrected_settings, write_boxes
from sfumato.protect._method import ProtectError
from sfumato.protect._registry import make


def preview(
    name: str,
    settings: Mapping[str, Any],
    source: Path,
    target: Path,
    first: int,
    last: int,
    found: people.PeopleFile | None = None,
) -> tuple[int, int]:
    """Write frames ``first`` to ``last`` of a video as the method releases them, for the owner only (ffv1).

    ``found`` are corrections, of which the part that is shown is taken. Gives the frames that were there.
    """
    with SeekableVideo(source) as video, TemporaryDirectory(dir=target.parent) as scratch:
        last = min(last, len(video) - 1)
        if first > last:
            raise ProtectError("Expected a part of the recording to preview, got none.")
        wanted = dict(settings)
        if found is not None:
            wanted = _corrected_part(name, wanted, found, first, last, Path(scratch))
        began = float(video.seconds(first))
        for edge in ("start", "end"):
            if wanted.get(edge) is not None:
                wanted[edge] = max(0.0, float(wanted[edge]) - began)
        method = make(name, with_defaults(name, wanted)[0])
        count = last - first + 1

        def frames() -> Iterator[Frame]:
            for number in range(first, last + 1):
                yield Frame(video.frame(number), number - first, video.seconds(number))

        size = video.info.width, video.info.height
        with VideoWriter(
            target, rate=video.info.rate, size=size, codec="ffv1", force=True
        ) as writer:
            for number, frame in enumerate(method.frames(frames(), count=count), start=1):
                writer.write(frame.image)
                tell("previewing", number, count)
    os.chmod(target, 0o600)
    return first, last


def _corrected_part(
    name: str,
    settings: dict[str, Any],
    found: people.PeopleFile,
    first: int,
    last: int,
    scratch: Path,
) -> dict[str, Any]:
    cut = people.PeopleFile.create(
        scratch / "part.db", found.people(first, last), width=found.width, height=found.height
    )
    places = {category: scratch / f"{category}.json" for category in CATEGORIES}
    for category, place in places.items():
        write_boxes(cut, category, place)
    wanted = corrected_settings(name, settings, found, places)
    here = {row.person.track for row in cut.rows()}
    if "leave_open" in wanted:
        wanted["leave_open"] = [each for each in wanted["leave_open"] if each in here]
    return wanted
