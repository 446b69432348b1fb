"""Where text is: the map of the network becomes lines that hold all letters."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from sfumato import people
from sfumato.people._text_line import SURE
from sfumato.people.detect._pp_ocr import PpOcr, lines_of


@pytest.mark.parametrize(("width", "height"), [(120, 6), (200, 30), (60, 40), (12, 90)])
def test_a_line_is_grown_by_its_area_over_its_perimeter_and_at_its_ends(
    width: int, height: int
) -> None:
    text_map = np.zeros((256, 320), np.float32)
    text_map[100 : 100 + height, 80 : 80 + width] = 0.9
    (line,) = lines_of(text_map, 0.5)
    margin = 1.5 * width * height / (2 * (width + height))
    ends = 0.5 * (min(width, height) + 2 * margin)
    grown = margin + (ends if width > height else 0), margin + (ends if height > width else 0)
    expected = people.Box(80, 100, 80 + width, 100 + height).grow(*grown)
    found = line.box
    assert (found.x0, found.y0, found.x1, found.y1) == pytest.approx(
        (expected.x0, expected.y0, expected.x1, expected.y1), abs=1e-3
    )
    assert line.score == pytest.approx(0.9)


def test_specks_and_weak_places_are_no_text() -> None:
    text_map = np.zeros((64, 64), np.float32)
    text_map[10:12, 10:12] = 1.0
    text_map[30:40, 10:50] = 0.3
    assert lines_of(text_map, 0.5) == []
    assert len(lines_of(text_map, 0.2)) == 1


class Drawn(PpOcr):
    """The same detector with a map that is given."""

    def __init__(self, text_map: np.ndarray) -> None:
        self._threshold, self._sides, self._map = 0.45, (640, 1280), text_map

    def text_map(self, picture: np.ndarray) -> np.ndarray:
        return self._map


@pytest.mark.parametrize(
    ("height", "score", "found"), [(12, 0.5, 1), (60, 0.5, 0), (60, 0.9, 1), (12, 0.4, 0)]
)
def test_what_is_huge_and_faint_is_a_row_of_trees(height: int, score: float, found: int) -> None:
    text_map = np.zeros((384, 640), np.float32)
    text_map[100 : 100 + height, 100:400] = score
    assert len(Drawn(text_map).detect(np.zeros((384, 640, 3), np.uint8))) == found


@pytest.mark.models
@pytest.mark.text
@pytest.mark.parametrize("height", [12, 20, 36])
def test_written_names_are_found_whole_and_a_bare_wall_is_not(height: int) -> None:
    detector = people.text_detector()
    wall = np.random.default_rng(1).normal(120, 6, (360, 640, 3)).clip(0, 255).astype(np.uint8)
    assert detector.detect(wall) == []
    scale = height / 21.5  # Hershey's capitals
    thick = max(1, round(height / 9))
    written = wall.copy()
    cv2.putText(written, "Maria Schmidt", (150, 200), 0, scale, (240, 240, 240), thick, cv2.LINE_AA)
    letters = (written != wall).any(axis=2)
    found = people.text_mask(detector.detect(written), 360, 640)
    assert found[letters].mean() > 0.99
    rows, columns = (np.flatnonzero(letters.any(axis=axis)) for axis in (1, 0))
    assert found.sum() < 3.2 * np.ptp(rows) * np.ptp(columns)


def test_a_floor_as_large_as_the_picture_is_no_text_and_a_huge_line_needs_a_second_sighting() -> (
    None
):
    picture = np.zeros((384, 640, 3), np.uint8)
    floor, words = np.zeros((2, 384, 640), np.float32)
    floor[60:330, 80:560] = 0.95
    words[100:160, 50:600] = 0.95
    assert Drawn(floor).detect(picture) == []
    (line,) = Drawn(words).detect(picture)
    assert line.score < SURE
