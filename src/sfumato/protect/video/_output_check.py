"""Looking at what was made, with other eyes: no face may be left where there was one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.media import IMAGE_SUFFIXES, Image, open_video, read_image
from sfumato.protect.video._region import face_detector

_SAME_PLACE, _PART = 0.2, 0.5
Faces = tuple[people.Box, ...] | None


def faces_left(
    source: Path,
    made: Path,
    *,
    first: Any = None,
    second: Any,
    tolerant: bool = False,
    near: Iterable[Faces] = (),
) -> Iterator[tuple[int, list[people.Box]]]:
    """Frames, with the boxes, on which ``second`` finds a face in the output that was there before.

    It was there if either detector finds it in the original, which is searched only where something
    was found in the output. ``near`` says for each frame where the search found faces, if it looked:
    a detector that can look at parts of a picture then looks at these, for only there can a face be
    left that was found before; any other detector looks at the whole frame. That look is easily
    alarmed, and after an alarm the whole frame is looked at.
    """
    after, before = face_detector(second), None
    pairs = _pairs(source, made, tolerant)
    for number, ((original, output), known) in enumerate(zip(pairs, chain(near, repeat(None)))):
        in_parts = known is not None and hasattr(after, "detect_near")
        if in_parts and not people.look_near(after, output, known or ()):
            continue
        left = after.detect(output)
        if not left:
            continue
        before = before or face_detector(first)
        there = [*before.detect(original), *after.detect(original)]
        original_faces = [one for one in left if is_one_of(one, there)]
        if original_faces:
            yield number, original_faces


def is_one_of(left: people.Box, faces: Iterable[people.Box]) -> bool:
    """Whether a box of the output is a face, or a part of one, that was there before.

    A box much larger than any face is not: covers have edges, and detectors see faces in them.
    """
    return any(
        people.iou(left, face) >= _SAME_PLACE or face.covers(left) >= _PART for face in faces
    )


def _pairs(source: Path, made: Path, tolerant: bool) -> Iterator[tuple[Image, Image]]:
    if source.suffix.lower() in IMAGE_SUFFIXES:
        yield read_image(source, tolerant=tolerant), read_image(made)
        return
    with open_video(source, tolerant=tolerant) as originals, open_video(made) as outputs:
        for original, output in zip(originals, outputs, strict=True):
            yield original.image, output.image
