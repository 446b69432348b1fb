"""Lines of text as turned rectangles, and the pages that they fill."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.people import TextLine, text_mask
from sfumato.people._text_line import with_pages


@pytest.mark.parametrize("angle", [0, 12, 45, 90, -30])
def test_the_mask_holds_every_point_of_the_rectangle(angle: float) -> None:
    line = TextLine.around((50.3, 40.7), (40, 12), angle)
    mask = text_mask([line], 80, 100)
    turn = math.radians(angle)
    for along in np.linspace(-20, 20, 81):
        for across in np.linspace(-6, 6, 25):
            x = 50.3 + along * math.cos(turn) - across * math.sin(turn)
            y = 40.7 + along * math.sin(turn) + across * math.cos(turn)
            assert mask[int(y), int(x)]
    assert mask.sum() < 1.4 * 40 * 12


def test_a_line_beyond_the_picture_covers_the_part_inside() -> None:
    mask = text_mask([TextLine.around((0, 0), (20, 10), 0)], 30, 30)
    assert mask[:5, :10].all()
    assert not mask[8:].any()


def page(lines: int, gap: float) -> list[TextLine]:
    return [TextLine.around((100, 40 + gap * number), (80, 10), 0) for number in range(lines)]


def test_dense_lines_are_a_page_and_covered_whole() -> None:
    found = with_pages(page(6, 15))
    assert len(found) == 7
    whole = text_mask(found, 200, 200)
    assert whole[40:115, 62:138].all()


def words_of_all_sizes() -> list[TextLine]:
    """Six large and small words that fill much of a picture, as captions and badges do."""
    places = [(60, 30, 100, 40), (180, 40, 70, 16), (70, 90, 90, 30), (190, 80, 60, 12),
              (60, 140, 100, 44), (180, 130, 80, 22)]  # fmt: skip
    return [TextLine.around((x, y), (w, h), 5 * n) for n, (x, y, w, h) in enumerate(places)]


@pytest.mark.parametrize("lines", [page(3, 15), page(6, 32), words_of_all_sizes(), []])
def test_few_or_scattered_lines_are_no_page(lines: list[TextLine]) -> None:
    assert len(with_pages(lines)) == len(lines)


def test_between_two_sightings_lies_the_larger_rectangle() -> None:
    small, large = TextLine.around((10, 10), (20, 8), 0), TextLine.around((30, 10), (24, 10), 0)
    middle = small.towards(large, 0.5)
    assert middle.box.centre == pytest.approx((20, 10))
    assert middle.sides == pytest.approx((10, 24))


def test_lines_that_are_found_twice_make_no_page() -> None:
    assert len(with_pages([*page(2, 15), *page(2, 15)])) == 4
