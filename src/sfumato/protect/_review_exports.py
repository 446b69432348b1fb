"""What stays with the operator: previews, boxes and masks to correct, doubtful frames to review.

All of it shows or describes the original people. It is written beside a run, only if the release
came about, for the owner only, and never into the folder of the release. Every file says so inside
(``PRIVATE_NOTE``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import people
from sfumato.files import atomic_output, is_within, refuse_overwrite, refuse_replacing, write_json
from sfumato.media import (
    IMAGE_SUFFIXES,
    Frame,
    open_video,
    require_image_name,
    require_video_name,
    write_image,
)
from sfumato.privacy import PRIVATE_NOTE
from sfumato.protect._before_after import require_private_place
from sfumato.protect._doubts import doubtful_frames, look_first, ranked
from sfumato.protect._method import Method, ProtectError
from sfumato.protect._release import OutputSettings

if TYPE_CHECKING:
    from sfumato.protect.hide._region import Region


@dataclass(frozen=True)
class ReviewExports:
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
class ExportSummary:
    """What was noted, in words and for machines; filled when the run is over."""

    words: list[str] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)


@contextmanager
def review_exports(
    method: Method,
    exports: ReviewExports,
    source: Path,
    target: Path,
    output: OutputSettings,
    *,
    force: bool,
) -> Iterator[ExportSummary]:
    """Watch a run and write the exports when it ended well."""
    written, region = ExportSummary(), method.region
    if not exports.wanted:
        yield written
        _summarise(region, written)
        return
    watchers = method.watchers
    if watchers is None:
        raise nothing_to_show(method.name)
    if region is None and exports.review is not None:
        raise ProtectError(
            f"Expected a method that holds places over time for a review, got {method.name}: export "
            "its masks or write a preview instead."
        )
    _require_places(exports, source, target, force=force)
    with ExitStack() as stack:
        sheet = people.ContactSheet()
        coco: list[people.CocoWriter] = []
        masks = _mask_video(stack, exports, source, output, force)

        category = "face" if region is not None and region.kind == "faces" else "person"

        def watch(frame: Frame, found: people.People, covered: people.Mask) -> None:
            height, width = frame.image.shape[:2]
            if exports.preview is not None:
                sheet.add(people.draw(frame.image, found))
            if exports.export_boxes is not None:
                if not coco:
                    coco.append(people.CocoWriter(width, height, category))
                coco[0].add(found)
            if masks is not None:
                masks.write(frame, covered, blank=found.blank)

        watchers.append(watch)
        stack.callback(watchers.remove, watch)
        yield written
        if exports.preview is not None:
            with atomic_output(exports.preview, force=force, private=True) as temporary:
                look = [f"look first at {words}" for words in look_first(_doubts(region))]
                shown = people.with_legend(sheet.image(), look)
                write_image(temporary, shown, note=PRIVATE_NOTE, force=True)
        if exports.export_boxes is not None:
            with atomic_output(exports.export_boxes, force=force, private=True) as temporary:
                coco[0].write(temporary, note=PRIVATE_NOTE, force=True)
        if exports.review is not None and region is not None:
            described = {"about": PRIVATE_NOTE, **_review(region)}
            write_json(exports.review, described, force=force, private=True)
    _summarise(region, written)
    written.words.append(
        "Previews, exports and reviews show or describe the original people: do not share them."
    )
    written.payload["exports"] = [path.name for path in exports.wanted]


def nothing_to_show(method: str) -> ProtectError:
    return ProtectError(
        f"Expected a method or region that keeps where people are, got {method}, which does not: there "
        "is nothing to preview, export or review."
    )


def require_preview_folder(folder: Path, source: Path, target: Path) -> None:
    """Raise unless previews of a folder's recordings may be written there: apart from both."""
    refuse_replacing(source, folder, what="folder for previews")
    if is_within(folder, target) or folder.suffix.lower() in IMAGE_SUFFIXES or folder.is_file():
        raise ProtectError(
            "Expected a folder for the previews of a folder, outside the release, got another place: "
            "every recording has a sheet of its own, and they show the originals."
        )


def _require_places(exports: ReviewExports, source: Path, target: Path, *, force: bool) -> None:
    """Raise before anything is spent or made if a note cannot, or must not, be written there."""
    places = [path.resolve() for path in exports.wanted]
    if len(set(places)) < len(places):
        raise ProtectError("Expected a file of its own for every preview, export and review.")
    for path in exports.wanted:
        require_private_place(path, source, target, "preview, export or review")
        refuse_overwrite(path, force=force and not path.is_dir())
    if exports.preview is not None:
        require_image_name(exports.preview)
    if exports.export_masks is not None:
        require_video_name(exports.export_masks, "ffv1", None)


def _mask_video(
    stack: ExitStack, exports: ReviewExports, source: Path, output: OutputSettings, force: bool
) -> people.MaskVideoWriter | None:
    if exports.export_masks is None:
        return None
    if source.suffix.lower() in IMAGE_SUFFIXES:
        raise ProtectError(
            "Expected a video for a mask video, got a picture: export boxes instead."
        )
    with open_video(source, tolerant=output.tolerant) as reader:
        info = reader.info
    temporary = stack.enter_context(atomic_output(exports.export_masks, force=force, private=True))
    writer = people.MaskVideoWriter(temporary, info, note=PRIVATE_NOTE, force=True)
    return stack.enter_context(writer)


def _doubts(region: Region | None) -> list[people.DoubtfulSpan]:
    """Doubts about those who are to be covered; whoever is left open on purpose is none."""
    if region is None:
        return []
    left = region.by_hand.leave_open
    return [
        span for stream in region.streams for span in stream.review.spans if span.track not in left
    ]


def _review(region: Region) -> dict[str, Any]:
    doubts = _doubts(region)
    return {
        "look_first": look_first(doubts),
        "detectors": [stream.status.to_json() for stream in region.streams],
        "doubtful": [span.to_json() for span in ranked(doubts)],
        "doubtful_frames": doubtful_frames(doubts),
    }


def _summarise(region: Region | None, written: ExportSummary) -> None:
    """Which detector ran, on how many frames it found nothing, and what to look at first."""
    if region is None or not region.streams:
        return
    for stream in region.streams:
        written.words.append(str(stream.status))
    if region.by_hand.leave_open:
        written.words.append(
            "Look at every frame of those who are left open: where people cross, a track may pass from "
            "one to another."
        )
    doubts = _doubts(region)
    if doubts:
        frames = max(stream.status.frames for stream in region.streams)
        written.words.append(
            f"Look first at {', '.join(look_first(doubts))}. In all there are doubts on "
            f"{doubtful_frames(doubts)} of {frames} frames (--review FILE)."
        )
    written.payload |= _review(region)
