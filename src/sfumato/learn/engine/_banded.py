"""Correlated noise and fixed turns: a matrix mechanism with bands, for streams that cannot be sampled (R28).

Released are g_t + n_t with C n = z, z independent: what a step's noise adds, the next ones partly take
back, so that running sums of gradients (the parameters of plain SGD) carry less of it.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from torch import Tensor

from sfumato.learn.engine._noise import GaussianNoise
from sfumato.learn.engine._sampling import Indices
from sfumato.privacy import Randomness, banded_coefficients


class Turns:
    """Unit i takes part at the steps t with t = i modulo ``slots``, whoever else does.

    ``first`` is the number of the next step of the run, steps before a restart included: counted
    from anything else, a unit's turns would come closer together than the promise counts with.
    """

    def __init__(self, slots: int, count: int, first: int) -> None:
        self._slots, self._count, self._next = slots, count, first

    def draw(self) -> Indices:
        turn = self._next % self._slots
        self._next += 1
        return np.arange(turn, self._count, self._slots, dtype=np.int64)


class CorrelatedNoise(GaussianNoise):
    """n_t = (z_t - c_1 n_{t-1} - ... - c_{b-1} n_{t-b+1}) / c_0; nothing of it is ever stored.

    A resumed run knows no earlier n and begins anew: C then falls into two blocks, whose columns are
    those of the whole one, some of them cut short, so that no unit moves more than was counted.
    """

    def __init__(self, randomness: Randomness, bands: int) -> None:
        super().__init__(randomness)
        self._coefficients = banded_coefficients(bands)
        self._before: deque[Tensor] = deque(maxlen=bands - 1)

    def draw(self, count: int) -> Tensor:
        noise = super().draw(count)
        for coefficient, earlier in zip(self._coefficients[1:], self._before):
            noise.sub_(earlier, alpha=coefficient)
        noise.div_(self._coefficients[0])
        self._before.appendleft(noise.clone())  # what is returned may be changed in place
        return noise


def variance_of(bands: int, step: int) -> float:
    """The variance of n at ``step`` since the last start, where z has 1: squares of C's inverse."""
    inverse: list[float] = []
    coefficients = banded_coefficients(bands)
    for t in range(min(step, 50 * bands) + 1):
        known = sum(c * inverse[t - i] for i, c in enumerate(coefficients[1 : t + 1], 1))
        inverse.append(((t == 0) - known) / coefficients[0])
    return float(np.square(inverse).sum())
