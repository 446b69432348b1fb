"""Whole people in what was made, by a network that took no part in the search.

Where people are hidden, one counts as left whose middle still shows in the output what it showed before.
Where heads are hidden, one counts as left in whose box no head was covered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import cv2
import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.media import Image
from sfumato.protect.hide._output_check import Check, Faces

_SURE = 0.5  # of the checking network in both pictures: nobody else is asked
_AROUND, _SMALLEST = 1.3, 16  # sides of a box and pixels of the part that is looked at again
_MIDDLE, _HALF = 0.6, 0.5
_NEAR = 0.15  # of a box's sides around it in which the head of that person may have been covered
_AT_EDGE = 0.02  # of the picture's height: whoever is cut off there may have no head in view
_CODEC_NOISE = 4.0
# grey levels by which a covered pixel differs, and the part of a box where somebody was found and covered
_OTHERWISE, _COVERED = 24, 0.3
# of a box, across: its middle; which part of that a cover fills, and of what length, that hides whoever is in it
_ALONG, _FILLED, _LENGTH, _CROSSED = (0.2, 0.8), 0.3, 0.85, 0.1
_HOLDS = 0.8  # of somebody: a find that holds that much of them is about nobody else
_ROOM = 1.15  # an ellipse leaves the corners of a box open
_SAME_STRUCTURE, _FAINT, _PLAIN = 0.6, 0.4, 0.5


def open_people(second: people.PersonDetector, every: int) -> Check:
    """People whom ``second`` finds in the output on every ``every``-th frame, whose middle looks as it did
    before and who are there in the original too."""

    def left(number: int, original: Image, output: Image, known: Faces) -> list[people.Box]:
        if number % every:
            return []
        found = [
            box
            for box in second.detect(output)
            if still_shows(original, output, box.scale(_MIDDLE))
            and not _covers(_changed(original, output, box))
        ]
        there = second.detect(original) if found else []
        return [
            box.scale(_ROOM)
            for box in found
            if (person := _in_original(original, box, there)) is not None
            and not _is_cover_of(original, output, box, person)
        ]

    return left


def open_heads(
    second: people.PersonDetector, every: int, filled: Callable[[int], Sequence[people.Box]]
) -> Check:
    """The places of heads of people whom ``second`` finds on every ``every``-th frame of the output and of
    whom no head is among those that are covered there, or ``filled`` after a former check."""

    def left(number: int, original: Image, output: Image, known: Faces) -> list[people.Box]:
        if number % every or known is None:
            return []
        covered = (*known, *filled(number))
        found = [
            box
            for box in second.detect(output)
            if box.y0 > _AT_EDGE * len(output) and not any(_in_reach(box, head) for head in covered)
        ]
        there = second.detect(original) if found else []
        return [
            people.head_by_box(box)
            for box in found
            if _in_original(original, box, there) is not None
        ]

    return left


def _changed(original: Image, output: Image, box: people.Box) -> people.Mask:
    """The pixels of a box that look otherwise than before."""
    place = box.pixels(original.shape[1], original.shape[0])
    apart = cv2.absdiff(original[place], output[place]).max(axis=2)
    return np.asarray(apart > _OTHERWISE)


def _covers(changed: people.Mask) -> bool:
    """Whether these pixels of a box hide whoever is in it: they are many, for what is in the middle of somebody
    who sits or leans may be a table, or they run along all of its middle, as the outline of a slim one does.
    Somebody else's cover beside an open person lies at the side of the box."""
    if float(changed.mean()) >= _COVERED:
        return True
    upright = changed if changed.shape[0] >= changed.shape[1] else changed.T
    first, last = (round(share * upright.shape[1]) for share in _ALONG)
    filled = upright[:, first : max(last, first + 1)].mean(axis=1)
    return float(filled.mean()) >= _FILLED and float((filled >= _CROSSED).mean()) >= _LENGTH


def _in_reach(box: people.Box, head: people.Box) -> bool:
    """Whether a head may be that of somebody in a box, which may hold the trunk or the legs alone."""
    (x, y), near = head.centre, box.grow(_NEAR * box.width, _NEAR * box.height)
    return near.x0 <= x <= near.x1 and box.y0 - box.height <= y <= near.y1


def _is_cover_of(original: Image, output: Image, found: people.Box, person: people.Box) -> bool:
    """Whether what was found in the output is a cover and the floor beside it: it holds all of somebody of
    the original, and that one is covered."""
    return found.covers(person) >= _HOLDS and _covers(_changed(original, output, person))


def _in_original(
    original: Image, box: people.Box, there: Sequence[people.Box]
) -> people.Box | None:
    """Who is in the original where the output shows somebody; None where covers and floor make such a shape
    together: the checking network is sure of somebody there, or the search finds somebody in that part
    alone."""
    sure = [one for one in there if one.score >= _SURE and people.iou(box, one) >= _HALF]
    if box.score >= _SURE and sure:
        return max(sure, key=lambda one: people.iou(box, one))
    height, width = original.shape[:2]
    rows, columns = box.scale(_AROUND).pixels(width, height)
    part = np.ascontiguousarray(original[rows, columns])
    if min(part.shape[:2]) < _SMALLEST:
        return None
    bodies = [one.box.shift(columns.start, rows.start) for one in _search()(part) if one.body]
    same = [body for body in bodies if people.iou(box, body) >= _HALF]
    return max([*sure, *same], key=lambda one: people.iou(box, one)) if same else None


@cache
def _search() -> people.Look:
    return people.search()


def still_shows(original: Image, output: Image, box: people.Box) -> bool:
    """Whether a place shows in the output what it showed before: its fine structure is the same. Whatever
    covers it, flat or patterned, has another one, or none."""
    height, width = original.shape[:2]
    place = box.pixels(width, height)
    if min(original[place].shape[:2]) < 3:
        return False
    before, after = (_structure(image[place]) for image in (original, output))
    if float(before.std()) < _PLAIN:  # nothing to compare but the colour
        apart = np.abs(original[place].astype(np.int16) - output[place])
        return float(apart.mean()) < _CODEC_NOISE
    strength = float(np.linalg.norm(before) * np.linalg.norm(after))
    if float(np.linalg.norm(after)) < _FAINT * float(np.linalg.norm(before)):
        return False
    return float((before * after).sum()) / strength >= _SAME_STRUCTURE


def _structure(part: Image) -> npt.NDArray[np.float32]:
    grey = cv2.cvtColor(part, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return np.asarray(grey - cv2.GaussianBlur(grey, (0, 0), 2.0), np.float32)
