"""Clopper-Pearson limits of a rate: exact for any number of trials, never too sure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

Array = npt.NDArray[np.float64]


def at_least(hits: Any, trials: int, error: float) -> Array:
    """One-sided lower limit: the true rate lies below it with probability at most ``error``."""
    count = np.asarray(hits, dtype=float)
    limit = betaincinv(np.maximum(count, 1e-9), trials - count + 1, error)
    return np.where(count <= 0, 0.0, limit)


def at_most(hits: Any, trials: int, error: float) -> Array:
    """One-sided upper limit: the true rate lies above it with probability at most ``error``."""
    count = np.asarray(hits, dtype=float)
    limit = betaincinv(count + 1, np.maximum(trials - count, 1e-9), 1 - error)
    return np.where(count >= trials, 1.0, limit)
