"""A certified lower limit of epsilon from scores of runs on two neighbouring inputs.

Any (epsilon, delta)-private mechanism keeps P(A) <= e^epsilon Q(A) + delta for every set A, both ways
round. So any set that occurs too often on one side proves that epsilon is at least
log((P(A) - delta) / Q(A)). The set (scores beyond a threshold, on one side or the other) and the share
of the error that each rate may use are chosen on a tenth of the runs; the rest, which took no
part in the choice, certifies it by Clopper-Pearson. No shape of the noise is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sfumato.errors import SfumatoError
from sfumato.privacy.clopper_pearson import at_least, at_most
from sfumato.privacy.verdict import CONFIDENCES, LowerBound

Array = npt.NDArray[np.float64]

_CHOOSING_SHARE, _CHOOSING_MOST, _CHOOSING_ERROR = 0.1, 5_000, 0.05
# Shares of the allowed error that the rare side may use: it is the one that matters.
_RARE_SHARES = (0.5, 0.8, 0.95)
_LEAST_TRIALS = 100
# A score is an atom when this share of the runs has it, to within this part of their spread.
_ATOM, _ROUNDING = 0.02, 1e-6


class AuditError(SfumatoError):
    """An audit that cannot be run as asked, so it proves nothing."""


def epsilon_lower_bound(
    first: Any,
    second: Any,
    *,
    delta: float,
    confidence: float = 0.95,
    method: str = "threshold test, Clopper-Pearson",
) -> LowerBound:
    """Certified lower limit of epsilon from one score a run, ``first`` and ``second`` neighbours.

    **Guarantee**: if the runs are independent and the mechanism is (epsilon, delta)-private, the
    limit exceeds epsilon with probability at most ``1 - confidence``, whatever the scores mean.
    Powerful scores are log-likelihood ratios or projections onto what a unit contributes.

    | case | result |
    | --- | --- |
    | fewer than 100 runs a side, NaN scores | refused |
    | indistinguishable scores | 0 |
    | scores of a few values only | thresholds between them |
    """
    p, q = (_checked(name, scores) for name, scores in (("first", first), ("second", second)))
    if not 0 <= delta < 1:
        raise AuditError(f"Expected 0 <= delta < 1, got {delta!r}.")
    if not 0.5 < confidence < 1:
        raise AuditError(f"Expected a confidence between 0.5 and 1, got {confidence!r}.")
    others = tuple(level for level in CONFIDENCES if level > confidence)
    chosen = _chosen(p, q, delta)
    return LowerBound(
        epsilon=_certified(p, q, delta, 1 - confidence, chosen),
        confidence=confidence,
        delta=delta,
        method=method,
        trials=min(len(p), len(q)),
        beside=tuple((level, _certified(p, q, delta, 1 - level, chosen)) for level in others),
        gaussian_fit=gaussian_fit(p, q, delta=delta, confidence=confidence),
    )


def delta_lower_bound(
    first: Any, second: Any, *, epsilon: float = 0.0, confidence: float = 0.999
) -> float:
    """Certified lower limit of delta(epsilon) near epsilon 0: the most sensitive certificate.

    Of the certifying runs take n of ``second`` and floor(n e^-epsilon) of ``first``, and count the
    guesses that are right. They are independent Bernoulli trials with unequal chances, and such a sum is more
    concentrated than a binomial of the same mean (Hoeffding 1956), so one Clopper-Pearson limit for
    all of them replaces two. At epsilon 0 this is the total variation distance.
    """
    if not epsilon >= 0:
        raise AuditError(f"Expected epsilon >= 0, got {epsilon!r}.")
    p, q = (_checked(name, scores) for name, scores in (("first", first), ("second", second)))
    seen, kept = _split(p)
    other, against = _split(q)
    threshold = _between(seen, other, epsilon)
    n_second = len(against)
    n_first = min(len(kept), math.floor(n_second * math.exp(-epsilon)))
    n_second = min(n_second, math.ceil(n_first * math.exp(epsilon)))
    if n_first < 1:
        return 0.0
    right = int((kept[:n_first] > threshold).sum() + (against[:n_second] <= threshold).sum())
    total = n_first + n_second
    share = float(at_least(right, total, 1 - confidence))
    return max(0.0, (total * share - n_second) / n_first)


def gaussian_fit(first: Any, second: Any, *, delta: float, confidence: float = 0.95) -> float:
    """What epsilon would be if the scores were Gaussian: a diagnostic, never a certificate."""
    from sfumato.privacy import Bounds, Gaussian, epsilon_of

    p, q = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not (np.isfinite(p).all() and np.isfinite(q).all()):
        return math.inf
    spread = math.sqrt((p.var(ddof=1) + q.var(ddof=1)) / 2)
    if spread == 0:
        return 0.0
    mu = abs(p.mean() - q.mean()) / spread
    error = math.sqrt(1 / len(p) + 1 / len(q) + mu**2 / (2 * (len(p) + len(q))))
    low = mu - float(ndtri(confidence)) * error
    if low <= 0 or delta <= 0:
        return 0.0
    return epsilon_of(Gaussian(1 / low, Bounds.DIFFERENCE), delta, "replace", "analytic-gaussian")


def _checked(name: str, scores: Any) -> Array:
    values = np.asarray(scores, dtype=float).ravel()
    if len(values) < _LEAST_TRIALS:
        raise AuditError(
            f"Expected at least {_LEAST_TRIALS} scores for {name}, got {len(values)}: run more trials."
        )
    if np.isnan(values).any():
        raise AuditError(f"Expected numbers as scores for {name}, got NaN.")
    return values


def _split(values: Array) -> tuple[Array, Array]:
    cut = max(_LEAST_TRIALS // 4, min(_CHOOSING_MOST, int(len(values) * _CHOOSING_SHARE)))
    return values[:cut], values[cut:]


@dataclass(frozen=True)
class _Chosen:
    """The set (beyond ``threshold``, with the sides ``turned`` or not) and how its error is shared."""

    turned: bool
    threshold: float
    share: float


def _chosen(p: Array, q: Array, delta: float) -> _Chosen:
    """One set for all confidences, the most telling at 95 %: so more confidence never says more."""
    seen_p, kept_p = _split(p)
    seen_q, kept_q = _split(q)
    best, chosen = -math.inf, _Chosen(False, 0.0, 0.5)
    for turned in (False, True):
        often, rare = (-seen_q, -seen_p) if turned else (seen_p, seen_q)
        sizes = (len(kept_q), len(kept_p)) if turned else (len(kept_p), len(kept_q))
        thresholds, guesses = _choose_thresholds(often, rare)
        for share in _RARE_SHARES:
            # what looks good by every guess at the tails
            values = np.minimum.reduce(
                [
                    _limit(hits * sizes[0], sizes[0], alarms * sizes[1], sizes[1],
                           delta, _CHOOSING_ERROR, share)
                    for hits, alarms in guesses
                ]
            )  # fmt: skip
            top = int(values.argmax())
            if values[top] > best:
                best = float(values[top])
                chosen = _Chosen(turned, float(thresholds[top]), share)
    return chosen


def _certified(p: Array, q: Array, delta: float, error: float, chosen: _Chosen) -> float:
    kept_p, kept_q = _split(p)[1], _split(q)[1]
    often, rare = (-kept_q, -kept_p) if chosen.turned else (kept_p, kept_q)
    hits, alarms = (often > chosen.threshold).sum(), (rare > chosen.threshold).sum()
    value = _limit(hits, len(often), alarms, len(rare), delta, error, chosen.share)
    return max(0.0, float(value))


def _limit(
    hits: Any, often: int, alarms: Any, rare: int, delta: float, error: float, share: float
) -> Array:
    true_positive = at_least(hits, often, error * (1 - share))
    false_positive = at_most(alarms, rare, error * share)
    with np.errstate(divide="ignore"):
        value = np.log(np.maximum(true_positive - delta, 0.0) / false_positive)
    return np.asarray(value)


def _choose_thresholds(often: Array, rare: Array) -> tuple[Array, list[tuple[Array, Array]]]:
    """Thresholds to choose from, and guesses at the rates beyond them.

    The few choosing runs see too little of the tails, so smooth scores are fitted, by a normal and by
    a skewed distribution. Any rule is allowed here: what is chosen is certified on other runs.
    """
    values = np.unique(np.concatenate([often, rare]))
    finite = values[np.isfinite(values)]
    if len(values) <= 64 or len(finite) < len(values):
        thresholds = np.concatenate([[values[0] - 1.0], values[:-1]])
        return thresholds, [(_share_beyond(often, thresholds), _share_beyond(rare, thresholds))]
    centre, spread = float(rare.mean()), float(rare.std())
    rounding = _ROUNDING * float(values.std())
    atoms = _atoms(np.concatenate([often, rare]), rounding)
    if len(atoms):
        # no smooth curve fits these; just below an atom the tests of Laplace noise are strongest
        middle = np.quantile(rare, np.linspace(0.05, max(0.05, 1 - 20 / len(rare)), 20))
        thresholds = np.union1d(middle, atoms - rounding)
        return thresholds, [(_share_beyond(often, thresholds), _share_beyond(rare, thresholds))]
    thresholds = np.linspace(centre - spread, max(centre + 5 * spread, float(often.max())), 200)
    return thresholds, [
        (fit(often, thresholds), fit(rare, thresholds)) for fit in (_normal_share, _skewed_share)
    ]


def _atoms(scores: Array, rounding: float) -> Array:
    """Values that come again and again."""
    values, counts = np.unique(np.round(scores / rounding) * rounding, return_counts=True)
    return np.asarray(values[counts > _ATOM * len(scores)])


def _normal_share(values: Array, thresholds: Array) -> Array:
    return np.asarray(ndtr((values.mean() - thresholds) / (values.std() + 1e-300)))


def _skewed_share(values: Array, thresholds: Array) -> Array:
    """Share beyond each threshold, its normal quantile a parabola: exact for normal scores."""
    shares = np.geomspace(min(0.3, 10 / len(values)), 0.97, 40)
    at = np.quantile(values, 1 - shares)
    centre, spread = float(at.mean()), float(at.std()) + 1e-300
    curve = np.polynomial.Polynomial.fit((at - centre) / spread, -ndtri(shares), 2)
    quantiles = curve((thresholds - centre) / spread)
    return np.asarray(ndtr(-np.maximum.accumulate(quantiles)))


def _between(often: Array, rare: Array, epsilon: float) -> float:
    thresholds, guesses = _choose_thresholds(often, rare)
    gaps = [hits - math.exp(epsilon) * alarms for hits, alarms in guesses]
    return float(thresholds[int(np.minimum.reduce(gaps).argmax())])


def _share_beyond(values: Array, thresholds: Array) -> Array:
    below = np.searchsorted(np.sort(values), thresholds, side="right")
    return np.asarray(1 - below / len(values))
