"""Composition of privacy losses by one Fourier transform, and the curve it gives.

The composed loss of terms t with multiplicities n_t has the transform prod F_t^{n_t}: whatever was
composed, one inverse transform per order of the pair is all there is.

**Tilting.** A transform is exact only up to a share of its largest value, while delta lives in a far
tail. So each loss distribution m is first tilted to m(x) e^{rate x} / M(rate), with the rate at which
the Chernoff bound of the tail is best: then the composed distribution is centred where delta is read,
and e^{-rate x} M(rate)^n, multiplied back, gives every mass there to nearly full relative precision.

**What is charged.** (1) Rounding of the transform: with |f_k - F_k| <= g for each coefficient of
masses that sum to one (g = 8 u log2 N, Higham 2002, theorem 24.2, in its componentwise form), no
composed mass is wrong by more than the mean of prod (|f_k| + g)^n - |f_k|^n, plus the rounding of the
powers and of the inverse transform; that bound is added to every mass. (2) Rounding of masses, by a
factor; rounding of losses, in epsilon. (3) What may lie above the window is an infinite loss; what
wraps around from below lands above, and what is left over (all that lies below the resolved part) is
rounded up to the lowest point kept. So the curve is an upper bound at every epsilon and every delta,
and tight near the delta it was made for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sfumato.privacy.accounting._losses import GridTooFineError, Losses, losses_of
from sfumato.privacy.accounting._terms import AccountingError, Terms

Array = NDArray[np.float64]
Parts = Sequence[tuple[Losses, int]]

# The share of delta that may be spent on the largest losses of single steps (rare and large, they
# would need a wide window), and on what lies above or wraps around the window of the composition.
_STEP_SHARE = 1e-5
_WINDOW_SHARE = 1e-6
# More points than this in a transform mean that the interval is too fine for the question.
_MOST_POINTS = 1 << 22
# Where more than this is an infinite loss, the rest is not worth a transform.
_HOPELESS = 0.999
_BLOCK = 256
_UNIT = 2.0**-53
# Coefficients below this, on a logarithmic scale, are dropped (and charged).
_NOTHING = -100.0
# Room between the tilt and the best Chernoff rate, beyond which rare large losses take over.
_ROOM = 0.75
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class LossCurve:
    """A composed loss distribution: delta at any epsilon, epsilon at any delta.

    ``rounding`` is how far floating point may have moved a composed loss; ``coarseness`` about the share
    of the variance that comes from splitting every step's loss over two grid points.
    """

    losses: Losses
    interval: float
    rounding: float = 0.0
    coarseness: float = 0.0

    def delta(self, epsilon: float) -> float:
        epsilon -= self.rounding
        start = max(0, math.floor(epsilon / self.interval) - self.losses.first + 1)
        masses = self.losses.masses[start:]
        above = (self.losses.first + start + np.arange(masses.size)) * self.interval
        gain = -np.expm1(np.minimum(epsilon - above, 0.0))
        return min(1.0, float(np.dot(masses, gain)) * self._of_sums + self.losses.infinite)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 whose delta is at most ``delta``; infinite if there is none."""
        # what finite losses may contribute, with the rounding of the sums below taken off
        allowed = (delta - self.losses.infinite) / self._of_sums
        if not allowed >= 0:
            return math.inf
        found = self._solve(allowed)
        # where delta(0) is small enough, the solution lies at 0 or below, but for rounding
        if found <= self.interval and self.delta(0.0) <= delta:
            return 0.0
        return max(0.0, found) + self.rounding

    @property
    def _of_sums(self) -> float:
        """A sum of n positive numbers is exact up to n - 1 roundings; here there are two in a row."""
        return 1 + 4 * self.losses.masses.size * _UNIT

    def _solve(self, allowed: float) -> float:
        """Where the finite part of delta falls to ``allowed``.

        With S_k the mass strictly above point k, delta(e_i) = (1 - e^-h) sum_{k >= i} e^{-(k - i) h} S_k:
        positive terms only, so nothing cancels. Between two points delta is linear in e^epsilon.
        """
        first, h = self.losses.first, self.interval
        over = np.append(np.cumsum(self.losses.masses[:0:-1])[::-1], 0.0)
        # delta_i <= S_i ends the search above; a loss 40 above epsilon counts in full, so that
        # delta(e) > S(e + 40)(1 - 1e-17) ends it below
        end = int(np.argmax(over <= allowed))
        start = max(0, end - 1 - math.ceil(40 / h))
        if h < 40:
            fade = np.exp(-np.arange(min(over.size - start, 3 + 2 * math.ceil(40 / h))) * h)
            above = np.cumsum((over[start : start + fade.size] * fade)[::-1])[::-1]
            deltas = (-math.expm1(-h) * above / fade)[: end - start + 1]
        else:
            deltas = over[start : end + 1]
        last = int(np.argmax(deltas <= allowed))
        if last == 0:
            # below the first point every loss counts: delta(e) = S - e^{e - e_0} (S - delta_0)
            total = float(self.losses.masses.sum())
            below = start == 0 and total > allowed
            moved = math.log1p((deltas[0] - allowed) / (total - deltas[0])) if below else 0.0
            return (first + start) * h + moved
        part = (deltas[last - 1] - allowed) / (deltas[last - 1] - deltas[last])
        inside = math.log1p(min(1.0, part) * math.expm1(h)) if h < 700 else h
        return (first + start + last - 1) * h + min(inside, h)


def compose(
    terms: Terms, interval: float, delta: float, epsilon: float | None = None
) -> tuple[LossCurve, ...]:
    """The curve of each order of the pair (one, when the pair is symmetric).

    It is sharpest where delta is ``delta``, or at ``epsilon`` if that is given (then ``delta`` only says
    how much may be cut off).
    """
    forward, reverse = _orders(terms, interval, _STEP_SHARE * delta)
    found = _compose(forward, interval, delta, epsilon)
    if all(back is there for (back, _), (there, _) in zip(reverse, forward, strict=True)):
        return (found,)
    return found, _compose(reverse, interval, delta, epsilon)


def chernoff_delta(terms: Terms, interval: float, epsilon: float, least: float) -> float:
    """A quick upper bound on delta at ``epsilon``, no smaller than ``least``: where to be sharp."""
    bounds = (
        _Moments.of(parts, interval).log_delta(epsilon)[1]
        for parts in _orders(terms, interval, least)
    )
    return max(least, math.exp(min(0.0, *bounds)))


def _orders(terms: Terms, interval: float, tail: float) -> tuple[Parts, Parts]:
    count = sum(times for _, times in terms)
    pairs = [(losses_of(term, interval, tail / count), times) for term, times in terms]
    return (
        [(pair.forward, times) for pair, times in pairs],
        [(pair.reverse, times) for pair, times in pairs],
    )


def _compose(parts: Parts, interval: float, delta: float, epsilon: float | None) -> LossCurve:
    rounding = math.fsum(times * part.rounding(interval) for part, times in parts)
    infinite = -math.expm1(math.fsum(times * _log_kept(part) for part, times in parts))
    if len(parts) == 1 and parts[0][1] == 1:
        return LossCurve(parts[0][0], interval, rounding)
    if infinite > _HOPELESS:
        return LossCurve(Losses(0, np.zeros(1), 1.0), interval)
    moments = _Moments.of(parts, interval)
    count = sum(times for _, times in parts)
    coarseness = count * interval**2 / 6 / moments.spread**2
    rate = _ROOM * (moments.best_rate(delta) if epsilon is None else moments.log_delta(epsilon)[0])
    low, high, log_above = moments.window(rate, _WINDOW_SHARE * delta)
    size = fft.next_fast_len(high - low + 1, real=True)
    if size > _MOST_POINTS:
        raise GridTooFineError
    tilted, scale, error = _transform(parts, moments, rate, size, low)
    # what lies above the window is counted apart
    tilted = tilted[: high - low + 1]
    # back from the tilted masses, each raised by all that rounding may have taken from it
    lift = scale - rate * ((low + np.arange(tilted.size)) * interval - moments.mean)
    factor = _rounding_of_masses(parts, moments, rate) + 4 * _UNIT * float(np.abs(lift).max())
    masses = (np.maximum(tilted, 0.0) + error) * np.exp(np.minimum(lift, 600.0)) * math.exp(factor)
    losses = _rounded_up(low, masses, min(1.0, infinite + math.exp(log_above)))
    return LossCurve(losses, interval, rounding, coarseness)


def _log_kept(part: Losses) -> float:
    return math.log1p(-part.infinite) if part.infinite < 1 else -math.inf


def _rounded_up(low: int, masses: Array, infinite: float) -> Losses:
    """Upper bounds on masses made a distribution: whatever they leave over goes to the lowest point."""
    over = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
    # a cumulative sum is less exact than the sum by which the result will be checked
    first = int(np.argmax(over <= (1 - infinite) * (1 - 4 * masses.size * _UNIT)))
    kept = masses[first:].copy()
    kept[0] = 0.0
    kept[0] = max(0.0, 1 - infinite - float(kept.sum()))
    return Losses(low + first, kept, infinite)


def _transform(
    parts: Parts, moments: _Moments, rate: float, size: int, low: int
) -> tuple[Array, float, float]:
    """The composed tilted masses from index ``low`` on, log of their scale, the error of each at most."""
    noise = 8 * _UNIT * math.log2(size)
    scale = 0.0
    spectra = []
    bound = np.zeros(size // 2 + 1)
    for (part, times), centre in zip(parts, moments.centres, strict=True):
        tilted, log_scale = _tilted(part, moments.interval, centre, rate)
        scale += times * log_scale
        one = fft.rfft(_fold(tilted, size), size)
        spectra.append((one, times))
        bound += times * np.log(np.abs(one) + noise)
    kept = np.flatnonzero(bound > _NOTHING)
    power = np.zeros(kept.size, dtype=np.complex128)
    for one, times in spectra:
        with np.errstate(divide="ignore"):
            power += times * np.log(one[kept])
    coefficients = np.exp(power)
    sizes = np.abs(coefficients)
    count = sum(times for _, times in parts)
    wrong = np.exp(bound[kept]) - sizes + (noise + (8 * count + 200) * _UNIT) * sizes
    error = 2 * float(wrong.sum()) / size + math.exp(_NOTHING)
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[kept] = coefficients
    start = sum(part.first * times for part, times in parts)
    masses = np.roll(fft.irfft(spectrum, size), (start - low) % size)
    total = float(masses.sum())
    if not abs(total - 1) <= 2 * size * error + 1e-9:
        raise AccountingError(
            f"Expected composed privacy losses whose probabilities sum to 1, got {total!r}: double "
            "precision does not suffice for this event, so no epsilon is stated."
        )
    return masses, scale, error


def _rounding_of_masses(parts: Parts, moments: _Moments, rate: float) -> float:
    """log of the factor by which rounding may have lowered a composed mass.

    A step's mass and its tilt are exponentials, exact up to an ulp of their exponents.
    """
    total = 0.0
    for (part, times), centre in zip(parts, moments.centres, strict=True):
        ends = np.array([part.first, part.first + part.masses.size - 1]) * moments.interval
        total += times * 4 * _UNIT * (64 + rate * float(np.abs(ends - centre).max()))
    return total


def _fold(masses: Array, size: int) -> Array:
    if masses.size <= size:
        return masses
    padded = np.zeros(-(-masses.size // size) * size)
    padded[: masses.size] = masses
    return np.asarray(padded.reshape(-1, size).sum(axis=0))


@dataclass(frozen=True)
class _Moments:
    """Moment generating functions of the finite losses of ``parts``, each around its centre."""

    parts: Parts
    interval: float
    centres: tuple[float, ...]
    blocks: tuple[Array, ...]
    mean: float
    spread: float

    @classmethod
    def of(cls, parts: Parts, interval: float) -> _Moments:
        centres, mean, variance = [], 0.0, 0.0
        for part, times in parts:
            loss = _points(part, interval)
            total = float(part.masses.sum())
            centre = float(np.dot(part.masses, loss)) / total
            variance += times * float(np.dot(part.masses, (loss - centre) ** 2)) / total
            mean += times * centre
            centres.append(centre)
        blocks = tuple(_blocks(part.masses) for part, _ in parts)
        return cls(
            parts, interval, tuple(centres), blocks, mean, max(math.sqrt(variance), interval)
        )

    def log_moment(self, rate: float) -> float:
        """log E exp(rate (loss - mean)) of the composed finite loss.

        The exponential of a grid is a product of two short ones, so this is a matrix-vector product.
        """
        total = 0.0
        inner = np.exp(rate * self.interval * np.arange(_BLOCK))
        for (part, times), centre, blocks in zip(
            self.parts, self.centres, self.blocks, strict=True
        ):
            with np.errstate(divide="ignore"):
                rows = np.log(blocks @ inner)
            offset = part.first * self.interval - centre
            rows += rate * (offset + self.interval * _BLOCK * np.arange(rows.size))
            largest = float(rows.max())
            total += times * (largest + math.log(float(np.exp(rows - largest).sum())))
        return total

    def deviation(self, level: float, side: int = 1) -> tuple[float, float]:
        """The best Chernoff rate, and how far from the mean a tail of e^-level begins at most."""
        return self._least(lambda rate: (level + self.log_moment(side * rate)) / rate)

    def best_rate(self, delta: float) -> float:
        """The rate at which the moment bounds epsilon at ``delta`` best (see ``log_delta``)."""
        return self._least(lambda rate: (self._log_factor(rate) - math.log(delta)) / rate)[0]

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """The rate at which the moment bounds delta at ``epsilon`` best, and log of that bound."""
        return self._least(lambda rate: self._log_factor(rate) - rate * (epsilon - self.mean))

    def _log_factor(self, rate: float) -> float:
        """log of what bounds delta(e) when multiplied by exp(-rate (e - mean)).

        (1 - e^{e - x})_+ is at most e^{rate (x - e)} rate^rate / (1 + rate)^{1 + rate} (Balle et al. 2020).
        """
        return self.log_moment(rate) - math.log1p(rate) - rate * math.log1p(1 / rate)

    def _least(self, bound: Callable[[float], float]) -> tuple[float, float]:
        """The rate with the least ``bound`` and that bound; any rate gives one, so a rough search will do.

        A normal loss has its best rate near 1/spread times a small number; rare large losses (little
        noise, rarely sampled) need far smaller rates.
        """
        most = 1 / self.interval
        low, high = (
            math.log(min(1e-7 / self.spread, most / 2)),
            math.log(min(1e2 / self.spread, most)),
        )
        points = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
        values = [bound(math.exp(point)) for point in points]
        while high - low > 0.1:
            if values[0] <= values[1]:
                high, points[1], values[1] = points[1], points[0], values[0]
                points[0] = high - _GOLDEN * (high - low)
                values[0] = bound(math.exp(points[0]))
            else:
                low, points[0], values[0] = points[0], points[1], values[1]
                points[1] = low + _GOLDEN * (high - low)
                values[1] = bound(math.exp(points[1]))
        best = int(values[1] < values[0])
        return math.exp(points[best]), values[best]

    def window(self, rate: float, tail: float) -> tuple[int, int, float]:
        """First and last grid index of a transform tilted at ``rate``, and log of the mass above them.

        Tilting leaves e^{-rate width} of what wraps around from below, and multiplies what wraps around
        from above by e^{rate width}: both are to stay below ``tail``. Losses below 0 do not count.
        """
        least = sum(part.first * times for part, times in self.parts)
        most = sum((part.first + part.masses.size - 1) * times for part, times in self.parts)
        level = -math.log(tail)
        low = self.mean - self.deviation(level, -1)[1]
        for start in (max(low, 0.0), low):
            above = self._above(rate, level, start)
            first = max(least, math.floor(start / self.interval))
            last = max(first + 1, min(most, math.ceil(above / self.interval)))
            if rate * (last - first) * self.interval >= level:
                break
        return first, last, min(0.0, -level - rate * (above - start))

    def _above(self, rate: float, level: float, start: float) -> float:
        """Where a window from ``start`` ends: e^{rate width} times the mass above is at most e^-level."""

        def end(more: float) -> float:
            spare = level + self.log_moment(rate + more) + rate * (self.mean - start)
            return self.mean + spare / more

        return self._least(end)[1]


def _points(part: Losses, interval: float) -> Array:
    return np.asarray(np.arange(part.first, part.first + part.masses.size) * interval)


def _blocks(masses: Array) -> Array:
    rows = -(-masses.size // _BLOCK)
    padded = np.zeros(rows * _BLOCK)
    padded[: masses.size] = masses
    return padded.reshape(rows, _BLOCK)


def _tilted(part: Losses, interval: float, centre: float, rate: float) -> tuple[Array, float]:
    """Masses of one loss times exp(rate (loss - centre)), scaled to sum to one; and log of the scale."""
    with np.errstate(divide="ignore"):
        level = np.log(part.masses) + rate * (_points(part, interval) - centre)
    largest = float(level.max())
    raised = np.exp(level - largest)
    total = float(raised.sum())
    return raised / total, largest + math.log(total)
