"""Two people in turn: is every moment given to the one who speaks (``speakers=each``)?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.voice.recordings import Recording
from sfumato.models import SpeakerEncoder
from sfumato.protect.voice import follow_speakers

_TURNS, _RATE = 6, 8000


def turns_followed(
    recordings: Sequence[Recording], encoder: SpeakerEncoder, quick: bool = False
) -> list[dict[str, Any]]:
    """Every pair of speakers with turns of three strings of digits, and of one.

    A voice that was found belongs to whom most of it is from; what is not from them is wrong.
    """
    speakers = sorted({each.speaker for each in recordings})
    pairs = list(combinations(speakers, 2))[: 1 if quick else None]
    rows = []
    for strings in (3, 1):
        found, pure, seconds = [], [], []
        for number, pair in enumerate(pairs):
            generator = np.random.default_rng([strings, number])
            sounds, truth = [], []
            for turn in range(_TURNS):
                mine = [each.sound for each in recordings if each.speaker == pair[turn % 2]]
                chosen = generator.integers(0, len(mine), strings)
                sounds.append(np.concatenate([mine[k] for k in chosen]))
                truth.append(np.full(len(sounds[-1]), turn % 2))
            who = follow_speakers(
                [np.concatenate(sounds)],
                _RATE,
                lambda piece: np.asarray(encoder.embed(piece), float),
            )
            places = np.arange(0, sum(map(len, sounds)), _RATE // 10)
            heard, right = who(places), np.concatenate(truth)[places]
            most = sum(np.bincount(right[heard == k]).max() for k in np.unique(heard))
            found.append(who.speakers)
            pure.append(most / len(places))
            seconds.append(np.mean([len(each) for each in sounds]) / _RATE)
        rows.append(
            {
                "seconds": float(np.mean(seconds)), "talks": len(pairs), "found": float(np.mean(found)),
                "pure": float(np.mean(pure)), "worst": float(np.min(pure)),
            }
        )  # fmt: skip
    return rows
