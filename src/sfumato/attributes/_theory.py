"""What can be computed before (and after) training: how much utility privacy leaves room for.

All quantities are in nats and plug-in estimates from the labels at hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sfumato.attributes._tasks import AttributesError, AttributeTable, Task

Codes = npt.NDArray[np.int64]


def entropy(*columns: Codes) -> float:
    """Joint Shannon entropy of one or several columns of class numbers."""
    _, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())


def conditional_entropy(columns: Sequence[Codes], given: Codes) -> float:
    """H(U_1, ..., U_N | S)."""
    return entropy(*columns, given) - entropy(given)


def total_correlation(columns: Sequence[Codes]) -> float:
    """C(U) = sum_j H(U_j) - H(U_1, ..., U_N); zero for one attribute or independent ones."""
    return sum(entropy(column) for column in columns) - entropy(*columns)


def theorem_41_constant(
    useful_entropies: Sequence[float], *, private: int, donors: int, lambda_: float, mu: float
) -> float:
    """C with E[L^] + C >= L, corrected: lambda N ln 2 instead of lambda, and mu <= M (H2, H3).

    Beyond mu = M the step (M - mu) H(X') <= (M - mu) log K turns around and there is no bound.
    """
    if mu > private:
        raise AttributesError(
            f"Expected mu at most the number of private attributes ({private}), got {mu:g}: "
            "beyond it the loss no longer bounds the objective (Theorem 4.1)."
        )
    fano = lambda_ * len(useful_entropies) * math.log(2)
    return (private - mu) * math.log(donors) - lambda_ * sum(useful_entropies) + fano


@dataclass(frozen=True)
class Theory:
    """Theorems 4.1 and 4.2 with the numbers of one task, computed from labels alone."""

    private_entropies: Mapping[str, float]
    useful_entropies: Mapping[str, float]
    useful_given_private: Mapping[str, float]
    useful_total_correlation: float
    donors: int
    lambda_: float
    mu: float

    @classmethod
    def of(
        cls, table: AttributeTable, task: Task, *, donors: int, lambda_: float, mu: float
    ) -> Theory:
        code = {name: table.labels[name].numpy() for name in task.names}
        useful = [code[name] for name in task.useful]
        return cls(
            private_entropies={name: entropy(code[name]) for name in task.private},
            useful_entropies={name: entropy(code[name]) for name in task.useful},
            useful_given_private={
                name: conditional_entropy(useful, code[name]) for name in task.private
            },
            useful_total_correlation=total_correlation(useful),
            donors=donors,
            lambda_=lambda_,
            mu=mu,
        )

    @property
    def constant(self) -> float:
        """C of Theorem 4.1, corrected."""
        return theorem_41_constant(
            list(self.useful_entropies.values()),
            private=len(self.private_entropies),
            donors=self.donors,
            lambda_=self.lambda_,
            mu=self.mu,
        )

    def utility_bound(self, private: str, leaked: float = 0.0) -> float:
        """Theorem 4.2: sum_j I(X'; U_j) when at most ``leaked`` nats of ``private`` leak."""
        return leaked + self.useful_given_private[private] + self.useful_total_correlation

    def live_bound(self, loss: float) -> float:
        """Upper bound on the true objective of eq. 1 at a loss over the whole data."""
        return loss + self.constant

    def __str__(self) -> str:
        wanted = sum(self.useful_entropies.values())
        names = ", ".join(self.useful_entropies)
        lines = [
            f"Useful information asked for: sum of H(U) = {wanted:.3f} nats ({names}); "
            f"total correlation {self.useful_total_correlation:.3f}.",
        ]
        for name in self.private_entropies:
            bound = self.utility_bound(name)
            room = (
                "no utility need be lost"
                if bound >= wanted - 1e-9
                else f"at least {wanted - bound:.3f} nats of utility are lost"
            )
            lines.append(
                f"Hiding {name} completely (H(S) = {self.private_entropies[name]:.3f}): "
                f"H(U|S) = {self.useful_given_private[name]:.3f}, so sum of I(X';U) <= {bound:.3f} "
                f"(Theorem 4.2): {room}."
            )
        if self.mu <= len(self.private_entropies):
            lines.append(
                f"Theorem 4.1, corrected: objective <= loss + {self.constant:.3f} "
                f"(lambda {self.lambda_:g}, mu {self.mu:g}, {self.donors} donors)."
            )
        else:
            lines.append(
                f"Theorem 4.1 gives no bound at mu {self.mu:g} above the number of private "
                f"attributes ({len(self.private_entropies)})."
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class GuessBound:
    """Theorem B.1 for one attribute: about the attacker's guess, not about the release."""

    gamma: float

    @property
    def delta(self) -> float:
        """(0, sqrt(2 gamma)) for the averaged guess of an all-knowing attacker."""
        return math.sqrt(2 * self.gamma)

    def __str__(self) -> str:
        return (
            f"gamma = {self.gamma:.4f} nats, so two people's averaged guesses differ by at most "
            f"{min(1.0, self.delta):.3f} (Theorem B.1; empirical, not a bound, and not differential "
            "privacy of the release)"
        )


def guess_bound(probabilities: Tensor, codes: Tensor, class_count: int) -> GuessBound:
    """gamma = max over donors of KL(P(S | x') || P(S)), estimated from a substitution matrix."""
    member = torch.nn.functional.one_hot(codes, class_count).to(torch.float64)
    joint = member.T @ probabilities.to(torch.float64) / len(probabilities)
    prior = joint.sum(1, keepdim=True)
    mass = joint.sum(0, keepdim=True)
    used = mass[0] > 0
    posterior = joint[:, used] / mass[:, used]
    ratio = torch.where(posterior > 0, posterior / prior, torch.ones_like(posterior))
    return GuessBound(gamma=float((posterior * ratio.log()).sum(0).max().clamp(min=0)))
