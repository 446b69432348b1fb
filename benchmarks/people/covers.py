"""What a release has changed in a picture, which labelled points it left open, what it covered wrongly.

A release without loss of quality gives every pixel outside the covers back unchanged, so changed is
simply different. In any other file a pixel has changed if it differs by more than ``noise``: what the
codec does to 99.9 % of the pixels that nobody covered.

A point is **open** if fewer than half of the pixels in a small disc around it have changed. A blurred
disc of one colour (black hair) looks as before, so a flat disc is grown until it holds something that
a cover would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.people.labels import LabelledFrame, Point, Somebody

Image = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_RADII = 3.0, 6.0  # pixels
_OF_THE_SCALE = 0.25  # of the way from head to trunk: within a head
_FLAT, _GROWN = 6, 4.0
_SPECK = 0.0004  # of the picture: below that a difference is no cover
_FAR = 16  # pixels from anything that was changed
_NOISE_SHARE = 99.9
# On the next frame a cover is the same one if it is not this many times as large as where it was met,
# and holds at least this share of where it just was.
_MERGED, _KEPT = 3.0, 0.3


def changed(before: Image, after: Image, noise: float = 0.0) -> Mask:
    """Pixels of which any channel differs by more than ``noise``."""
    return np.asarray(cv2.absdiff(before, after).max(axis=2) > noise)


def codec_noise(before: Image, after: Image, untouched: Mask) -> float:
    """What a codec does to pixels that nobody changed, and that lie far from those somebody did."""
    kernel = np.ones((2 * _FAR + 1,) * 2, np.uint8)
    far = cv2.erode(untouched.astype(np.uint8), kernel, borderValue=1).astype(bool)
    if not far.any():
        return 0.0
    return float(np.percentile(cv2.absdiff(before, after).max(axis=2)[far], _NOISE_SHARE))


def radius_of(person: Somebody, frame: LabelledFrame, height: int) -> float:
    scale = person.scale or frame.scale(height)
    return float(np.clip(_OF_THE_SCALE * scale, *_RADII))


def is_open(point: Point, radius: float, before: Image, mask: Mask) -> bool:
    """Whether most of the disc around ``point`` is as it was in the picture ``before``."""
    height, width = mask.shape
    grown = radius
    while True:
        left, right = max(0, int(point[0] - grown)), min(width, int(point[0] + grown) + 2)
        top, bottom = max(0, int(point[1] - grown)), min(height, int(point[1] + grown) + 2)
        y, x = np.mgrid[top:bottom, left:right]
        disc = (x - point[0]) ** 2 + (y - point[1]) ** 2 <= grown**2
        inside = before[top:bottom, left:right][disc]
        if grown >= _GROWN * radius or np.ptp(inside, axis=0).max() > _FLAT:
            return bool(mask[top:bottom, left:right][disc].mean() < 0.5)
        grown *= 1.5


def covers(mask: Mask) -> list[Mask]:
    """The connected covers of a picture, without specks; pixels that are the same by chance are filled."""
    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    count, numbers, facts, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    least = max(12.0, _SPECK * mask.size)
    return [numbers == n for n in range(1, count) if facts[n, cv2.CC_STAT_AREA] >= least]


@dataclass(frozen=True)
class WrongCover:
    """A cover on frame ``frame`` that touches nobody; there for ``length`` frames in a row."""

    frame: int
    share: float
    length: int


def wrong_covers(masks: Sequence[Mask], frame: LabelledFrame) -> list[WrongCover]:
    """Covers of a labelled frame beyond anybody's reach, each followed through its neighbours."""
    if frame.damaged:
        return []
    mask = masks[frame.number]
    height, width = mask.shape
    reach = frame.reach(width, height)
    found = []
    for cover in covers(mask):
        if not (cover & reach).any():
            length = 1 + _followed(masks, cover, range(frame.number + 1, len(masks)))
            length += _followed(masks, cover, range(frame.number - 1, -1, -1))
            found.append(WrongCover(frame.number, float(cover.mean()), length))
    return found


def _followed(masks: Sequence[Mask], cover: Mask, frames: range) -> int:
    """On how many of ``frames`` in a row the cover goes on, as itself and not as part of a larger one."""
    most = _MERGED * cover.sum()
    for steps, number in enumerate(frames):
        near = [each for each in covers(masks[number]) if (each & cover).any()]
        united = np.logical_or.reduce(near) if near else np.zeros_like(cover)
        if united.sum() > most or (united & cover).sum() < _KEPT * cover.sum():
            return steps
        cover = united
    return len(frames)
