"""Ledgers to test with: a file, and a PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from sfumato.ledger import Ledger
from sfumato.privacy import Bounds, Event, Gaussian, Guarantee, Relation, Unit

DELTA = 1e-5


@pytest.fixture(scope="session")
def promise() -> Callable[..., Guarantee]:
    """A guarantee for one person under add-remove, around any event (a Gaussian release)."""

    def made(event: Event | float = 8.0, **changes: object) -> Guarantee:
        settings: dict[str, object] = {
            "mechanism": "a noisy sum",
            "unit": Unit.person(),
            "relation": Relation.ADD_REMOVE,
            "delta": DELTA,
            "accountant": "pld",
            **changes,
        }
        if not isinstance(event, Event):
            event = Gaussian(event, Bounds.DIFFERENCE)
        return Guarantee(event=event, **settings)  # type: ignore[arg-type]

    return made


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A real server in a folder of its own, reached through a socket, gone afterwards."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server: apt-get install postgresql brings one")
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    binaries = found[-1].parent
    as_owner: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="sfpg-", dir="/tmp"))
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("running as root without a user postgres to run the server")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        as_owner = ["runuser", "-u", "postgres", "--"]
    data, log = folder / "data", folder / "log"

    def run(*command: str) -> None:
        finished = subprocess.run(
            [*as_owner, *command], cwd=folder, capture_output=True, text=True, timeout=900
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr

    run(f"{binaries}/initdb", "-D", str(data), "-A", "trust", "-U", "tester", "--no-sync",
        "--encoding=UTF8")  # fmt: skip
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=80"
    try:
        # a busy machine may need minutes
        run(f"{binaries}/pg_ctl", "-D", str(data), "-l", str(log), "-o", options, "-w", "-t", "600",
            "start")  # fmt: skip
        yield f"postgresql://tester@/postgres?host={folder}"
    finally:
        if (data / "postmaster.pid").exists():
            run(f"{binaries}/pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger may be made, once on each engine."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server = sa.make_url(request.getfixturevalue("postgres_server"))
    name = f"ledger_{uuid4().hex}"
    engine = sa.create_engine(server.set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    return server.set(database=name).render_as_string()


@pytest.fixture
def budget() -> dict[str, object]:
    return {
        "owner": "Ada",
        "epsilon": 2.0,
        "delta": DELTA,
        "unit": "person",
        "relation": "add-remove",
    }


@pytest.fixture
def ledger(tmp_path: Path, budget: dict[str, object]) -> Ledger:
    """A file with one data set, ``gym``."""
    made = Ledger.open(tmp_path / "ledger.db")
    made.create("gym", **budget)  # type: ignore[arg-type]
    return made
