"""What happened while people were looked for: a status instead of a silent fall-back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

TEXT = "text in the picture: captions, badges, plates, screens and documents"
NOT_COVERED = ("screens without text", "tattoos and other marks on the body")
"""Regions for which no detector can be had: privacy cards list them as not covered."""


class OnMiss(StrEnum):
    """What to do with a frame on which a person who is there before and after was not found."""

    HOLD = "hold"
    BLANK = "blank"
    FAIL = "fail"


@dataclass
class DetectorStatus:
    """Which detector ran, on what device, and how often it found nothing.

    ``empty`` counts the frames that were looked at and on which the detector found nothing,
    ``bridged`` and ``held`` those on which a track was continued without being seen, ``blanked``
    those that could not be answered for and must be shown blank. ``often`` is how many frames lie
    between two looks, which says nothing of a single picture; ``helpers`` are networks that were asked
    about whoever was found.
    """

    detector: str
    device: str
    often: str = ""
    helpers: tuple[tuple[str, str], ...] = ()
    frames: int = 0
    looked_at: int = 0
    empty: int = 0
    bridged: int = 0
    held: int = 0
    blanked: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def name(self) -> str:
        """The detector, and how often it looked."""
        return self.detector + (f" {self.often}" if self.often and self.frames > 1 else "")

    @property
    def used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of all that looked, for a card."""
        return ((self.name, self.device), *self.helpers)

    def __str__(self) -> str:
        return (
            f"{self.name} on {self.device}: looked at {self.looked_at} of {self.frames} frames, "
            f"found nothing on {self.empty}; {self.bridged} bridged, {self.held} held, "
            f"{self.blanked} blanked."
        )


# what runs the bundled detectors: how their devices name it, and the distribution that it is
_RUNTIMES = {"LiteRT": "ai-edge-litert", "ONNX Runtime": "onnxruntime", "dlib": "dlib-bin"}


def runtime_packages(devices: Iterable[str]) -> tuple[str, ...]:
    """The distributions that detectors on these devices ran on, where they are known."""
    named = " ".join(devices)
    return tuple(package for name, package in _RUNTIMES.items() if name in named)


@dataclass(frozen=True, slots=True)
class DoubtfulSpan:
    """Neighbouring frames (both ends included) that a person should look at, and why."""

    first: int
    last: int
    reason: str
    track: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Review:
    """The list of doubtful frames, kept as spans so that it stays short for long videos."""

    spans: list[DoubtfulSpan] = field(default_factory=list)
    _open: dict[tuple[str, int], DoubtfulSpan] = field(default_factory=dict, repr=False)

    def note(self, index: int, reason: str, track: int = -1) -> None:
        """Frame ``index`` is doubtful; frames are noted in order."""
        span = self._open.get((reason, track))
        if span is not None and index <= span.last + 1:
            self._open[reason, track] = DoubtfulSpan(span.first, index, reason, track)
            return
        if span is not None:
            self.spans.append(span)
        self._open[reason, track] = DoubtfulSpan(index, index, reason, track)

    def to_json(self) -> list[dict[str, Any]]:
        return [span.to_json() for span in self.spans]

    def close(self) -> None:
        """Nothing more will come: put every span into the list, ordered by frame."""
        self.spans = sorted([*self.spans, *self._open.values()], key=lambda span: span.first)
        self._open = {}
