"""A cluster whose workers, nodes and drivers are killed: nothing lost, nothing released twice.

Takes minutes: ``make test-cluster`` runs it, ``make test`` does not.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_works import draw_slowly
from test_folder_jobs import Ledger, sources

from sfumato.files import sha256
from sfumato.jobs import JobReport, Needs, choose_engine, run_job
from sfumato.ledger import Ledger as FileLedger
from sfumato.media import VideoWriter, open_video
from sfumato.privacy import read_card

pytestmark = pytest.mark.cluster
KILLS = 20
SMALL = Needs(1, 100 << 20)


@contextmanager
def killing(folder: Path, times: int) -> Iterator[Counter[str]]:
    """While this lasts, ``times`` workers that are at an item are killed, each at a random moment."""
    ended, killed, chance = threading.Event(), Counter[str](), random.Random(23)

    def kill() -> None:
        while not ended.wait(chance.uniform(0.0, 0.4)) and killed.total() < times:
            at_work = sorted(folder.iterdir())
            if at_work:
                victim = chance.choice(at_work)
                ended.wait(chance.uniform(0.0, 0.1))  # while a short item lasts
                try:
                    item = victim.read_text()
                    os.kill(int(victim.name), signal.SIGKILL)
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has finished meanwhile
                victim.unlink(missing_ok=True)
                killed[item] += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        ended.set()
        killer.join()


def draw(
    folder: Path, out: Path, workers: Path, ledger: Ledger, *, repeatable: bool = False
) -> JobReport:
    return run_job(
        folder, out, draw_slowly, settings={}, guard=ledger, repeatable=repeatable,
        aside={"workers": str(workers), "rounds": 300_000}, engine=choose_engine("ray"),
        needs=SMALL, progress=lambda standing: None,
    )  # fmt: skip


def require_released_once(folder: Path, out: Path, ledger: Ledger) -> None:
    """Every source has one output, drawn once, and nothing else was let go."""
    lines = (out.parent / f"{out.name}.job.jsonl").read_text().splitlines()
    items = [json.loads(line)["item"] for line in lines if "item" in json.loads(line)]
    assert Counter(item["source"] for item in items) == Counter(
        str(file) for file in folder.iterdir()
    )
    named = {name: digest for item in items for name, digest in item["outputs"].items()}
    assert named == {file.name: sha256(file) for file in out.iterdir()}
    for item in items:
        shown = (out / item["main"]).read_bytes()
        assert shown == Path(item["source"]).read_bytes() + b":" + bytes.fromhex(
            item["result"]["drawn"]
        )
    assert len(set(ledger.reserved)) == 1
    assert len(ledger.committed) == 1
    assert not list(out.parent.glob(".sfumato-*"))


@pytest.mark.parametrize("repeatable", [False, True])
def test_killed_workers_lose_nothing_and_release_nothing_twice(
    cluster: Any, tmp_path: Path, repeatable: bool
) -> None:
    folder, out, workers = tmp_path / "in", tmp_path / "out", tmp_path / "workers"
    sources(folder, **{f"f{number}": f"{number}" for number in range(30)})
    workers.mkdir()
    ledger = Ledger()
    lost = repeated = 0
    with killing(workers, KILLS) as killed:
        report = draw(folder, out, workers, ledger, repeatable=repeatable)
        while not report.ok or killed.total() < KILLS:
            lost += len(report.failed)
            repeated += report.repeated
            if report.ok:  # all is done before the last kill, as on a fast machine: more to do
                number = len(list(folder.iterdir()))
                sources(folder, **{f"f{number + more}": f"{number + more}" for more in range(9)})
                ledger = Ledger()
            report = draw(folder, out, workers, ledger, repeatable=repeatable)
        lost += len(report.failed)
        repeated += report.repeated
    assert killed.total() == KILLS
    assert report.ok
    # a kill is an item that failed (and was done by the next run) or that was done again
    assert repeated > 0 if repeatable else lost > 0
    ledger.reserved, ledger.committed = ledger.reserved[-1:], ledger.committed[-1:]
    require_released_once(folder, out, ledger)


def test_a_killed_node_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    folder, out, workers = tmp_path / "in", tmp_path / "out", tmp_path / "workers"
    sources(folder, **{f"f{number}": f"{number}" for number in range(20)})
    workers.mkdir()
    ledger = Ledger()
    extra = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    cluster.wait_for_nodes()
    manifest = tmp_path / "out.job.jsonl"

    def kill() -> None:
        while not (manifest.exists() and manifest.read_bytes().count(b'"item"') >= 2):
            threading.Event().wait(0.02)
        cluster.remove_node(extra, allow_graceful=False)

    gone = threading.Thread(target=kill)
    gone.start()
    report = draw(folder, out, workers, ledger)
    gone.join()
    while not report.ok:
        report = draw(folder, out, workers, ledger)
    require_released_once(folder, out, ledger)


DRIVER = """
import sys
from pathlib import Path
from test_cluster import draw
from test_folder_jobs import Ledger
place = Path(sys.argv[1])
draw(place / "in", place / "out", place / "workers", Ledger())
"""


def test_a_killed_driver_is_resumed(cluster: Any, tmp_path: Path) -> None:
    folder, out, workers = tmp_path / "in", tmp_path / "out", tmp_path / "workers"
    sources(folder, **{f"f{number}": f"{number}" for number in range(12)})
    workers.mkdir()
    manifest = tmp_path / "out.job.jsonl"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)])
    while driver.poll() is None and not (
        manifest.exists() and manifest.read_bytes().count(b'"item"') >= 3
    ):
        threading.Event().wait(0.02)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    ledger = Ledger()
    first = json.loads(manifest.read_text().splitlines()[0])["run"]
    ledger.reserved.append(first)  # what the killed driver did
    report = draw(folder, out, workers, ledger)
    assert report.ok
    assert len(report.skipped) >= 3
    require_released_once(folder, out, ledger)


def recordings(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        noise = np.random.default_rng(number)
        with VideoWriter(folder / f"f{number}.mp4", rate=Fraction(10), size=(64, 48)) as video:
            for _ in range(6):
                video.write(noise.integers(0, 256, (48, 64, 3), dtype=np.uint8))


def sfumato(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "sfumato", *map(str, words)]


def test_a_cluster_gives_the_bytes_the_guarantee_and_the_one_entry_of_this_machine(
    cluster: Any, tmp_path: Path
) -> None:
    recordings(tmp_path / "in", 5)
    unit = "pixels(4, frames=1)"
    entries = {}
    for engine in ("local", "ray"):
        book = tmp_path / f"{engine}.db"
        subprocess.run(
            sfumato("ledger", "create", "films", "--ledger", book, "--owner", "lab", "--epsilon", "9",
                    "--delta", "1e-5", "--unit", unit, "--relation", "replace"),
            check=True,
        )  # fmt: skip
        subprocess.run(
            sfumato("protect", tmp_path / "in", tmp_path / engine, "--method", "dprp", "--epsilon", "4",
                    "--unit", unit, "--seed", "7", "--keep-names", "--engine", engine,
                    "--ledger", book, "--dataset", "films", "--acknowledge-no-guarantee", "--json"),
            check=True,
        )  # fmt: skip
        entries[engine] = FileLedger.open(book).show("films").releases
    for number in range(5):
        name = f"f{number}.mp4"
        local, ray = (tmp_path / engine / name for engine in ("local", "ray"))
        assert local.read_bytes() == ray.read_bytes()
        assert read_card(local).promise == read_card(ray).promise
    # one entry for the whole folder, committed, on either engine
    assert [len(each) for each in entries.values()] == [1, 1]
    assert all(each[0].committed for each in entries.values())


def test_one_long_recording_in_spans_is_that_of_one_run_with_one_entry(
    cluster: Any, tmp_path: Path
) -> None:
    noise, unit = np.random.default_rng(0), "pixels(4, frames=1)"
    with VideoWriter(tmp_path / "in.mp4", rate=Fraction(10), size=(64, 48)) as video:
        for _ in range(47):
            video.write(noise.integers(0, 256, (48, 64, 3), dtype=np.uint8))
    for name, words in (("one", ()), ("spans", ("--engine", "ray", "--span", "1"))):
        book = tmp_path / f"{name}.db"
        subprocess.run(
            sfumato("ledger", "create", "films", "--ledger", book, "--owner", "lab", "--epsilon", "9",
                    "--delta", "1e-5", "--unit", unit, "--relation", "replace"),
            check=True,
        )  # fmt: skip
        subprocess.run(
            sfumato("protect", tmp_path / "in.mp4", tmp_path / f"{name}.mp4", "--method", "dprp",
                    "--epsilon", "4", "--unit", unit, "--seed", "7", "--codec", "h264rgb",
                    "--set", "block=8", *words, "--ledger", book, "--dataset", "films",
                    "--acknowledge-no-guarantee", "--json"),
            check=True,
        )  # fmt: skip
        (entry,) = FileLedger.open(book).show("films").releases
        assert entry.committed
    one, spans = (tmp_path / f"{name}.mp4" for name in ("one", "spans"))
    assert read_card(one).promise == read_card(spans).promise
    with open_video(one) as whole, open_video(spans) as cut:
        for before, after in zip(whole, cut, strict=True):
            assert before.time == after.time
            np.testing.assert_array_equal(before.image, after.image)


def test_two_drivers_that_race_for_one_budget_do_not_both_get_it(
    cluster: Any, postgres_address: str, tmp_path: Path
) -> None:
    recordings(tmp_path / "in", 3)
    unit = "pixels(4, frames=1)"
    subprocess.run(
        sfumato("ledger", "create", "films", "--ledger", postgres_address, "--owner", "lab",
                "--epsilon", "5", "--delta", "1e-5", "--unit", unit, "--relation", "replace"),
        check=True,
    )  # fmt: skip
    racing = [
        subprocess.Popen(
            sfumato("protect", tmp_path / "in", tmp_path / f"out{n}", "--method", "dprp",
                    "--epsilon", "4", "--unit", unit, "--engine", "ray", "--ledger", postgres_address,
                    "--dataset", "films", "--json"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for n in range(2)
    ]  # fmt: skip
    said = [each.communicate()[0] for each in racing]
    assert sorted(each.returncode == 0 for each in racing) == [False, True], said
    released = [len(list((tmp_path / f"out{n}").glob("*.mp4"))) for n in range(2)]
    assert sorted(released) == [0, 3]
