"""``--ledger`` and ``--dataset``: every release goes through the budget of its data set."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.ledger._ledger import Ledger
from sfumato.ledger._reservation import Reservation
from sfumato.privacy import read_card

_NOBODY = "-"


@dataclass
class Spending:
    """Entered with a promise before any noise is drawn; ``run`` is the id in the run's journal.

    ``draws`` is False where everything was drawn before. ``earlier`` are releases that this one
    contains (the trainings of its starting weights), each with ``run`` and ``promise``. What it is
    entered with becomes a reservation, whose key the card bears.
    """

    book: Ledger
    dataset: str
    key: str | None
    acknowledged: bool
    verb: str
    operator: str | None
    purpose: str | None
    keys: list[str] = field(default_factory=list)

    def __call__(
        self,
        promise: Any,
        run: str | None = None,
        *,
        draws: bool = True,
        earlier: Iterable[Any] = (),
    ) -> AbstractContextManager[Reservation]:
        assert self.key is not None or run is not None, "an entry without a name of its own"
        for each in earlier:
            if not self.book.counts(self.dataset, each.run):
                with self._entered(each.promise, f"{self.verb}-{each.run}", each.run, draws=False):
                    pass  # it is inside what is released now, wherever it was counted before
        key = self.key or f"{self.verb}-{run}"
        self.keys.append(key)
        return self._entered(promise, key, run, draws=draws)

    def _entered(
        self, promise: Any, key: str, run: str | None, *, draws: bool
    ) -> AbstractContextManager[Reservation]:
        return self.book.spending(
            self.dataset, promise, key=key, run=run, acknowledge_no_guarantee=self.acknowledged,
            draws=draws, operator=self.operator, purpose=self.purpose,
        )  # fmt: skip

    def record(self, outputs: Iterable[Path]) -> None:
        """Write into the history which outputs were released, as the cards that bear its key say."""
        cards = [read_card(path) for path in outputs] if self.keys else []
        for key in dict.fromkeys(self.keys):
            released = [
                (output.name, output.sha256)
                for card in cards
                if card.settings.get("ledger_key") == key
                for output in card.outputs
            ]
            if released and self.book.find(key, dataset=self.dataset).committed:
                self.book.record_outputs(key, released, dataset=self.dataset)


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
        if purpose is not None or operator is not None or key is not None or acknowledged:
            raise SfumatoError(
                "Expected a ledger for --purpose, --operator, --key and --acknowledge-no-guarantee, got "
                "none: they stand in its history. Name it with --ledger and --dataset, or leave them out."
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
