"""A contact sheet shows the whole video evenly, whatever its length."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.people import Box, ContactSheet, People, by_hand, contact_sheet, draw, with_legend


@pytest.mark.parametrize("length", [1, 5, 12, 13, 100, 777])
def test_cells_are_evenly_spaced_and_in_order(length: int) -> None:
    sheet = ContactSheet(count=12, columns=4, width=8)
    for i in range(length):
        sheet.add(np.full((6, 8, 3), i * 200 // length, dtype=np.uint8))
    image = sheet.image()
    cells = min(12, length)
    rows = -(-cells // 4)
    assert image.shape == (rows * 10 + 4, 4 * 12 + 4, 3)
    shown = [int(image[4 + i // 4 * 10 + 2, 4 + i % 4 * 12 + 2, 0]) for i in range(cells)]
    assert shown == sorted(shown)
    assert shown[0] == 0
    if length > 12:
        steps = np.diff(shown)
        assert steps.max() <= 3 * max(1, 200 // 12)
        assert shown[-1] >= 200 * 0.85


def test_memory_is_bounded() -> None:
    sheet = ContactSheet(count=4, width=8)
    for _ in range(1000):
        sheet.add(np.zeros((6, 8, 3), dtype=np.uint8))
    assert len(sheet._cells) < 8


def test_boxes_are_drawn_and_blank_frames_are_black(frames) -> None:  # type: ignore[no-untyped-def]
    image = np.full((240, 320, 3), 90, dtype=np.uint8)
    box = by_hand(Box(50, 50, 100, 100), (240, 320))
    shown = draw(image, People([box]))
    assert (shown[50, 60:90] == (0, 120, 255)).all()
    assert (image == 90).all(), "the picture itself must stay as it was"
    blank = draw(image, People([box], blank=True))
    assert not blank[:200].any(), "nothing of a blank frame is shown but its number"
    sheet = contact_sheet((frame, People([box], i)) for i, frame in enumerate(frames(5)))
    assert sheet.ndim == 3


def test_sheet_of_nothing_is_an_error() -> None:
    with pytest.raises(SfumatoError, match="at least one frame"):
        ContactSheet().image()


def test_numbers_of_frames_and_tracks_are_drawn_and_colours_explained() -> None:
    image = np.full((240, 320, 3), 90, dtype=np.uint8)

    def shown(frame: int, track: int) -> np.ndarray:
        return draw(image, People([by_hand(Box(50, 80, 100, 130), (240, 320), track)], frame))

    assert (shown(3, 1)[200:] != shown(4, 1)[200:]).any()
    assert (shown(3, 1)[:200] == shown(4, 1)[:200]).all()
    assert (shown(3, 1)[:200] != shown(3, 2)[:200]).any()
    assert (shown(3, -1)[:78] == 90).all(), "whoever has no track has no number"
    sheet = np.zeros((40, 640, 3), np.uint8)
    explained = with_legend(sheet)
    assert (explained[:40] == sheet).all()
    colours = {tuple(int(v) for v in pixel) for pixel in explained[40:].reshape(-1, 3)}
    assert {(0, 200, 0), (255, 160, 0), (255, 60, 0), (0, 120, 255), (220, 0, 220)} <= colours
    assert len(with_legend(sheet, ["look first at frame 3"])) > len(explained)


def test_numbers_fit_into_tiny_pictures() -> None:
    for height, width in ((1, 1), (8, 4), (3, 900)):
        image = np.zeros((height, width, 3), np.uint8)
        person = by_hand(Box(0, 0, width, height), (height, width), 12345)
        assert draw(image, People([person], 123456)).shape == image.shape
