"""What the operator decides by looking: whom to leave open, which part to work on, what to cover besides.

Everything here is said on the card. A track that is not there, a part without a frame and a box outside
the picture are refused: nobody is left open, or thought to be covered, by a slip of the finger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import Field

from sfumato import people
from sfumato.media import Frame
from sfumato.protect._method import ProtectError

Tracks = Annotated[
    tuple[Annotated[int, Field(ge=0, le=10**9)], ...],
    Field(description="track numbers such as [3, 5]"),
]
Boxes = Annotated[
    tuple[Annotated[str, Field(max_length=80)], ...],
    Field(description="boxes such as '0-9:370,110,60,60' (frames, then x, y, width, height)"),
]
Moment = Annotated[float, Field(ge=0, le=10**7)]
_BOX = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?:(\d{1,6}),(\d{1,6}),(\d{1,6}),(\d{1,6})")


@dataclass(frozen=True)
class CoveredBox:
    """A box, and the frames (both ends included) on which it is covered."""

    first: int
    last: int
    box: people.Box

    @classmethod
    def of(cls, text: str) -> Self:
        found = _BOX.fullmatch(text.replace(" ", ""))
        if not found:
            raise ProtectError(
                "Expected what to cover as 'FRAMES:X,Y,WIDTH,HEIGHT', such as '0-9:370,110,60,60', got "
                f"{text!r}."
            )
        first, last, x, y, width, height = (int(part or found[1]) for part in found.groups())
        if last < first or not width or not height:
            raise ProtectError(
                f"Expected frames in order and a box of at least one pixel to cover, got {text!r}."
            )
        box = people.Box(x, y, x + width, y + height, 1.0, people.BY_HAND)
        return cls(first, last, box)

    def __str__(self) -> str:
        box, frames = self.box, f"{self.first}-{self.last}"
        return f"{frames}:{box.x0:.0f},{box.y0:.0f},{box.width:.0f},{box.height:.0f}"


@dataclass(frozen=True)
class ByHand:
    """Tracks to leave open, the part of the recording to work on, boxes to cover in addition.

    Outside the part the recording is shown as it is, but for what is covered by hand there.
    """

    leave_open: frozenset[int] = frozenset()
    start: float | None = None
    end: float | None = None
    cover: tuple[CoveredBox, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ByHand:
        """From settings as a method takes them."""
        return cls(
            frozenset(given.get("leave_open") or ()),
            given.get("start"),
            given.get("end"),
            tuple(CoveredBox.of(text) for text in given.get("cover") or ()),
        )

    def __post_init__(self) -> None:
        if self.end is not None and self.end <= (self.start or 0):
            raise ProtectError(
                f"Expected a part of the recording that ends after it begins, got {self.start or 0:g} s "
                f"to {self.end:g} s: nothing would be covered."
            )

    def __bool__(self) -> bool:
        return bool(self.leave_open or self.cover or self.limits_time)

    @property
    def limits_time(self) -> bool:
        return self.start is not None or self.end is not None

    @property
    def settings(self) -> dict[str, Any]:
        """For the card; nothing where nothing was decided."""
        found = {
            "leave_open": sorted(self.leave_open),
            "start": self.start,
            "end": self.end,
            "cover": [str(each) for each in self.cover],
        }
        return {name: value for name, value in found.items() if value not in (None, [])}

    @property
    def not_covered(self) -> tuple[str, ...]:
        said = []
        if self.leave_open:
            said.append(f"{self._tracks}, left open on purpose")
        if self.limits_time:
            said.append(f"everything {self._outside}, shown on purpose as it was recorded")
        return tuple(said)

    @property
    def left_open(self) -> tuple[str, ...]:
        """What is shown as it was recorded, by choice."""
        said = []
        if self.leave_open:
            said.append(f"Left open on purpose, by the operator's choice: {self._tracks}.")
        if self.limits_time:
            said.append(f"Everything {self._outside} is shown on purpose as it was recorded.")
        return tuple(said)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the card says in plain words."""
        said = list(self.left_open)
        if self.cover:
            boxes = ", ".join(map(str, self.cover))
            said.append(f"Covered by hand in addition (frames:x,y,width,height): {boxes}.")
        return tuple(said)

    @property
    def _tracks(self) -> str:
        numbers = ", ".join(map(str, sorted(self.leave_open)))
        return f"the person{'s' if len(self.leave_open) > 1 else ''} of track {numbers}"

    @property
    def _outside(self) -> str:
        before = f"before {self.start:g} s" if self.start else ""
        after = f"from {self.end:g} s on" if self.end is not None else ""
        return " and ".join(each for each in (before, after) if each) or "before 0 s"

    def begin(self, first: int = 0, origin: Fraction | None = None) -> ByHandRun:
        """For one recording, from its first frame to its last; or from another one, where the first one of
        all is shown at ``origin``."""
        return ByHandRun(self, first, origin)


class ByHandRun:
    """The decisions along one recording; ``finish`` refuses what turned out to mean nothing."""

    def __init__(self, decided: ByHand, first: int = 0, origin: Fraction | None = None) -> None:
        self._decided = decided
        # as it was typed: 0.08 is two frames of 25 a second, and no bit later
        self._begins = Fraction(repr(decided.start or 0))
        self._ends = math.inf if decided.end is None else Fraction(repr(decided.end))
        self._first = self._frames = first
        self._inside = 0
        self._origin = origin
        self._seen: set[int] = set()

    def works_on(self, frame: Frame) -> bool:
        """Whether the next frame lies in the part that is worked on."""
        self._check_size(*frame.image.shape[:2])
        self._origin = frame.time if self._origin is None else self._origin
        inside = self._begins <= frame.time - self._origin < self._ends
        self._frames += 1
        self._inside += inside
        return inside

    def covered(self) -> tuple[people.Box, ...]:
        """What is covered by hand on the frame that came last."""
        number = self._frames - 1
        return tuple(e.box for e in self._decided.cover if e.first <= number <= e.last)

    def split(self, found: people.People, inside: bool) -> tuple[people.People, people.People]:
        """Those who are to be covered, and those who are left open on purpose."""
        chosen = self._decided.leave_open
        self._seen |= {person.track for person in found} & chosen
        open_ones = [person for person in found if not inside or person.track in chosen]
        rest = [person for person in found if inside and person.track not in chosen]
        return (
            people.People(rest, found.number, found.blank and inside),
            people.People(open_ones, found.number),
        )

    def shown(
        self, covered: people.People, left: people.People, shape: tuple[int, int]
    ) -> people.People:
        """Everybody, and the boxes by hand, as previews and exports show them."""
        boxes = [people.by_hand(box, shape) for box in self.covered()]
        marked = [replace(person, evidence=people.LEFT_OPEN) for person in left]
        return people.People([*covered, *marked, *boxes], covered.number, covered.blank)

    def _check_size(self, height: int, width: int) -> None:
        if self._frames > self._first:
            return
        for each in self._decided.cover:
            if each.box.x1 > width or each.box.y1 > height:
                raise ProtectError(
                    f"Expected boxes to cover inside the picture of {width} x {height}, got {each}: "
                    "correct --cover."
                )

    def finish(self) -> None:
        """The recording is over: raise if something that was decided has no place in it."""
        unknown = sorted(self._decided.leave_open - self._seen)
        if unknown:
            raise ProtectError(
                f"Expected tracks of this recording to leave open, got {_listed(unknown)}, which nobody "
                "has: look up the numbers with --preview or --export-boxes, made with the same settings. "
                "Nothing was released."
            )
        if self._decided.limits_time and not self._inside:
            raise ProtectError(
                "Expected a part of the recording with at least one frame, got one without (--from, "
                "--to): nothing would be covered. Nothing was released."
            )
        late = [each for each in self._decided.cover if each.last >= self._frames]
        if late:
            raise ProtectError(
                f"Expected frames 0 to {self._frames - 1} to cover, got {late[0]}: correct --cover. "
                "Nothing was released."
            )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
