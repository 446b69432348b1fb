"""What hides the places where people are: the frame around blur, pixelate and silhouette."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sfumato import people
from sfumato.media import Frame, Image, ahead
from sfumato.privacy import NoGuarantee
from sfumato.protect._method import Promise, Shape, SpanRule, StillVisibleError
from sfumato.protect._searched import CoveredSpan, FoundFrame, Left, SearchedMethod, SpanLooks
from sfumato.protect._setting_kinds import OnMissName, OutputCheck
from sfumato.protect.hide._by_hand import Boxes, ByHand, CoveredBox, Moment, Tracks
from sfumato.protect.hide._detection_log import DetectionLog
from sfumato.protect.hide._open_on_purpose import not_on_purpose, text_inside
from sfumato.protect.hide._output_check import Check, left_in, what_is_left
from sfumato.protect.hide._region import (
    MOST_EVERY,
    TEXT_EVERY,
    Filter,
    Place,
    Region,
    RegionName,
    face_detector,
    heads_place,
)
from sfumato.protect.hide._residual_faces import credible, is_one_of, open_faces
from sfumato.protect.hide._residual_people import open_heads, open_people
from sfumato.protect.hide._residual_text import TEXT_CHECK_EVERY, open_text
from sfumato.settings import FileName, Named, Seed

BLANK = np.uint8(128)
# A detector that takes no part in the search. The strongest one is no judge here: it finds a face in
# any shape above shoulders, however flat (docs/people.md).
CHECK_DETECTOR = "blazeface-short"
BODY_CHECK_DETECTOR, BODY_CHECK_EVERY = "nanodet", 6
_CHECKS, _MARGIN, _COVERED = 2, 1.3, 0.3
_FILLED = "filled with one colour"
_SEARCH = frozenset({"detector", "on_miss", "every"})  # how people are looked for
_ONE_PLACE = 0.1  # of the union of two places that they share
_AHEAD = 4


class Hiding(SearchedMethod):
    """Covers a region of every frame and leaves the rest as it is. Guarantee: none.

    Every covered frame is searched by a second detector (``check``); what it still finds is filled
    with one colour. It also searches the finished file: if it finds a face where there was one,
    the file is made again with that place filled, and after three tries nothing is released. A third
    network, of whole people, which took no part in the search, searches it as well.

    | edge case | what happens |
    | --- | --- |
    | a person lost between two sightings | covered in between (``on_miss``: hold, blank or fail) |
    | a frame that cannot be answered for | shown as a grey frame |
    | nobody found | the recording is released as it is, and the remarks say so beforehand |
    """

    # How a region is covered: said after what it is. Empty where the summary says it all.
    manner: str = ""
    works_with: ClassVar[tuple[str, ...]] = ("opencv-python-headless",)
    default_region: ClassVar[str] = "faces"
    draws_at_random: ClassVar[bool] = False
    audits: ClassVar[frozenset[str]] = frozenset({"deblur", "smooth", "learned", "average", "halo"})
    region: Region

    def __init__(
        self,
        *,
        region: RegionName | None = None,
        detector: Named | None = None,
        on_miss: OnMissName = "hold",
        every: Annotated[int, Field(ge=1, le=MOST_EVERY)] | None = None,
        import_boxes: FileName | None = None,
        public_mask: bool = False,
        leave_open: Tracks = (),
        start: Moment | None = None,
        end: Moment | None = None,
        cover: Boxes = (),
        keep_text: bool = False,
        check: OutputCheck = CHECK_DETECTOR,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        self.region = (
            region
            if isinstance(region, Region)
            else Region(
                str(region or self.default_region),
                detector,
                on_miss,
                every,
                import_boxes,
                public_mask,
                ByHand(frozenset(leave_open), start, end, tuple(map(CoveredBox.of, cover))),
                keep_text,
            )
        )
        if self.manner:  # what these settings cover, for the card
            text = self.region.covers_text and self.region.kind != "text"
            manner = self.manner if self.region.kind != "text" else _FILLED
            self.summary = f"{self.region.words}, {manner}" + (  # type: ignore[misc]
                f"; text that was found, {_FILLED}" if text else ""
            )
        self.watchers = self.region.watchers
        self.check = check or None
        self.detection_log = DetectionLog()
        self._text_checked = False
        self._body_checked_by: tuple[tuple[str, str], ...] = ()
        self._left: dict[int, list[people.Box]] = {}
        self._left_text: dict[int, list[people.TextLine]] = {}
        self._shots = people.ShotBounds()
        self._known = False

    @property
    def lookahead(self) -> int:
        return self.region.lookahead + 2 * (_AHEAD + 1)

    @property
    def uses_side_files(self) -> bool:
        return self.region.uses_side_files

    @property
    def settings(self) -> dict[str, Any]:
        own = type(self).accepted_settings().keys() - Hiding.accepted_settings().keys()
        if self.region.kind == "text":
            own = set()  # lines of text are filled, whatever covers people
        told = self.region.settings
        if self._checked or self.check is None:
            told["check"] = getattr(self.check, "name", self.check)
        return told | {name: getattr(self, name) for name in sorted(own)}

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        used = list(self.region.detectors_used)
        if self._checked:
            check = self._check_detector
            used += [(f"{check.name} at the output", check.device), *self._body_checked_by]
        if self._text_checked and self.region.streams:
            text = self._text_detector
            used.append((self._at_the_output(text.name, TEXT_CHECK_EVERY), text.device))
        return tuple(used)

    def _at_the_output(self, name: str, every: int) -> str:
        picture = any(stream.status.frames == 1 for stream in self.region.streams)
        return f"{name}{'' if picture else f' every {every} frames'} at the output"

    @cached_property
    def _check_detector(self) -> people.FaceDetector:
        return face_detector(self.check)

    @cached_property
    def _text_detector(self) -> people.TextDetector:
        return people.text_detector()

    def promise(self, shape: Shape) -> Promise:
        changed = [self.region.words]
        if self.region.covers_text and self.region.kind != "text":
            changed.append("the text that was found")
        if self.region.by_hand.cover:
            changed.append("what was covered by hand")
        reason = (
            f"Only {' and '.join(changed)} were changed, and nothing bounds what can still be recognised "
            "in them or around them."
        )
        unchecked = () if self.check else ("No second detector checked the output.",)
        return NoGuarantee(
            mechanism=self.name,
            reason=" ".join([reason, *self.region.by_hand.left_open, *unchecked]),
            assumptions=()
            if self.check
            else ("no second detector checked the output: the check was switched off",),
            not_covered=(*self.region.not_covered(shape.frames), *self.leaves),
            randomness=self.drawn_from,
        )

    @property
    def temporary_files(self) -> tuple[str, ...]:
        return (
            "where people and text were found, in a file without a name that ends with the run",
        )

    @property
    def on_purpose(self) -> tuple[str, ...]:
        return self.region.by_hand.sentences

    def remarks(self, shape: Shape) -> list[str]:
        if self.region.kind == "background":
            return ["The people are shown as they are: only what surrounds them is covered."]
        if self.region.kind == "mask":
            return [
                "What lies outside the mask is shown as it is: look at the output before you share it."
            ]
        what = "no text" if self.region.kind == "text" else "nobody"
        return [
            f"Where {what} is found nothing is changed: look at the output before you share it."
        ]

    @classmethod
    def without_effect(cls, given: Mapping[str, Any]) -> tuple[frozenset[str], str]:
        region = given.get("region") or cls.default_region
        if isinstance(region, Region):
            return frozenset(_SEARCH), "beside a region object"
        own = cls.accepted_settings().keys() - Hiding.accepted_settings().keys()
        checks = {"check"} if given.get("check") else set()
        if region == "text":
            return frozenset(
                {*_SEARCH, *own, *checks, "import_boxes"}
            ), "with the region text, which is filled"
        if region not in ("faces", "people", "background"):
            return frozenset({*_SEARCH, *checks, "import_boxes", "keep_text"}), "with a mask file"
        if given.get("import_boxes") is not None:
            return frozenset(_SEARCH), "with imported annotations"
        return frozenset(checks if region == "background" else ()), "with the region background"

    @abstractmethod
    def make_filter(self, shape: Shape) -> Filter:
        """What covers the places of one recording, frame by frame; may write into the picture."""

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        # decoded in one thread, searched in another, covered and checked in this one; both
        # threads have ended when this does, before anybody closes the recording they read
        with (
            closing(ahead(frames, _AHEAD)) as decoded,
            closing(ahead(self._find(decoded), _AHEAD)) as found,
        ):
            yield from self._covered(found, 0, shape)

    def _covered(
        self, found: Iterable[tuple[Frame, Place]], first: int, shape: Shape
    ) -> Iterator[Frame]:
        """Frames with their places, the first of which has the number ``first``, covered and checked."""
        cover = self.make_filter(shape)
        second = self._check_detector if self._checked else None
        for number, (frame, place) in enumerate(found, first):
            shown = cover(frame.image.copy(), place)
            if place.blank:
                shown = np.full_like(frame.image, BLANK)
            else:
                again = () if place.as_it_is else self._left.get(number, ())
                filled = list(again)
                _fill(shown, filled)
                if second is not None and not place.as_it_is:
                    _fill_residual_faces(shown, frame.image, place, second, filled)
                _fill_text(shown, (*place.text, *self._text_again(frame, number)))
            yield replace(frame, image=shown)

    def _text_again(self, frame: Frame, number: int) -> list[people.TextLine]:
        """Around text that the check found, every frame is looked at."""
        left = self._left_text.get(number, [])
        return [*left, *self._text_detector.detect(frame.image)] if left else []

    def reuse_detections(self, log: DetectionLog) -> None:
        """Cover what another method found in the same recording, instead of searching it again.

        Its ``log`` is complete when its stream is exhausted. Faces are taken from one that found
        people, for beside them it found the faces.
        """
        self.detection_log, self._known = log, True
        self._left, self._left_text, self._shots = {}, {}, people.ShotBounds()

    def places(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Place]]:
        """The frames of the recording that was searched last, with what is covered on them."""
        for frame, place in self.detection_log.places(frames):
            yield frame, self._faces_of(place)

    def _find(self, frames: Iterator[Frame]) -> Iterator[tuple[Frame, Place]]:
        """Every frame with its place; another try finds people where the first one did."""
        first = next(frames, None)
        if first is None:
            return
        frames = chain([first], frames)
        # what is known of one recording must never be taken for another one's
        known, self._known = self._known and self.detection_log.begins_with(first.image), False
        if known:
            yield from self.places(frames)
            return
        self.detection_log, self._left, self._left_text = DetectionLog(), {}, {}
        self._shots = people.ShotBounds()
        for frame, place in self._logged(self.region.find(frames)):
            self._shots.add(frame.image)
            yield frame, place

    def _logged(self, found: Iterable[tuple[Frame, Place]]) -> Iterator[tuple[Frame, Place]]:
        for frame, place in found:
            if self._checked or self._checks_text:
                self.detection_log.add(frame.image, place)
            yield frame, place

    def _faces_of(self, place: Place) -> Place:
        if self.region.kind != "faces" or place.boxes is not None:
            return place
        height, width = place.mask.shape
        heads = heads_place(place.faces or (), place.blank, width, height)
        return replace(
            heads.with_boxes(place.by_hand),
            open_heads=place.open_heads,
            open_bodies=place.open_bodies,
            as_it_is=place.as_it_is,
            text=place.text,
        )

    @property
    def _checked(self) -> bool:
        return self.check is not None and self.region.kind in {"faces", "people"}

    @property
    def _checks_text(self) -> bool:
        return self.check is not None and self.region.covers_text

    def check_output(self, source: Path, made: Path, *, tolerant: bool = False) -> None:
        """Search the output for faces and people with other detectors, and for text once more."""
        if not (checks := self._output_checks()):
            return
        known = self.detection_log.faces() if self._checked else ()
        found = what_is_left(source, made, list(checks.values()), known, tolerant=tolerant)
        self.cover_more(self._not_on_purpose(dict(zip(checks, found, strict=True)), 0))

    def _output_checks(self) -> dict[str, Check]:
        checks: dict[str, Check] = {}
        if self._checked:
            first = self.region.detector if self.region.kind == "faces" else None
            checks["face"] = open_faces(first, self.check)
            if self._checks_bodies:
                checks["person"] = self._body_check()
        if self._checks_text:
            checks["text"] = open_text(self._text_detector)
            self._text_checked = True
        return checks

    def _not_on_purpose(self, left: dict[str, Any], first: int) -> Left:
        faces, bodies, text = (left.get(what, []) for what in ("face", "person", "text"))
        if self.region.by_hand:
            open_places = self.detection_log.open_places
            faces, bodies = not_on_purpose(open_places(), faces, bodies, first)
            text = text_inside(open_places(), text, first)
        return faces, bodies, text

    def cover_more(self, left: Left) -> None:
        """Raise if anybody is left, and know from then on where to cover more."""
        faces, bodies, text = left
        if not faces and not bodies and not text:
            return
        self._known = True
        for places, reach, margin in ((faces, 1, _MARGIN), (bodies, BODY_CHECK_EVERY, 1.0)):
            for number, boxes in places:
                larger = [box.scale(margin) for box in boxes]
                for near in self._shots.around(number, reach):
                    self._left.setdefault(near, []).extend(larger)
        for number, lines in text:
            for near in self._shots.around(number, TEXT_CHECK_EVERY):
                self._left_text.setdefault(near, []).extend(lines)
        if not faces and not bodies:
            raise StillVisibleError(
                f"Expected no text of the original to be left, but on frame {text[0][0]} some still "
                "reads as it did: cover it by hand (--cover), or leave text open on purpose "
                "(--keep-text). Nothing was released."
            )
        what, first_frame = ("face", faces[0][0]) if faces else ("person", bodies[0][0])
        name = getattr(self.check, "name", self.check) if faces else BODY_CHECK_DETECTOR
        raise StillVisibleError(
            f"Expected no {what} of the original to be left, but on frame {first_frame} the detector "
            f"{name} still finds one: unite more detectors (--detector a+b), hide more strongly, or "
            "correct the boxes and import them. Nothing was released."
        )

    def spans(self, shape: Shape) -> SpanRule | None:
        """Anywhere: people are followed through the whole recording, whoever looks for them."""
        return SpanRule(1, searched=True) if self.region.in_spans else None

    @property
    def span_looks(self) -> SpanLooks:
        region = self.region
        return SpanLooks(
            region.detector if isinstance(region.detector, str) else None,
            region.searches,
            region.every or 1,
            region.makes_masks,
            TEXT_EVERY if region.covers_text else 0,
            people.MOST_AWAY if region.makes_masks else 0,
        )

    def follow(
        self,
        frames: Iterator[Frame],
        known: people.KnownLooks,
        text: Iterator[tuple[people.TextLine, ...]],
        text_stream: people.TextFound | None,
    ) -> Iterator[FoundFrame]:
        self._left, self._left_text, self._shots = {}, {}, people.ShotBounds()
        for (frame, found), lines in self.region.follow(frames, known, text, text_stream):
            self._shots.add(frame.image)
            if not self.region.searches:  # who needs their places reads them from the file
                found = people.People(number=found.number)
            yield (frame, found), lines
        self._output_checks()  # who looks at the output is said on the card

    def transform_found(
        self, span: CoveredSpan, found: Iterator[FoundFrame], shape: Shape
    ) -> Iterator[Frame]:
        self.detection_log = DetectionLog()
        self._left, self._left_text = dict(span.left), dict(span.left_text)
        if not self.region.searches:
            found = self.region.from_file(found)
        places = self.region.places_from(span.first, span.stop, span.origin, found)
        with closing(ahead(self._logged(places), _AHEAD)) as ready:
            yield from self._covered(ready, span.first, shape)

    def left_in_span(self, span: CoveredSpan, pairs: Iterator[tuple[Image, Image]]) -> Left:
        if not (checks := self._output_checks()):
            return [], [], []
        known = self.detection_log.faces() if self._checked else ()
        found = left_in(pairs, list(checks.values()), known, span.first)
        return self._not_on_purpose(dict(zip(checks, found, strict=True)), span.first)

    def to_cover_more(
        self, first: int, stop: int
    ) -> tuple[dict[int, list[people.Box]], dict[int, list[people.TextLine]]]:
        boxes = {n: [*each] for n, each in self._left.items() if first <= n < stop}
        return boxes, {n: [*each] for n, each in self._left_text.items() if first <= n < stop}

    @property
    def _checks_bodies(self) -> bool:
        """Whether whole people are looked for too: if the bundled detectors searched."""
        named = self.region.detector is None or isinstance(self.region.detector, str)
        return named and isinstance(self.check, str) and self.region.import_boxes is None

    def _body_check(self) -> Check:
        """Whole people who are open, or of whom no head was covered."""
        detector = people.person_detector(BODY_CHECK_DETECTOR)
        looks = self._at_the_output(detector.name, BODY_CHECK_EVERY)
        self._body_checked_by = ((looks, detector.device),)
        if self.region.kind == "people":
            return open_people(detector, BODY_CHECK_EVERY)
        return open_heads(detector, BODY_CHECK_EVERY, lambda number: self._left.get(number, ()))


def _fill_residual_faces(
    shown: Image,
    original: Image,
    place: Place,
    second: people.FaceDetector,
    filled: list[people.Box],
) -> None:
    """Fill every place whose face is still found with its mean colour, and faces beside all places.

    What is found in a cover and is no face of the original is a false alarm of the detector.
    """
    there: list[people.Box] | None = None
    for _ in range(_CHECKS):
        known = place.faces
        found = second.detect(shown) if known is None else people.look_near(second, shown, known)
        again = [face for face in known or () if any(is_one_of(box, [face]) for box in found)]
        left = [box for box in found if not is_one_of(box, (*(known or ()), *place.open_heads))]
        if there is None and left:
            there = credible(second.detect(original), known or (), min(original.shape[:2]))
        again += [
            box
            for box in left
            if is_one_of(box, there or ()) or (known is None and _part(place.mask, box) > _COVERED)
        ]
        if not again:
            return
        filled += again if known else [box.scale(_MARGIN) for box in again]
        _fill(shown, filled)


def _fill_text(image: Image, lines: Iterable[people.TextLine]) -> None:
    """One colour a line: blurred or pixelated letters can be guessed one by one."""
    height, width = image.shape[:2]
    for line in lines:
        rows, columns = line.box.grow(1, 1).pixels(width, height)
        part = image[rows, columns]
        if part.size:
            drawn = people.text_mask([line.moved(-columns.start, -rows.start)], *part.shape[:2])
            part[drawn] = part.reshape(-1, 3).mean(axis=0).astype(np.uint8)


def _part(mask: people.Mask, box: people.Box) -> float:
    """Which part of a box is masked."""
    inside = mask[box.pixels(mask.shape[1], mask.shape[0])]
    return float(inside.mean()) if inside.size else 0.0


def _fill(image: Image, boxes: Iterable[people.Box]) -> None:
    """One colour a place; places that are much the same become one, for two colours in one are a detail.
    People side by side stay apart: around both lies the floor between them."""
    height, width = image.shape[:2]
    for box in _joined([box.clip(width, height) for box in boxes]):
        rows, columns = box.pixels(width, height)
        part = image[rows, columns]
        if part.size:
            inside = people.ellipse(box, part.shape[:2], (columns.start, rows.start))
            part[inside] = part.reshape(-1, 3).mean(axis=0).astype(np.uint8)


def _joined(boxes: list[people.Box]) -> list[people.Box]:
    while len(fewer := people.unite(boxes, threshold=_ONE_PLACE)) < len(boxes):
        boxes = fewer
    return boxes
