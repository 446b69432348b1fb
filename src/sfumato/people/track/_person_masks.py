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
from sfumato.people._person import Person, paint_ellipse

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
_NEAR = 0.25  # of the picture inside a box: somebody so near is seen in the whole picture
_SMALLEST = 24  # pixels: the whole box of whoever is smaller is covered


def paint_floor(drawn: npt.NDArray[np.uint8], person: Person, origin: tuple[float, float]) -> bool:
    """The least that is covered: capsules and head, slimmer where the network saw the body itself; whether
    it did."""
    radius = head_radius(person.joints, person.box)
    core = np.zeros_like(drawn)
    paint_body(core, person.joints, None, _CORE * radius, origin)
    seen = bool(core.any() and float(drawn[core > 0].mean()) >= _AGREED)
    head = person.head if person.head is None or not seen else person.head.scale(_SLIM_HEAD)
    paint_body(drawn, person.joints, head, radius, origin, _SLIM if seen else 1.0)
    return seen


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
    near = [one for one in people if one.box.clip(width, height).area >= _NEAR * width * height]
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
    drawn = np.zeros(shape, np.uint8)
    if max(person.box.width, person.box.height) >= _SMALLEST:
        drawn |= _network_mask(image, around, segment, rows, columns)
        limit = person.box.grow(_LIMIT * person.box.width, _LIMIT * person.box.height)
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
    agreed = paint_floor(drawn, person, origin)
    inner = person.box.shift(-origin[0], -origin[1]).pixels(shape[1], shape[0])
    part = drawn[inner]
    if not part.size or float(part.mean()) < _least_filled(person, agreed):
        # what lies beyond the box is background even where the ellipse goes on outside the picture
        whole = np.zeros(shape, np.uint8)
        paint_ellipse(whole, beyond_edges(person.box, width, height).scale(_WIDER), origin)
        place = person.box.grow(1, 1).shift(-origin[0], -origin[1]).pixels(shape[1], shape[0])
        drawn[place] |= whole[place]
    person = replace(person, cut=drawn.view(bool), window=(rows, columns))
    alone = not person.body and person.box.score >= _SURE_HEAD
    return _with_body(person, image, segment) if alone else person
