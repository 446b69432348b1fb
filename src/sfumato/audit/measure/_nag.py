"""Normalised accuracy gain: where between guessing and the unprotected data an attacker stands.

NAG = max(0, (Acc - Acc_guessing) / (Acc_unprotected - Acc_guessing)), eq. 13 of the PASS paper;
mNAG = mean NAG of what should survive - mean NAG of what should not, eq. 14 as intended (H4).
The maximum hides attacks below the majority rate (H13): look at balanced accuracy beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sfumato.audit.measure._measure import Measure, MeasureError


def nag(accuracy: float, *, guessing: float, unprotected: float) -> float:
    """NAG in per cent: 0 = no better than guessing, 100 = as good as on unprotected data."""
    for name, value in (
        ("accuracy", accuracy),
        ("guessing", guessing),
        ("unprotected", unprotected),
    ):
        if not 0 <= value <= 1:
            raise MeasureError(f"Expected {name} as a share between 0 and 1, got {value!r}.")
    if unprotected <= guessing:
        raise MeasureError(
            f"Expected the unprotected data to beat guessing ({guessing:.3f}), got "
            f"{unprotected:.3f}: train the reference classifier better; NAG has no scale here."
        )
    return 100 * max(0.0, (accuracy - guessing) / (unprotected - guessing))


def mnag(*, private: Mapping[str, float], kept: Mapping[str, float]) -> float:
    """Mean NAG of useful and hidden attributes minus mean NAG of private ones, in per cent."""
    if not private or not kept:
        raise MeasureError("Expected NAGs of private and of kept attributes, got one side empty.")
    return float(np.mean(list(kept.values())) - np.mean(list(private.values())))


class NormalizedAccuracyGain(Measure):
    """NAG of one private attribute over batches of guesses."""

    name = "NAG"
    higher_is_better = False
    # beyond 100 where the released data serve better than the unprotected ones
    bounds = (0.0, math.inf)

    def __init__(self, *, guessing: float, unprotected: float) -> None:
        self.guessing = guessing
        self.unprotected = unprotected
        self.reset()

    def reset(self) -> None:
        self._right = 0.0
        self._seen = 0

    def update(self, right: float, seen: int) -> None:
        """How many of ``seen`` records the attacker named rightly (fractions: expected hits)."""
        self._right += right
        self._seen += seen

    def compute(self) -> float:
        if self._seen == 0:
            raise MeasureError("Expected guesses to score, got none: call update first.")
        return nag(self._right / self._seen, guessing=self.guessing, unprotected=self.unprotected)


class UsefulAccuracyGain(NormalizedAccuracyGain):
    """NAG of an attribute that should survive: here more is better."""

    name = "NAG of a useful attribute"
    group = "utility"
    higher_is_better = True
