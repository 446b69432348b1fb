"""What a ledger refuses, each kind by its own name."""

from __future__ import annotations

from sfumato.errors import SfumatoError


class LedgerError(SfumatoError):
    """The ledger cannot do what was asked."""


class BudgetExceededError(LedgerError):
    """The release would exceed the budget; nothing was recorded and no noise may be drawn."""


class UnguaranteedReleaseError(LedgerError):
    """A release without a guarantee met a finite budget and nobody acknowledged it."""


class KeyConflictError(LedgerError):
    """The idempotency key already stands for something else, or for a finished release."""


class LedgerBusyError(LedgerError):
    """Somebody else held the ledger for longer than the time limit; nothing was recorded."""


class TamperedError(LedgerError):
    """An entry was changed, removed, inserted or moved, or the end of the chain was cut off."""
