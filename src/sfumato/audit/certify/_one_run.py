"""The audit of one single run (Steinke, Nasr, Jagielski 2023): many canaries, each included with probability 1/2.

Whoever guesses for r of m canaries whether they were in is right at most as often as a binomial of
rate e^epsilon / (1 + e^epsilon), apart from what delta allows (their Theorem 5.2). Nothing is assumed
about how canaries influence each other, so one training is enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import binom

from sfumato.audit.certify._epsilon import AuditError
from sfumato.privacy.verdict import CONFIDENCES, LowerBound

# Share of the canaries that is guessed about. One share, fixed beforehand: trying several would have
# to be paid for with a part of the error each, and the term of delta makes that dear.
GUESSED = 0.03
_LEAST_GUESSES = 100


def one_run_lower_bound(
    included: Any,
    scores: Any,
    *,
    delta: float,
    confidence: float = 0.95,
    guessed: float = GUESSED,
) -> LowerBound:
    """Certified lower limit of epsilon from one run.

    ``included``: which canaries were in, each independently with probability 1/2. ``scores``: larger means "was in".
    Guesses are the highest scores (in) and the lowest (out), ``guessed`` of all canaries together and
    at least a hundred; the share must be fixed before the run is looked at.
    """
    inside = np.asarray(included, dtype=bool).ravel()
    values = np.asarray(scores, dtype=float).ravel()
    if inside.shape != values.shape or len(values) < 20:
        raise AuditError(
            f"Expected one score for each of at least 20 canaries, got {len(values)} scores for "
            f"{len(inside)} canaries."
        )
    if np.isnan(values).any():
        raise AuditError("Expected numbers as scores of canaries, got NaN.")

    def limit(level: float) -> float:
        return _epsilon(inside, values, guessed, delta, 1 - level)

    return LowerBound(
        epsilon=limit(confidence),
        confidence=confidence,
        delta=delta,
        method=f"one run with {len(values)} canaries (Steinke et al. 2023)",
        trials=1,
        beside=tuple((level, limit(level)) for level in CONFIDENCES if level > confidence),
    )


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are at most, under (epsilon, delta)-privacy."""
    rate = 1 / (1 + math.exp(-epsilon))
    beta = float(binom.sf(right - 1, guesses, rate))
    if delta == 0 or right == 0:
        return min(1.0, beta)
    below = np.cumsum(binom.pmf(right - np.arange(1, right + 1), guesses, rate))
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beta + 2 * alpha * delta * canaries)


def _epsilon(inside: Any, values: Any, share: float, delta: float, error: float) -> float:
    order = np.argsort(values, kind="stable")
    guesses = min(len(values), max(_LEAST_GUESSES, round(len(values) * share)))
    half = max(1, guesses // 2)
    right = int(inside[order[-half:]].sum() + (~inside[order[:half]]).sum())
    low, high = 0.0, 40.0
    if one_run_p_value(len(values), 2 * half, right, low, delta) > error:
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        if one_run_p_value(len(values), 2 * half, right, middle, delta) <= error:
            low = middle
        else:
            high = middle
    return low
