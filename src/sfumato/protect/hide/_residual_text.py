"""A second look at what was made: text that still reads as it did."""

from __future__ import annotations

from sfumato import people
from sfumato.media import Image
from sfumato.protect.hide._output_check import Check, Faces
from sfumato.protect.hide._residual_people import still_shows

TEXT_CHECK_EVERY, _FIRST = 16, 6
_SAME_TEXT = 0.5


def open_text(detector: people.TextDetector) -> Check:
    """Lines of the output that are text in the original too, and look as they did there.

    But for the first frame it looks at others than the search does where nothing is found.
    """

    def left(number: int, original: Image, output: Image, known: Faces) -> list[people.TextLine]:
        if number and number % TEXT_CHECK_EVERY != _FIRST:
            return []
        lines = detector.detect(output)
        found = [
            line
            for line in lines
            # a faint one counts as in the search: if two looks agree on it
            if line.counts(other for other in lines if other is not line)
            and still_shows(original, output, line.box)
        ]
        if not found:
            return []
        there = [line.box for line in detector.detect(original)]
        return [line for line in found if sum(box.covers(line.box) for box in there) >= _SAME_TEXT]

    return left
