"""Slow, obvious truths about sampled Gaussian pairs, for the accountant to be compared with.

None of them puts a loss on a grid. In units of the noise, the pair of a group of m records is
P = sum_k w_k N(k/s, 1) against Q = N(0, 1) or against its mirror image, with w = Bin(m, q). The loss
log P/Q rises with x, so the best test at any epsilon is a half line, and

    one step:   delta(e) = P(x > a) - e^e Q(x > a)  where the loss is e at a, in 80 digits;
    two steps:  delta(e) = the mean of the one-step delta(e - loss(x)) over x ~ P, by quadrature;
    any number: delta(e) = 1/(2 pi i) int M(z)^T e^{-z e} / (z (z + 1)) dz  along Re z = rate > 0, where
                M(z) = E_P exp(z loss) by quadrature (the Laplace transform of (1 - e^{e - loss})_+).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mpf
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom


@dataclass(frozen=True)
class Pair:
    """The dominating pair of one step; ``reverse`` exchanges P and Q of a one-sided pair."""

    sigma: float
    rate: float
    group: int = 1
    two_sided: bool = False
    reverse: bool = False

    @property
    def log_weights(self) -> np.ndarray:
        counts = np.arange(self.group + 1)
        with np.errstate(divide="ignore"):
            return binom.logpmf(counts, self.group, self.rate)

    def components(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """(log weight, mean) of the parts of P and of Q."""
        up = [(w, k / self.sigma) for k, w in enumerate(self.log_weights) if w > -np.inf]
        other = [(w, -mean) for w, mean in up] if self.two_sided else [(0.0, 0.0)]
        return (other, up) if self.reverse else (up, other)

    def log_density(self, parts: list[tuple[float, float]], x: np.ndarray) -> np.ndarray:
        levels = [w - (x - mean) ** 2 / 2 for w, mean in parts]
        return logsumexp(levels, axis=0) - math.log(2 * math.pi) / 2

    def loss(self, x: np.ndarray) -> np.ndarray:
        above, below = self.components()
        return self.log_density(above, x) - self.log_density(below, x)


def orders(sigma: float, rate: float, group: int, relation: str) -> list[Pair]:
    """Both orders of the pair of a relation."""
    if relation == "replace":
        return [Pair(sigma, rate, group, two_sided=True)]
    return [Pair(sigma, rate, group), Pair(sigma, rate, group, reverse=True)]


# -- one step, in 80 digits ------------------------------------------------------------------------


def one_step(pair: Pair, epsilon: float) -> mpf:
    """The exact hockey-stick divergence."""
    with mpmath.workdps(80):
        s, q, e = mpf(pair.sigma), mpf(pair.rate), mpf(epsilon)
        weights = [
            mpmath.binomial(pair.group, k) * q**k * (1 - q) ** (pair.group - k)
            for k in range(pair.group + 1)
        ]
        up = [(w, k / s) for k, w in enumerate(weights) if w > 0]
        other = [(w, -mean) for w, mean in up] if pair.two_sided else [(mpf(1), mpf(0))]

        def log_ratio(x: mpf) -> mpf:
            return _mp_log_density(up, x) - _mp_log_density(other, x)

        def above(parts: list[tuple[mpf, mpf]], x: mpf) -> mpf:
            return mpmath.fsum(
                w * mpmath.erfc((x - mean) / mpmath.sqrt(2)) / 2 for w, mean in parts
            )

        if not pair.reverse:
            x = _mp_root(log_ratio, e)
            return above(up, x) - mpmath.exp(e) * above(other, x)
        if not pair.two_sided and -e <= mpmath.log(up[0][0]) and up[0][1] == 0:
            return mpf(0)  # the loss of the reverse order ends at -log w_0
        x = _mp_root(log_ratio, -e)
        below_p = mpmath.fsum(w * mpmath.erfc((mean - x) / mpmath.sqrt(2)) / 2 for w, mean in other)
        below_q = mpmath.fsum(w * mpmath.erfc((mean - x) / mpmath.sqrt(2)) / 2 for w, mean in up)
        return below_p - mpmath.exp(e) * below_q


def _mp_log_density(parts: list[tuple[mpf, mpf]], x: mpf) -> mpf:
    """log sum w exp(mean x - mean^2/2): the density over that of N(0, 1)."""
    return mpmath.log(mpmath.fsum(w * mpmath.exp(mean * x - mean**2 / 2) for w, mean in parts))


def _mp_root(rising: Callable[[mpf], mpf], value: mpf) -> mpf:
    low, high = mpf(-1), mpf(1)
    while rising(low) > value:
        low *= 2
    while rising(high) < value:
        high *= 2
    while high - low > mpf(10) ** -45 * (1 + abs(low)):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return (low + high) / 2


# -- two steps, by quadrature ----------------------------------------------------------------------


def two_steps(pair: Pair, epsilon: float) -> float:
    """The mean over the first step's outcome of what the second one adds; good to about 1e-6."""
    above, _ = pair.components()
    # the loss bends within a distance of sigma
    x, weight = _nodes(pair, 400 + math.ceil(4 * (28 + 2 * pair.group / pair.sigma) / pair.sigma))
    log_p = pair.log_density(above, x)
    inner = _one_step_at(pair, epsilon - pair.loss(x))
    return float(np.sum(weight * np.exp(log_p) * inner))


def _one_step_at(pair: Pair, epsilons: np.ndarray) -> np.ndarray:
    """delta of one step in double precision, at any epsilon (negative ones too)."""
    sign = -1.0 if pair.reverse else 1.0  # the loss of the reverse order falls with x
    far = pair.group / pair.sigma + 60.0
    low, high = np.full(epsilons.size, -far), np.full(epsilons.size, far)
    for _ in range(80):
        middle = (low + high) / 2
        less = sign * pair.loss(middle) < sign * epsilons
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    above, below = pair.components()
    log_p = logsumexp([w + log_ndtr(sign * (m - low)) for w, m in above], axis=0)
    log_q = logsumexp([w + log_ndtr(sign * (m - low)) for w, m in below], axis=0)
    return np.exp(log_p) * np.maximum(0.0, -np.expm1(np.minimum(epsilons + log_q - log_p, 0.0)))


def _nodes(pair: Pair, panels: int, reach: float = 14.0) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes around every component of the pair."""
    base, weights = np.polynomial.legendre.leggauss(20)
    far = pair.group / pair.sigma
    low = -reach - (far if pair.two_sided else 0.0)
    edges = np.linspace(low, far + reach, panels + 1)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * base).ravel(), (half[:, None] * weights).ravel()


# -- any number of steps, by inverting a Laplace transform -----------------------------------------


def many_steps(pair: Pair, steps: int, epsilon: float, rate: float, reach: float = 9.0) -> float:
    """delta without what lies beyond ``reach`` standard deviations in a single step.

    So it is a lower bound on the truth, and short of it by at most steps * Phi(-reach), for any ``rate``
    > 0 at which the transform is not yet ruled by the largest losses.
    """
    above, _ = pair.components()
    x, weight = _nodes(pair, 120, reach)
    loss = pair.loss(x)
    tilted = weight * np.exp(pair.log_density(above, x) + rate * loss)
    total = tilted.sum()
    centre = (tilted * loss).sum() / total
    spread = math.sqrt(steps * (tilted * (loss - centre) ** 2).sum() / total)
    wave = np.linspace(0.0, 12 / spread, 1601)
    moments = np.array([(tilted * np.exp(1j * omega * loss)).sum() for omega in wave])
    z = rate + 1j * wave
    values = np.exp(steps * np.log(moments) - z * epsilon) / (z * (z + 1))
    assert abs(values[-1]) < 1e-7 * abs(values[0]), "too few steps for this oracle"
    simpson = np.ones(wave.size)
    simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
    return float((simpson * values.real).sum() * (wave[1] - wave[0]) / 3 / math.pi)
