"""A contact sheet: a whole video at one glance, evenly spaced, of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import cv2
import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame, Image
from sfumato.people._anatomy import SEEN
from sfumato.people._boxes import Box
from sfumato.people._person import LEFT_OPEN, People

_COLOURS = {
    "seen": (0, 200, 0),
    "bridged": (255, 160, 0),
    "held": (255, 60, 0),
    "by hand": (0, 120, 255),
    LEFT_OPEN: (220, 0, 220),
}
_MEANINGS = {
    "seen": "seen on this frame",
    "bridged": "bridged: missed here",
    "held": "held: before, after",
    "by hand": "covered by hand",
    LEFT_OPEN: "left open on purpose",
}
_FONT, _LETTERS = cv2.FONT_HERSHEY_SIMPLEX, 0.45
_LINE = 20  # rows of one line of the legend
_BONES = (
    *((5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12), (11, 12)),
    *((11, 13), (13, 15), (12, 14), (14, 16), (0, 5), (0, 6)),
)
_GAP = 4


class ContactSheet:
    """Takes pictures one by one, keeps about ``count`` of them at even distances.

    Whenever twice as many are kept, every second one is dropped and from then on half as many are
    taken, so a video of any length fits.
    """

    def __init__(self, count: int = 12, columns: int = 4, width: int = 320) -> None:
        self._count, self._columns, self._width = count, columns, width
        self._cells: list[Image] = []
        self._step, self._seen = 1, 0

    def add(self, image: Image) -> None:
        if self._seen % self._step == 0:
            high = max(1, round(image.shape[0] * self._width / image.shape[1]))
            shrink = cv2.INTER_AREA if self._width < image.shape[1] else cv2.INTER_LINEAR
            cell = cv2.resize(image, (self._width, high), interpolation=shrink)
            self._cells.append(np.asarray(cell, dtype=np.uint8))
        self._seen += 1
        if len(self._cells) >= 2 * self._count:
            self._cells = self._cells[::2]
            self._step *= 2

    def image(self) -> Image:
        """The sheet: at most ``count`` cells, row by row in the order of time."""
        if not self._cells:
            raise SfumatoError(
                "Expected at least one frame for a contact sheet, got none: check it."
            )
        chosen = np.linspace(0, len(self._cells) - 1, min(self._count, len(self._cells)))
        cells = [self._cells[round(i)] for i in chosen]
        high, wide = max(cell.shape[0] for cell in cells) + _GAP, self._width + _GAP
        rows = math.ceil(len(cells) / self._columns)
        sheet = np.full((rows * high + _GAP, self._columns * wide + _GAP, 3), 255, dtype=np.uint8)
        for i, cell in enumerate(cells):
            y, x = _GAP + i // self._columns * high, _GAP + i % self._columns * wide
            sheet[y : y + cell.shape[0], x : x + cell.shape[1]] = cell
        return sheet


def draw(image: Image, found: People) -> Image:
    """The picture with everybody drawn on it, by colours that ``with_legend`` explains, and the numbers
    of the frame and of every track."""
    shown = np.zeros_like(image) if found.blank else _marked(image, found)
    size = max(image.shape[1] / 320, 0.2)  # of letters that are read on a sheet
    for person in found if not found.blank else ():
        if person.track >= 0:
            x, y = _corners(person.head or person.box)[0]
            _write(shown, str(person.track), (x, y), size, _COLOURS[person.state])
    blank = " (blank)" if found.blank else ""
    _write(shown, f"frame {found.number}{blank}", (0, image.shape[0]), size, (255, 255, 255))
    return shown


def with_legend(sheet: Image, doubts: Sequence[str] = ()) -> Image:
    """A sheet of drawn frames above what its colours and numbers mean, and what to look at first."""
    lines = [*doubts, "numbers: tracks (--except NUMBER); frames (--cover FRAMES:X,Y,WIDTH,HEIGHT)"]
    columns = max(1, sheet.shape[1] // 210)
    rows = math.ceil(len(_COLOURS) / columns)
    foot = np.full((_LINE * (len(lines) + rows) + 6, sheet.shape[1], 3), 255, np.uint8)
    for i, (state, colour) in enumerate(_COLOURS.items()):
        x, y = 8 + i % columns * 210, _LINE * (i // columns + 1)
        cv2.rectangle(foot, (x, y - 11), (x + 12, y), colour, -1)
        cv2.putText(foot, _MEANINGS[state], (x + 18, y), _FONT, _LETTERS, (0, 0, 0), 1, cv2.LINE_AA)
    for i, line in enumerate(lines, start=rows + 1):
        cv2.putText(foot, line, (8, _LINE * i), _FONT, _LETTERS, (0, 0, 0), 1, cv2.LINE_AA)
    return np.concatenate([sheet, foot])


def _write(
    image: Image, text: str, corner: tuple[int, int], size: float, colour: tuple[int, int, int]
) -> None:
    """Text on black whose lower left is ``corner``, moved into the picture."""
    scale, thick = _LETTERS * size, max(1, round(size))
    (wide, high), below = cv2.getTextSize(text, _FONT, scale, thick)
    x = min(max(corner[0], 0), max(image.shape[1] - wide, 0))
    y = min(max(corner[1] - below, high), image.shape[0] - below)
    cv2.rectangle(image, (x, y - high - 2), (x + wide, y + below), (0, 0, 0), -1)
    cv2.putText(image, text, (x, y), _FONT, scale, colour, thick, cv2.LINE_AA)


def _marked(image: Image, found: People) -> Image:
    shown = image.copy()
    thick = max(1, round(max(image.shape) / 300))
    for person in found:
        colour = _COLOURS[person.state]
        if person.cut is not None and person.window is not None:
            place = shown[person.window]
            tint = np.array(colour, dtype=np.uint8)
            place[person.cut] = image[person.window][person.cut] // 2 + tint // 2
        corners = _corners(person.box)
        cv2.rectangle(shown, corners[0], corners[1], colour, thick)
        if person.head is not None:
            corners = _corners(person.head)
            cv2.rectangle(shown, corners[0], corners[1], colour, thick)
    return shown


def _corners(box: Box) -> Sequence[tuple[int, int]]:
    return (round(box.x0), round(box.y0)), (round(box.x1), round(box.y1))


def draw_skeletons(image: Image, found: People) -> Image:
    """The picture with the bones whose joints were seen."""
    shown = image.copy()
    thick = max(1, round(max(image.shape) / 300))
    for person in found:
        points = [(round(float(x)), round(float(y))) for x, y in person.joints[:, :2]]
        seen = person.joints[:, 2] >= SEEN
        for a, b in _BONES:
            if seen[a] and seen[b]:
                cv2.line(shown, points[a], points[b], _COLOURS[person.state], thick)
    return shown


def contact_sheet(
    items: Iterable[tuple[Frame, People]], count: int = 12, columns: int = 4, width: int = 320
) -> Image:
    """A sheet of what was found. It shows the original people: never part of a release."""
    sheet = ContactSheet(count, columns, width)
    for frame, found in items:
        sheet.add(draw(frame.image, found))
    return sheet.image()
