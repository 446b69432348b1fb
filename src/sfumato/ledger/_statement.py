"""What is left of a budget, in words, as numbers and as a bar."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.ledger._budget import ACCOUNTANT, Budget
from sfumato.ledger._reservation import Reservation
from sfumato.ledger._state import Account
from sfumato.privacy import format_epsilon, format_factor

_SMALLEST_SHOWN = 1e-100


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The account of one data set at one moment.

    ``spent_epsilon`` is at the budget's delta, for its unit and relation, over the shard that was
    hit most, with reservations counted in full. ``committed_epsilon`` leaves out what is reserved
    but not committed; it is for display and decides nothing.
    """

    dataset: str
    budget: Budget
    spent_epsilon: float
    committed_epsilon: float
    by_shard: Mapping[str, float]
    releases: tuple[Reservation, ...]
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(cls, account: Account) -> Statement:
        by_shard = account.spent_by_shard()
        return cls(
            dataset=account.name,
            budget=account.budget,
            spent_epsilon=max(by_shard.values()),
            committed_epsilon=max(account.committed_only().spent_by_shard().values()),
            by_shard=by_shard,
            releases=tuple(account.reservations.values()),
            assumptions=_assumptions(account),
        )

    @property
    def remaining_epsilon(self) -> float:
        """A further release of at most this epsilon at delta 0 fits, up to rounding (basic composition).

        Others may fit although they are larger by themselves: events compose better than epsilons.
        """
        if not self.budget.finite:
            return math.inf
        return max(0.0, self.budget.epsilon - self.spent_epsilon)

    @property
    def pending(self) -> tuple[Reservation, ...]:
        return tuple(release for release in self.releases if not release.committed)

    @property
    def without_guarantee(self) -> tuple[Reservation, ...]:
        return tuple(release for release in self.releases if not release.guaranteed)

    @property
    def used(self) -> float:
        """Part of the budget's epsilon that is spent, between 0 and 1."""
        return _part(self.spent_epsilon, self.budget.epsilon)

    def bar(self, width: int = 40) -> str:
        """Committed, reserved and left, as one line of blocks."""
        committed, pending, left = self.segments(width)
        return "█" * committed + "▒" * pending + "░" * left

    def segments(self, width: int) -> tuple[int, int, int]:
        """Blocks for committed, reserved and left. What is spent is rounded up: never too few."""
        gone = min(width, math.ceil(self.used * width - 1e-9))
        solid = min(gone, math.floor(_part(self.committed_epsilon, self.budget.epsilon) * width))
        if not self.pending:
            solid = gone
        return solid, gone - solid, width - gone

    def __str__(self) -> str:
        return " ".join(self.sentences())

    def sentences(self) -> tuple[str, ...]:
        """The account for people, one idea a line."""
        budget = self.budget
        lines = [f"{self.dataset} belongs to {budget.owner}. {self._budget_words()}"]
        lines.append(self._spent_words())
        if budget.finite:
            lines.append(self._left_words())
        if self.pending:
            keys = ", ".join(release.key for release in self.pending)
            lines.append(
                f"Reserved but not committed, and counted as spent: {keys}. A job that was "
                "interrupted finds its reservation again by that key."
            )
        if self.without_guarantee:
            keys = ", ".join(release.key for release in self.without_guarantee)
            lines.append(
                f"NOT COVERED: {_times(len(self.without_guarantee))} without a guarantee ({keys}). "
                "No number here bounds what was given away by that."
            )
        if self.assumptions:
            lines.append(f"Assumes: {'; '.join(self.assumptions)}.")
        lines.append(
            f"Unit {budget.unit}, relation {budget.relation.value}, accountant {ACCOUNTANT}."
        )
        return tuple(lines)

    def _budget_words(self) -> str:
        budget = self.budget
        if not budget.finite:
            return (
                f"It has no limit: releases are only counted, at delta {budget.delta:g} for "
                f"{budget.unit.sentence}."
            )
        return (
            f"Everything released about it together may reach epsilon {budget.epsilon:g} at delta "
            f"{budget.delta:g} for {budget.unit.sentence}: the chance of any output may change by "
            f"a factor of at most {format_factor(budget.epsilon)} {budget.relation.sentence}."
        )

    def _spent_words(self) -> str:
        covered = len(self.releases) - len(self.without_guarantee)
        if covered == 0:
            return "Nothing has been spent yet."
        total = (
            "came to no finite epsilon"
            if math.isinf(self.spent_epsilon)
            else f"came to epsilon {format_epsilon(self.spent_epsilon)}"
        )
        shards = ""
        if self.budget.shards:
            costs = ", ".join(f"{name} {format_epsilon(e)}" for name, e in self.by_shard.items())
            shards = f" in the shard that was hit hardest (by shard: {costs})"
        together = "" if covered == 1 else " together"
        return f"So far {_times(covered)}{together} {total}{shards}."

    def _left_words(self) -> str:
        if self.spent_epsilon >= self.budget.epsilon:
            return "Nothing is left: every further release that costs anything will be refused."
        left = _rounded_down(self.remaining_epsilon)
        percent = math.floor(100 * (1 - self.used) + 1e-9)
        return (
            f"{percent or 'Less than 1'} % is left: a further release of epsilon up to {left} at delta 0 fits "
            "(up to the accountant's rounding), and a larger one may, because events are composed "
            "and not epsilons added."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "budget": self.budget.to_json(),
            "spent_epsilon": _finite(self.spent_epsilon),
            "committed_epsilon": _finite(self.committed_epsilon),
            "remaining_epsilon": _finite(self.remaining_epsilon),
            "by_shard": {name: _finite(value) for name, value in self.by_shard.items()},
            "accountant": ACCOUNTANT,
            "releases": [release.to_json() for release in self.releases],
            "assumptions": list(self.assumptions),
            "without_guarantee": len(self.without_guarantee),
            "statement": str(self),
        }


def _assumptions(account: Account) -> tuple[str, ...]:
    found = []
    if account.budget.shards:
        found.append(
            f"no unit ({account.budget.unit}) has data in two of the shards "
            f"{', '.join(account.budget.shards)}"
        )
    if account.must_be_planned():
        found.append(
            "noise and steps of a release were not chosen by looking at the outputs of earlier ones"
        )
    return tuple(found)


def _part(epsilon: float, whole: float) -> float:
    if math.isinf(epsilon):
        return 1.0
    return 0.0 if math.isinf(whole) else min(1.0, epsilon / whole)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded_down(value: float) -> str:
    """Three significant digits towards zero: what is left is never overstated."""
    if value < _SMALLEST_SHOWN:
        return "0"
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return f"{math.floor(value * scale) / scale:.6g}"


def _times(count: int) -> str:
    return "one release" if count == 1 else f"{count} releases"
