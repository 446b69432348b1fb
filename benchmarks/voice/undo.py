"""An attacker who inverts McAdams: tries every coefficient, and keeps what sounds most like somebody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack import at_speaker_rate
from sfumato.models import SpeakerEncoder
from sfumato.protect.voice import OverlapAdd, Timeline
from sfumato.protect.voice._mcadams import McAdams

Floats = npt.NDArray[np.float64]
_TRIED = (0.5, 0.6, 0.7, 0.8, 0.9)


def undone_scores(
    sounds: Sequence[Floats], rate: int, encoder: SpeakerEncoder, means: Floats,
    truth: Sequence[float],
) -> tuple[Floats, float]:  # fmt: skip
    """(recordings, speakers): the best cosine over all coefficients; and how far the guesses are off."""
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    scores, off = [], []
    for sound, coefficient in zip(sounds, truth, strict=True):
        tried = []
        for guess in _TRIED:
            # a pole at phi ** c goes back by the power 1 / c
            through = OverlapAdd(McAdams(rate, [1 / guess], Timeline([], rate)))
            back = np.concatenate([through.push(sound), through.flush()])
            tried.append(unit @ encoder.embed(at_speaker_rate(back, rate)))
        found = np.stack(tried)
        scores.append(found.max(0))
        off.append(abs(_TRIED[int(found.max(1).argmax())] - coefficient))
    return np.stack(scores), float(np.mean(off))
