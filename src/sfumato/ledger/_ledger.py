"""The ledger itself: reserve before any noise is drawn, commit when the output is released."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.errors import needs_extra
from sfumato.ledger._budget import ALL, Budget, checked_name
from sfumato.ledger._chain import Entry, Export
from sfumato.ledger._errors import (
    BudgetExceededError,
    KeyConflictError,
    LedgerError,
    UnguaranteedReleaseError,
)
from sfumato.ledger._history import HistoryRow, history_of
from sfumato.ledger._reservation import (
    ReleasedOutput,
    Reservation,
    ReservationRequest,
    plain_records,
)
from sfumato.ledger._state import Account, LedgerState
from sfumato.ledger._statement import Statement
from sfumato.privacy import Guarantee, NoGuarantee, Relation, Unit

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sfumato.ledger._storage import Storage

_TIMEOUT = 60.0
# Composing may take seconds, so it is first done without the lock; after this many lost races it is
# done while holding it, so that everybody gets a turn.
_OPTIMISTIC_TRIES = 2


@dataclass(frozen=True)
class Preview:
    """What a release would do to the budget. ``refusal`` is None if it fits."""

    before: float
    after: float
    refusal: str | None

    @property
    def fits(self) -> bool:
        return self.refusal is None


class Ledger:
    """Budgets of data sets and everything ever released about them.

    | case | what happens |
    | --- | --- |
    | the total would exceed the budget | ``BudgetExceededError``, nothing recorded |
    | crash between reserve and commit | the budget stays spent |
    | same key, same run, same release, not committed | the same reservation again, nothing spent twice |
    | same key, another run or release; or already committed | ``KeyConflictError`` |
    | unit or relation differs from the budget's | ``UnitMismatchError`` naming both |
    | no guarantee, or noise from a seed, finite budget | refused unless acknowledged; recorded |
    | an entry was changed, removed or moved | ``TamperedError``, nothing recorded |

    There is no way to give a reservation back: the ledger cannot know that nothing was drawn.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @classmethod
    def open(cls, target: str | Path, *, timeout: float = _TIMEOUT) -> Ledger:
        """A ledger at a path (SQLite file) or a ``sqlite:///`` or ``postgresql://`` URL.

        Nothing is written before :meth:`create`. ``timeout`` is how many seconds to wait for others.
        """
        with needs_extra("sqlalchemy", "ledger", "A ledger"):
            from sfumato.ledger._storage import Storage

        return cls(Storage(target, timeout=timeout))

    def __repr__(self) -> str:
        return f"Ledger({self._storage.name!r})"

    def create(
        self,
        dataset: str,
        *,
        owner: str,
        epsilon: float,
        delta: float,
        unit: Unit | str,
        relation: Relation | str,
        shards: Collection[str] = (),
    ) -> Statement:
        """Enter a data set with its budget. Neither can be changed afterwards."""
        checked_name("data set", dataset)
        if isinstance(shards, str):
            raise LedgerError(f"Expected a list of shards, got the one string {shards!r}.")
        budget = Budget(
            owner=owner,
            epsilon=epsilon,
            delta=delta,
            unit=Unit.parse(unit),
            relation=Relation.parse(relation),
            shards=tuple(shards),
        )
        with self._storage.laying_out() as connection:
            state = self._replayed(connection)
            if dataset in state.accounts:
                raise LedgerError(
                    f"Expected a new data set, but {dataset!r} is already in this ledger and a "
                    "budget is never changed: choose another name, or see sfumato ledger show."
                )
            alike = [name for name in state.accounts if name.casefold() == dataset.casefold()]
            if alike:
                raise LedgerError(
                    f"Expected a name unlike those of other data sets, got {dataset!r} beside "
                    f"{alike[0]!r}: a slip in one letter's case would spend another budget. Choose "
                    "another name."
                )
            self._append(connection, state, dataset, "create", "", {"budget": budget.to_json()})
            return Statement.of(state.account(dataset))

    def reserve(
        self,
        dataset: str,
        promise: Guarantee | NoGuarantee,
        *,
        key: str,
        run: str | None = None,
        records: str | Collection[str] = ALL,
        acknowledge_no_guarantee: bool = False,
        draws: bool = True,
        operator: str | None = None,
        purpose: str | None = None,
    ) -> Reservation:
        """Count a release as spent, or refuse it. Call this before any noise is drawn.

        ``key`` is the reservation's name in the ledger. ``run`` is the random id of the run
        (``sfumato.privacy.new_run_id``), written to the run's journal before this is called: a
        resume of that journal finds its reservation again, and a fresh start, which has another
        id, never does (R20). Without ``run``, whoever keeps the key answers for using it once.
        ``draws=False`` says that everything was drawn before: a committed reservation is then found
        again, so that a run that died between its commit and its output can write the output.
        ``records`` is ``all`` or the declared shards that the release touches. ``operator`` and
        ``purpose`` stand in the history and decide nothing; of a resumed run, the first ones stay.
        """
        request = ReservationRequest.of(
            promise,
            key=key,
            records=records,
            acknowledged=acknowledge_no_guarantee,
            run=run,
            draws=draws,
            operator=operator,
            purpose=purpose,
        )
        state = self._read()
        for attempt in range(_OPTIMISTIC_TRIES + 1):
            locked_decision = attempt == _OPTIMISTIC_TRIES
            # A refusal from a stale view is final: histories only grow, and so does what is spent.
            if not locked_decision and (found := _decide(state.account(dataset), request)):
                return found
            seen = len(state.account(dataset).reservations)
            with self._storage.writing() as connection:
                state.extend(self._storage.entries(connection, after=state.count))
                account = state.account(dataset)
                if locked_decision and (found := _decide(account, request)):
                    return found
                if locked_decision or len(account.reservations) == seen:
                    body: dict[str, Any] = {
                        "promise": dict(request.promise),
                        "records": plain_records(request.records),
                        "acknowledged_no_guarantee": request.event is None and request.acknowledged,
                    }
                    said = {name: getattr(request, name) for name in ("run", "operator", "purpose")}
                    body |= {name: value for name, value in said.items() if value is not None}
                    self._append(connection, state, dataset, "reserve", request.key, body)
                    return account.reservations[request.key]
        raise AssertionError("the last attempt decides while it holds the lock")

    def commit(
        self,
        reservation: Reservation | str,
        *,
        dataset: str | None = None,
        output_digest: str | None = None,
        only_once: bool = False,
    ) -> Reservation:
        """Record that the reserved release was released. Doing it twice records it once.

        Call it when the output is complete and durable, before anybody else can see it.
        ``output_digest`` ties the entry to the output (never give a digest of an input).
        ``only_once`` refuses the second time: for a run that drew its own noise.
        """
        if isinstance(reservation, Reservation):
            key, dataset = reservation.key, reservation.dataset
        else:
            key = reservation
        state = self._read()  # the long part, before anybody has to wait
        with self._storage.writing() as connection:
            state.extend(self._storage.entries(connection, after=state.count))
            held = _held(state, key, dataset)
            if isinstance(reservation, Reservation) and held.digest != reservation.digest:
                raise LedgerError(f"The reservation {key!r} was made in another ledger.")
            if held.committed and only_once:
                raise KeyConflictError(
                    f"The release with the key {key!r} of {held.dataset!r} was committed by another "
                    "process while this one drew its own noise: a copy of the run's folder was "
                    "resumed beside it. Only one of the two is counted, so this one is not released."
                )
            if held.committed:
                return held
            body = {"reservation": held.entry, "output_digest": output_digest}
            self._append(connection, state, held.dataset, "commit", key, body)
            return _held(state, key, held.dataset)

    def record_outputs(
        self,
        key: str,
        outputs: Iterable[tuple[str, str]],
        *,
        dataset: str | None = None,
    ) -> Reservation:
        """Write down what a committed release published: the name and SHA-256 of every output.

        It is an entry of its own, because a model is written after its commit. Said once; a second
        time it must be the same.
        """
        named = tuple(ReleasedOutput.checked(*each) for each in sorted(outputs))
        if not named:
            raise LedgerError("Expected at least one output that was released, got none.")
        state = self._read()
        with self._storage.writing() as connection:
            state.extend(self._storage.entries(connection, after=state.count))
            held = _held(state, key, dataset)
            if not held.committed:
                raise LedgerError(
                    f"Expected a committed release to name outputs of, but {key!r} of "
                    f"{held.dataset!r} is only reserved: commit it first."
                )
            if held.outputs == named:
                return held
            if held.outputs and held.outputs[0].name is not None:
                raise KeyConflictError(
                    f"The release with the key {key!r} of {held.dataset!r} already names other "
                    "outputs: what is released beside them is another release with its own key."
                )
            body = {"outputs": [vars(each) for each in named]}
            self._append(connection, state, held.dataset, "outputs", key, body)
            return _held(state, key, held.dataset)

    @contextmanager
    def spending(
        self,
        dataset: str,
        promise: Guarantee | NoGuarantee,
        *,
        draws: bool = True,
        **asked: Any,
    ) -> Iterator[Reservation]:
        """Reserve before the block, commit after it; if the block raises, the budget stays spent.

        ``asked`` is what :meth:`reserve` takes. Of two copies of one run that both draw, the second to
        end is refused: it is another release.
        """
        held = self.reserve(dataset, promise, draws=draws, **asked)
        yield held
        self.commit(held, only_once=draws)

    def preview(
        self,
        dataset: str,
        promise: Guarantee | NoGuarantee,
        *,
        records: str | Collection[str] = ALL,
        acknowledge_no_guarantee: bool = False,
    ) -> Preview:
        """What :meth:`reserve` would say now, without recording anything (``--dry-run``)."""
        request = ReservationRequest.of(
            promise, key="preview", records=records, acknowledged=acknowledge_no_guarantee
        )
        account = self._read().account(dataset)
        before = max(account.spent_by_shard().values())
        try:
            account.admit(request)
        except (BudgetExceededError, UnguaranteedReleaseError) as error:
            return Preview(before, max(before, account.after(request)), str(error))
        return Preview(before, max(before, account.after(request)), None)

    def find(self, key: str, *, dataset: str | None = None) -> Reservation:
        """The reservation with this key, open or committed."""
        return _held(self._read(), key, dataset)

    def counts(self, dataset: str, run: str) -> bool:
        """Whether a release of this run is counted against ``dataset`` already."""
        held = self._read().account(dataset).reservations.values()
        return any(reservation.run == run for reservation in held)

    def show(self, dataset: str) -> Statement:
        """What was allowed, what is spent and what is left."""
        return Statement.of(self._read().account(dataset))

    def list(self) -> tuple[Statement, ...]:
        """The statements of all data sets, by name."""
        accounts = self._read().accounts
        return tuple(Statement.of(accounts[name]) for name in sorted(accounts))

    def history(self, dataset: str | None = None) -> tuple[HistoryRow, ...]:
        """Every release, the oldest first: of one data set, or of all."""
        state = self._read()
        accounts = state.accounts.values() if dataset is None else [state.account(dataset)]
        return history_of(accounts)

    def export(self) -> Export:
        """The whole chain with count and head. Keep it where the ledger's writers cannot reach."""
        with self._storage.reading() as connection:
            export = Export.of(self._storage.entries(connection))
        LedgerState().extend(export.entries)
        return export

    def verify(self, *, count: int | None = None, head: str | None = None) -> Export:
        """Check every entry; with an earlier ``count`` and ``head``, also that nothing was cut.

        Without them a chain that was cut at its end, or rewritten as a whole by somebody who can
        write to the database, looks sound: only what was noted elsewhere shows it.
        """
        if (count is None) != (head is None):
            raise LedgerError("Expected count and head together, got only one of them.")
        export = self.export()
        if count is not None and head is not None:
            export.check_holds(count, head)
        return export

    def _read(self) -> LedgerState:
        with self._storage.reading() as connection:
            return self._replayed(connection)

    def _replayed(self, connection: Connection) -> LedgerState:
        state = LedgerState()
        state.extend(self._storage.entries(connection))
        return state

    def _append(
        self,
        connection: Connection,
        state: LedgerState,
        dataset: str,
        kind: str,
        key: str,
        body: dict[str, Any],
    ) -> None:
        stamped = {
            **body,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "sfumato": __version__,
        }
        entry = Entry.after(
            state.count, state.head, dataset=dataset, kind=kind, key=key, body=stamped
        )
        state.extend([entry])
        self._storage.append(connection, entry)


def _decide(account: Account, request: ReservationRequest) -> Reservation | None:
    """An earlier reservation of the same job, or None if a new one fits; raises if it does not."""
    found = account.find(request)
    if found is None:
        account.admit(request)
    return found


def _held(state: LedgerState, key: str, dataset: str | None) -> Reservation:
    accounts = state.accounts.values() if dataset is None else [state.account(dataset)]
    found = [held for account in accounts if (held := account.reservations.get(key))]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(held.dataset for held in found)
        raise LedgerError(f"The key {key!r} stands in several data sets ({names}): name the one.")
    raise LedgerError(
        f"Expected the key of a reservation{f' of {dataset!r}' if dataset else ''}, got {key!r}: "
        "reserve it first."
    )
