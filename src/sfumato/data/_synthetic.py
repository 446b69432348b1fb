"""Small moving pictures that anyone can make: enough to try every method without private data."""

from __future__ import annotations

import numpy as np

from sfumato.data._records import ArrayRecords, RecordsError

COLOURS = {
    "red": (230, 40, 40),
    "green": (40, 220, 40),
    "blue": (50, 50, 240),
    "yellow": (230, 220, 40),
}


def moving_squares(
    clips: int = 200, *, frames: int = 8, size: int = 32, people: int = 20, seed: int = 0
) -> ArrayRecords:
    """A coloured square that jumps about a dark, busy room.

    The class is its colour. The mask is public on the square (it stands for a rendered avatar) and
    private elsewhere; every clip belongs to one of ``people`` owners.
    """
    if clips < 1 or frames < 1 or size < 16 or people < 1:
        raise RecordsError(
            "Expected at least one clip, one frame, 16 pixels and one owner, got "
            f"{clips}, {frames}, {size} and {people}."
        )
    rng = np.random.default_rng(seed)
    edge = size // 4
    labels = rng.integers(len(COLOURS), size=clips)
    palette = np.array(list(COLOURS.values()))
    x = np.empty((clips, frames, size, size, 3), dtype=np.uint8)
    mask = np.zeros((clips, frames, size, size), dtype=bool)
    for index, label in enumerate(labels):
        coarse = rng.integers(0, 100, (-(-size // 4), -(-size // 4), 3))
        x[index] = np.kron(coarse, np.ones((4, 4, 1)))[:size, :size]
        colour = np.clip(palette[label] + rng.integers(-20, 21, 3), 0, 255)
        for time in range(frames):
            top, left = rng.integers(0, size - edge + 1, 2)
            x[index, time, top : top + edge, left : left + edge] = colour
            mask[index, time, top : top + edge, left : left + edge] = True
    # another seed makes other people
    owners = [f"person {seed}.{index % people}" for index in range(clips)]
    return ArrayRecords(x, labels, mask=mask, owners=owners, classes=tuple(COLOURS))
