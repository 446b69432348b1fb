"""The Gaussian mechanism in closed form (Balle and Wang 2018), stable from epsilon 0 to 1e11.

With sensitivity over standard deviation ``mu`` the privacy loss is N(mu^2/2, mu^2), and

    delta(epsilon) = Phi(a) - e^epsilon Phi(a - mu),     a = mu/2 - epsilon/mu.

Because (a - mu)^2 = a^2 + 2 epsilon, the second term is exp(-a^2/2) erfcx((mu - a)/sqrt 2)/2: no
exponential of epsilon is ever formed, so nothing overflows. For small mu the two terms are nearly
equal; their difference is then the integral of the derivative of erfcx, so nothing cancels either.
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
Array = NDArray[np.float64]

# Gauss-Legendre nodes and weights on [0, 1], for distances up to _SHORT.
_LEGENDRE = np.polynomial.legendre.leggauss(10)
_NODES, _WEIGHTS = (_LEGENDRE[0] + 1) / 2, _LEGENDRE[1] / 2
_SHORT = 0.1


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """The exact delta of a Gaussian release with sensitivity ``mu`` standard deviations."""
    if mu == 0:
        return 0.0
    return _delta_at(mu / 2 - epsilon / mu, mu)


def deltas_of_gaussian(epsilon: float, mu: Array) -> Array:
    """The same for many releases at once."""
    safe = np.maximum(mu, 1e-300)
    with np.errstate(over="ignore"):
        # beyond -40 delta is 0 in double precision
        a = np.maximum(safe / 2 - epsilon / safe, -40.0)
    low, width = -a / _SQRT2, safe / _SQRT2
    half_density = np.exp(-(low**2)) / 2
    far = erfcx(low + width)
    left = half_density * (erfcx(np.maximum(low, 0.0)) - far)
    right = np.maximum(0.0, ndtr(a) - half_density * far)
    long = np.where(low > 0, left, right)
    short = half_density * _short_drop(low, width)
    return np.where(mu > 0, np.where(width < _SHORT, short, long), 0.0)


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
    if math.isinf(epsilon):
        return math.inf
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
    low, width = -a / _SQRT2, mu / _SQRT2
    half_density = math.exp(-low * low) / 2 if abs(low) < 27 else 0.0
    if width < _SHORT:
        return half_density * float(_short_drop(np.array([low]), np.array([width]))[0])
    far = float(erfcx(low + width))
    if low > 0:
        return half_density * (float(erfcx(low)) - far)
    return max(0.0, float(ndtr(a)) - half_density * far)


def _short_drop(low: Array, width: Array) -> Array:
    """erfcx(low) - erfcx(low + width), exact where a difference of the two would cancel."""
    way = np.minimum(width, _SHORT)[:, None]
    t = np.maximum(low, -1.0)[:, None] + way * _NODES
    return np.asarray(width * ((2 / math.sqrt(math.pi) - 2 * t * erfcx(t)) @ _WEIGHTS))
