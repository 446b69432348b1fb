"""Addresses: what is accepted, what is said when it does not work, and what is never said."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from sfumato.ledger import Ledger, LedgerBusyError, LedgerError

PASSWORD = "correct-horse"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ada:{PASSWORD}@127.0.0.1:1/ledger",
        f"postgresql+psycopg://ada@127.0.0.1:1/ledger?password={PASSWORD}",
        f"mysql://ada:{PASSWORD}@127.0.0.1/ledger",
        f"postgresql://ada:{PASSWORD}@host:not-a-port/ledger",
    ],
)
def test_a_password_is_never_shown(address: str) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(address).show("gym")
    shown = str(caught.value)
    assert PASSWORD not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_password_is_not_in_the_repr() -> None:
    assert PASSWORD not in repr(
        Ledger.open(f"postgresql://ada:{PASSWORD}@host/x?password={PASSWORD}")
    )


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:", ":memory:"])
def test_memory_is_no_place_for_a_budget(address: str) -> None:
    with pytest.raises(LedgerError, match="must outlive"):
        Ledger.open(address)


def test_reading_makes_no_file(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    for use in (ledger.list, ledger.export, lambda: ledger.show("gym")):
        with pytest.raises(LedgerError, match="found none"):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_a_ledger_says_so(address: str) -> None:
    with pytest.raises(LedgerError, match="found none"):
        Ledger.open(address).show("gym")


def test_a_database_without_an_encoding_serves_as_well(
    postgres_server: str, budget: dict[str, object]
) -> None:
    """As ``initdb`` makes it under ``LANG=C``."""
    server = sa.make_url(postgres_server).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    address = sa.make_url(postgres_server).set(database="plain").render_as_string()
    Ledger.open(address).create("Gehör", **{**budget, "owner": "Zoë"})  # type: ignore[arg-type]
    assert Ledger.open(address).show("Gehör").budget.owner == "Zoë"


def test_a_path_and_its_url_are_the_same_ledger(tmp_path: Path, ledger: Ledger) -> None:
    by_url = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert by_url.export() == ledger.export()
    assert [each.dataset for each in by_url.list()] == ["gym"]


def test_other_files_and_missing_folders_are_named(
    tmp_path: Path, budget: dict[str, object]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database " * 100)
    with pytest.raises(LedgerError, match="not a database"):
        Ledger.open(text).show("gym")
    with pytest.raises(LedgerError, match="not a database"):
        Ledger.open(text).create("gym", **budget)  # type: ignore[arg-type]
    assert text.read_text().startswith("not a database")
    with pytest.raises(LedgerError, match="Expected a folder"):
        Ledger.open(tmp_path / "none" / "ledger.db").create("gym", **budget)  # type: ignore[arg-type]
    empty = tmp_path / "empty.db"
    sqlite3.connect(empty).execute("CREATE TABLE other (x)").connection.commit()
    with pytest.raises(LedgerError, match="found none"):
        Ledger.open(empty).show("gym")


def test_a_ledger_held_by_somebody_else_is_refused_in_time(
    tmp_path: Path, ledger: Ledger, budget: dict[str, object]
) -> None:
    impatient = Ledger.open(tmp_path / "ledger.db", timeout=0.05)
    holder = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerBusyError, match="nothing was recorded"):
        impatient.create("pool", **budget)  # type: ignore[arg-type]
    holder.execute("ROLLBACK")
    holder.close()
    impatient.create("pool", **budget)  # type: ignore[arg-type]
    assert ledger.export().count == 2
