"""How much a picture has changed since another one: when to look again, and where a shot begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Frame, Image

Thumbnail = npt.NDArray[np.float32]
_CELLS = (24, 16)  # a person is some cells wide
# grey levels of a cell, and the share of cells that must have changed by them
_MOVED, _STIRRED = (12.0, 0.06), (6.0, 0.005)
# correlation of the cells of two frames of one shot, and of their detail; grey levels by which cells of two shots
# differ on average, and cells that a camera may swing in a frame
_SAME_SHOT, _SAME_DETAIL, _LEVELS, _SWING = 0.5, 0.3, 15.0, 3
_STILL = 8  # frames between two looks at a picture in which nothing stirs, at most


def thumbnail(image: Image) -> Thumbnail:
    """The mean brightness of a few cells; every fourth row and column of a large picture is enough."""
    step = max(1, min(image.shape[:2]) // 128)
    sparse = np.ascontiguousarray(image[::step, ::step, 1])
    return cv2.resize(sparse, _CELLS, interpolation=cv2.INTER_AREA).astype(np.float32)


def bounds(every: int) -> tuple[int, int]:
    """The fewest and the most frames from one look to the next: half of ``every`` where the picture moves,
    so that bridging would be a guess, and twice as many where nothing in it stirs."""
    return (every + 1) // 2, max(every, min(2 * every, _STILL)) if every > 1 else 1


def most_between_looks(every: int) -> int:
    """The most frames from one look to the next."""
    return bounds(every)[1]


def due(before: Thumbnail | None, now: Thumbnail, since: int, every: int) -> bool:
    """Whether it is time to look again, ``since`` frames after the last look."""
    fewest, most = bounds(every)
    if before is None or since >= most:
        return True
    if since < fewest:
        return False
    change = now - before
    change -= np.median(change)  # a lamp or an exposure moves nobody
    level, share = _STIRRED if since >= every else _MOVED
    return float((np.abs(change) >= level).mean()) >= share


class Shown(NamedTuple):
    """A frame, its cells, and whether a shot begins or ends with it."""

    frame: Frame
    cells: Thumbnail
    begins: bool
    ends: bool


def with_shots(frames: Iterable[Frame], ask_ends: bool) -> Iterator[Shown]:
    """Every frame, and where shots begin. Where they end is known one frame later, so only if asked."""
    held: Shown | None = None
    before: Thumbnail | None = None
    for frame in frames:
        cells = thumbnail(frame.image)
        now = Shown(frame, cells, before is not None and is_cut(before, cells), False)
        before = cells
        if not ask_ends:
            yield now
            continue
        if held is not None:
            yield held._replace(ends=now.begins)
        held = now
    if held is not None:
        yield held._replace(ends=True)


class ShotBounds:
    """Where the shots of a recording begin; what is known of one frame is no word about another shot."""

    def __init__(self) -> None:
        self._begin: list[int] = []
        self._frames = 0
        self._last: Thumbnail | None = None

    def add(self, image: Image) -> None:
        """The next frame."""
        before, self._last = self._last, thumbnail(image)
        if before is not None and is_cut(before, self._last):
            self._begin.append(self._frames)
        self._frames += 1

    def around(self, number: int, reach: int) -> range:
        """The frames up to ``reach`` away from one, of the same shot as far as shots are known."""
        after = bisect_right(self._begin, number)
        begin = self._begin[after - 1] if after else 0
        end = self._begin[after] if after < len(self._begin) else number + reach + 1
        return range(max(begin, number - reach), min(end, number + reach + 1))


def is_cut(before: Thumbnail, now: Thumbnail) -> bool:
    """Whether two frames that follow each other are of two shots: their cells look unlike each other also
    where a camera swings, and no lamp alone changed them."""
    change = now - before
    if float(np.abs(change - np.median(change)).mean()) < _LEVELS or _alike(before, now):
        return False
    if _alike(_detail(before), _detail(now), _SAME_DETAIL):
        return False
    height, width = now.shape
    for y in range(-_SWING, _SWING + 1):
        for x in range(-_SWING, _SWING + 1):
            there = before[max(y, 0) : height + min(y, 0), max(x, 0) : width + min(x, 0)]
            here = now[max(-y, 0) : height + min(-y, 0), max(-x, 0) : width + min(-x, 0)]
            if _alike(there, here):
                return False
    return True


def _detail(cells: Thumbnail) -> Thumbnail:
    """What a lamp from one side does not change."""
    return cells - np.asarray(cv2.GaussianBlur(cells, (0, 0), 2.0), np.float32)


def _alike(a: Thumbnail, b: Thumbnail, least: float = _SAME_SHOT) -> bool:
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum()) >= max(least * float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-6)
