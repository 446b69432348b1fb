"""Somebody whom the search missed and a person pointed at: found there, and followed both ways.

Detectors look at ever larger parts of the picture around the point. From there on corners are followed
from frame to frame, and a detector that looks around the place now and then sets the box right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Image
from sfumato.people._anatomy import no_joints
from sfumato.people._boxes import Box, iou
from sfumato.people._person import BY_HAND, Person
from sfumato.people.detect._sightings import Look, Sighting
from sfumato.people.track._carry import RecentFrames
from sfumato.people.track._person_masks import Segment, masked

STRETCH = 48  # frames that somebody is carried before a person looks again
_PARTS = (0.35, 0.7, 1.5)  # of the picture's longer side that are looked at around a point
_LOOK_EVERY, _AROUND = 8, 2.0
_SAME = 0.3
_GROWTH = 0.01  # of a box's sides, for every frame on which nobody looked
_STANDS = 0.25, 0.12  # height and width, of the picture's height, of a box where nobody is seen


def person_at(image: Image, x: float, y: float, track: int, look: Look, segment: Segment) -> Person:
    """Whoever is at this point; a box of usual size around it where no detector sees anybody."""
    height, width = image.shape[:2]
    if not (0 <= x < width and 0 <= y < height):
        raise SfumatoError("Expected a point inside the picture, got one outside.")
    for part in _PARTS:
        half = part * max(height, width) / 2
        here = [
            one
            for one in _seen(image, Box(x - half, y - half, x + half, y + half), look)
            if one.box.x0 <= x < one.box.x1 and one.box.y0 <= y < one.box.y1
        ]
        if here:
            best = max(here, key=lambda one: one.score)
            return _person(image, best.box, best, track, segment)
    tall, wide = (share * height / 2 for share in _STANDS)
    box = Box(x - wide, y - tall, x + wide, y + tall, 1.0, BY_HAND).clip(width, height)
    return Person(track, box, no_joints(), None, BY_HAND, (height, width))


def carried(
    frame_at: Callable[[int], Image],
    person: Person,
    start: int,
    end: int,
    look: Look,
    segment: Segment,
    taken: Callable[[int], list[Box]] = lambda number: [],
) -> Iterator[tuple[int, Person]]:
    """The person of frame ``start`` on the frames after it up to ``end``, which may lie before it.

    It ends where the person is lost, leaves the picture, or is where somebody is known already
    (``taken``).
    """
    step = 1 if end > start else -1
    recent = RecentFrames(abs(end - start) + 2)
    recent.add(start, frame_at(start))
    anchor, box, since = person, person.box, start
    for number in range(start + step, end + step, step):
        image = frame_at(number)
        recent.add(number, image)
        before = box
        moved = recent.carried(box, number - step, number)
        if moved is not None and not recent.alike(anchor.box, since, moved, number):
            moved = None
        if moved is None or (number - start) % _LOOK_EVERY == 0:
            place = (moved or before).scale(_AROUND)
            near = [
                one for one in _seen(image, place, look) if iou(one.box, moved or before) >= _SAME
            ]
            if near:
                best = max(near, key=lambda one: iou(one.box, moved or before))
                anchor = _person(image, best.box, best, person.track, segment)
                box, since = best.box, number
                if _is_taken(box, taken(number)):
                    return
                yield number, anchor
                continue
        if moved is None:
            return
        box = moved
        inside = box.clip(image.shape[1], image.shape[0])
        if inside.area < 0.5 * box.area or _is_taken(box, taken(number)):
            return
        shift = box.centre[0] - anchor.box.centre[0], box.centre[1] - anchor.box.centre[1]
        yield number, _shifted(image, anchor, shift, abs(number - since), segment)


def _is_taken(box: Box, others: list[Box]) -> bool:
    return any(iou(box, other) >= 0.5 for other in others)


def _seen(image: Image, part: Box, look: Look) -> list[Sighting]:
    """Who is seen in a part of the picture, where they are in the whole of it."""
    rows, columns = part.pixels(image.shape[1], image.shape[0])
    if rows.stop - rows.start < 8 or columns.stop - columns.start < 8:
        return []
    right, down = float(columns.start), float(rows.start)
    found = []
    for one in look(np.ascontiguousarray(image[rows, columns])):
        joints = one.joints.copy()
        joints[:, :2] += np.array([right, down], np.float32)
        moved = replace(
            one, box=one.box.shift(right, down), head=one.head.shift(right, down), joints=joints
        )
        if one.body:
            found.append(moved)
    return found


def _person(image: Image, box: Box, seen: Sighting, track: int, segment: Segment) -> Person:
    person = Person(track, box, seen.joints, seen.head, BY_HAND, image.shape[:2])
    return masked(person, np.ascontiguousarray(image), segment)


def _shifted(
    image: Image, anchor: Person, shift: tuple[float, float], frames: int, segment: Segment
) -> Person:
    """The same person elsewhere, a little larger with every frame that nobody looked at."""
    grown = anchor.box.shift(*shift)
    grown = grown.grow(_GROWTH * frames * grown.width, _GROWTH * frames * grown.height)
    joints = anchor.joints.copy()
    joints[:, :2] += np.array(shift, np.float32)
    head = None if anchor.head is None else anchor.head.shift(*shift)
    moved = replace(anchor, box=grown, joints=joints, head=head, cut=None, window=None)
    if anchor.cut is None:
        return moved
    return masked(moved, np.ascontiguousarray(image), segment)
