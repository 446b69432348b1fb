"""The loss of PASS with its gradient, in closed form (SOUNDNESS 4.1, with the signs of H1).

    L = sum_S L_S + lambda sum_U L_U + mu L_X
    L_S = - sum_s P(s) H(p_s),          p_s = mean of the rows with S = s
    L_U = log|U| mean_i -log sum_k P_ik 1[u'_k = u_i]
    L_X = mean_i H(P_i)

All logarithms are natural. H(p_s) is estimated over an ``EntropyBank``, not over the batch: from
n_s near one-hot rows the plug-in entropy is at most log n_s plus the mean row entropy (H9), so on
a batch of 128 the term saturates far below log K and stops teaching.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

_TINY = 1e-12


@dataclass(frozen=True)
class UsefulBatch:
    """A useful attribute: its number of classes and who of the donors matches which record."""

    class_count: int
    match: Tensor


@dataclass(frozen=True)
class LossTerms:
    """The three parts of the loss in nats; ``total`` is what Theorem 4.1 bounds with."""

    private: tuple[float, ...]
    useful: tuple[float, ...]
    general: float

    def total(self, lambda_: float, mu: float) -> float:
        return sum(self.private) + lambda_ * sum(self.useful) + mu * self.general


class EntropyBank:
    """Running estimate of p_s over the whole training set, one row a class.

    Each step mixes the batch's own p_s in with weight ``rate``; ``rate=1`` forgets everything
    else and is the published estimate over the batch alone.
    """

    def __init__(self, rows: Tensor, priors: Tensor, rate: float) -> None:
        self.rows = rows.clone()
        self.priors = priors
        self.rate = rate

    def mix(self, batch_rows: Tensor, counts: Tensor) -> None:
        """Classes absent from the batch keep their row."""
        rate = torch.where(counts > 0, self.rate, 0.0).to(self.rows.dtype)[:, None]
        self.rows = (1 - rate) * self.rows + rate * batch_rows

    def entropies(self) -> Tensor:
        return -(self.rows * self.rows.clamp(min=_TINY).log()).sum(1)


def class_rows(probabilities: Tensor, codes: Tensor, class_count: int) -> tuple[Tensor, Tensor]:
    """p_s = P(X' | S = s) for every class, and how many records each class has."""
    member = functional.one_hot(codes, class_count).to(probabilities.dtype)
    counts = member.sum(0)
    return (member / counts.clamp(min=1)).T @ probabilities, counts


def terms(
    probabilities: Tensor,
    private: Sequence[tuple[Tensor, int]],
    useful: Sequence[UsefulBatch],
) -> LossTerms:
    """The loss of a whole set of rows, exactly: no bank, no gradient."""
    per_private = []
    for codes, class_count in private:
        rows, counts = class_rows(probabilities, codes, class_count)
        entropies = -(rows * rows.clamp(min=_TINY).log()).sum(1)
        per_private.append(-float((counts / counts.sum() * entropies).sum()))
    per_useful = []
    for each in useful:
        kept = (probabilities * each.match).sum(1).clamp(min=_TINY)
        per_useful.append(math.log(each.class_count) * float(-kept.log().mean()))
    rows_entropy = -(probabilities * probabilities.clamp(min=_TINY).log()).sum(1)
    return LossTerms(tuple(per_private), tuple(per_useful), float(rows_entropy.mean()))


def loss_and_gradient(
    log_p: Tensor,
    private: Sequence[tuple[Tensor, EntropyBank]],
    useful: Sequence[UsefulBatch],
    *,
    lambda_: float,
    mu: float,
) -> tuple[LossTerms, Tensor]:
    """Terms of a batch and the gradient of the loss by the logits (before division by tau).

    With the bank's row q_s in place of p_s, d(-H(p_s))/dP_ik = (1 + log q_sk)/n_s for i in s: the
    gradient of the whole-data objective, to the extent that the bank is fresh. The softmax turns
    a derivative d by P into P (d - sum P d), so that the constant 1 vanishes. Weights n_s/n of the batch turn 1/n_s into 1/n.
    """
    p = log_p.exp()
    row_entropy = -(p * log_p).sum(1)
    # one matrix of derivatives by P, centred and multiplied by P once at the end
    inner = log_p * -mu
    per_private = []
    for codes, bank in private:
        bank.mix(*class_rows(p, codes, len(bank.rows)))
        inner.add_(bank.rows.clamp(min=_TINY).log()[codes])
        per_private.append(-float((bank.priors * bank.entropies()).sum()))
    per_useful = []
    for each in useful:
        scale = math.log(each.class_count)
        kept = torch.linalg.vecdot(p, each.match).clamp(min=_TINY)
        per_useful.append(scale * float(-kept.log().mean()))
        inner.addcmul_(each.match, (-lambda_ * scale / kept)[:, None])
    inner.sub_(torch.linalg.vecdot(p, inner)[:, None])
    gradient = inner.mul_(p).div_(len(p))
    return LossTerms(tuple(per_private), tuple(per_useful), float(row_entropy.mean())), gradient
