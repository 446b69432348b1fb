"""The state of the ledger: what a replay of its entries, checked one by one, adds up to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.ledger._budget import ALL, Budget
from sfumato.ledger._chain import GENESIS, Entry, check_follows
from sfumato.ledger._composition import must_be_planned, spent
from sfumato.ledger._errors import (
    BudgetExceededError,
    KeyConflictError,
    LedgerError,
    TamperedError,
)
from sfumato.ledger._reservation import ReleasedOutput, Reservation, ReservationRequest
from sfumato.privacy import Event, event_from_json, format_epsilon


@dataclass
class Account:
    """One data set: its budget and every release reserved so far, by key."""

    name: str
    budget: Budget
    reservations: dict[str, Reservation] = field(default_factory=dict)
    _events: dict[str, list[Event]] = field(default_factory=dict)

    def add(self, reservation: Reservation) -> None:
        if reservation.event is not None:
            for shard in self.budget.touched(reservation.records):
                self._events.setdefault(shard, []).append(reservation.event)
        self.reservations[reservation.key] = reservation

    def spent_by_shard(self) -> dict[str, float]:
        """Epsilon at the budget's delta, for each part of the data; reservations count in full."""
        budget = self.budget
        return {
            shard: spent(self._events.get(shard, ()), budget.delta, budget.relation)
            for shard in budget.touched(None)
        }

    def must_be_planned(self) -> bool:
        return any(must_be_planned(events) for events in self._events.values())

    def committed_only(self) -> Account:
        """The same data set as if only committed releases had happened (for display only)."""
        made = Account(self.name, self.budget)
        for reservation in self.reservations.values():
            if reservation.committed:
                made.add(reservation)
        return made

    def find(self, request: ReservationRequest) -> Reservation | None:
        """The reservation of an earlier, interrupted run of the same job, if there is one."""
        held = self.reservations.get(request.key)
        if held is None:
            return None
        if request.run != held.run:
            raise KeyConflictError(
                f"The key {request.key!r} of {self.name!r} already stands for another run (entry "
                f"{held.entry}): resume that run from its own journal, or choose a new key for "
                "this one, which draws anew and is counted anew."
            )
        if not request.same_release(held):
            raise KeyConflictError(
                f"The key {request.key!r} of {self.name!r} already stands for another release "
                f"({held.mechanism}, entry {held.entry}): resume that job with its own settings, "
                "or choose a new key for this one."
            )
        if held.committed and request.draws:
            raise KeyConflictError(
                f"The release with the key {request.key!r} of {self.name!r} is already committed "
                f"(entry {held.entry}): drawing noise again would be a second release, which needs "
                "its own key."
            )
        return held

    def after(self, request: ReservationRequest) -> float:
        """Epsilon of the worst-hit shard once ``request`` is added to everything before it."""
        budget = self.budget
        added = () if request.event is None else (request.event,)
        return max(
            spent((*self._events.get(shard, ()), *added), budget.delta, budget.relation)
            for shard in budget.touched(request.records)
        )

    def admit(self, request: ReservationRequest) -> None:
        """Raise unless ``request`` fits. A refusal stays right when the history grows further."""
        request.check_same_terms(self.name, self.budget)
        if request.event is None or not self.budget.finite:
            return
        total = self.after(request)
        if total <= self.budget.epsilon:
            return
        budget = self.budget
        would = "no finite epsilon" if math.isinf(total) else f"epsilon {format_epsilon(total)}"
        raise BudgetExceededError(
            f"Expected a release of {self.name!r} that keeps the total within epsilon "
            f"{budget.epsilon:g} at delta {budget.delta:g} ({budget.unit}, "
            f"{budget.relation.value}), got {request.promise['mechanism']}, which would bring it "
            f"to {would}: use more noise or fewer steps, or ask {budget.owner}. Nothing was drawn "
            "or recorded."
        )


class LedgerState:
    """All data sets, replayed from entries. Every entry is checked before it is believed."""

    def __init__(self) -> None:
        self.count = 0
        self.head = GENESIS
        self.accounts: dict[str, Account] = {}

    def extend(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            check_follows(entry, self.count, self.head)
            try:
                self._replay(entry, entry.content())
            except (KeyError, TypeError, AttributeError, SfumatoError) as error:
                # Well hashed and still senseless: written by something that is not sfumato.
                raise TamperedError(
                    f"Expected a {entry.kind!r} entry that this version of sfumato can read, got "
                    f"entry {entry.number} which it cannot ({error}): use the version that wrote "
                    "it, or restore the ledger from a copy."
                ) from None
            self.count, self.head = entry.number, entry.digest

    def account(self, dataset: str) -> Account:
        if dataset not in self.accounts:
            known = ", ".join(sorted(self.accounts)) or "none yet"
            raise LedgerError(
                f"Expected a data set of this ledger ({known}), got {dataset!r}: create it first "
                "with sfumato ledger create."
            )
        return self.accounts[dataset]

    def _replay(self, entry: Entry, body: dict[str, Any]) -> None:
        if entry.kind == "create":
            if entry.dataset in self.accounts or entry.key:
                raise LedgerError("it creates a data set that is already there")
            self.accounts[entry.dataset] = Account(entry.dataset, Budget.from_json(body["budget"]))
            return
        account = self.account(entry.dataset)
        held = account.reservations.get(entry.key)
        if entry.kind == "reserve":
            if held is not None:
                raise LedgerError("it reserves a key that is already there")
            account.add(_reservation(entry, body))
        elif entry.kind == "commit":
            if held is None or held.committed:
                raise LedgerError("it commits a key that is not open")
            digest = body.get("output_digest")
            account.reservations[entry.key] = replace(
                held,
                committed=True,
                committed_at=str(body["at"]),
                outputs=() if digest is None else (ReleasedOutput(None, str(digest)),),
            )
        elif entry.kind == "outputs":
            if held is None or not held.committed:
                raise LedgerError("it names outputs of a key that is not committed")
            outputs = tuple(ReleasedOutput.checked(**each) for each in body["outputs"])
            account.reservations[entry.key] = replace(held, outputs=outputs)
        else:
            raise LedgerError("its kind is unknown")


def _reservation(entry: Entry, body: dict[str, Any]) -> Reservation:
    promise, records = body["promise"], body["records"]
    if promise["type"] not in {"guarantee", "no-guarantee"}:
        raise LedgerError("its promise is of an unknown type")
    return Reservation(
        entry.dataset,
        entry.key,
        promise,
        None if records == ALL else frozenset(records),
        event_from_json(promise["event"]) if promise["type"] == "guarantee" else None,
        entry.number,
        entry.digest,
        run=body.get("run"),
        at=str(body["at"]),
        operator=body.get("operator"),
        purpose=body.get("purpose"),
    )
