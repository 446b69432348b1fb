"""Methods that search for people and can be cut: networks look anywhere, one process follows people.

What a network sees on a frame depends on that frame, and a mask on the frame and two around it. Only who
goes on, who is held and for how long depends on all that was seen before, and that is little work. So
looks are made span by span, then the driver follows people from the first frame to the last as in one run,
then places are masked, covered and checked span by span. Every frame is covered as in one run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato import people
from sfumato.media import Frame, Image
from sfumato.protect._method import Method, Shape

# A frame with its people, without masks, and its lines of text.
FoundFrame = tuple[tuple[Frame, people.People], tuple[people.TextLine, ...]]
# Frames with the faces, the people and the text that the check still finds there.
Left = tuple[
    list[tuple[int, list[people.Box]]],
    list[tuple[int, list[people.Box]]],
    list[tuple[int, list[people.TextLine]]],
]


@dataclass(frozen=True)
class SpanLooks:
    """What is looked for before anybody is followed, and how many frames around it a span needs later.

    ``text`` is how often text is looked for, 0 for never. Which frames that happens on depends on what
    was found, so that one process reads all of the recording for it.
    """

    detector: str | None = None
    searches: bool = True
    every: int = 1
    masks: bool = False
    text: int = 0
    around: int = 0


@dataclass(frozen=True)
class CoveredSpan:
    """Frames from ``first`` to ``stop`` of a recording whose first frame is shown at ``origin``, and where
    more is covered on them because a check found somebody there."""

    first: int
    stop: int
    origin: Fraction
    left: Mapping[int, list[people.Box]] = field(default_factory=dict)
    left_text: Mapping[int, list[people.TextLine]] = field(default_factory=dict)


class SearchedMethod(Method):
    """A method whose ``spans`` are searched."""

    @property
    @abstractmethod
    def span_looks(self) -> SpanLooks:
        """What has to be looked for."""

    @abstractmethod
    def follow(
        self,
        frames: Iterator[Frame],
        known: people.KnownLooks,
        text: Iterator[tuple[people.TextLine, ...]],
        text_stream: people.TextFound | None,
    ) -> Iterator[FoundFrame]:
        """In the driver: who is on every frame of the recording, from the looks that were made."""

    @abstractmethod
    def transform_found(
        self, span: CoveredSpan, found: Iterator[FoundFrame], shape: Shape
    ) -> Iterator[Frame]:
        """In a worker: the protected frames of a span; ``found`` has the frames around it as well."""

    def left_in_span(self, span: CoveredSpan, pairs: Iterator[tuple[Image, Image]]) -> Left:
        """In the same worker: whom the check of the output finds in pairs of original and output."""
        return [], [], []

    def cover_more(self, left: Left) -> None:
        """In the driver: raise if anybody was left, and know from then on where to cover more."""

    def to_cover_more(
        self, first: int, stop: int
    ) -> tuple[dict[int, list[people.Box]], dict[int, list[people.TextLine]]]:
        """What a check has found so far on the frames of a span and near them."""
        return {}, {}
