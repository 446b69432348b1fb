"""Staged clips as a person with a telephone would have filmed them: what separates recordings from renderings.

Other bodies than avatars have, with patterns on their clothes; clutter behind people, something in front of
them; a hand that shakes, motion blur, a noisy sensor, compression. The stage's truth about joints in space
does not survive that, so people in such clips are found by detectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body import SkinnedBody, cast_of
from sfumato.stage import Clip, Staging, clips

Pictures = npt.NDArray[np.uint8]


def rough_clips(staging: Staging, *, first: int = 0) -> Iterator[Clip]:
    """The clips of ``staging`` with Anny's bodies, filmed badly; each depends on its number alone."""
    bodies = list(_patterned(staging.seed, staging.actors))
    for number, clip in enumerate(clips(staging, first=first, bodies=bodies), start=first):
        rng = np.random.default_rng([staging.seed, 7, number])
        yield by_hand(furnished(clip, rng), rng)


@cache
def _patterned(seed: int, count: int) -> tuple[SkinnedBody, ...]:
    """Anny's bodies, another cast for each seed, with patterns that an avatar does not have."""
    return tuple(
        dataclasses.replace(body, colours=_pattern(body, np.random.default_rng([seed, 8, number])))
        for number, body in enumerate(cast_of("anny", seed=seed, count=count, progress=False))
    )


def _pattern(body: SkinnedBody, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Stripes across the body, and spots."""
    along = body.vertices @ rng.normal(0, 1, 3) * rng.uniform(20, 80)
    stripes = 1 + rng.uniform(0.1, 0.5) * np.sign(np.sin(along))
    spots = rng.uniform(0.7, 1.3, len(along))
    return np.clip(body.colours * (stripes * spots)[:, None], 0, 1).astype(np.float32)


def furnished(clip: Clip, rng: np.random.Generator) -> Clip:
    """With things behind the person and one before them, all of which stay where they are."""
    height, width = clip.frames.shape[1:3]
    behind, before = (np.zeros((height, width, 4), np.uint8) for _ in range(2))
    for _ in range(rng.integers(3, 9)):
        _thing(behind, rng, 0.15, 0, height)
    # from the floor up, so that heads stay in view as they mostly do
    _thing(before, rng, 0.3, height // 2, height)
    frames, alpha, mask = clip.frames.copy(), clip.alpha.copy(), clip.mask.copy()
    hidden = behind[..., 3] > 0
    for frame, cover in zip(frames, alpha):
        free = hidden & (cover == 0)
        frame[free] = behind[free, :3]
    hidden = before[..., 3] > 0
    frames[:, hidden] = before[hidden, :3]
    alpha[:, hidden], mask[:, hidden] = 0, False
    return dataclasses.replace(clip, frames=frames, alpha=alpha, mask=mask)


def _thing(on: Pictures, rng: np.random.Generator, size: float, top: int, bottom: int) -> None:
    height, width = on.shape[:2]
    half = rng.uniform(0.3, 1, 2) * size * min(height, width) / 2
    middle = np.array([rng.uniform(0, width), rng.uniform(top, bottom)])
    a, b = ((middle + sign * half).astype(int).tolist() for sign in (-1, 1))
    colour = (*(int(c) for c in rng.integers(0, 256, 3)), 255)
    if rng.random() < 0.6:
        cv2.rectangle(on, a, b, colour, -1)
    else:
        cv2.ellipse(on, ((a[0] + b[0]) // 2, (a[1] + b[1]) // 2),
                    (max(1, int(half[0])), max(1, int(half[1]))), 0, 0, 360, colour, -1)  # fmt: skip


def by_hand(clip: Clip, rng: np.random.Generator) -> Clip:
    """Filmed with a shaking hand and a cheap sensor; masks and joints in the picture move along."""
    count, height, width = clip.mask.shape
    steps = rng.normal(0, 1, (count, 3)).cumsum(0)
    steps = (steps - steps.mean(0)) * rng.uniform(0.2, 1.0)
    frames, alpha, mask, pixels = [], [], [], []
    for t, (turn, across, down) in enumerate(steps):
        matrix = np.asarray(
            cv2.getRotationMatrix2D((width / 2, height / 2), float(turn), 1.04), np.float64
        )
        matrix[:, 2] += 0.01 * width * np.array([across, down])

        def moved(
            picture: Pictures, how: int, matrix: npt.NDArray[np.float64] = matrix
        ) -> Pictures:
            return np.asarray(cv2.warpAffine(picture, matrix, (width, height), flags=how,
                                             borderMode=cv2.BORDER_REFLECT), np.uint8)  # fmt: skip

        frames.append(moved(clip.frames[t], cv2.INTER_LINEAR))
        alpha.append(moved(clip.alpha[t], cv2.INTER_LINEAR))
        mask.append(moved(clip.mask[t].astype(np.uint8), cv2.INTER_NEAREST) > 0)
        pixels.append(clip.pixels[t] @ matrix[:, :2].T + matrix[:, 2])
    return dataclasses.replace(
        clip, frames=sensed(np.stack(frames), rng), alpha=np.stack(alpha), mask=np.stack(mask),
        pixels=np.stack(pixels).astype(np.float32),
    )  # fmt: skip


def sensed(frames: Pictures, rng: np.random.Generator) -> Pictures:
    """What a cheap camera makes of a view: exposure, motion blur, noise of the sensor, compression."""
    tint = rng.uniform(0.7, 1.2) * rng.uniform(0.9, 1.1, 3)
    length, noise = int(rng.integers(1, 5)), rng.uniform(2, 12)
    quality = int(rng.integers(25, 70))
    kernel = np.zeros((5, 5), np.float32)
    end = rng.uniform(-1, 1, 2) * length / 2
    first, last = ((2 + sign * end).round().astype(int).tolist() for sign in (-1, 1))
    cv2.line(kernel, first, last, 1.0)
    made = []
    for frame in frames:
        blurred = cv2.filter2D(frame.astype(np.float32) * tint, -1, kernel / kernel.sum())
        noisy = blurred + noise * (0.5 + blurred / 255) * rng.standard_normal(blurred.shape)
        packed = cv2.imencode(".jpg", np.clip(noisy, 0, 255).astype(np.uint8),
                              [cv2.IMWRITE_JPEG_QUALITY, quality])[1]  # fmt: skip
        made.append(np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8))
    return np.stack(made)
