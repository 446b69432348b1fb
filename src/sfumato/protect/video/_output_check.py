"""Looking at what was made, with other eyes: no face may be left where there was one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.media import IMAGE_SUFFIXES, Image, open_video, read_image
from sfumato.protect._method import ProtectError
from sfumato.protect.video._region import face_detector

_SAME_PLACE = 0.3


class StillVisibleError(ProtectError):
    """A face of the original can still be found in the output; nothing was released."""


def check_faces(
    source: Path, made: Path, *, first: Any = None, second: Any, tolerant: bool = False
) -> None:
    """Raise if ``second`` finds a face in ``made`` where either detector found one in ``source``."""
    seen = faces_left(source, made, first=first, second=second, tolerant=tolerant)
    number = next(seen, None)
    if number is not None:
        raise StillVisibleError(
            f"Expected no face of the original to be left, but on frame {number} the detector "
            f"{getattr(second, 'name', second)} still finds one: unite more detectors "
            "(--detector a+b), hide more strongly, or correct the boxes and import them. "
            "Nothing was released."
        )


def faces_left(
    source: Path, made: Path, *, first: Any = None, second: Any, tolerant: bool = False
) -> Iterator[int]:
    """Numbers of the frames on which ``second`` finds an original face in the output.

    The original is searched only where something was found in the output.
    """
    after, before = face_detector(second), None
    for number, (original, output) in enumerate(_pairs(source, made, tolerant)):
        left = after.detect(output)
        if not left:
            continue
        before = before or face_detector(first)
        there = [*before.detect(original), *after.detect(original)]
        if any(_same(one, other) for one in left for other in there):
            yield number


def _same(one: people.Box, other: people.Box) -> bool:
    overlap = max(people.iou(one, other), one.covers(other), other.covers(one))
    return overlap >= _SAME_PLACE


def _pairs(source: Path, made: Path, tolerant: bool) -> Iterator[tuple[Image, Image]]:
    if source.suffix.lower() in IMAGE_SUFFIXES:
        yield read_image(source, tolerant=tolerant), read_image(made)
        return
    with open_video(source, tolerant=tolerant) as originals, open_video(made) as outputs:
        for original, output in zip(originals, outputs, strict=True):
            yield original.image, output.image
