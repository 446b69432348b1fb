"""The attacker who collects: many draws about one person, each of them nearly harmless.

Finding H10: 0.0048 nats a draw are invisible to a probe of single records (4.98 % against 4.17 %
by chance) and name the right person of 24 in 99.8 % of cases after 3000 draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._bayes import BayesAttacker
from sfumato.audit.measure._measure import MeasureError
from sfumato.audit.measure._scores import wilson


@dataclass(frozen=True)
class RepeatedRelease:
    """Success after a number of draws about one and the same person."""

    draws: int
    accuracy: float
    interval: tuple[float, float]
    trials: int


def repeated_release(
    attacker: BayesAttacker,
    substitution: npt.ArrayLike,
    codes: npt.ArrayLike,
    owners: Sequence[str],
    *,
    draws: Sequence[int] = (1, 10, 100, 1000),
    trials: int = 20,
    remembered: bool = False,
    seed: int = 0,
) -> list[RepeatedRelease]:
    """Guess a person's attribute from ``draws`` releases by adding log-likelihoods.

    Each trial takes one person and draws donors for records of theirs, with fresh draws or, when
    ``remembered``, with one draw a record kept for ever, as ``Pass`` does by default: then asking
    again brings nothing new and only the number of a person's records counts.
    """
    rows, truth = np.asarray(substitution, dtype=np.float64), np.asarray(codes, dtype=np.int64)
    if not len(rows) == len(truth) == len(owners) or len(truth) == 0:
        raise MeasureError(
            f"Expected rows, classes and owners of the same records, got {len(rows)}, "
            f"{len(truth)} and {len(owners)}."
        )
    generator = np.random.default_rng(seed)
    prior = attacker.prior
    likelihood = attacker.joint / np.clip(prior, 1e-300, None)[:, None]
    # a floor of one ten-thousandth record keeps a donor unseen in training from deciding alone
    log_likelihood = np.log(likelihood + 1e-4 / (len(rows) * rows.shape[1]))
    cumulative = np.cumsum(rows, axis=1)
    names = np.array(owners)
    people = np.unique(names)
    kept = _draw(cumulative, np.arange(len(rows)), generator) if remembered else None
    found = []
    for count in draws:
        right = total = 0
        for person in people:
            own = np.flatnonzero(names == person)
            for _ in range(trials):
                asked = generator.choice(own, count)
                if kept is None:
                    donors = _draw(cumulative, asked, generator)
                else:
                    donors = kept[np.unique(asked)]
                score = np.log(np.clip(prior, 1e-300, None)) + log_likelihood[:, donors].sum(1)
                right += int(score.argmax() == truth[own[0]])
                total += 1
        found.append(RepeatedRelease(count, right / total, wilson(right, total), total))
    return found


def _draw(
    cumulative: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    generator: np.random.Generator,
) -> npt.NDArray[np.int64]:
    points = generator.random(len(rows)) * cumulative[rows, -1]
    drawn = [np.searchsorted(cumulative[row], point) for row, point in zip(rows, points)]
    return np.array([min(donor, cumulative.shape[1] - 1) for donor in drawn], dtype=np.int64)
