"""A contact sheet shows the whole video evenly, whatever its length."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.people import Box, ContactSheet, People, by_hand, contact_sheet, draw


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
    assert not draw(image, People([box], blank=True)).any()
    sheet = contact_sheet((frame, People([box], i)) for i, frame in enumerate(frames(5)))
    assert sheet.ndim == 3


def test_sheet_of_nothing_is_an_error() -> None:
    with pytest.raises(SfumatoError, match="at least one frame"):
        ContactSheet().image()
