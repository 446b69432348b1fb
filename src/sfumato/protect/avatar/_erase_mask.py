"""The mask q of what must go: without flicker, grown, with a feathered rim outside it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Masks = npt.NDArray[np.bool_]


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
    held = held_over(masks, hold)
    side = max(masks.shape[1:])
    reach, rim = max(1, round(grow * side)), max(1, round(feather * side))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    inside = np.zeros_like(masks)
    weight = np.zeros(masks.shape, np.float32)
    for t, mask in enumerate(held):
        grown = cv2.dilate(mask.astype(np.uint8), kernel)
        inside[t] = grown > 0
        if inside[t].any():
            away = cv2.distanceTransform(1 - grown, cv2.DIST_L2, 3)
            weight[t] = np.clip(1 - away / (rim + 1), 0, 1)
    return EraseMask(inside, weight)


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
