"""Boxes: areas, overlaps, and unions that lose nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.people import Box, box_mask, hull, iou, suppress, unite

WIDTH, HEIGHT = 60, 40

_corner = st.integers(-20, 70)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    x, y = draw(_corner), draw(_corner)
    score = draw(st.integers(1, 100)) / 100
    return Box(x, y, x + draw(st.integers(1, 40)), y + draw(st.integers(1, 40)), score)


def _pixels(box: Box) -> np.ndarray:
    """The slow way: ask every pixel of a picture that is large enough for all boxes."""
    y, x = np.mgrid[-30:130, -30:130] + 0.5
    return (x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)


@given(boxes(), boxes())
def test_overlaps_agree_with_counting_pixels(a: Box, b: Box) -> None:
    pa, pb = _pixels(a), _pixels(b)
    assert iou(a, b) == pytest.approx((pa & pb).sum() / (pa | pb).sum())
    assert a.covers(b) == pytest.approx((pa & pb).sum() / pb.sum())


@given(st.lists(boxes(), max_size=8))
def test_union_covers_every_pixel_that_any_detector_found(found: list[Box]) -> None:
    before = box_mask(found, WIDTH, HEIGHT)
    after = box_mask(unite(found), WIDTH, HEIGHT)
    assert not (before & ~after).any()
    assert len(unite(found)) <= len(found)


@given(st.lists(boxes(), max_size=8))
def test_suppression_keeps_boxes_apart_and_drops_only_doubles(found: list[Box]) -> None:
    kept = suppress(found, 0.3)
    assert all(iou(a, b) < 0.3 for i, a in enumerate(kept) for b in kept[:i])
    for box in found:
        assert box in kept or any(iou(box, k) >= 0.3 and k.score >= box.score for k in kept)


@given(boxes(), boxes())
def test_hull_covers_both(a: Box, b: Box) -> None:
    whole = hull([a, b])
    assert whole.covers(a) == pytest.approx(1)
    assert whole.covers(b) == pytest.approx(1)


@given(boxes(), st.floats(0, 0.9), st.floats(0, 0.9))
def test_mask_rounds_outwards(box: Box, dx: float, dy: float) -> None:
    moved = box.shift(dx, dy)
    mask = box_mask([moved], WIDTH, HEIGHT)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    touched = (x + 1 > moved.x0) & (x < moved.x1) & (y + 1 > moved.y0) & (y < moved.y1)
    np.testing.assert_array_equal(mask, touched)


def test_box_outside_the_picture_touches_nothing() -> None:
    assert not box_mask([Box(-50, -50, -10, -10), Box(500, 0, 600, 10)], WIDTH, HEIGHT).any()
