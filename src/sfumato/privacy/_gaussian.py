"""The Gaussian mechanism in closed form (Balle and Wang 2018), stable from epsilon 0 to 1e11.

With sensitivity over standard deviation ``mu`` the privacy loss is N(mu^2/2, mu^2), and

    delta(epsilon) = Phi(a) - e^epsilon Phi(a - mu),     a = mu/2 - epsilon/mu.

Because (a - mu)^2 = a^2 + 2 epsilon, the second term is exp(-a^2/2) erfcx((mu - a)/sqrt 2)/2: no
exponential of epsilon is ever formed, so nothing overflows and nothing cancels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

# Every result is moved by this share to the side that promises less.
_ROUND_UP = 1e-11
_SQRT2 = math.sqrt(2.0)


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """The exact delta of a Gaussian release with sensitivity ``mu`` standard deviations."""
    if mu == 0:
        return 0.0
    return _delta_at(mu / 2 - epsilon / mu, mu)


def deltas_of_gaussian(epsilon: float, mu: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for many releases at once."""
    safe = np.maximum(mu, 1e-300)
    with np.errstate(over="ignore"):
        a = np.maximum(safe / 2 - epsilon / safe, -1e6)
    tail = np.exp(-a * a / 2) / 2
    far = erfcx((safe - a) / _SQRT2)
    left = tail * (erfcx(np.maximum(-a, 0.0) / _SQRT2) - far)
    return np.where(mu > 0, np.where(a < 0, left, np.maximum(0.0, ndtr(a) - tail * far)), 0.0)


def epsilon_of_gaussian(delta: float, mu: float) -> float:
    """The smallest epsilon at ``delta``; infinite for delta 0."""
    if mu == 0:
        return 0.0
    if delta <= 0:
        return math.inf
    if _delta_at(mu / 2, mu) <= delta:
        return 0.0
    # delta rises with a, from 0 to 1; epsilon = mu (mu/2 - a) > 0 bounds a from above, and
    # delta <= Phi(a) bounds it from below
    low = float(ndtri(delta)) - 1e-9
    while _delta_at(low, mu) > delta:
        low -= 1.0
    high = mu / 2
    step = 1.0
    while _delta_at(min(low + step, high), mu) < delta and low + step < high:
        step *= 2
    high = min(low + step, high)
    a = float(brentq(lambda value: _delta_at(value, mu) - delta, low, high, xtol=1e-13, rtol=1e-14))
    return max(0.0, mu * (mu / 2 - a)) * (1 + _ROUND_UP) + mu * 1e-12


def mu_of_gaussian(epsilon: float, delta: float) -> float:
    """The largest ``mu`` that is (epsilon, delta)-private, rounded down."""
    if delta <= 0:
        return 0.0
    low, high = -1.0, 1.0
    while delta_of_gaussian(epsilon, math.exp(low)) > delta:
        low -= 2.0
    while delta_of_gaussian(epsilon, math.exp(high)) < delta:
        high += 2.0
    log_mu = brentq(
        lambda value: delta_of_gaussian(epsilon, math.exp(value)) - delta,
        low,
        high,
        xtol=1e-13,
        rtol=1e-13,
    )
    return float(math.exp(log_mu)) * (1 - _ROUND_UP)


def true_positive_of_gaussian(false_positive_rate: float, mu: float) -> float:
    """The Neyman-Pearson test: the best true-positive rate against a mu-GDP release."""
    return float(ndtr(ndtri(false_positive_rate) + mu))


def _delta_at(a: float, mu: float) -> float:
    tail = math.exp(-a * a / 2) / 2 if abs(a) < 39 else 0.0
    far = float(erfcx((mu - a) / _SQRT2))
    if a < 0:
        return tail * (float(erfcx(-a / _SQRT2)) - far)
    return max(0.0, float(ndtr(a)) - tail * far)
