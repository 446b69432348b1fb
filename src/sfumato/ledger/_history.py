"""Every release in the order of its reservation: who released what, when, why and at what price."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.ledger._composition import spent
from sfumato.ledger._reservation import Reservation
from sfumato.ledger._state import Account
from sfumato.privacy import format_epsilon

# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
COLUMNS = (
    "date", "data set", "key", "method", "epsilon alone", "total after", "epsilons are for",
    "operator", "purpose", "state", "outputs", "sha256", "entry",
)  # fmt: skip


@dataclass(frozen=True)
class HistoryRow:
    """One release. ``alone`` is its epsilon by itself, ``total`` that of everything so far, both on the
    ``terms`` of the budget; None where the release has no guarantee and no number covers it."""

    release: Reservation
    alone: float | None
    total: float
    terms: str

    @property
    def state(self) -> str:
        return "released" if self.release.committed else "reserved, not released"

    def to_json(self) -> dict[str, Any]:
        epsilons = {"epsilon_alone": self.alone, "epsilon_total": self.total}
        return (
            self.release.to_json()
            | {"terms": self.terms}
            | {
                name: value if value is not None and math.isfinite(value) else None
                for name, value in epsilons.items()
            }
        )

    def in_words(self) -> dict[str, str]:
        """Every column with its cell."""
        return dict(zip(COLUMNS, self.cells(), strict=True))

    def cells(self) -> tuple[str, ...]:
        """In the order of ``COLUMNS``, as words."""
        held = self.release
        return (
            held.at.replace("+00:00", "Z"),
            held.dataset,
            held.key,
            held.mechanism,
            "none" if self.alone is None else epsilon_in_words(self.alone),
            epsilon_in_words(self.total),
            self.terms,
            held.operator or "",
            held.purpose or "",
            self.state,
            "; ".join(each.name or "(not named)" for each in held.outputs),
            "; ".join(each.sha256 for each in held.outputs),
            str(held.entry),
        )


def epsilon_in_words(value: float) -> str:
    return "no limit" if math.isinf(value) else format_epsilon(value)


def history_of(accounts: Iterable[Account]) -> tuple[HistoryRow, ...]:
    rows = []
    for account in accounts:
        budget, so_far = account.budget, Account(account.name, account.budget)
        for held in sorted(account.reservations.values(), key=lambda each: each.entry):
            so_far.add(held)
            alone = (
                None if held.event is None else spent((held.event,), budget.delta, budget.relation)
            )
            rows.append(
                HistoryRow(held, alone, max(so_far.spent_by_shard().values()), budget.terms)
            )
    return tuple(sorted(rows, key=lambda row: row.release.entry))


def history_as_csv(rows: Sequence[HistoryRow]) -> str:
    """A table for a spreadsheet; a cell that it would run as a formula is quoted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in row.cells())
    return text.getvalue()
