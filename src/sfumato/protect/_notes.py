"""What stays with the operator: previews, boxes and masks to correct, doubtful frames to look at.

All of it shows or describes the original people. It is written beside a run, only if the release
came about, and is never part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import people
from sfumato.files import refuse_overwrite, write_json
from sfumato.media import IMAGE_SUFFIXES, Frame, open_video, write_image
from sfumato.protect._chain import Chain
from sfumato.protect._limited import Limited
from sfumato.protect._method import Method, ProtectError
from sfumato.protect._release import OutputSettings
from sfumato.protect.video._hiding import Hiding
from sfumato.protect.video._region import Found, Region, Watcher
from sfumato.protect.video.avatar import Avatar


@dataclass(frozen=True)
class Notes:
    """Files to write beside a run; none by default."""

    preview: Path | None = None
    export_boxes: Path | None = None
    export_masks: Path | None = None
    review: Path | None = None

    @property
    def wanted(self) -> list[Path]:
        given = (self.preview, self.export_boxes, self.export_masks, self.review)
        return [path for path in given if path is not None]


@dataclass
class Written:
    """What was noted, in words and for machines; filled when the run is over."""

    words: list[str] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)


def _on_the_recording(method: Method) -> Method:
    """Of a chain its first stage: a later one sees what the stages before it made."""
    return _on_the_recording(method.stages[0]) if isinstance(method, Chain) else method


def region_of(method: Method) -> Region | None:
    """The region whose people a method looked for."""
    looking = _on_the_recording(method)
    return looking.region if isinstance(looking, Hiding | Limited) else None


def _watchers(method: Method) -> list[Watcher] | None:
    """Who is told what was found on the original frames; None where nobody is looked for."""
    looking = _on_the_recording(method)
    if isinstance(looking, Avatar):
        return looking.watchers
    region = region_of(looking)
    return None if region is None else region.watchers


@contextmanager
def noting(
    method: Method, notes: Notes, source: Path, output: OutputSettings, *, force: bool
) -> Iterator[Written]:
    """Watch a run and write the notes when it ended well."""
    written, region = Written(), region_of(method)
    if not notes.wanted:
        yield written
        _tell(region, written)
        return
    watchers = _watchers(method)
    if watchers is None:
        raise ProtectError(
            f"Expected a method or region that keeps where people are, got {method.name}, which does "
            "not: there is nothing to preview, export or review."
        )
    if region is None and notes.review is not None:
        raise ProtectError(
            f"Expected a method that holds places over time for a review, got {method.name}: export "
            "its masks or write a preview instead."
        )
    for path in notes.wanted:
        refuse_overwrite(path, force=force)
    with ExitStack() as stack:
        sheet = people.ContactSheet()
        coco: list[people.CocoWriter] = []
        masks = _mask_video(stack, notes, source, output, force)

        def watch(frame: Frame, found: Found) -> None:
            height, width = frame.image.shape[:2]
            if notes.preview is not None:
                sheet.add(people.draw(frame.image, found))
            if notes.export_boxes is not None:
                if not coco:
                    category = "face" if isinstance(found, people.TrackedBoxes) else "person"
                    coco.append(people.CocoWriter(width, height, category))
                coco[0].add(found)
            if masks is not None:
                masks.write(frame, _as_mask(found, height, width))

        watchers.append(watch)
        stack.callback(watchers.remove, watch)
        yield written
        if notes.preview is not None:
            write_image(notes.preview, sheet.image(), force=force)
        if notes.export_boxes is not None:
            coco[0].write(notes.export_boxes, force=force)
        if notes.review is not None and region is not None:
            write_json(notes.review, _review(region), force=force)
    _tell(region, written)
    written.words.append(
        "Previews, exports and reviews show or describe the original people: do not share them."
    )
    written.payload["notes"] = [path.name for path in notes.wanted]


def _mask_video(
    stack: ExitStack, notes: Notes, source: Path, output: OutputSettings, force: bool
) -> people.MaskVideoWriter | None:
    if notes.export_masks is None:
        return None
    if source.suffix.lower() in IMAGE_SUFFIXES:
        raise ProtectError(
            "Expected a video for a mask video, got a picture: export boxes instead."
        )
    with open_video(source, tolerant=output.tolerant) as reader:
        info = reader.info
    return stack.enter_context(people.MaskVideoWriter(notes.export_masks, info, force=force))


def _as_mask(found: Found, height: int, width: int) -> people.TrackedMask:
    if isinstance(found, people.TrackedMask):
        return found
    mask = people.box_mask(found.boxes, width, height)
    states = {one.state for one in found.tracked} or {"seen"}
    worst = next(state for state in ("held", "bridged", "imported", "seen") if state in states)
    return people.TrackedMask(found.index, np.asarray(mask), worst, found.blank)


def _review(region: Region) -> dict[str, Any]:
    return {
        "detectors": [stream.status.to_json() for stream in region.streams],
        "doubtful": [span.to_json() for stream in region.streams for span in stream.review.spans],
    }


def _tell(region: Region | None, written: Written) -> None:
    """Which detector ran, and on how many frames it found nothing."""
    if region is None or not region.streams:
        return
    for stream in region.streams:
        written.words.append(str(stream.status))
    doubtful = sum(
        span.last - span.first + 1 for stream in region.streams for span in stream.review.spans
    )
    if doubtful:
        written.words.append(f"{doubtful} doubtful frames: write them with --review FILE.")
    written.payload |= _review(region)
