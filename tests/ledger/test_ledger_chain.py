"""Whatever is done to the entries behind the ledger's back shows."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sfumato.ledger import Entry, Export, Ledger, LedgerError, TamperedError
from sfumato.ledger._chain import GENESIS
from sfumato.privacy import Guarantee

TABLE = "sfumato_ledger_entries"
Promise = Callable[..., Guarantee]


@pytest.fixture
def path(tmp_path: Path, ledger: Ledger, promise: Promise) -> Path:
    """A file with seven entries."""
    for key in ("a", "b", "c"):
        ledger.commit(ledger.reserve("gym", promise(), key=key))
    return tmp_path / "ledger.db"


def forge(path: Path, *statements: str) -> None:
    """What somebody with write access and no scruples can do."""
    with sqlite3.connect(path) as connection:
        for verb in ("update", "delete"):
            connection.execute(f"DROP TRIGGER sfumato_ledger_no_{verb}")
        for statement in statements:
            connection.execute(statement)


def one_change_each(chain: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every single edit, removal, doubling and exchange of neighbours."""
    for index in range(len(chain["entries"])):
        for field in fields(Entry):
            forged = copy.deepcopy(chain)
            value = forged["entries"][index][field.name]
            if isinstance(value, dict):
                value["sfumato"] += "0"
            else:
                forged["entries"][index][field.name] = value + (
                    1 if isinstance(value, int) else "0"
                )
            yield f"edit {field.name} of {index}", forged
        forged = copy.deepcopy(chain)
        del forged["entries"][index]
        yield f"remove {index}", forged
        forged = copy.deepcopy(chain)
        forged["entries"].insert(index, forged["entries"][index])
        yield f"double {index}", forged
        if index:
            forged = copy.deepcopy(chain)
            pair = forged["entries"][index - 1 : index + 1]
            forged["entries"][index - 1 : index + 1] = pair[::-1]
            yield f"exchange {index - 1} and {index}", forged
    for field_name, value in (("count", chain["count"] - 1), ("head", GENESIS)):
        yield f"another {field_name}", {**chain, field_name: value}


def test_an_export_reads_back_and_any_single_change_shows(path: Path) -> None:
    export = Ledger.open(path).export()
    assert export.count == 7
    chain = json.loads(json.dumps(export.to_json()))
    assert Export.from_json(chain) == export
    forgeries = dict(one_change_each(chain))
    assert len(forgeries) == 7 * len(fields(Entry)) + 7 + 7 + 6 + 2
    for name, forged in forgeries.items():
        with pytest.raises(TamperedError):
            pytest.fail(f"{name} went unnoticed: {Export.from_json(forged)}")


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET body = replace(body, '8.0', '80.0') || ' ' WHERE number = {number}",
        "UPDATE {table} SET dataset = 'pool' WHERE number = {number}",
        "UPDATE {table} SET digest = '{zeros}' WHERE number = {number}",
        "DELETE FROM {table} WHERE number = {number}",
        "UPDATE {table} SET number = number + 100 WHERE number = {number}",
    ],
)
def test_a_changed_database_is_noticed_and_refused(
    path: Path, promise: Promise, statement: str, number: int
) -> None:
    forge(path, statement.format(table=TABLE, number=number, zeros="f" * 64))
    ledger = Ledger.open(path)
    for use in (
        ledger.verify,
        lambda: ledger.show("gym"),
        lambda: ledger.reserve("gym", promise(), key="new"),
        lambda: ledger.commit("a"),
    ):
        with pytest.raises(TamperedError):
            use()


def test_a_cut_tail_shows_only_against_what_was_noted_elsewhere(path: Path) -> None:
    ledger = Ledger.open(path)
    noted = ledger.export()
    kept = noted.entries[4]
    forge(
        path,
        f"DELETE FROM {TABLE} WHERE number > 5",
        f"UPDATE sfumato_ledger_head SET count = 5, digest = '{kept.digest}'",
    )
    assert ledger.verify().count == 5
    with pytest.raises(TamperedError, match="at least 7 entries, got 5"):
        ledger.verify(count=noted.count, head=noted.head)
    with pytest.raises(LedgerError, match="together"):
        ledger.verify(count=7)


def test_a_chain_rewritten_as_a_whole_shows_against_the_noted_head(path: Path) -> None:
    ledger = Ledger.open(path)
    noted = ledger.export()
    entries: list[Entry] = []
    for entry in noted.entries:
        body = entry.body.replace('"noise_multiplier":8.0', '"noise_multiplier":800.0')
        changed = replace(
            entry, body=body, previous=entries[-1].digest if entries else GENESIS, digest=""
        )
        entries.append(replace(changed, digest=changed.expected_digest()))
    forge(
        path,
        f"DELETE FROM {TABLE}",
        f"UPDATE sfumato_ledger_head SET digest = '{entries[-1].digest}'",
    )
    with sqlite3.connect(path) as connection:
        for entry in entries:
            row = [getattr(entry, field.name) for field in fields(Entry)]
            connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    assert ledger.show("gym").spent_epsilon < 0.1  # by itself the forgery looks sound
    with pytest.raises(TamperedError, match="history was rewritten"):
        ledger.verify(count=noted.count, head=noted.head)


def test_an_earlier_export_is_part_of_every_later_one(path: Path, promise: Promise) -> None:
    ledger = Ledger.open(path)
    noted = ledger.export()
    ledger.reserve("gym", promise(), key="later")
    assert ledger.verify(count=noted.count, head=noted.head).count == noted.count + 1
    assert ledger.verify(count=0, head=GENESIS).entries[: noted.count] == noted.entries


def test_a_well_hashed_entry_that_makes_no_sense_is_refused(path: Path) -> None:
    export = Ledger.open(path).export()
    for kind, key, body in (
        ("refund", "a", {}),
        ("commit", "never reserved", {}),
        ("reserve", "a", {"promise": {"type": "no-guarantee"}, "records": "all"}),
        ("reserve", "new", {"promise": {"type": "guarantee", "event": {}}, "records": "all"}),
        ("reserve", "new", {"records": "all"}),
    ):
        entry = Entry.after(export.count, export.head, dataset="gym", kind=kind, key=key, body=body)
        with pytest.raises(TamperedError, match=r"entry 8 which it cannot"):
            _replayed(Export.of([*export.entries, entry]))


def _replayed(export: Export) -> None:
    from sfumato.ledger._state import LedgerState

    LedgerState().extend(export.entries)


@pytest.mark.parametrize("change", ["UPDATE {} SET body = ''", "DELETE FROM {}", "TRUNCATE {}"])
def test_the_database_itself_refuses_to_change_an_entry(
    address: str, budget: dict[str, object], change: str
) -> None:
    if "://" not in address and change.startswith("TRUNCATE"):
        change = "DELETE FROM {} WHERE number = 1"  # SQLite has no TRUNCATE
    Ledger.open(address).create("gym", **budget)  # type: ignore[arg-type]
    url = sa.make_url(address if "://" in address else f"sqlite:///{address}")
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), engine.begin() as connection:
        connection.exec_driver_sql(change.format(TABLE))
    assert Ledger.open(address).verify().count == 1


def test_no_epsilon_of_a_release_is_stored(path: Path) -> None:
    entry = Ledger.open(path).export().entries[1]
    promise = entry.content()["promise"]
    assert promise["event"]["kind"] == "gaussian"
    assert not {"epsilon", "delta", "accountant"} & set(promise)
