"""Contact sheets of finished releases for the eye: the original above, the release below.

They show the original people: they belong to nobody but whoever checks the release.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from benchmarks.people.clip_measures import pairs
from benchmarks.people.covers import Image

FRAMES, _COLUMNS, _WIDTH, _LINE = 12, 4, 320, 3


def write_sheet(source: Path, release: Path, frames: int, target: Path) -> None:
    """``frames`` is the length of the clip; twelve frames of it, spread evenly, go onto the sheet."""
    chosen = {int((i + 0.5) / FRAMES * frames) for i in range(FRAMES)}
    tiles = [
        _tile(number, before, after)
        for number, (before, after) in enumerate(pairs(source, release))
        if number in chosen
    ]
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % _COLUMNS)
    rows = [np.hstack(tiles[i : i + _COLUMNS]) for i in range(0, len(tiles), _COLUMNS)]
    target.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(target), np.vstack(rows)[:, :, ::-1])


def _tile(number: int, before: Image, after: Image) -> Image:
    size = _WIDTH, round(_WIDTH * before.shape[0] / before.shape[1])
    pair = np.vstack(
        [cv2.resize(each, size, interpolation=cv2.INTER_AREA) for each in (before, after)]
    )
    cv2.putText(pair, str(number), (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 0), 1)
    return np.pad(pair, ((0, 2 * _LINE), (0, _LINE), (0, 0)), constant_values=255)
