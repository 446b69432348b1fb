"""Sound of any length in constant memory: blocks in, the same blocks out, as if done all at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]


class Effect(Protocol):
    """What is done to a block of ``block`` samples, seen with ``context`` samples on either side.

    Called once for each block, in order, with the block and its context; what it returns is as long
    and is added up where blocks overlap. ``at`` is the number of the block's first sample.
    """

    block: int
    context: int

    def __call__(self, segment: Samples, at: int) -> Samples: ...


class OverlapAdd:
    """Pushes sound through an effect: as many samples come out as went in, each in its place.

    Blocks are cut by their place in the recording, not by how the sound arrives, so that any way of
    cutting it into pieces gives the same samples.
    """

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        self._waiting = np.zeros(effect.context)  # before the recording there is silence
        self._sums = np.zeros(effect.block + 2 * effect.context)
        self.came = self._gone = 0
        self._next = 0  # the first sample of the next block

    def push(self, samples: npt.ArrayLike) -> Samples:
        """Take some samples; give those that are finished."""
        new = np.asarray(samples, dtype=np.float64)
        self.came += len(new)
        self._waiting = np.concatenate([self._waiting, new])
        whole = self._effect.block + 2 * self._effect.context
        finished = []
        while len(self._waiting) >= whole:
            finished.append(self._one_block())
        return self._given(finished)

    def flush(self) -> Samples:
        """What is still to come, after the last samples: after the recording there is silence."""
        whole = self._effect.block + 2 * self._effect.context
        finished: list[Samples] = []
        while self._gone + sum(len(each) for each in finished) < self.came:
            silence = np.zeros(max(whole - len(self._waiting), 0))
            self._waiting = np.concatenate([self._waiting, silence])
            finished.append(self._one_block())
        return self._given(finished)

    def _given(self, finished: list[Samples]) -> Samples:
        out = np.concatenate([*finished, np.zeros(0)])[: self.came - self._gone]
        self._gone += len(out)
        return out

    def _one_block(self) -> Samples:
        block, context = self._effect.block, self._effect.context
        self._sums += self._effect(self._waiting[: block + 2 * context], self._next)
        # what lies before the next block's context cannot change any more
        ready = self._sums[max(0, context - self._next) : block].copy()
        self._sums = np.concatenate([self._sums[block:], np.zeros(block)])
        self._waiting = self._waiting[block:]
        self._next += block
        return ready
