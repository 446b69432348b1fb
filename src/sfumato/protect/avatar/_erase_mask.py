"""The mask q of what must go: without flicker, grown, with a feathered rim outside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.protect.avatar._scene import OwnPixels

Mask = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.bool_]
_KERNEL = 6  # pixels of reach up to which a kernel is faster than distances
_OF_PERSON = 0.03  # of a person's own height: no outline needs more room around it than that


@dataclass(frozen=True)
class EraseMask:
    """``inside`` (T, H, W) is erased entirely; ``weight`` falls from 1 there to 0 outside."""

    inside: Masks
    weight: npt.NDArray[np.float32]


def erase_mask(
    masks: Masks, *, hold: int = 2, grow: float = 0.02, feather: float = 0.012
) -> EraseMask:
    """Turn detected masks into what is erased.

    ``hold`` frames before and after, a detected pixel is still erased: a person missed for a frame
    stays covered. ``grow`` and ``feather`` are fractions of the frame's longer side. Nothing that
    was detected is ever left out: inside contains masks.
    """
    held, side = held_over(masks, hold), max(masks.shape[1:])
    inside = np.stack([grown(mask, max(1, round(grow * side))) for mask in held])
    return EraseMask(inside, np.stack([rim(mask, feather) for mask in inside]))


def grown(mask: Mask, reach: int) -> Mask:
    """A mask with everything that is at most ``reach`` pixels away."""
    out = np.zeros(mask.shape, bool)
    place = extent(mask, reach)
    if place is not None:
        out[place] = _dilated(mask[place], reach)
    return out


def _dilated(part: Mask, reach: int) -> Mask:
    """The same inside an array; by distances where a kernel would be large, which would take long."""
    if reach > _KERNEL:
        away = cv2.distanceTransform(1 - part.astype(np.uint8), cv2.DIST_L2, 5)
        return np.asarray(away <= reach + 0.5) if part.any() else part
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    return np.asarray(cv2.dilate(part.astype(np.uint8), kernel) > 0)


def grown_people(mask: Mask, regions: Sequence[OwnPixels], grow: float) -> Mask:
    """A mask grown by ``grow`` of the longer side, and less around people who are small themselves."""
    most, out, rest = max(1, round(grow * max(mask.shape))), np.zeros(mask.shape, bool), mask.copy()
    for region in regions:
        reach = min(most, max(2, round(_OF_PERSON * region.height)))
        rest[region.window] &= ~region.cut
        (rows, columns), room = region.window, reach + 1
        place = (
            slice(max(rows.start - room, 0), min(rows.stop + room, mask.shape[0])),
            slice(max(columns.start - room, 0), min(columns.stop + room, mask.shape[1])),
        )
        own = np.zeros((place[0].stop - place[0].start, place[1].stop - place[1].start), bool)
        top, left = rows.start - place[0].start, columns.start - place[1].start
        own[top : top + region.cut.shape[0], left : left + region.cut.shape[1]] = region.cut
        out[place] |= _dilated(own, reach)
    # what belongs to nobody who was told apart; without people, all of it
    return out | grown(rest, most if not regions else max(2, most // 3))


def rim(inside: Mask, feather: float) -> npt.NDArray[np.float32]:
    """1 inside, falling to 0 over a rim outside."""
    width = max(1, round(feather * max(inside.shape)))
    weight = np.zeros(inside.shape, np.float32)
    place = extent(inside, width + 1)
    if place is not None:
        away = cv2.distanceTransform(1 - inside[place].astype(np.uint8), cv2.DIST_L2, 3)
        weight[place] = np.clip(1 - away / (width + 1), 0, 1)
    return weight


def extent(mask: Mask, room: int = 0) -> tuple[slice, slice] | None:
    """The rows and columns that hold all of a mask, and ``room`` around it; None if it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return (
        slice(max(int(rows[0]) - room, 0), min(int(rows[-1]) + 1 + room, mask.shape[0])),
        slice(max(int(columns[0]) - room, 0), min(int(columns[-1]) + 1 + room, mask.shape[1])),
    )


def held_over(masks: Masks, hold: int) -> Masks:
    """The union of each mask with its neighbours up to ``hold`` frames away."""
    out = masks.copy()
    for step in range(1, hold + 1):
        out[step:] |= masks[:-step]
        out[:-step] |= masks[step:]
    return out


def unreplaced(
    masks: Masks, drawn: Masks, *, reach: float = 0.02, smallest: float = 0.0006
) -> Masks:
    """Detected regions that no avatar stands in: connected parts that touch no drawn pixel."""
    count, height, width = masks.shape
    side = max(1, round(reach * max(height, width)))
    kernel = np.ones((2 * side + 1, 2 * side + 1), np.uint8)
    left = np.zeros_like(masks)
    for t in range(count):
        if not masks[t].any():
            continue
        near = cv2.dilate(drawn[t].astype(np.uint8), kernel) > 0
        parts, labels, stats, _ = cv2.connectedComponentsWithStats(masks[t].astype(np.uint8))
        for part in range(1, parts):
            region = labels == part
            if (
                stats[part, cv2.CC_STAT_AREA] >= smallest * height * width
                and not near[region].any()
            ):
                left[t] |= region
    return left
