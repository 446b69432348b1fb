"""``--ledger`` and ``--dataset``: every release goes through the budget of its data set."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.ledger import Spending

_NOBODY = "-"


def spending(
    ledger: str | None,
    dataset: str | None,
    *,
    key: str | None,
    acknowledged: bool,
    verb: str = "release",
    operator: str | None = None,
    purpose: str | None = None,
) -> Spending | None:
    """What to enter with a promise before any noise is drawn; None when no ledger is named.

    Without ``key``, the reservation's name in the ledger is the verb and the id of the run.
    """
    ledger = ledger or os.environ.get("SFUMATO_LEDGER") or None
    if ledger is None and dataset is None:
        if purpose is not None or operator is not None:
            raise SfumatoError(
                "Expected a ledger for --purpose and --operator, got none: they stand in its history. "
                "Name it with --ledger and --dataset, or leave both out."
            )
        return None
    if ledger is None:
        raise SfumatoError(
            "Expected a ledger for --dataset, got none: name it with --ledger or SFUMATO_LEDGER."
        )
    if dataset is None:
        raise SfumatoError(
            "Expected --dataset with the ledger (--ledger or SFUMATO_LEDGER), got none: name the "
            "data set whose budget this counts against, or unset SFUMATO_LEDGER to release outside "
            "every budget."
        )
    if key is not None and ("/" in key or "\\" in key):
        raise SfumatoError(
            f"Expected a --key without slashes, got {key!r}: it stands on the card, which shows no "
            "paths."
        )
    from sfumato.ledger import Ledger, Spending

    return Spending(
        Ledger.open(ledger), dataset, key, acknowledged, verb, operator_name(operator), purpose
    )


def operator_name(named: str | None) -> str | None:
    """Who releases: the name that was given, else that of the user who runs this."""
    if named is not None:
        return None if named == _NOBODY else named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without users
        return None
