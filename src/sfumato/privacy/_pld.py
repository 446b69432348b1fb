"""Composition of privacy losses by one Fourier transform, and the curve it gives.

The composed loss of terms t with multiplicities n_t has the transform prod F_t^{n_t}: whatever was
composed, one inverse transform per order of the pair is all there is. The window of the transform
is chosen by Chernoff bounds; what could lie above it is counted as an infinite loss, and what wraps
around from below lands above, so that both errors are on the pessimistic side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sfumato.privacy._losses import MOST_POINTS, GridTooFineError, Losses, losses_of
from sfumato.privacy._terms import Terms

Array = NDArray[np.float64]
_BLOCK = 256
# Chernoff rates to try, as multiples of the best one for a normal loss; any rate gives a bound.
_RATES = (0.001, 0.003, 0.01, 0.02, 0.04, 0.07, 0.12, 0.25, 0.5, 0.75, 1.0, 1.4)


@dataclass(frozen=True)
class LossCurve:
    """A composed loss distribution: delta at any epsilon, epsilon at any delta."""

    losses: Losses
    interval: float

    def delta(self, epsilon: float) -> float:
        start = max(0, math.floor(epsilon / self.interval) - self.losses.first + 1)
        masses = self.losses.masses[start:]
        above = (self.losses.first + start + np.arange(masses.size)) * self.interval
        gain = -np.expm1(np.minimum(epsilon - above, 0.0))
        return min(1.0, float(np.dot(masses, gain)) + self.losses.infinite)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 whose delta is at most ``delta``; infinite if there is none."""
        if self.losses.infinite > delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        # mass strictly above point i, including the infinite one
        above = np.cumsum(self.losses.masses[::-1])[::-1]
        over = np.append(above[1:], 0.0) + self.losses.infinite
        crossing = int(np.argmax(over <= delta))
        span = 1 + math.ceil(20 / self.interval)
        while True:
            start = max(0, crossing - span)
            solved = self._solve(start, crossing, over, delta)
            if solved is not None:
                return max(0.0, solved)
            if start == 0:
                return 0.0
            span *= 4

    def _solve(self, start: int, crossing: int, over: Array, delta: float) -> float | None:
        """Between points i and i + 1, delta(e) = over_i - e^e weight_i: solve where it crosses."""
        first = self.losses.first
        anchor = (first + crossing) * self.interval
        loss = (first + np.arange(start, self.losses.masses.size)) * self.interval - anchor
        with np.errstate(over="ignore"):
            scaled = self.losses.masses[start:] * np.exp(-loss)
        weight = np.append(np.cumsum(scaled[::-1])[::-1][1:], 0.0)
        top = crossing - start + 1
        with np.errstate(over="ignore", invalid="ignore"):
            deltas = over[start : crossing + 1] - np.exp(loss[:top]) * weight[:top]
        meets = np.flatnonzero(deltas <= delta)
        if meets.size == 0 or (meets[0] == 0 and start > 0):
            return None
        last = int(meets[0])
        if last == 0:
            return anchor + float(loss[0])
        gap = over[start + last - 1] - delta
        inside = math.log(gap / weight[last - 1]) if gap > 0 and weight[last - 1] > 0 else -math.inf
        low, high = float(loss[last - 1]), float(loss[last])
        return anchor + min(max(inside, low), high)


def compose(terms: Terms, interval: float, tail: float) -> tuple[LossCurve, ...]:
    """The curve of each order of the pair (one, when the pair is symmetric)."""
    count = sum(times for _, times in terms)
    pairs = [(losses_of(term, interval, tail / count), times) for term, times in terms]
    forward = _compose([(pair.forward, times) for pair, times in pairs], interval, tail)
    if all(pair.reverse is pair.forward for pair, _ in pairs):
        return (LossCurve(forward, interval),)
    reverse = _compose([(pair.reverse, times) for pair, times in pairs], interval, tail)
    return LossCurve(forward, interval), LossCurve(reverse, interval)


def compose_forward(terms: Terms, interval: float, tail: float) -> LossCurve:
    """Only the first order of the pair: cheap, for searching, never for a promise."""
    count = sum(times for _, times in terms)
    parts = [(losses_of(term, interval, tail / count).forward, times) for term, times in terms]
    return LossCurve(_compose(parts, interval, tail), interval)


def _compose(parts: Sequence[tuple[Losses, int]], interval: float, tail: float) -> Losses:
    kept = math.fsum(times * math.log1p(-min(part.infinite, 0.5)) for part, times in parts)
    infinite = -math.expm1(kept)
    if any(part.infinite >= 0.5 for part, _ in parts):
        infinite = 1.0
    if len(parts) == 1 and parts[0][1] == 1:
        return Losses(parts[0][0].first, parts[0][0].masses, infinite)
    low, high = _window(parts, interval, tail)
    size = fft.next_fast_len(high - low + 1, real=True)
    if size > MOST_POINTS:
        raise GridTooFineError
    spectrum: NDArray[np.complex128] | None = None
    start = 0
    for part, times in parts:
        one = fft.rfft(_fold(part.masses, size), size)
        one = one if times == 1 else one**times
        spectrum = one if spectrum is None else spectrum * one
        start += part.first * times
    assert spectrum is not None
    masses = np.roll(fft.irfft(spectrum, size), (start - low) % size)
    return Losses(low, np.maximum(masses, 0.0), min(1.0, infinite + tail))


def _fold(masses: Array, size: int) -> Array:
    if masses.size <= size:
        return masses
    padded = np.zeros(-(-masses.size // size) * size)
    padded[: masses.size] = masses
    return np.asarray(padded.reshape(-1, size).sum(axis=0))


def _window(parts: Sequence[tuple[Losses, int]], interval: float, tail: float) -> tuple[int, int]:
    """Grid indices that hold all but ``tail`` of the composed finite mass on either side."""
    least = sum(part.first * times for part, times in parts)
    most = sum((part.first + part.masses.size - 1) * times for part, times in parts)
    mean = variance = 0.0
    supports = []
    for part, times in parts:
        loss = np.arange(part.first, part.first + part.masses.size, dtype=np.float64) * interval
        total = float(part.masses.sum())
        centre = float(np.dot(part.masses, loss)) / total
        variance += times * float(np.dot(part.masses, (loss - centre) ** 2)) / total
        mean += times * centre
        supports.append((_blocks(part.masses), float(loss[0]) - centre, times))
    spread = max(math.sqrt(variance), interval)
    target = -math.log(tail)
    upper = lower = math.inf
    # exp(-rate d + log M(rate)) <= tail bounds the deviation d. The normal rate is nearly the best
    # for many small losses; rare large ones (little noise, rarely sampled) need far smaller rates.
    best = math.sqrt(2 * target) / spread
    for factor in _RATES:
        rate = best * factor
        upper = min(upper, (target + _log_moment(supports, rate, interval)) / rate)
        lower = min(lower, (target + _log_moment(supports, -rate, interval)) / rate)
    high = min(most, math.ceil((mean + upper) / interval)) if math.isfinite(upper) else most
    low = max(least, math.floor((mean - lower) / interval)) if math.isfinite(lower) else least
    return low, max(high, low + 1)


def _blocks(masses: Array) -> Array:
    rows = -(-masses.size // _BLOCK)
    padded = np.zeros(rows * _BLOCK)
    padded[: masses.size] = masses
    return padded.reshape(rows, _BLOCK)


def _log_moment(
    supports: Sequence[tuple[Array, float, int]], rate: float, interval: float
) -> float:
    """log of the moment generating function of the centred, composed loss.

    The exponential of a grid is a product of two short ones, so this is a matrix-vector product.
    """
    total = 0.0
    with np.errstate(over="ignore"):
        inner = np.exp(rate * interval * np.arange(_BLOCK))
    if not math.isfinite(inner[-1]) or inner[-1] == 0:
        return math.inf
    for blocks, start, times in supports:
        with np.errstate(divide="ignore"):
            rows = np.log(blocks @ inner)
        rows += rate * (start + interval * _BLOCK * np.arange(rows.size))
        largest = float(rows.max())
        total += times * (largest + math.log(float(np.exp(rows - largest).sum())))
    return total
