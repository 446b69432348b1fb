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
        self._done = 0  # the first sample of the next block

    def push(self, samples: npt.ArrayLike) -> Samples:
        """Take some samples; give those that are finished."""
        new = np.asarray(samples, dtype=np.float64)
        self.came += len(new)
        self._waiting = np.concatenate([self._waiting, new])
        return self._run()

    def flush(self) -> Samples:
        """What is still to come, after the last samples."""
        effect, out = self._effect, []
        while self._gone + sum(map(len, out)) < self.came:
            missing = effect.block + 2 * effect.context - len(self._waiting)
            self._waiting = np.concatenate([self._waiting, np.zeros(max(missing, 0))])
            out.append(self._run(final=True))
        last = np.concatenate(out) if out else np.zeros(0)
        return last[: self.came - self._gone]

    def _run(self, *, final: bool = False) -> Samples:
        block, context = self._effect.block, self._effect.context
        finished = []
        while len(self._waiting) >= block + 2 * context:
            segment = self._waiting[: block + 2 * context]
            self._sums += self._effect(segment, self._done)
            # what lies before the next block's context cannot change any more
            ready = self._sums[:block].copy()
            skipped = max(0, context - self._done)
            finished.append(ready[skipped:])
            self._sums = np.concatenate([self._sums[block:], np.zeros(block)])
            self._waiting = self._waiting[block:]
            self._done += block
            if final:
                break
        out = np.concatenate(finished) if finished else np.zeros(0)
        if not final:
            self._gone += len(out)
        return out
