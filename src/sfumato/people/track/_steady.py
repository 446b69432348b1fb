"""Covers of a steady size: what a detector says of the size of a face changes from look to look.

A side of a track's box, as its distance from the centre, is at least 92 % of what it is on the
frame before and on the frame after. So no box becomes smaller anywhere, and none changes its area by
more than a fifth from one frame to the next, unless it differs more than that within a whole window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sfumato.people._boxes import Box
from sfumato.people.track._tracker import TrackedBox, TrackedBoxes

REACH = 5
STEP = 0.92
Sides = tuple[float, float, float, float]


def steady(frames: Iterable[TrackedBoxes]) -> Iterator[TrackedBoxes]:
    """The same boxes, never smaller; an answer comes ``REACH`` frames later."""
    window: deque[dict[int, Sides]] = deque(maxlen=2 * REACH + 1)
    waiting: deque[TrackedBoxes] = deque()
    for found in frames:
        waiting.append(found)
        window.append({one.track: _sides(one.box) for one in found.tracked})
        if len(waiting) > REACH:
            yield _steadied(waiting.popleft(), list(window), len(window) - 1 - REACH)
    late = list(window)
    for place in range(len(late) - len(waiting), len(late)):
        first = max(place - REACH, 0)
        yield _steadied(waiting.popleft(), late[first:], place - first)


def _steadied(found: TrackedBoxes, window: list[dict[int, Sides]], place: int) -> TrackedBoxes:
    tracked = (replace(one, box=_box(one, window, place)) for one in found.tracked)
    return replace(found, tracked=tuple(tracked))


def _box(one: TrackedBox, window: list[dict[int, Sides]], place: int) -> Box:
    left, top, right, bottom = _sides(one.box)
    for near, frame in enumerate(window):
        if near != place and one.track in frame:
            part = STEP ** abs(near - place)
            a, b, c, d = frame[one.track]
            left, top = max(left, part * a), max(top, part * b)
            right, bottom = max(right, part * c), max(bottom, part * d)
    x, y = one.box.centre
    # the centre is rounded, and a cover may not lose a hair's breadth
    return replace(
        one.box,
        x0=min(x - left, one.box.x0),
        y0=min(y - top, one.box.y0),
        x1=max(x + right, one.box.x1),
        y1=max(y + bottom, one.box.y1),
    )


def _sides(box: Box) -> Sides:
    x, y = box.centre
    return x - box.x0, y - box.y0, box.x1 - x, box.y1 - y
