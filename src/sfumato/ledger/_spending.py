"""What one run spends: reserved before any noise is drawn, and written into the history with its outputs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.ledger._ledger import Ledger
from sfumato.ledger._reservation import Reservation
from sfumato.privacy import read_card


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
        """Write into the history which outputs were let go, as the cards that bear its key say."""
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
