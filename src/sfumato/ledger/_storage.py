"""Where entries live: a SQLite file, or a PostgreSQL database that a team shares.

Both engines serialise writers on one lock for the whole ledger, make a commit durable before it
returns, and carry triggers that refuse to change or delete an entry. Every operation opens its own
connection, so a ledger may be used after a fork and from threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url

from sfumato.errors import MissingExtraError
from sfumato.ledger._chain import GENESIS, Entry
from sfumato.ledger._errors import LedgerBusyError, LedgerError, TamperedError

_TABLES = sa.MetaData()
_ENTRIES = sa.Table(
    "sfumato_ledger_entries",
    _TABLES,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    # Two entries cannot follow the same one: the chain cannot fork even if the lock failed.
    sa.Column("previous", sa.Text, nullable=False, unique=True),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    sa.UniqueConstraint("dataset", "kind", "key"),
)
# One row. It is what writers lock on PostgreSQL, and it shows a tail that was simply deleted.
_HEAD = sa.Table(
    "sfumato_ledger_head",
    _TABLES,
    sa.Column("place", sa.Integer, sa.CheckConstraint("place = 1"), primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)

_SQLITE_TRIGGERS = tuple(
    f"CREATE TRIGGER sfumato_ledger_no_{verb.lower()} BEFORE {verb} ON sfumato_ledger_entries "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for verb in ("UPDATE", "DELETE")
)
_POSTGRES_TRIGGERS = (
    "CREATE OR REPLACE FUNCTION sfumato_ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
    "CREATE TRIGGER sfumato_ledger_no_change BEFORE UPDATE OR DELETE OR TRUNCATE "
    "ON sfumato_ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION sfumato_ledger_append_only()",
)
# Any fixed number: it only has to be the same for everybody who lays out the tables.
_LAYOUT_LOCK = 0x5F0A70
_LOCK_NOT_AVAILABLE = "55P03"
_UNDEFINED_TABLE = "42P01"


class Storage:
    """A database that holds one ledger."""

    def __init__(self, target: str | Path, *, timeout: float) -> None:
        self._url = _parsed(target)
        self._timeout = timeout
        self._sqlite = self._url.get_backend_name() == "sqlite"
        # The query of a URL may hold a password too, so only these parts are ever shown.
        self.name = (
            str(self._url.database)
            if self._sqlite
            else f"postgresql://{self._url.host or 'local'}/{self._url.database or ''}"
        )
        try:
            self._engine = sa.create_engine(
                self._url,
                poolclass=sa.NullPool,
                # a server without an encoding of its own would answer in bytes
                connect_args={"timeout": timeout}
                if self._sqlite
                else {"connect_timeout": 10, "client_encoding": "utf8"},
            )
        except ImportError:
            raise MissingExtraError("psycopg", "postgres", "A ledger on PostgreSQL") from None
        if self._sqlite:
            sa.event.listen(self._engine, "connect", _durable_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view of the entries."""
        level = {} if self._sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._explained(), self._existing().execution_options(**level).begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Alone with the ledger until the block ends; then everything is durable or nothing is."""
        with self._explained(), self._existing().execution_options(writes=True).begin() as held:
            self._lock(held)
            yield held

    @contextmanager
    def laying_out(self) -> Iterator[Connection]:
        """Like :meth:`writing`, and makes the tables first if they are not there."""
        if self._sqlite and not Path(str(self._url.database)).parent.is_dir():
            raise LedgerError(
                f"Expected a folder for the ledger {self.name!r}, found none: make it first."
            )
        with self._explained(), self._engine.execution_options(writes=True).begin() as connection:
            if not self._sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LAYOUT_LOCK)))
            if not sa.inspect(connection).has_table(_ENTRIES.name):
                _TABLES.create_all(connection)
                for statement in _SQLITE_TRIGGERS if self._sqlite else _POSTGRES_TRIGGERS:
                    connection.exec_driver_sql(statement)
                connection.execute(_HEAD.insert().values(place=1, count=0, digest=GENESIS))
            self._lock(connection)
            yield connection

    def entries(self, connection: Connection, *, after: int = 0) -> list[Entry]:
        """Entries with a number above ``after``, in order, agreeing with the recorded end."""
        query = sa.select(_ENTRIES).where(_ENTRIES.c.number > after).order_by(_ENTRIES.c.number)
        found = [Entry(**row) for row in connection.execute(query).mappings()]
        end = connection.execute(sa.select(_HEAD.c.count, _HEAD.c.digest)).one_or_none()
        if end is None or (found and (found[-1].number, found[-1].digest) != tuple(end)):
            raise TamperedError(
                f"Expected the ledger {self.name!r} to end where its last writer left it, got "
                "another end: entries were added or removed by hand. Restore it from a copy."
            )
        if not found and end[0] != after:
            raise TamperedError(
                f"Expected {end[0]} entries in the ledger {self.name!r}, got {after}: entries were "
                "removed. Restore it from a copy."
            )
        return found

    def append(self, connection: Connection, entry: Entry) -> None:
        """Add ``entry`` as the new end; only inside :meth:`writing`."""
        connection.execute(_ENTRIES.insert().values(**asdict(entry)))
        moved = connection.execute(
            _HEAD.update()
            .where(_HEAD.c.count == entry.number - 1, _HEAD.c.digest == entry.previous)
            .values(count=entry.number, digest=entry.digest)
        )
        if moved.rowcount != 1:
            raise TamperedError(f"The end of the ledger {self.name!r} moved while it was locked.")

    def _existing(self) -> sa.Engine:
        if self._sqlite and not Path(str(self._url.database)).is_file():
            raise _no_ledger(self.name)
        return self._engine

    def _lock(self, connection: Connection) -> None:
        """SQLite holds the file's write lock since BEGIN IMMEDIATE; PostgreSQL locks the one row."""
        if self._sqlite:
            return
        # A server may be set up to acknowledge before it has written; a budget cannot be.
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(self._timeout * 1000)}")
        connection.execute(sa.select(_HEAD.c.count).with_for_update())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn database errors into one sentence; their own text may quote the address."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            if state == _UNDEFINED_TABLE or "no such table" in str(error.orig):
                raise _no_ledger(self.name) from None
            if state == _LOCK_NOT_AVAILABLE or "database is locked" in str(error.orig):
                raise LedgerBusyError(
                    f"Expected the ledger {self.name!r} to be free within {self._timeout:g} s, but "
                    "somebody held it: nothing was recorded, try again."
                ) from None
            reason = str(error.orig) if self._sqlite else f"{type(error.orig).__name__}, {state}"
            hint = (
                "check the path and its permissions"
                if self._sqlite
                else "check server, user and password"
            )
            raise LedgerError(
                f"Expected a ledger that can be read and written at {self.name!r}, got a database "
                f"error ({reason}): {hint}, then run the same command with the same key again."
            ) from None


def _parsed(target: str | Path) -> URL:
    text = str(target)
    if "://" not in text:
        url = URL.create("sqlite", database=text)
    else:
        try:
            url = make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            raise LedgerError(
                "Expected a path or a URL such as postgresql://user@host/name for the ledger, got "
                "something that is neither."
            ) from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise LedgerError(
            "Expected a ledger on sqlite or postgresql, got one on "
            f"{url.get_backend_name()}: use a path or a postgresql:// URL."
        )
    if url.database in {None, "", ":memory:"} or str(url.database).startswith("file:"):
        raise LedgerError(
            "Expected a file for the ledger, got memory: a budget must outlive a run."
        )
    return url.set(drivername="sqlite+pysqlite")


def _durable_sqlite(connection: object, _record: object) -> None:
    """EXTRA syncs the folder too: a commit that returned survives a power cut, in any journal mode."""
    connection.isolation_level = None  # type: ignore[attr-defined]
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA synchronous = EXTRA")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Writers take the lock before they read, so that nothing they read can be out of date."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _no_ledger(name: str) -> LedgerError:
    return LedgerError(
        f"Expected a ledger at {name!r}, found none: make one with sfumato ledger create."
    )
