"""Ways to undo a protection: what an attacker computes from the protected frames alone.

Each takes protected frames (T, H, W, 3) and the places that were changed, and returns frames of the
same shape. None sees an original.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._cover_matrices import CoverMatrix, FixedBlur, decomposed

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
Undo = Callable[[Frames, Masks], Frames]

# Rounding to 8 bits adds a variance of 1/12; pictures have about 60^2 around their mean.
PICTURES = 60.0**2
ROUNDING = (1 / 12) / PICTURES
_GREY = 127
_ROUNDS = 3


def tikhonov(
    picture: npt.NDArray[np.uint8], cover: CoverMatrix, weight: float = ROUNDING
) -> Frames:
    """The likeliest picture whose cover is near ``picture`` (SOUNDNESS G5).

    A cover is one matrix along each axis; with their singular values the least-squares problem
    |A X B' - Y|^2 + weight |L^-1 X M^-1'|^2 is solved exactly, however large the picture.
    """
    return _bytes(_solved(picture.astype(np.float64), cover, weight))


def _solved(
    picture: npt.NDArray[np.float64], cover: CoverMatrix, weight: float
) -> npt.NDArray[np.float64]:
    high, wide = picture.shape[:2]
    short = min(high, wide)
    _, u, s, v = decomposed(cover, high, short)
    _, p, t, q = decomposed(cover, wide, short)
    gains = s[:, None] * t[None, :]
    filtered = gains / (gains**2 + weight)
    mean = picture.reshape(-1, 3).mean(0)
    back = np.empty(picture.shape)
    for channel in range(3):
        seen = picture[..., channel] - mean[channel]
        back[..., channel] = v @ (filtered * (u.T @ seen @ p)) @ q.T + mean[channel]
    return back


def deblurred(cover: CoverMatrix | None = None, weight: float = ROUNDING) -> Undo:
    """Inversion of every place by itself: a cover is made within its own box.

    A box around somebody was covered as a whole but shown covered only inside their outline. What
    the cover was beyond it is computed from the picture as known so far, a few times over.
    """
    known = cover or FixedBlur()

    def undo(frames: Frames, masks: Masks) -> Frames:
        out = frames.copy()
        for picture, mask in zip(out, masks):
            for rows, columns in boxes_of(mask):
                part = picture[rows, columns]
                inside = mask[rows, columns]
                back = _bytes(_inverted(part.astype(np.float64), inside[..., None], known, weight))
                part[inside] = back[inside]
        return out

    return undo


def _inverted(
    shown: npt.NDArray[np.float64],
    inside: npt.NDArray[np.bool_],
    cover: CoverMatrix,
    weight: float,
) -> npt.NDArray[np.float64]:
    if inside.all():
        return _solved(shown, cover, weight)
    high, wide = shown.shape[:2]
    short = min(high, wide)
    first, second = decomposed(cover, high, short)[0], decomposed(cover, wide, short)[0]
    guess = shown
    for _ in range(_ROUNDS):
        covered = np.einsum("ij,jkc,lk->ilc", first, guess, second, optimize=True)
        solved = _solved(np.where(inside, shown, covered), cover, weight)
        guess = np.where(inside, np.clip(solved, 0, 255), shown)
    return guess


def averaged(frames: Frames, masks: Masks) -> Frames:
    """The mean over time wherever noise was drawn anew for every frame of a still scene."""
    mean = np.rint(frames.mean(0, dtype=np.float64)).astype(np.uint8)
    return np.where(masks[..., None], mean[None], frames)


def averaged_near(frames: Frames, masks: Masks, radius: int = 2) -> Frames:
    """The mean over a few neighbouring frames: less noise goes, but people may move."""
    sums = np.cumsum(np.concatenate([np.zeros_like(frames[:1], dtype=np.float32), frames]), axis=0)
    places = np.arange(len(frames))
    first, last = np.maximum(places - radius, 0), np.minimum(places + radius + 1, len(frames))
    mean = (sums[last] - sums[first]) / (last - first)[:, None, None, None]
    return np.where(masks[..., None], np.rint(mean).astype(np.uint8), frames)


def gathered(frames: Frames, masks: Masks) -> Frames:
    """Against snow: of all frames, the mean of what was shown where grey was not."""
    shown = (frames != _GREY).any(-1, keepdims=True)
    count = shown.sum(0)
    total = np.where(shown, frames, 0).sum(0, dtype=np.float64)
    mean = np.where(count > 0, total / np.maximum(count, 1), _GREY)
    return np.where(masks[..., None], np.rint(mean).astype(np.uint8)[None], frames)


def smoothed(frames: Frames, masks: Masks) -> Frames:
    """Against pixelation without training: squares blended into one another."""
    out = frames.copy()
    for picture, mask in zip(out, masks):
        side = max(3, round(np.sqrt(mask.sum()) / 4)) | 1
        back = cv2.GaussianBlur(picture, (side, side), 0)
        picture[mask] = back[mask]
    return out


def boxes_of(mask: npt.NDArray[np.bool_]) -> list[tuple[slice, slice]]:
    """Rows and columns around every connected place."""
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    boxes = [tuple(int(side) for side in stats[label][:4]) for label in range(1, count)]
    return [(slice(y, y + high), slice(x, x + wide)) for x, y, wide, high in boxes]


def _bytes(values: npt.NDArray[np.float64]) -> Frames:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
