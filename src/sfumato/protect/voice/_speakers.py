"""Who speaks when: windows of a recording sorted by the voice that a speaker network hears in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

from sfumato.models import SPEAKER_RATE

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

_WINDOW, _STEP = 1.6, 0.8  # s: what the network was trained on, and half of it
_SAME = 0.74  # cosine from which two windows are taken for one speaker
_MOST = 16  # speakers; a voice beyond them is given to the nearest
_SILENT = 1e-3  # root mean square


class Timeline:
    """The number of the speaker of every sample; private, as long as the recording is."""

    def __init__(self, labels: list[int], rate: int) -> None:
        self._labels = np.array(labels or [0], dtype=np.int64)
        self._window, self._step = round(_WINDOW * rate), round(_STEP * rate)

    @property
    def speakers(self) -> int:
        return int(self._labels.max()) + 1

    def __call__(self, samples: Labels) -> Labels:
        nearest = np.rint((samples - self._window / 2) / self._step).astype(np.int64)
        return self._labels[np.clip(nearest, 0, len(self._labels) - 1)]


def follow_speakers(
    blocks: Iterable[Floats], rate: int, embed: Callable[[Floats], Floats]
) -> Timeline:
    """Listen once to mono blocks; memory for one window and one vector a speaker.

    ``embed`` turns sound at ``SPEAKER_RATE`` into a unit vector. A window belongs to the speaker whose
    mean vector is nearest, or to a new one; silence to whoever spoke last.
    """
    window, step = round(_WINDOW * rate), round(_STEP * rate)
    divisor = gcd(SPEAKER_RATE, rate)
    sums: list[Floats] = []
    labels: list[int] = []

    def hear(piece: Floats) -> None:
        if np.sqrt(np.mean(piece**2)) < _SILENT:
            labels.append(labels[-1] if labels else 0)
            return
        sound = resample_poly(piece, SPEAKER_RATE // divisor, rate // divisor)
        vector = np.asarray(embed(sound), dtype=np.float64)
        alike = [float(vector @ each / np.linalg.norm(each)) for each in sums]
        best = int(np.argmax(alike)) if alike else -1
        if not alike or (alike[best] < _SAME and len(sums) < _MOST):
            sums.append(np.zeros_like(vector))
            best = len(sums) - 1
        sums[best] += vector
        labels.append(best)

    waiting = np.zeros(0)
    for block in blocks:
        waiting = np.concatenate([waiting, block])
        while len(waiting) >= window:
            hear(waiting[:window])
            waiting = waiting[step:]
    if len(waiting) and (not labels or len(waiting) > window - step):
        hear(waiting)
    return Timeline(labels, rate)
