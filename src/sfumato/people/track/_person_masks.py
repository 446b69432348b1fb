"""The mask of a person: what a network sees inside the box, and never less than the body's geometry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._anatomy import has_trunk, head_radius, paint_body
from sfumato.people._boxes import Box
from sfumato.people._person import Person, ellipse, paint_ellipse
from sfumato.people.detect._protocols import Mask

Probabilities = npt.NDArray[np.float32]
Segment = Callable[[Image], Probabilities]

_ROOM = 0.15  # of a box's sides around it that the network sees too
_LIMIT = 0.04  # of a box's sides beyond it that a mask may reach: hands, hair
_THRESHOLD = 0.4
_MARGIN = 0.005  # of the box's longer side by which a mask is widened
# A mask that fills less of its box is not believed: of somebody whose trunk has joints and whose core the network
# masks (arms that reach out make a box wide), of somebody whose trunk has joints, of anybody else.
_FILLED_AGREED, _FILLED, _FILLED_UNSURE = 0.15, 0.3, 0.5
_AT_EDGE, _BEYOND = 0.02, 0.5  # of the picture's sides, of the box's
_NEARLY = 0.08  # of a box's own sides: one that ends so near to an edge ends at it
_FILLS = 0.95  # of the picture: somebody of whom nothing but a part is in view
# where the network masks most of the body's core, its outline is believed more than capsules
_CORE, _AGREED, _SLIM, _SLIM_HEAD = 0.4, 0.75, 0.3, 0.65
_WIDER = 1.2  # of a box's ellipse: hands and feet lie in its corners
_BODY = 1.6, 7.5  # widths of a head to either side, and heights down from its top
_SURE_HEAD = 0.25  # score of a head under which a body is looked for
_MOST_BODY = 0.6  # of the place for a body: no body fills more
# The mask of somebody who is outlined: how far outside and inside of the box it may end, in sides of the box; which
# part of the box it fills at least, with joints and without.
_OUTSIDE, _INSIDE, _OUTLINED, _OUTLINED_UNSURE = 0.1, 0.12, 0.2, 0.35
_SURE, _INSIDE_SURE = 0.5, 0.16  # a box of whom detectors are sure may be a little too wide
_SPECK = 0.05  # of the largest piece of a mask: smaller ones are no part of an outline
_SOME_PART = 0.45  # of a box: a head as large as that may be anywhere in it
_HEAD_CORE = 0.5  # of a head's sides: the middle, which a mask must hold that is believed
# score and part of a box of whoever may be a part of somebody else, and the rim, in sides of that one's box
_UNSURE_PART, _INSIDE_OTHER, _RIM = 0.35, 0.8, 0.02
_NEAR = 0.25  # of the picture inside a box: somebody so near is seen in the whole picture
_HOLE = 0.05  # of a mask: what it encloses and is no larger belongs to it
_SMALLEST = 24  # pixels: the whole box of whoever is smaller is covered
# A van, a street: a box that fills so much of the picture, whose detectors doubt it and that has no joints, is nobody
# if the network, which knows people near the camera best, masks so little of it.
_MUCH, _DOUBTED, _NEXT_TO_NOTHING = 0.15, 0.25, 0.12


def paint_floor(
    drawn: npt.NDArray[np.uint8],
    person: Person,
    origin: tuple[float, float],
    outlined: bool = False,
) -> bool:
    """The least that is covered: capsules and head, slimmer where the network saw the body itself; whether
    it did."""
    seen = outlined
    if not outlined:
        core = _core(drawn, person, origin)
        seen = bool(core.any() and float(drawn[core].mean()) >= _AGREED)
    head = person.head
    if head is not None and seen:
        head = head.scale(_SLIM_HEAD) if _knows_head(person) or not outlined else None
    radius = head_radius(person.joints, person.box)
    paint_body(drawn, person.joints, head, radius, origin, _SLIM if seen else 1.0)
    return seen


def _core(drawn: npt.NDArray[np.uint8], person: Person, origin: tuple[float, float]) -> Mask:
    """The middle of limbs and trunk, as far as joints tell of them."""
    core = np.zeros_like(drawn)
    radius = head_radius(person.joints, person.box)
    paint_body(core, person.joints, None, _CORE * radius, origin)
    return core.view(bool)


def _outlines(drawn: npt.NDArray[np.uint8], person: Person, origin: tuple[float, float]) -> bool:
    """Whether what the network masks ends on all four sides where the detectors' box does, and holds the
    middle of the head and the joints: two who do not know of each other agree."""
    if person.head is None or not person.body:
        return False
    count, pieces, stats, _ = cv2.connectedComponentsWithStats(drawn, connectivity=4)
    if count < 2:
        return False
    sizes = stats[1:, cv2.CC_STAT_AREA]
    main = np.flatnonzero(sizes >= _SPECK * sizes.max()) + 1
    rows, columns = np.nonzero(np.isin(pieces, main))
    height, width = person.shape
    box = person.box.clip(width, height)
    seen = Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1).shift(*origin)
    room = box.grow(_OUTSIDE * box.width, _OUTSIDE * box.height)
    inside = _INSIDE_SURE if person.box.score >= _SURE else _INSIDE
    core = box.grow(-inside * box.width, -inside * box.height)
    if seen.covers(core) < 1 or room.covers(seen) < 1:
        return False
    if not person.joints[:, 2].any():
        return float(drawn.sum()) >= _OUTLINED_UNSURE * box.area
    cores = [_core(drawn, person, origin)]
    if _knows_head(person):
        middle = person.head.scale(_HEAD_CORE)
        cores.append(ellipse(middle, (drawn.shape[0], drawn.shape[1]), origin))
    return all(float(drawn[core].mean()) >= _AGREED for core in cores if core.any())


def _knows_head(person: Person) -> bool:
    """Whether the head is in some part of the box, and not anywhere in it."""
    return person.head is not None and person.head.area <= _SOME_PART * person.box.area


def beyond_edges(box: Box, width: int, height: int) -> Box:
    """The box, longer where it ends at an edge of the picture: no person ends there."""
    x = max(_AT_EDGE * width, _NEARLY * box.width)
    y = max(_AT_EDGE * height, _NEARLY * box.height)
    wide, high = _BEYOND * box.width, _BEYOND * box.height
    return replace(
        box,
        x0=box.x0 - wide * (box.x0 <= x),
        y0=box.y0 - high * (box.y0 <= y),
        x1=box.x1 + wide * (box.x1 >= width - x),
        y1=box.y1 + high * (box.y1 >= height - y),
    )


def _is_nobody(person: Person, drawn: npt.NDArray[np.uint8], origin: tuple[float, float]) -> bool:
    """Whether all who looked at somebody so large doubt it; what the network masks is covered all the same."""
    height, width = person.shape
    box = person.box.clip(width, height)
    if box.area < _MUCH * height * width or box.score >= _DOUBTED or person.joints[:, 2].any():
        return False
    part = drawn[box.shift(-origin[0], -origin[1]).pixels(drawn.shape[1], drawn.shape[0])]
    return float(part.mean()) < _NEXT_TO_NOTHING


def _least_filled(person: Person, agreed: bool) -> float:
    if has_trunk(person.joints):
        return _FILLED_AGREED if agreed else _FILLED
    height, width = person.shape
    if person.box.width >= _FILLS * width or person.box.height >= _FILLS * height:
        return 1.0
    return _FILLED_UNSURE


def _network_mask(
    image: Image, around: Box, segment: Segment, rows: slice, columns: slice
) -> npt.NDArray[np.uint8]:
    """What the network masks in a window: it is shown the square around it, for it misses most of those
    who are squeezed into one."""
    wider, higher = max(0.0, around.height - around.width), max(0.0, around.width - around.height)
    top, left = around.grow(wider / 2, higher / 2).pixels(image.shape[1], image.shape[0])
    likely = segment(np.ascontiguousarray(image[top, left]))
    inside = likely[
        rows.start - top.start : rows.stop - top.start,
        columns.start - left.start : columns.stop - left.start,
    ]
    return (inside > _THRESHOLD).astype(np.uint8)


def near_ones(people: Sequence[Person], image: Image, segment: Segment) -> list[Person]:
    """The same people; whoever is so near that boxes hold a part of them at best, or are drawn around one
    of two, also gets what the network masks in the whole picture, for which it was made."""
    height, width = image.shape[:2]
    near = [
        one
        for one in people
        if one.box.clip(width, height).area >= _NEAR * width * height
        and not one.outlined
        and not _is_nobody(one, one.mask.view(np.uint8), (0, 0))
    ]
    if not near:
        return list(people)
    whole = segment(image) > _THRESHOLD
    near[0].add_to(whole)
    for one in near:  # nobody who is that large ends a little before an edge
        inner = one.box.pixels(width, height)
        inside = whole[inner].copy()
        whole[beyond_edges(one.box, width, height).clip(width, height).pixels(width, height)] = True
        whole[inner] = inside
    everywhere = slice(0, height), slice(0, width)
    larger = replace(near[0], cut=whole, window=everywhere)
    return [larger if one is near[0] else one for one in people]


def without_doubtful_parts(people: Sequence[Person]) -> list[Person]:
    """The same people; a doubtful find inside the box of somebody who is outlined, with its head on that
    one's body, is a shoulder or a hand, and covers nothing beside that one."""
    outlined = [one for one in people if one.outlined]
    return [
        _clipped(one, whose) if (whose := _part_of(one, outlined)) is not None else one
        for one in people
    ]


def _part_of(one: Person, outlined: Sequence[Person]) -> Person | None:
    if one.outlined or one.head is None or one.box.score >= _UNSURE_PART:
        return None
    height, width = one.shape
    inside = one.box.clip(width, height)
    x, y = (
        min(max(int(at), 0), most - 1)
        for at, most in zip(one.head.centre, (width, height), strict=True)
    )
    for other in outlined:
        if other.box.covers(inside) >= _INSIDE_OTHER and other.mask[y, x]:
            return other
    return None


def _clipped(one: Person, whose: Person) -> Person:
    reach = max(1, round(_RIM * max(whose.box.width, whose.box.height)))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    wider = cv2.dilate(whose.mask.view(np.uint8), kernel).view(bool)
    height, width = one.shape
    return replace(one, cut=one.mask & wider, window=(slice(0, height), slice(0, width)))


def _with_body(head: Person, image: Image, segment: Segment) -> Person:
    """Somebody of whom a head alone was found, with the body that the network masks under it."""
    height, width = head.shape
    x, box = head.box.centre[0], head.box
    wide, high = _BODY[0] * box.width, _BODY[1] * box.height
    rows, columns = around = Box(x - wide, box.y0, x + wide, box.y0 + high).pixels(width, height)
    if rows.stop - rows.start < 1 or columns.stop - columns.start < 1:
        return head
    place = Box(columns.start, rows.start, columns.stop, rows.stop)
    own = head.mask
    seen = _network_mask(image, place, segment, rows, columns)
    if float(seen.mean()) > _MOST_BODY:
        return head  # a floor
    seen |= own[around]
    _, pieces = cv2.connectedComponents(seen, connectivity=4)
    joined = np.unique(pieces[own[around]])
    own[around] |= np.isin(pieces, joined[joined > 0])
    return replace(head, cut=own, window=(slice(0, height), slice(0, width)))


def _without_holes(drawn: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The mask with what it encloses: a pattern of clothes is a hole to the network."""
    _, pieces, stats, _ = cv2.connectedComponentsWithStats(1 - drawn, connectivity=4)
    holes = np.flatnonzero(stats[:, cv2.CC_STAT_AREA] <= _HOLE * drawn.sum())
    rim = np.concatenate([pieces[0], pieces[-1], pieces[:, 0], pieces[:, -1]])
    holes = np.setdiff1d(holes, [0, *rim])  # 0 is the mask itself
    return drawn | np.isin(pieces, holes).astype(np.uint8) if len(holes) else drawn


def masked(person: Person, image: Image, segment: Segment) -> Person:
    """The same person with a mask: network and geometry united, all of the box's ellipse where the
    network sees next to nothing."""
    height, width = person.shape
    around = person.box.grow(_ROOM * person.box.width, _ROOM * person.box.height)
    if person.head is not None:
        head = person.head
        around = Box(
            min(around.x0, head.x0), min(around.y0, head.y0),
            max(around.x1, head.x1), max(around.y1, head.y1),
        )  # fmt: skip
    rows, columns = around.pixels(width, height)
    shape = rows.stop - rows.start, columns.stop - columns.start
    if min(shape) < 1:
        return replace(person, cut=np.zeros(shape, bool), window=(rows, columns))
    origin = float(columns.start), float(rows.start)
    drawn, outlined = np.zeros(shape, np.uint8), False
    if max(person.box.width, person.box.height) >= _SMALLEST:
        drawn |= _network_mask(image, around, segment, rows, columns)
        if _is_nobody(person, drawn, origin):
            return replace(person, cut=drawn.view(bool), window=(rows, columns))
        outlined = _outlines(drawn, person, origin)
        room = _OUTSIDE if outlined else _LIMIT
        limit = person.box.grow(room * person.box.width, room * person.box.height)
        allowed = np.zeros(shape, np.uint8)
        inner = limit.shift(-origin[0], -origin[1]).pixels(shape[1], shape[0])
        allowed[inner] = 1
        drawn &= allowed
        reach = round(_MARGIN * max(person.box.width, person.box.height))
        if reach:
            kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
            drawn = np.asarray(cv2.dilate(drawn, kernel), np.uint8)
    else:
        drawn[person.box.shift(-origin[0], -origin[1]).pixels(shape[1], shape[0])] = 1
    agreed = paint_floor(drawn, person, origin, outlined)
    inner = person.box.shift(-origin[0], -origin[1]).pixels(shape[1], shape[0])
    part = drawn[inner]
    least = _OUTLINED if outlined else _least_filled(person, agreed)
    if not part.size or float(part.mean()) < least:
        # what lies beyond the box is background even where the ellipse goes on outside the picture
        whole = np.zeros(shape, np.uint8)
        paint_ellipse(whole, beyond_edges(person.box, width, height).scale(_WIDER), origin)
        place = person.box.grow(1, 1).shift(-origin[0], -origin[1]).pixels(shape[1], shape[0])
        drawn[place] |= whole[place]
        outlined = False
    cut = _without_holes(drawn).view(bool)
    person = replace(person, cut=cut, window=(rows, columns), outlined=outlined)
    alone = not person.body and person.box.score >= _SURE_HEAD
    return _with_body(person, image, segment) if alone else person
