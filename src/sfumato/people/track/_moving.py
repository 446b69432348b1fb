"""What moves at somebody's rim is theirs: fast limbs are blurred, and networks miss them.

A pixel moves if it looks otherwise than on a frame before and on one after, laid over this one as the camera
went. On one of them alone a limb may have been there. Shadows move too, and are none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Frame, Image
from sfumato.people._boxes import Box
from sfumato.people._person import People, Person
from sfumato.people.detect._protocols import Mask
from sfumato.people.track._carry import Grey, Points, flow

_AWAY = (2, 1)  # frames, before and after; of each the first that shows the same place is compared
MOST_AWAY = max(_AWAY)
_SIDE = 480  # of the copies that are compared
_REACH = 0.12  # of the longer side of a box, around it
_GAP = 0.08  # of the same side, between what moves and the mask: a limb is slow where it begins
# of the same side, and pixels: what moves no further out than that is the rim of a mask that is large enough
_RIM, _LEAST_RIM = 0.02, 2.0
_LEVELS, _TIMES_NOISE = 14, 4.0  # by which a pixel differs, and times the median of all
# a shadow leaves that much of the light, at least, and of all colours alike
_SHADE, _SAME_COLOUR = 0.5, 1.1
_BUSY = 0.05  # of what is away from people: where that much moves (water, leaves), it tells nothing
_CORNERS, _FEWEST, _AGREED = 200, 12, 0.4  # to follow the camera by
_MISS = 1.5  # pixels by which a corner may miss its place
_TOUCH = np.ones((3, 3), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """A frame with its people, a small copy of it, and those of frames before and after."""

    frame: Frame
    people: People
    copy: Image
    before: tuple[Image, ...]
    after: tuple[Image, ...]


def with_others(found: Iterable[tuple[Frame, People]]) -> Iterator[Around]:
    """Every frame with those around it, ``MOST_AWAY`` frames after it came."""
    kept: deque[tuple[Frame, People, Image]] = deque()
    at = 0  # the place in ``kept`` of the frame that comes next

    def next_one() -> Around:
        before, after = (
            tuple(kept[place][2] for place in places if 0 <= place < len(kept))
            for places in ([at - away for away in _AWAY], [at + away for away in _AWAY])
        )
        return Around(*kept[at], before, after)

    for frame, people in found:
        kept.append((frame, people, _small(frame.image)))
        if len(kept) - at > MOST_AWAY:
            yield next_one()
            at += 1
        if at > MOST_AWAY:
            kept.popleft()
            at -= 1
    while at < len(kept):
        yield next_one()
        at += 1


def with_moving(around: Around, people: Sequence[Person]) -> list[Person]:
    """The same people, each with what moves and reaches their mask."""
    if not people:
        return []
    factor = around.copy.shape[1] / people[0].shape[1], around.copy.shape[0] / people[0].shape[0]
    elsewhere = np.ones(around.copy.shape[:2], bool)
    for person in people:
        place = _scaled(_reach(person), factor)
        elsewhere[place.pixels(around.copy.shape[1], around.copy.shape[0])] = False
    moves = moving(around.copy, (around.before, around.after), elsewhere)
    return [_wider(person, moves, factor) for person in people] if moves.any() else list(people)


def moving(now: Image, others: Sequence[Sequence[Image]], elsewhere: Mask) -> Mask:
    """The pixels that differ from one picture of each of the ``others``; none where those show another place
    or where much of ``elsewhere`` differs too."""
    grey = np.asarray(cv2.cvtColor(now, cv2.COLOR_RGB2GRAY), np.uint8)
    nothing = np.zeros(now.shape[:2], bool)
    seen = cv2.goodFeaturesToTrack(grey, _CORNERS, 0.01, 8, mask=elsewhere.view(np.uint8))
    if seen is None or len(seen) < _FEWEST:
        return nothing
    corners = np.asarray(seen, np.float32)
    found = ~nothing
    for pictures in others:
        laid_over = (_laid_over(grey, corners, each) for each in pictures)
        first = next((each for each in laid_over if each is not None), None)
        if first is None:
            return nothing
        found &= _differs(now, *first)
    if float(found[elsewhere].mean()) > _BUSY:
        return nothing
    return np.asarray(cv2.morphologyEx(found.view(np.uint8), cv2.MORPH_CLOSE, _TOUCH)).view(bool)


def _laid_over(grey: Grey, corners: Points, other: Image) -> tuple[Image, Mask] | None:
    """Another picture as this camera would have seen it, and where it shows something; None if it is of
    another place."""
    there, good = flow(grey, np.asarray(cv2.cvtColor(other, cv2.COLOR_RGB2GRAY), np.uint8), corners)
    if good.sum() < _FEWEST:
        return None
    way, inside = cv2.findHomography(corners[good], there[good], cv2.RANSAC, _MISS)
    if way is None or inside.sum() < max(_FEWEST, _AGREED * good.sum()):
        return None
    back = cv2.WARP_INVERSE_MAP
    size = grey.shape[1], grey.shape[0]
    shown = cv2.warpPerspective(np.ones_like(grey), way, size, flags=cv2.INTER_NEAREST | back)
    laid_over = cv2.warpPerspective(other, way, size, flags=cv2.INTER_LINEAR | back)
    return np.asarray(laid_over, np.uint8), np.asarray(shown, np.uint8).view(bool)


def _differs(now: Image, other: Image, shown: Mask) -> Mask:
    """Where no pixel of the other picture next to the same place looks alike (edges that are one pixel off
    do not count), nor is there a shadow on it now."""
    low, high = cv2.erode(other, _TOUCH), cv2.dilate(other, _TOUCH)
    apart = np.maximum(cv2.subtract(now, high), cv2.subtract(low, now)).max(axis=2)
    if not shown.any():
        return shown
    noise = float(np.median(apart[shown]))
    found = np.asarray(shown & (apart > max(_LEVELS, _TIMES_NOISE * noise)))
    share = (now[found] + np.float32(1)) / (other[found] + np.float32(1))
    least, most = share.min(axis=1), share.max(axis=1)
    found[found] = (least < _SHADE) | (most > 1) | (most > _SAME_COLOUR * least)
    return found


def _wider(person: Person, moves: Mask, factor: tuple[float, float]) -> Person:
    """Somebody with what moves around the box and reaches their mask."""
    height, width = person.shape
    if person.cut is None or person.window is None or not person.cut.any():
        return person
    own_rows, own_columns = person.window
    rows, columns = _reach(person).pixels(width, height)
    rows = slice(min(rows.start, own_rows.start), max(rows.stop, own_rows.stop))
    columns = slice(min(columns.start, own_columns.start), max(columns.stop, own_columns.stop))
    own = np.zeros((rows.stop - rows.start, columns.stop - columns.start), bool)
    own[
        own_rows.start - rows.start : own_rows.stop - rows.start,
        own_columns.start - columns.start : own_columns.stop - columns.start,
    ] = person.cut
    x, y = (
        np.minimum((np.arange(side.start, side.stop) + 0.5) * by, most - 1).astype(int)
        for side, by, most in zip((columns, rows), factor, moves.shape[::-1], strict=True)
    )
    near = np.zeros(own.shape, bool)
    near[_reach(person).shift(-columns.start, -rows.start).pixels(own.shape[1], own.shape[0])] = (
        True
    )
    here = moves[np.ix_(y, x)] & near
    side = max(person.box.width, person.box.height)
    gap, rim = _disc(_GAP * side / 2), max(_LEAST_RIM, _RIM * side)
    _, pieces = cv2.connectedComponents(cv2.dilate((here | own).view(np.uint8), gap))
    joined = np.isin(pieces, np.unique(pieces[own])) & here
    away = cv2.distanceTransform((~own).view(np.uint8), cv2.DIST_L2, 3)
    limbs = cv2.dilate((joined & (away > rim)).view(np.uint8), _disc(rim)).view(bool) & joined
    limbs = cv2.dilate(limbs.view(np.uint8), _TOUCH).view(bool)
    whole = cv2.morphologyEx((limbs | own).view(np.uint8), cv2.MORPH_CLOSE, gap).view(bool)
    between = whole & cv2.dilate(limbs.view(np.uint8), gap).view(bool)
    return replace(person, cut=own | limbs | between, window=(rows, columns))


def _disc(radius: float) -> npt.NDArray[np.uint8]:
    side = 2 * math.ceil(radius) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


def _reach(person: Person) -> Box:
    room = _REACH * max(person.box.width, person.box.height)
    return person.box.grow(room, room)


def _small(image: Image) -> Image:
    """A copy of which single pixels say little."""
    factor = min(1.0, _SIDE / max(image.shape[:2]))
    size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
    if factor < 1:
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return np.asarray(cv2.GaussianBlur(image, (0, 0), 1.0), np.uint8)


def _scaled(box: Box, factor: tuple[float, float]) -> Box:
    return Box(box.x0 * factor[0], box.y0 * factor[1], box.x1 * factor[0], box.y1 * factor[1])
