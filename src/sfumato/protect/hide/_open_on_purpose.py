"""The check of the output where somebody is left open on purpose: of these it says nothing, of others all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sfumato import people
from sfumato.protect.hide._detection_log import OpenPlace
from sfumato.protect.hide._residual_faces import is_one_of

Found = list[tuple[int, list[people.Box]]]
FoundText = list[tuple[int, list[people.TextLine]]]
IsOpen = Callable[[people.Box, OpenPlace], bool]
# two boxes around one body, of different detectors
_SAME_BODY, _INSIDE = 0.3, 0.8


def not_on_purpose(
    places: Iterable[OpenPlace], faces: Found, bodies: Found, first: int = 0
) -> tuple[Found, Found]:
    """``faces`` and ``bodies`` (frame, boxes) without those who were left open by name; ``first`` is the
    number of the frame that the places begin with.

    A face that is also one of the covered ones stays: whoever is covered must not be seen, whoever
    stands beside.
    """
    wanted = {number for number, _ in (*faces, *bodies)}
    known = {number: place for number, place in enumerate(places, first) if number in wanted}
    return (
        _kept(faces, known, _open_face),
        _kept(bodies, known, _open_body),
    )


def text_inside(places: Iterable[OpenPlace], text: FoundText, first: int = 0) -> FoundText:
    """``text`` without what is found on frames that are shown as they are."""
    shown = {number for number, place in enumerate(places, first) if place.as_it_is}
    return [(number, lines) for number, lines in text if number not in shown]


def _kept(found: Found, known: dict[int, OpenPlace], is_open: IsOpen) -> Found:
    kept = []
    for number, boxes in found:
        place = known.get(number)
        if place is None:
            kept.append((number, boxes))
        elif rest := [box for box in boxes if not (place.as_it_is or is_open(box, place))]:
            kept.append((number, rest))
    return kept


def _open_face(box: people.Box, place: OpenPlace) -> bool:
    return is_one_of(box, place.heads) and not is_one_of(box, place.covered)


def _open_body(box: people.Box, place: OpenPlace) -> bool:
    return any(
        people.iou(box, body) >= _SAME_BODY or body.covers(box) >= _INSIDE for body in place.bodies
    )
