"""Looking at what was made, with another detector: no face may be left where one was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.media import Image
from sfumato.protect.hide._output_check import Check, Faces, what_is_left
from sfumato.protect.hide._region import face_detector

_SAME_PLACE, _PART = 0.3, 0.5
_MUCH, _INSIDE, _GIANT = 5.0, 0.7, 0.6
_CORE, _CODEC_NOISE = 0.8, 4.0


def faces_left(
    source: Path,
    made: Path,
    *,
    first: Any = None,
    second: Any,
    tolerant: bool = False,
    near: Iterable[Faces] = (),
) -> Iterator[tuple[int, list[people.Box]]]:
    """Frames, with the faces of the original that ``second`` still finds in the output.

    A place that shows one colour only is no face, whatever a detector makes of the shoulders below.
    It was there if either detector finds it in the original, which is searched only where something
    was found in the output. ``near`` says for each frame where the search found faces, if it looked:
    a detector that can look at parts of a picture then looks at these, for only there can a face be
    left that was found before; any other detector looks at the whole frame. That look is easily
    alarmed, and after an alarm the whole frame is looked at.
    """
    (left,) = what_is_left(source, made, [open_faces(first, second)], near, tolerant=tolerant)
    yield from left


def open_faces(first: Any, second: Any) -> Check:
    """Faces of the original that ``second`` still finds in the output."""
    after, before = face_detector(second), cache(lambda: face_detector(first))

    def left(number: int, original: Image, output: Image, known: Faces) -> list[people.Box]:
        in_parts = known is not None and hasattr(after, "detect_near")
        if in_parts and not people.look_near(after, output, known or ()):
            return []
        found = each_find(after, output)
        if not found:
            return []
        sure = each_find(before(), original)
        checked = credible(each_find(after, original), sure, min(original.shape[:2]))
        return [
            face
            for face in (*sure, *checked)
            if any(is_one_of(one, [face]) for one in found) and not _flat(output, face)
        ]

    return left


def each_find(detector: people.FaceDetector, image: Image) -> list[people.Box]:
    """What every part of a united detector finds: a box around two finds may be like neither."""
    parts = getattr(detector, "parts", (detector,))
    return [box for part in parts for box in part.detect(image)]


def _flat(image: Image, face: people.Box) -> bool:
    """Whether the place of a face shows one colour, but for what a codec adds."""
    height, width = image.shape[:2]
    part = image[face.scale(_CORE).pixels(width, height)]
    return part.size == 0 or float(part.reshape(-1, 3).std(axis=0).max()) <= _CODEC_NOISE


def credible(
    faces: Sequence[people.Box], known: Sequence[people.Box] = (), side: float = math.inf
) -> list[people.Box]:
    """Without boxes that hold a much smaller face, of these or of the ``known`` ones, and, where some
    are known, without those larger than most of a picture's shorter ``side`` that touch none of them.

    No face has another one inside; a weak detector takes a whole group of people or a floor for a face.
    So this is for the finds of the detector that checks: what the search found is always believed.
    """
    return [
        face
        for face in faces
        if not any(
            other.area and other.area * _MUCH <= face.area and face.covers(other) >= _INSIDE
            for other in (*faces, *known)
        )
        and not (
            known and face.height > _GIANT * side and not any(face.covers(other) for other in known)
        )
    ]


def is_one_of(left: people.Box, faces: Iterable[people.Box]) -> bool:
    """Whether a box of the output is a face, or a part of one, that was there before.

    A box much larger than any face is not: covers have edges, and detectors see faces in them.
    """
    return any(
        people.iou(left, face) >= _SAME_PLACE or face.covers(left) >= _PART for face in faces
    )
