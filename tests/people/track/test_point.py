"""Somebody whom the search missed is found at a point, and followed until lost or known."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.media import Image
from sfumato.people import Box, Look, carried, iou, person_at

HEIGHT, WIDTH, TALL, WIDE = 120, 200, 60, 24
_TEXTURE = np.random.default_rng(1).integers(0, 256, (TALL, WIDE, 3), dtype=np.uint8)
_TEXTURE[..., 0] = 255


def place(number: int) -> Box:
    return Box(20 + 2 * number, 40, 20 + 2 * number + WIDE, 40 + TALL)


def picture(number: int, there: bool = True) -> Image:
    rows, columns = np.indices((HEIGHT, WIDTH))
    grey = (90 + 20 * np.sin(rows / 9) + 15 * np.cos(columns / 11)).astype(np.uint8)
    image = np.repeat(grey[..., None], 3, axis=2)
    if there:
        box = place(number)
        image[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)] = _TEXTURE
    return image


class Reds:
    """Finds the bright red figure, as an odd one out would: by its colour."""

    name, device = "reds", "test"

    def __init__(self, blind: bool = False) -> None:
        self.blind, self.looks = blind, 0

    def detect(self, image: Image) -> list[Box]:
        self.looks += 1
        red = image[..., 0] == 255
        if self.blind or red.sum() < 100:
            return []
        rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
        return [Box(columns[0], rows[0], columns[-1] + 1, rows[-1] + 1, 0.9, "reds")]


def segment(image: Image) -> np.ndarray:
    return (image[..., 0] == 255).astype(np.float32)


def test_whoever_is_at_the_point_is_found_with_a_mask() -> None:
    image = picture(30)
    found = person_at(image, 85, 70, 4, Look([Reds()], []), segment)
    assert found.track == 4
    assert iou(found.box, place(30)) > 0.95
    assert found.mask[70, 85]
    assert not found.mask[10, 10]


def test_where_nobody_is_seen_a_box_of_usual_size_is_put() -> None:
    found = person_at(picture(0, there=False), 150, 60, 1, Look([Reds()], []), segment)
    assert found.box.x0 < 150 < found.box.x1
    assert 10 < found.box.height < HEIGHT
    assert found.cut is None  # all of it is covered


def test_a_point_beside_somebody_is_not_that_one() -> None:
    found = person_at(picture(0), 150, 60, 1, Look([Reds()], []), segment)
    assert iou(found.box, place(0)) == 0


@pytest.mark.parametrize("point", [(-1, 5), (WIDTH, 5), (5, HEIGHT)])
def test_a_point_outside_is_refused(point: tuple[int, int]) -> None:
    with pytest.raises(SfumatoError):
        person_at(picture(0), *point, 0, Look([Reds()], []), segment)


@pytest.mark.parametrize("end", [55, 5])
@pytest.mark.parametrize("blind", [False, True])
def test_somebody_is_carried_both_ways_with_and_without_a_detector(end: int, blind: bool) -> None:
    start = person_at(picture(30), 85, 70, 4, Look([Reds()], []), segment)
    found = dict(carried(picture, start, 30, end, Look([Reds(blind)], []), segment))
    step = 1 if end > 30 else -1
    assert list(found) == list(range(30 + step, end + step, step))
    for number, person in found.items():
        assert person.track == 4
        assert person.box.covers(place(number)) > 0.85, number
        assert person.mask[int(place(number).y0) + 20, int(place(number).centre[0])]


def test_it_ends_where_the_person_is_gone() -> None:
    start = person_at(picture(30), 85, 70, 4, Look([Reds()], []), segment)
    found = dict(
        carried(lambda n: picture(n, there=n < 40), start, 30, 60, Look([Reds()], []), segment)
    )
    assert max(found) == 39


def test_it_ends_where_somebody_is_known_already() -> None:
    start = person_at(picture(30), 85, 70, 4, Look([Reds()], []), segment)
    found = dict(
        carried(
            picture, start, 30, 60, Look([Reds()], []), segment,
            lambda number: [place(number)] if number >= 45 else [],
        )
    )  # fmt: skip
    assert max(found) == 44
