"""The exact Bayes attacker on a substitution channel: the best guess given the donor, no training.

The attacker knows P(donor | x) for the training records and their attribute, so the posterior
P(S = s | donor) follows by counting. It is scored on *test* records: on its own matrix even a
leak-free channel looks leaky, because thousands of posteriors are fitted to finitely many rows.
Scores are exact expectations over the draw, so no sampling noise of the channel enters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.audit.measure._measure import MeasureError
from sfumato.audit.measure._scores import (
    AttributeScores,
    Codes,
    Floats,
    majority_rate,
    mean_interval,
    plug_in_bias,
    plug_in_information,
    wilson,
)


@dataclass(frozen=True)
class BayesAttacker:
    """Joint distribution of attribute and donor over the training records."""

    joint: Floats

    @classmethod
    def learn(
        cls, substitution: npt.ArrayLike, codes: npt.ArrayLike, class_count: int
    ) -> BayesAttacker:
        """From the training records' rows P(donor | x) and their classes."""
        rows, truth = _checked(substitution, codes)
        joint = np.zeros((class_count, rows.shape[1]))
        for code in range(class_count):
            joint[code] = rows[truth == code].sum(0, dtype=np.float64)
        return cls(joint / len(rows))

    @property
    def prior(self) -> Floats:
        total: Floats = self.joint.sum(1)
        return total

    @property
    def posterior(self) -> Floats:
        """P(S = s | donor k); donors that are never drawn get the prior."""
        mass = self.joint.sum(0)
        usual = np.repeat(self.prior[:, None], len(mass), axis=1)
        posterior: Floats = np.divide(self.joint, mass, out=usual, where=mass > 0)
        return posterior

    def score(self, substitution: npt.ArrayLike, codes: npt.ArrayLike) -> AttributeScores:
        """Expected success on other records whose rows are ``substitution``."""
        rows, truth = _checked(substitution, codes)
        if rows.shape[1] != self.joint.shape[1]:
            raise MeasureError(
                f"Expected rows over {self.joint.shape[1]} donors, got {rows.shape[1]}."
            )
        posterior, classes = self.posterior, len(self.joint)
        guess = posterior.argmax(0)
        likelihood = posterior / np.clip(self.prior, 1e-300, None)[:, None]
        fair_guess = likelihood.argmax(0)
        test = np.stack([rows[truth == code].sum(0, dtype=np.float64) for code in range(classes)])
        counts = np.bincount(truth, minlength=classes)
        hits = float(sum(test[code][guess == code].sum() for code in range(classes)))
        recall = [
            test[code][fair_guess == code].sum() / counts[code]
            for code in range(classes)
            if counts[code]
        ]
        joint = test / test.sum()
        return AttributeScores(
            accuracy=hits / len(truth),
            interval=wilson(hits, len(truth)),
            guessing=majority_rate(truth),
            balanced_accuracy=float(np.mean(recall)),
            auc=_expected_auc(posterior, joint),
            information=plug_in_information(joint),
            information_bias=plug_in_bias(classes, rows.shape[1], len(truth)),
            records=len(truth),
            classes=len(recall),
            balanced_interval=mean_interval(float(np.mean(recall)), counts[counts > 0]),
        )


def _expected_auc(posterior: Floats, joint: Floats) -> float:
    """AUC of the posterior as score where each donor carries a mass of each class."""
    areas = []
    for code, score in enumerate(posterior):
        positive, negative = joint[code], joint.sum(0) - joint[code]
        if positive.sum() <= 0 or negative.sum() <= 0:
            continue
        order = np.argsort(score, kind="stable")
        _, start = np.unique(score[order], return_index=True)
        wins = np.add.reduceat(positive[order], start) / positive.sum()
        losses = np.add.reduceat(negative[order], start) / negative.sum()
        below = np.concatenate([[0.0], np.cumsum(losses)[:-1]])
        areas.append(float((wins * (below + losses / 2)).sum()))
    return float(np.mean(areas)) if areas else 0.5


def _checked(substitution: npt.ArrayLike, codes: npt.ArrayLike) -> tuple[Floats, Codes]:
    rows, truth = np.asarray(substitution), np.asarray(codes, dtype=np.int64)
    if rows.ndim != 2 or len(rows) != len(truth) or len(truth) == 0:
        raise MeasureError(
            f"Expected a matrix (records, donors) with one class for each of its rows, got shape "
            f"{rows.shape} and {len(truth)} classes."
        )
    if not np.allclose(rows.sum(1), 1.0, atol=1e-3):
        raise MeasureError("Expected rows of probabilities that sum to 1, got something else.")
    return rows, truth
