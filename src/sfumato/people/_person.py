"""A person on one frame: whose track it is, where, and how it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.people._boxes import Box
from sfumato.people.detect._protocols import Mask

Joints = npt.NDArray[np.float32]
BRIDGED, HELD, BY_HAND, LEFT_OPEN = "bridged", "held", "by hand", "left open"


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """One person of a frame.

    ``joints`` (17, 3) are x, y and the confidence in each, in the order of COCO; a joint that nobody
    saw has confidence 0. ``head`` is the box whose ellipse holds the head, from any side. ``cut`` is
    the mask inside ``window`` (rows and columns of the picture); both are None if no masks were asked
    for. ``evidence`` names the detectors that found the person on this very frame
    ("movenet+centernet"), or says ``bridged`` (seen before and after), ``held`` (seen before or after),
    ``by hand``, or ``left open`` by whoever releases the recording. Of somebody without ``body`` a head
    alone was found. The mask of one who is ``outlined`` ends where the box does.
    """

    track: int
    box: Box
    joints: Joints
    head: Box | None
    evidence: str
    shape: tuple[int, int]
    cut: Mask | None = None
    window: tuple[slice, slice] | None = None
    body: bool = True
    outlined: bool = False

    @property
    def mask(self) -> Mask:
        """The person's pixels in the whole picture; the box where no mask was made."""
        whole = np.zeros(self.shape, dtype=bool)
        self.add_to(whole)
        return whole

    def add_to(self, whole: Mask) -> None:
        """Mark the person's pixels in a mask of the whole picture."""
        if self.cut is None or self.window is None:
            place = self.box.pixels(self.shape[1], self.shape[0])
            whole[place] = True
        else:
            whole[self.window] |= self.cut

    @property
    def state(self) -> str:
        """``seen``, or how else the person is known: the word for reviews and exports."""
        return self.evidence if self.evidence in (BRIDGED, HELD, BY_HAND, LEFT_OPEN) else "seen"


def by_hand(box: Box, shape: tuple[int, int], track: int = -1, mask: Mask | None = None) -> Person:
    """Somebody whom a file names, by a box or by a mask of the whole picture."""
    nobody = np.zeros((17, 3), np.float32)
    rows, columns = box.pixels(shape[1], shape[0])
    cut = None if mask is None else np.ascontiguousarray(mask[rows, columns])
    return Person(track, box, nobody, box, BY_HAND, shape, cut, (rows, columns))


def bounds(mask: Mask) -> Box:
    """The box around the pixels of a mask that has some."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


class People(list[Person]):
    """Everybody on frame ``number``. A ``blank`` frame must not be shown at all."""

    def __init__(self, people: Iterable[Person] = (), number: int = 0, blank: bool = False) -> None:
        super().__init__(people)
        self.number, self.blank = number, blank

    def mask(self, height: int, width: int) -> Mask:
        """The pixels of everybody."""
        whole = np.zeros((height, width), dtype=bool)
        for person in self:
            person.add_to(whole)
        return whole

    def heads(self) -> tuple[Box, ...]:
        """Everybody's head; whoever has none that is known counts with the whole box."""
        return tuple(person.head or person.box for person in self)


def ellipse(box: Box, shape: tuple[int, int], origin: tuple[float, float] = (0.0, 0.0)) -> Mask:
    """The pixels of an array of ``shape`` inside the ellipse of a box; ``origin`` is the place of the
    array's left-top pixel."""
    drawn = np.zeros(shape, np.uint8)
    paint_ellipse(drawn, box, origin)
    return drawn.view(bool)


_SHIFT = 4  # OpenCV draws with coordinates in sixteenths of a pixel


def paint_ellipse(
    drawn: npt.NDArray[np.uint8], box: Box, origin: tuple[float, float] = (0.0, 0.0)
) -> None:
    """Fill the ellipse of a box with ones."""
    (x, y), unit = box.centre, 1 << _SHIFT
    # a pixel i spans i..i+1 here and i-0.5..i+0.5 in OpenCV
    middle = round((x - origin[0] - 0.5) * unit), round((y - origin[1] - 0.5) * unit)
    axes = max(1, round(box.width / 2 * unit)), max(1, round(box.height / 2 * unit))
    cv2.ellipse(drawn, middle, axes, 0, 0, 360, (1,), -1, cv2.LINE_8, _SHIFT)
