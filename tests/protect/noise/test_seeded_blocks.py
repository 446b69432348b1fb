"""R11: what a frame does to the coefficients, block by block, in a whole release."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.privacy import Randomness
from sfumato.protect.noise._bases import Array, Dct3
from sfumato.protect.noise._lattice import Lattice, Numbers
from sfumato.protect.noise._noisy_blocks import NoisyBlocks

BLOCK = 4


class Watched(Dct3):
    """Keeps the coefficients of every block before noise."""

    def __init__(self, seen: list[Numbers], length: int = BLOCK) -> None:
        super().__init__(6, 8, block=length, kept_frames=length, kept_size=8)
        self.seen = seen

    def analyse(self, block: Array) -> Numbers:
        found = super().analyse(block)
        self.seen.append(found.copy())
        return found


def coefficients(frames: np.ndarray) -> list[Numbers]:
    seen: list[Numbers] = []
    lattice = Lattice(1e-6, 20)
    noisy = NoisyBlocks(
        Watched(seen),
        lattice,
        Randomness(0).keystream(),
        shorter=lambda length: (Watched(seen, length), lattice),
    )
    np.testing.assert_array_equal(np.stack(list(noisy(iter(frames)))), frames)
    return seen


@pytest.mark.parametrize("count", [5, 8, 11])
def test_a_frame_moves_the_coefficients_of_one_block(count: int) -> None:
    """Were it in two blocks, its change would be released twice and counted once."""
    frames = np.random.default_rng(1).integers(1, 255, (count, 6, 8, 3)).astype(np.uint8)
    before = coefficients(frames)
    assert len(before) == -(-count // BLOCK)
    for number in range(count):
        changed = frames.copy()
        changed[number] ^= 1
        after = coefficients(changed)
        moved = [not np.array_equal(a, b) for a, b in zip(before, after)]
        assert sum(moved) == 1, number
