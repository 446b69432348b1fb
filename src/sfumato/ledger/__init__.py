"""Budgets over time: who may still learn how much about a data set, and who has.

The ledger stores events, not epsilons, so that a better accountant can read them again years later.
"""

from sfumato.ledger._budget import ACCOUNTANT, Budget
from sfumato.ledger._chain import Entry, Export
from sfumato.ledger._errors import (
    BudgetExceededError,
    KeyConflictError,
    LedgerBusyError,
    LedgerError,
    TamperedError,
    UnguaranteedReleaseError,
)
from sfumato.ledger._history import HistoryRow, epsilon_in_words, history_as_csv
from sfumato.ledger._ledger import Ledger, Preview
from sfumato.ledger._reservation import ReleasedOutput, Reservation
from sfumato.ledger._spending import Spending, operator_name, spending
from sfumato.ledger._statement import Statement

__all__ = [
    "ACCOUNTANT",
    "Budget",
    "BudgetExceededError",
    "Entry",
    "Export",
    "HistoryRow",
    "KeyConflictError",
    "Ledger",
    "LedgerBusyError",
    "LedgerError",
    "Preview",
    "ReleasedOutput",
    "Reservation",
    "Spending",
    "Statement",
    "TamperedError",
    "UnguaranteedReleaseError",
    "epsilon_in_words",
    "history_as_csv",
    "operator_name",
    "spending",
]
