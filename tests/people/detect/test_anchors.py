"""The decoding of the single-shot detectors, against counting and against the obvious way."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.people import Box, suppress
from sfumato.people.detect._anchors import cell_centres, decode, suppress_rows, weighted
from sfumato.people.detect._blazepose import Crop, upright_crop
from sfumato.people.detect._square_views import View, reduced, square_views


@pytest.mark.parametrize(
    ("size", "layers", "count"),
    [
        (128, ((8, 2), (16, 6)), 896),
        (192, ((4, 1),), 2304),
        (224, ((8, 2), (16, 2), (32, 6)), 2254),
    ],
)
def test_anchor_counts_are_those_of_the_networks(
    size: int, layers: tuple[tuple[int, int], ...], count: int
) -> None:
    centres = cell_centres(size, layers)
    assert centres.shape == (count, 2)
    assert centres.min() > 0
    assert centres.max() < 1
    first = layers[0][0] / size / 2
    np.testing.assert_allclose(centres[0], [first, first])
    np.testing.assert_allclose(centres[layers[0][1]], [3 * first, first])


def test_decoding_adds_the_anchor_and_keeps_what_is_sure() -> None:
    centres = cell_centres(128, ((8, 2), (16, 6)))
    raw = np.zeros((896, 16), dtype=np.float32)
    logits = np.full((896, 1), -200.0, dtype=np.float32)
    raw[100, :6] = [12.8, -6.4, 25.6, 12.8, 6.4, 0]
    logits[100] = 3
    corners, keypoints, scores = decode(raw, logits, centres, 128, 0.5)
    x, y = centres[100] + [0.1, -0.05]
    np.testing.assert_allclose(corners, [[x - 0.1, y - 0.05, x + 0.1, y + 0.05]], atol=1e-6)
    np.testing.assert_allclose(keypoints[0, 0], centres[100] + [0.05, 0], atol=1e-6)
    assert scores[0] == pytest.approx(1 / (1 + np.exp(-3)))
    empty = decode(raw, logits, centres, 128, 0.99)
    assert [part.shape[0] for part in empty] == [0, 0, 0]


def test_fast_suppression_agrees_with_the_obvious_one() -> None:
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 50, (80, 2))
    corners = np.concatenate([low, low + rng.uniform(5, 30, (80, 2))], axis=1).astype(np.float32)
    scores = rng.permutation(80).astype(np.float32) / 80
    groups = suppress_rows(corners, scores, 0.3)
    slow = suppress((Box(*map(float, c), float(s)) for c, s in zip(corners, scores)), 0.3)
    assert [float(scores[group[0]]) for group in groups] == [box.score for box in slow]
    assert sorted(i for group in groups for i in group) == list(range(80))
    mean = weighted(corners, scores, groups)[0]
    expected = (corners[groups[0]] * scores[groups[0], None]).sum(0) / scores[groups[0]].sum()
    np.testing.assert_allclose(mean, expected, rtol=1e-5)


@pytest.mark.parametrize("size", [(320, 240), (240, 320), (1920, 1080), (100, 100), (800, 200)])
def test_views_show_every_pixel_and_overlap(size: tuple[int, int]) -> None:
    width, height = size
    whole, *tiles = square_views(width, height, tiles=True)
    assert whole.side == max(size)
    assert (whole.x + whole.side / 2, whole.y + whole.side / 2) == (width / 2, height / 2)
    if min(size) == max(size):
        assert not tiles
        return
    starts = sorted(max(tile.x, tile.y) for tile in tiles)
    assert starts[0] == 0
    assert starts[-1] + min(size) == max(size)
    assert max(np.diff(starts)) <= min(size) * 2 / 3 + 1e-9


@pytest.mark.parametrize("side", [40.0, 300.0, 1200.0])
def test_view_puts_a_mark_where_it_belongs(side: float) -> None:
    image = np.zeros((600, 900, 3), dtype=np.uint8)
    spot = max(2, round(side / 20))
    x, y = 450, 300
    image[y - spot : y + spot, x - spot : x + spot] = 255
    view = View(x - side / 4, y - side / 3, side)
    picture = view.picture(image, 128, 0.0, 1.0)[..., 0]
    rows, columns = np.mgrid[:128, :128] + 0.5
    found = (picture * columns).sum() / picture.sum(), (picture * rows).sum() / picture.sum()
    np.testing.assert_allclose(found, (128 / 4, 128 / 3), atol=0.2)


def test_crop_turns_the_body_upright() -> None:
    hips, above = np.array([100.0, 50.0], np.float32), np.array([140.0, 50.0], np.float32)
    crop = upright_crop(hips, above, 1.0)
    assert crop.side == pytest.approx(2 * 40 * 1.25)
    matrix = crop.to_picture(256)
    centre = matrix @ [127.5, 127.5, 1]
    np.testing.assert_allclose(centre + 0.5, hips, atol=1e-6)
    top = matrix @ [127.5, 127.5 - 256 * 40 / crop.side, 1]
    np.testing.assert_allclose(top + 0.5, above, atol=1e-3)
    straight = Crop(10, 10, 256, 0.0).to_picture(256)
    np.testing.assert_allclose(straight[:, :2], np.eye(2))


def test_reduced_copy_keeps_its_scale_exactly() -> None:
    image = np.zeros((1081, 1921, 3), dtype=np.uint8)
    small, wider, higher = reduced(image, 384)
    assert min(small.shape[:2]) == 384
    assert (small.shape[1] * wider, small.shape[0] * higher) == pytest.approx((1921, 1081))
    assert reduced(small, 384)[0] is small
