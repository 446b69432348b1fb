"""Which pixels a method works on: faces, people, everything but people, or a mask from a file.

Whatever a detector found is followed through the recording (``people``): no frame between two
sightings is left open. A frame that cannot be answered for is *blank* and is not shown at all.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import cv2
import numpy as np
from pydantic import Field, InstanceOf

from sfumato import people
from sfumato.media import IMAGE_SUFFIXES, Frame, Image, ahead, read_image
from sfumato.protect._method import ProtectError
from sfumato.settings import FileName

Detections = people.TrackedBoxes | people.TrackedMask
_FoundFaces = tuple[Frame, Detections, tuple[people.Box, ...] | None]
Watcher = Callable[[Frame, Detections], None]
Filter = Callable[[Image, "Place"], Image]
Kind = Literal["faces", "people", "background", "mask"]

FACE_LOOKAHEAD = 24
MASK_LOOKAHEAD = 6
_AHEAD = 2
# Measured (docs/people.md): a strong look at every third frame and a fast one at the others leaves as
# few faces open as a strong look at each.
EVERY, BETWEEN = 3, "blazeface"
GLANCED, LOOKED = "selfie", "pose"
MISSED = "people whom every detector missed in a frame and its neighbours"


@dataclass(frozen=True, eq=False)
class Place:
    """The pixels of one frame that must be worked on. A ``blank`` frame must not be shown.

    ``boxes`` are the parts of the mask if it is made of boxes; ``faces`` is where faces are known to
    be, or None where nobody looked for them.
    """

    mask: people.Mask
    blank: bool
    boxes: tuple[people.Box, ...] | None = None
    faces: tuple[people.Box, ...] | None = None

    def parts(self) -> Iterator[tuple[slice, slice, people.Mask]]:
        """Every face, or every connected piece of the mask, as rows, columns and its own mask."""
        height, width = self.mask.shape
        if self.boxes is not None:
            for box in self.boxes:
                rows, columns = box.pixels(width, height)
                if rows.start < rows.stop and columns.start < columns.stop:
                    yield rows, columns, self.mask[rows, columns]
            return
        count, labels, stats, _ = cv2.connectedComponentsWithStats(self.mask.view(np.uint8))
        for label in range(1, count):
            x, y, wide, high = (int(value) for value in stats[label][:4])
            rows, columns = slice(y, y + high), slice(x, x + wide)
            yield rows, columns, np.asarray(labels[rows, columns] == label)


@dataclass
class Region:
    """Where to look and how; ``find`` gives every frame with its place.

    Faces are looked for on every ``every``-th frame, and by the faster detector ``between`` on the
    others; a detector that is given as an object looks at every frame unless told otherwise.
    ``watchers`` see what was found on the original frames: for previews and exports that stay with
    the operator. ``streams`` carry status and review of the last recording.
    """

    name: str = "faces"
    detector: str | people.FaceDetector | people.PersonSegmenter | None = None
    on_miss: str = "hold"
    every: int | None = None
    import_boxes: str | os.PathLike[str] | None = None
    public_mask: bool = False
    between: str | people.FaceDetector | None = None

    def __post_init__(self) -> None:
        named = self.detector is None or isinstance(self.detector, str)
        if self.every is None:
            self.every = EVERY if named else 1
        if self.between is None and named:
            self.between = BETWEEN
        self.watchers: list[Watcher] = []
        self.streams: list[people.BoxStream | people.MaskStream] = []
        if self.kind == "mask" and not Path(self.name).is_file():
            raise ProtectError(
                "Expected the region faces, people, background or a mask file that exists, got "
                f"{Path(self.name).name!r}: check its name."
            )
        if self.on_miss not in set(people.OnMiss):
            raise ProtectError(f"Expected on-miss hold, blank or fail, got {self.on_miss!r}.")
        if self.public_mask and self.kind != "mask":
            raise ProtectError(
                f"Expected a mask file to be declared public, got the region {self.name}: where a "
                "detector finds people depends on the recording (R9)."
            )
        if self.every < 1 or self.every > FACE_LOOKAHEAD:
            raise ProtectError(
                f"Expected to look on every n-th frame, n from 1 to {FACE_LOOKAHEAD}, "
                f"got {self.every}."
            )

    @property
    def kind(self) -> Kind:
        if self.name in ("faces", "people", "background"):
            return self.name  # type: ignore[return-value]
        return "mask"

    @property
    def lookahead(self) -> int:
        if self.import_boxes is not None or self.kind == "mask":
            return 0
        faces = people.held_back(FACE_LOOKAHEAD, self.every or 1, people.threads())
        fade = self.kind == "people"
        masks = people.masks_held_back(MASK_LOOKAHEAD, self.every or 1, fade)
        whole = masks + _AHEAD + 2 + faces
        return {"faces": faces, "background": masks, "people": whole}[self.kind]

    @property
    def uses_side_files(self) -> bool:
        """Whether a file that may come from the recording says where to work."""
        return self.import_boxes is not None or (self.kind == "mask" and not self.public_mask)

    @property
    def settings(self) -> dict[str, Any]:
        """For the card: no file names."""
        if self.kind == "mask":
            return {"region": "mask file", "public_mask": self.public_mask}
        name = getattr(self.detector, "name", self.detector) or "default"
        found_by = "imported annotations" if self.import_boxes is not None else name
        return {
            "region": self.kind,
            "detector": found_by,
            "on_miss": self.on_miss,
            "every": self.every,
            "between": self._glance if self.kind != "background" else "nothing",
        }

    @property
    def _glance(self) -> str:
        """The name of the detector that looks at the frames between, for the card."""
        if self.every == 1 or self.between in (None, "none"):
            return "nothing"
        return str(getattr(self.between, "name", self.between))

    @property
    def packages(self) -> tuple[str, ...]:
        """What works on masks; the runtimes of detectors are known by their devices."""
        return ("opencv-python-headless",)

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of every detector that looked at the last recording."""
        found = [(stream.status.detector, stream.status.device) for stream in self.streams]
        return tuple(each for each in found if each[0] != _Nobody.name)

    @property
    def not_covered(self) -> tuple[str, ...]:
        if self.kind == "mask":
            return ("everything outside the mask",)
        return (MISSED, *people.NOT_COVERED)

    def find(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Place]]:
        """Every frame with the pixels to work on, ``lookahead`` frames later."""
        self.streams = []
        for frame, found, faces in self._stream(frames):
            for watch in self.watchers:
                watch(frame, found)
            yield frame, self._place(frame, found, faces)

    def _place(
        self, frame: Frame, found: Detections, faces: tuple[people.Box, ...] | None
    ) -> Place:
        height, width = frame.image.shape[:2]
        if isinstance(found, people.TrackedBoxes):
            return boxes_place(found.boxes, found.blank, width, height)
        mask = ~found.mask if self.kind == "background" else found.mask
        return Place(mask, found.blank, faces=faces)

    def _stream(self, frames: Iterable[Frame]) -> Iterator[_FoundFaces]:
        if self.kind == "mask":
            return _without_faces(_from_file(frames, Path(self.name)))
        if self.import_boxes is not None:
            given = people.read_coco(self.import_boxes)
            return _without_faces(
                given.boxes(frames) if self.kind == "faces" else given.masks(frames)
            )
        if self.kind == "faces":
            return _without_faces(self._faces(frames, self.detector))
        masks = self._masks(frames)
        self.streams.append(masks)
        return _without_faces(masks) if self.kind == "background" else self._with_faces(masks)

    def _faces(self, frames: Iterable[Frame], detector: Any) -> people.BoxStream:
        glance = None if self._glance == "nothing" else face_detector(self.between)
        stream = people.track_boxes(
            frames,
            face_detector(detector),
            every=self.every or 1,
            between=glance,
            policy=self.on_miss,
            lookahead=FACE_LOOKAHEAD,
        )
        self.streams.append(stream)
        return stream

    def _with_faces(
        self, masks: Iterable[tuple[Frame, people.TrackedMask]]
    ) -> Iterator[_FoundFaces]:
        """People and, beside them, every face: a segmenter misses bodies that are half in view."""
        waiting: deque[people.TrackedMask] = deque()

        def frames() -> Iterator[Frame]:
            # masks are made in a thread of their own while faces are looked for
            with closing(ahead(masks, _AHEAD)) as made:
                for frame, found in made:
                    waiting.append(found)
                    yield frame

        # a segmenter of one's own comes without faces: then it alone is asked
        alone = not (self.detector is None or isinstance(self.detector, str))
        for frame, faces in self._faces(frames(), _Nobody() if alone else None):
            found = waiting.popleft()
            height, width = found.mask.shape
            mask = found.mask | people.box_mask(faces.boxes, width, height)
            yield (
                frame,
                people.TrackedMask(found.index, mask, found.state, found.blank or faces.blank),
                None if alone else faces.boxes,
            )

    def _masks(self, frames: Iterable[Frame]) -> people.MaskStream:
        every, between, segmenter = 1, None, self.detector
        if segmenter is None:
            # the outline of everybody at once is cheap, a mask a person is not
            between = people.person_segmenter(GLANCED)
            segmenter = people.person_segmenter(f"{GLANCED}+{LOOKED}")
            every = min(self.every or 1, MASK_LOOKAHEAD)
        elif isinstance(segmenter, str):
            segmenter = people.person_segmenter(segmenter)
        return people.person_masks(
            frames,
            segmenter,  # type: ignore[arg-type]
            every=every,
            between=between,
            policy=self.on_miss,
            lookahead=MASK_LOOKAHEAD,
            fade=self.kind == "people",
        )


RegionName = Annotated[
    InstanceOf[Region] | FileName,
    Field(description="faces, people, background or a mask file"),
]


def boxes_place(boxes: tuple[people.Box, ...], blank: bool, width: int, height: int) -> Place:
    """The place that boxes of faces cover."""
    return Place(people.box_mask(boxes, width, height), blank, boxes, boxes)


def _without_faces(found: Iterable[tuple[Frame, Detections]]) -> Iterator[_FoundFaces]:
    for frame, each in found:
        yield frame, each, None


class _Nobody:
    name = "none"
    device = "none"

    def detect(self, image: Any) -> list[people.Box]:
        return []


def face_detector(detector: Any) -> people.FaceDetector:
    """A detector by name, the default one, or the object that was given."""
    if detector is None:
        return people.face_detector()
    if isinstance(detector, str):
        return people.face_detector(detector)
    found: people.FaceDetector = detector
    return found


def _from_file(frames: Iterable[Frame], path: Path) -> Iterator[tuple[Frame, Detections]]:
    suffix = path.suffix.lower()
    if suffix == ".json":
        yield from people.read_coco(path).masks(frames)
    elif suffix in IMAGE_SUFFIXES:
        mask = np.asarray(read_image(path).max(axis=2) >= 128)
        for index, frame in enumerate(frames):
            if frame.image.shape[:2] != mask.shape:
                raise ProtectError(
                    f"Expected a mask of {frame.image.shape[1]} x {frame.image.shape[0]}, got one "
                    f"of {mask.shape[1]} x {mask.shape[0]}: draw it in the recording's size."
                )
            yield frame, people.TrackedMask(index, mask, "imported")
    else:
        yield from people.read_mask_video(frames, path)
