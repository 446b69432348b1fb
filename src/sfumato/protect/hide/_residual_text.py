"""A second look at what was made: text that still reads as it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sfumato import people
from sfumato.media import ahead
from sfumato.protect.hide._residual_faces import pairs_of
from sfumato.protect.hide._residual_people import still_shows

TEXT_CHECK_EVERY = 8
_SAME_TEXT = 0.5


def text_left(
    source: Path, made: Path, *, detector: people.TextDetector, tolerant: bool = False
) -> Iterator[tuple[int, list[people.TextLine]]]:
    """Frames of the output with lines that are text in the original too, and look as they did there.

    But for the first frame it looks at others than the search did.
    """
    with closing(ahead(pairs_of(source, made, tolerant))) as pairs:
        for number, (original, output) in enumerate(pairs):
            if number and number % TEXT_CHECK_EVERY != TEXT_CHECK_EVERY // 4:
                continue
            lines = detector.detect(output)
            found = [
                line
                for line in lines
                # a faint one counts as in the search: if two looks agree on it
                if line.counts(other for other in lines if other is not line)
                and still_shows(original, output, line.box)
            ]
            if not found:
                continue
            there = [line.box for line in detector.detect(original)]
            left = [
                line for line in found if sum(box.covers(line.box) for box in there) >= _SAME_TEXT
            ]
            if left:
                yield number, left
