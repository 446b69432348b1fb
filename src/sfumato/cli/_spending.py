"""``--ledger`` and ``--dataset``: every release goes through the budget of its data set."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import typer

from sfumato.errors import SfumatoError

LEDGER = typer.Option(None, help="Ledger file or URL (or SFUMATO_LEDGER).")
DATASET = typer.Option(None, help="The data set's name in the ledger.")
KEY = typer.Option(None, help="The ledger's key, to release the same again.")
ACKNOWLEDGE = typer.Option(
    False,
    "--acknowledge-no-guarantee",
    help="Release against a finite budget although nothing is proven.",
)


def spending(
    ledger: str | None, dataset: str | None, *, key: str, acknowledged: bool
) -> Callable[[Any], AbstractContextManager[object]] | None:
    """What to enter with a promise before any noise is drawn; None when no data set is named."""
    if ledger is None and dataset is None:
        return None
    ledger = ledger or os.environ.get("SFUMATO_LEDGER")
    if ledger is None or dataset is None:
        raise SfumatoError("Expected --ledger and --dataset together, got only one of them.")
    from sfumato.ledger import Ledger

    book = Ledger.open(ledger)
    return lambda promise: book.spending(
        dataset, promise, key=key, acknowledge_no_guarantee=acknowledged
    )
