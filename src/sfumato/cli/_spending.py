"""``--ledger`` and ``--dataset``: every release goes through the budget of its data set."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import typer

from sfumato.errors import SfumatoError

LEDGER = typer.Option(None, help="Ledger file or URL (or SFUMATO_LEDGER).")
DATASET = typer.Option(None, help="The data set's name in the ledger.")
KEY = typer.Option(None, help="A name for this release in the ledger (else a random one).")
ACKNOWLEDGE = typer.Option(
    False,
    "--acknowledge-no-guarantee",
    help="Release against a finite budget although nothing is proven.",
)


class Spend(Protocol):
    """Entered with a promise before any noise is drawn; ``run`` is the id in the run's journal.

    ``draws`` is False where everything was drawn before. ``earlier`` are releases that this one
    contains (the trainings of its starting weights), each with ``run`` and ``promise``.
    """

    def __call__(
        self,
        promise: Any,
        run: str | None = None,
        *,
        draws: bool = True,
        earlier: Iterable[Any] = (),
    ) -> AbstractContextManager[object]: ...


def spending(
    ledger: str | None,
    dataset: str | None,
    *,
    key: str | None,
    acknowledged: bool,
    verb: str = "release",
) -> Spend | None:
    """What to enter with a promise before any noise is drawn; None when no ledger is named.

    Without ``key``, the reservation's name in the ledger is the verb and the id of the run.
    """
    ledger = ledger or os.environ.get("SFUMATO_LEDGER") or None
    if ledger is None and dataset is None:
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
    from sfumato.ledger import Ledger

    book, named = Ledger.open(ledger), dataset

    def spend(
        promise: Any,
        run: str | None = None,
        *,
        draws: bool = True,
        earlier: Iterable[Any] = (),
    ) -> AbstractContextManager[object]:
        assert key is not None or run is not None, "an entry without a name of its own"
        for each in earlier:
            if not book.counts(named, each.run):
                with book.spending(
                    named,
                    each.promise,
                    key=f"{verb}-{each.run}",
                    run=each.run,
                    acknowledge_no_guarantee=acknowledged,
                    draws=False,
                ):
                    pass  # it is inside what is released now, wherever it was counted before
        return book.spending(
            named,
            promise,
            key=key or f"{verb}-{run}",
            run=run,
            acknowledge_no_guarantee=acknowledged,
            draws=draws,
        )

    return spend
