"""Which pixels a method works on: faces, people, everything but people, or a mask from a file.

People are found and followed through the recording by ``people.find``: heads, masks and what lies around
them come from there. A frame that cannot be answered for is *blank* and is not shown at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import tee
from pathlib import Path
from typing import Annotated, Any, Literal

import cv2
import numpy as np
from pydantic import Field

from sfumato import people
from sfumato.media import IMAGE_SUFFIXES, Frame, Image, read_image
from sfumato.protect._method import ProtectError
from sfumato.protect._searched import FoundFrame
from sfumato.protect.hide._by_hand import ByHand, ByHandRun
from sfumato.settings import FileName, OnlyInPython

Watcher = Callable[[Frame, people.People, people.Mask], None]
Filter = Callable[[Image, "Place"], Image]
Kind = Literal["faces", "people", "background", "text", "mask"]

MOST_EVERY = people.LOOKAHEAD
TEXT_EVERY = 4
MISSED_TEXT = (
    "text that the detector missed, such as letters below about eight pixels or handwriting"
)
MISSED = "people whom every detector missed in a frame and its neighbours"
NOT_IMPORTED = "people who are not in the imported annotations"
# What a region leaves as it was recorded, whatever covers the rest.
_LEAVES = {
    "faces": ("body, clothes, gait and surroundings, which are shown as they are",),
    "people": (
        "outline, size and gait of the people",
        "surroundings and other things that tell who it is",
    ),
    "background": ("the people themselves, who are shown as they are",),
    "text": ("everybody who is to be seen", "surroundings, which are shown as they are"),
    "mask": ("everything outside the mask",),
}


@dataclass(frozen=True, eq=False)
class Place:
    """The pixels of one frame that must be worked on. A ``blank`` frame must not be shown.

    ``boxes`` are the parts of the mask if it is made of heads: the ellipse of each, or all of it where
    ``square``; ``faces`` is where heads are known to be, or None where nobody looked for them.
    ``by_hand`` are boxes that are covered whole; ``open_heads`` and ``open_bodies`` are those of people
    who are left open on purpose, as is all of a frame that is shown ``as_it_is``. ``text`` is filled with
    one colour, whatever covers the rest.
    """

    mask: people.Mask
    blank: bool
    boxes: tuple[people.Box, ...] | None = None
    faces: tuple[people.Box, ...] | None = None
    square: bool = False
    by_hand: tuple[people.Box, ...] = ()
    open_heads: tuple[people.Box, ...] = ()
    open_bodies: tuple[people.Box, ...] = ()
    as_it_is: bool = False
    text: tuple[people.TextLine, ...] = ()

    def with_boxes(self, boxes: tuple[people.Box, ...]) -> Place:
        """The same place, and these boxes whole."""
        if not boxes:
            return self
        height, width = self.mask.shape
        mask = self.mask | people.box_mask(boxes, width, height)
        faces = None if self.faces is None else (*self.faces, *boxes)
        return replace(self, mask=mask, faces=faces, by_hand=(*self.by_hand, *boxes))

    def covered(self) -> people.Mask:
        """Every pixel that must not be shown as it is, text included."""
        return self.mask | people.text_mask(self.text, *self.mask.shape)

    def parts(self) -> Iterator[tuple[slice, slice, people.Mask]]:
        """Every head, or every connected piece of the mask, as rows, columns and its own mask."""
        height, width = self.mask.shape
        if self.boxes is not None:
            marked = [(box, self.square) for box in self.boxes]
            for box, square in (*marked, *((box, True) for box in self.by_hand)):
                rows, columns = box.pixels(width, height)
                if rows.start < rows.stop and columns.start < columns.stop:
                    shape = rows.stop - rows.start, columns.stop - columns.start
                    origin = float(columns.start), float(rows.start)
                    whole = np.ones(shape, bool)
                    yield rows, columns, whole if square else people.ellipse(box, shape, origin)
            return
        count, labels, stats, _ = cv2.connectedComponentsWithStats(self.mask.view(np.uint8))
        for label in range(1, count):
            x, y, wide, high = (int(value) for value in stats[label][:4])
            rows, columns = slice(y, y + high), slice(x, x + wide)
            yield rows, columns, np.asarray(labels[rows, columns] == label)


@dataclass
class Region:
    """Where to look and how; ``find`` gives every frame with its place.

    People are looked for on every ``every``-th frame (``people.find``); a detector that is given as an
    object looks at every frame unless told otherwise. ``watchers`` see who was found on the original
    frames and what is covered there: for previews and exports that stay with the operator. ``streams``
    carry status and review of the last recording.
    """

    name: str = "faces"
    detector: str | people.FaceDetector | people.PersonSegmenter | None = None
    on_miss: str = "hold"
    every: int | None = None
    import_boxes: str | os.PathLike[str] | None = None
    public_mask: bool = False
    by_hand: ByHand = field(default_factory=ByHand)
    keep_text: bool = False

    def __post_init__(self) -> None:
        named = self.detector is None or isinstance(self.detector, str)
        if self.every is None:
            self.every = people.EVERY if named else 1
        self.watchers: list[Watcher] = []
        self.streams: list[people.PeopleStream | people.TextStream | people.TextFound] = []
        if self.kind == "mask" and not Path(self.name).is_file():
            raise ProtectError(
                "Expected the region faces, people, background, text or a mask file that exists, got "
                f"{Path(self.name).name!r}: check its name."
            )
        if self.on_miss not in set(people.OnMiss):
            raise ProtectError(f"Expected on-miss hold, blank or fail, got {self.on_miss!r}.")
        if self.public_mask and self.kind != "mask":
            raise ProtectError(
                f"Expected a mask file to be declared public, got the region {self.name}: where a "
                "detector finds people depends on the recording (R9)."
            )
        if self.by_hand and self.public_mask:
            raise ProtectError(
                "Expected a public mask alone, got one with --except, --from, --to or --cover: what is "
                "chosen by looking at the recording is not public (R9)."
            )
        if self.by_hand.leave_open and self.kind == "background":
            raise ProtectError(
                "Expected people to be covered where some are left open, got the region background, "
                "which shows them all: leave --except out."
            )
        if self.kind == "text" and (self.keep_text or self.by_hand.leave_open):
            raise ProtectError(
                "Expected text to be covered where the region is text, got --keep-text or --except: "
                "leave them out."
            )
        if self.every < 1 or self.every > MOST_EVERY:
            raise ProtectError(
                f"Expected to look on every n-th frame, n from 1 to {MOST_EVERY}, got {self.every}."
            )

    @property
    def kind(self) -> Kind:
        if self.name in ("faces", "people", "background", "text"):
            return self.name  # type: ignore[return-value]
        return "mask"

    @property
    def covers_text(self) -> bool:
        """Whether text is looked for: always but for a mask file, which says where all by itself."""
        return self.kind != "mask" and not self.keep_text

    @property
    def lookahead(self) -> int:
        text = people.text_lookahead(TEXT_EVERY, people.threads()) if self.covers_text else 0
        if self.import_boxes is not None or self.kind in ("mask", "text"):
            return text
        return max(text, people.held_back(people.LOOKAHEAD, self.every or 1, people.threads()))

    @property
    def uses_side_files(self) -> bool:
        """Whether a file that may come from the recording says where to work."""
        return self.import_boxes is not None or (self.kind == "mask" and not self.public_mask)

    @property
    def settings(self) -> dict[str, Any]:
        """For the card: no file names."""
        if self.kind == "mask":
            told = {"region": "mask file", "public_mask": self.public_mask}
            return told | self.by_hand.settings
        if self.kind == "text":
            return {"region": "text"} | self.by_hand.settings
        found_by: dict[str, Any] = {"detector": "imported annotations"}
        if self.import_boxes is None:
            name = getattr(self.detector, "name", self.detector) or "default"
            found_by = {"detector": name, "on_miss": self.on_miss, "every": self.every}
        told = {"region": self.kind, **found_by, "keep_text": self.keep_text}
        return told | self.by_hand.settings

    @property
    def packages(self) -> tuple[str, ...]:
        """What works on masks; the runtimes of detectors are known by their devices."""
        return ("opencv-python-headless",)

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of every detector that looked at the last recording."""
        return tuple(each for stream in self.streams for each in stream.status.used)

    def not_covered(self, frames: int | None = None) -> tuple[str, ...]:
        """For the card of a recording of so many frames; None where that is not known."""
        by_hand, left = self.by_hand.not_covered, _LEAVES[self.kind]
        if self.kind == "mask":
            return (*by_hand, *left)
        text = MISSED_TEXT if self.covers_text else people.TEXT
        if self.covers_text and frames != 1:  # where there was none before, looks are rarer
            text += _between(2 * TEXT_EVERY, "what comes and goes")
        if self.kind in ("text", "background"):
            return (*by_hand, *left, text)
        missed = MISSED if self.import_boxes is None else NOT_IMPORTED
        most = people.most_between_looks(self.every or 1)
        if self.import_boxes is None and frames != 1 and most > 1:
            missed += _between(most, "who come and go") + f" (for small people {2 * most})"
        return (*by_hand, missed, text, *people.NOT_COVERED, *left)

    @property
    def words(self) -> str:
        """What is worked on, for a card."""
        found = {
            "faces": "the faces that were found",
            "people": "the people who were found",
            "background": "the surroundings of the people who were found",
            "text": "the lines of text that were found",
            "mask": "the pixels of a mask",
        }[self.kind]
        if self.import_boxes is not None:
            found = found.replace("were found", "were annotated")
        return found

    def find(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Place]]:
        """Every frame with the pixels to work on, ``lookahead`` frames later."""
        self.streams = []
        decided = self.by_hand.begin()
        yield from self._places(self._with_text(frames), decided)
        decided.finish()

    def _places(
        self, everybody: Iterable[FoundFrame], decided: ByHandRun
    ) -> Iterator[tuple[Frame, Place]]:
        for (frame, found), text in everybody:
            inside = decided.works_on(frame)
            covered, left = decided.split(found, inside)
            place = self._place(covered, inside, *frame.image.shape[:2])
            place = replace(
                place.with_boxes(decided.covered()),
                open_heads=left.heads(),
                open_bodies=tuple(person.box for person in left),
                as_it_is=not inside,
                text=text if inside else (),
            )
            for watch in self.watchers:
                shown = decided.shown(covered, left, place.mask.shape)
                watch(frame, shown, place.covered())
            yield frame, place

    @property
    def searches(self) -> bool:
        """Whether people are looked for, and not read from a file."""
        return self.import_boxes is None and self.kind in ("faces", "people", "background")

    @property
    def makes_masks(self) -> bool:
        return self.searches and self.kind != "faces"

    @property
    def in_spans(self) -> bool:
        """Whether a part of a recording can be worked on by itself: with detectors that another process
        can make by their names, and without a mask video, which is read from its beginning."""
        named = self.detector is None or isinstance(self.detector, str)
        picture = Path(self.name).suffix.lower() in IMAGE_SUFFIXES
        return named and (self.kind != "mask" or picture)

    def follow(
        self,
        frames: Iterable[Frame],
        known: people.KnownLooks,
        text: Iterator[tuple[people.TextLine, ...]],
        text_stream: people.TextFound | None,
    ) -> Iterator[FoundFrame]:
        """Everybody on every frame, without masks, from looks that others made: nobody's past is cut off,
        for this goes from the first frame of the recording to the last."""
        self.streams = []
        decided = self.by_hand.begin()
        everybody = self._stream(frames, known, masks_later=True)
        if text_stream is not None:
            self.streams.append(text_stream)
        for (frame, found), lines in zip(everybody, text, strict=True):
            decided.split(found, decided.works_on(frame))
            yield (frame, found), lines
        decided.finish()

    def places_from(
        self,
        first: int,
        stop: int,
        origin: Fraction,
        found: Iterable[FoundFrame],
    ) -> Iterator[tuple[Frame, Place]]:
        """The frames from ``first`` to ``stop`` with their places. ``found`` is what ``follow`` gave for
        them and for the few frames around them."""
        lines: dict[int, tuple[people.TextLine, ...]] = {}

        def everybody() -> Iterator[tuple[Frame, people.People]]:
            for (frame, people_there), text in found:
                lines[people_there.number] = text
                yield frame, people_there

        with_masks: Iterator[tuple[Frame, people.People]] = everybody()
        if self.makes_masks:
            segment = people.segmenter(self.detector)  # type: ignore[arg-type]  # named
            with_masks = people.with_masks(with_masks, segment, people.threads())
        own = (
            ((frame, found), lines.pop(found.number))
            for frame, found in with_masks
            if first <= found.number < stop
        )
        yield from self._places(own, self.by_hand.begin(first, origin))

    def from_file(self, found: Iterable[FoundFrame]) -> Iterator[FoundFrame]:
        """The same frames with those whom a file names."""
        known = None if self.import_boxes is None else people.read_coco(self.import_boxes).frames
        mask = _drawn_mask(Path(self.name)) if self.kind == "mask" else None
        for (frame, there), text in found:
            if known is not None:
                there = known[there.number]
            elif mask is not None:
                there = people.everybody(mask, there.number)
            yield (frame, there), text

    def _with_text(self, frames: Iterable[Frame]) -> Iterator[FoundFrame]:
        """Every frame with its people, and its text; both searches hold back the same frames."""
        if not self.covers_text:
            yield from ((found, ()) for found in self._stream(frames))
            return
        frames, again = tee(frames)
        everybody = self._stream(frames)
        text = people.find_text(again, people.text_detector(), every=TEXT_EVERY)
        self.streams.append(text)
        for found, (_, lines) in zip(everybody, text, strict=True):
            yield found, lines

    def _place(self, found: people.People, inside: bool, height: int, width: int) -> Place:
        if self.kind == "faces":
            by_hand = self.import_boxes is not None
            return heads_place(found.heads(), found.blank, width, height, square=by_hand)
        mask = found.mask(height, width)
        named = self.detector is None or isinstance(self.detector, str)
        known = self.kind == "people" and named and self.import_boxes is None
        faces = found.heads() if known else None
        around = self.kind == "background" and inside
        return Place(~mask if around else mask, found.blank, faces=faces)

    def _stream(
        self,
        frames: Iterable[Frame],
        known: people.KnownLooks | None = None,
        *,
        masks_later: bool = False,
    ) -> Iterator[tuple[Frame, people.People]]:
        if self.kind == "mask":
            return _from_file(frames, Path(self.name))
        if self.kind == "text":
            return ((frame, people.People(number=n)) for n, frame in enumerate(frames))
        if self.import_boxes is not None:
            return people.read_coco(self.import_boxes).people(frames)
        detector: Any = self.detector
        if self.kind == "faces" and not (detector is None or isinstance(detector, str)):
            detector = people.Look([], getattr(detector, "parts", [detector]))
        stream = people.find(
            frames,
            detector,
            masks=self.kind != "faces",
            every=self.every or 1,
            policy=self.on_miss,
            known=known,
            masks_later=masks_later,
        )
        self.streams.append(stream)
        return stream


def _between(most: int, whoever: str) -> str:
    return f", or {whoever} between two looks, up to {most} frames apart"


RegionName = Annotated[
    Annotated[Region, OnlyInPython] | FileName,
    Field(description="faces, people, background, text or a mask file"),
]


def heads_place(
    heads: tuple[people.Box, ...], blank: bool, width: int, height: int, *, square: bool = False
) -> Place:
    """The place that heads cover: their ellipses, or boxes that somebody drew, as drawn."""
    empty = np.zeros((height, width), bool)
    place = Place(empty, blank, heads, heads, square)
    for rows, columns, inside in place.parts():
        empty[rows, columns] |= inside
    return place


def face_detector(detector: Any) -> people.FaceDetector:
    """A detector by name, the default one, or the object that was given."""
    if detector is None:
        return people.face_detector()
    if isinstance(detector, str):
        return people.face_detector(detector)
    found: people.FaceDetector = detector
    return found


def _from_file(frames: Iterable[Frame], path: Path) -> Iterator[tuple[Frame, people.People]]:
    suffix = path.suffix.lower()
    if suffix == ".json":
        yield from people.read_coco(path).people(frames)
    elif suffix in IMAGE_SUFFIXES:
        mask = _drawn_mask(path)
        for index, frame in enumerate(frames):
            if frame.image.shape[:2] != mask.shape:
                raise ProtectError(
                    f"Expected a mask of {frame.image.shape[1]} x {frame.image.shape[0]}, got one "
                    f"of {mask.shape[1]} x {mask.shape[0]}: draw it in the recording's size."
                )
            yield frame, people.everybody(mask, index)
    else:
        yield from people.read_mask_video(frames, path)


def _drawn_mask(path: Path) -> people.Mask:
    return np.asarray(read_image(path).max(axis=2) >= 128)
