"""Table ``scale``: what a folder job costs its driver, and what an item costs on each engine.

``items`` no-op items go through a whole job (survey, manifest, publication, report) whose work is done
in this process by an engine that answers at once; the seconds of the work itself are taken off, so that
what is left is the driver's. Then jobs of ``small`` and of four times as many items on three processes and
on a Ray cluster of three nodes with one CPU each: what the larger job takes longer is what items cost where
workers are up, and what is left of the smaller one is its start.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.table import Table as Grid

from benchmarks.harness.markdown import markdown
from sfumato.jobs import Answer, Engine, Needs, NodeTally, choose_engine, run_job
from sfumato.jobs._engine import attempt
from sfumato.settings import Count

_TOGETHER = 64  # answers at once: what a cluster of a few hundred cores gives in 20 ms
_A_FOLDER = 1000


def no_op(source: Path, target: Path, settings: dict[str, Any]) -> dict[str, int]:
    """Writes an empty file, and empties the made-up source: a million of them fit into less memory."""
    target.touch()
    if settings.get("empty"):
        os.truncate(source, 0)
    return {"done": 1}


class AtOnce:
    """An engine that answers as fast as it is asked, and knows how long the work itself took."""

    remote = False

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0

    def prepare(self, folder: Path, warm: Any, needs: Needs) -> None:
        """Nothing to prepare."""

    def nodes(self) -> tuple[NodeTally, ...]:
        return ()

    def run(
        self, work: Callable[..., Any], count: int, task: Any, **more: Any
    ) -> Generator[list[Answer], None, None]:
        for first in range(0, count, _TOGETHER):
            batch = []
            for number in range(first, min(first + _TOGETHER, count)):
                given = task(number, 1)
                began, used = time.perf_counter(), time.process_time()
                batch.append(Answer(number, *attempt(work, given)))
                self.seconds += time.perf_counter() - began
                self.cpu += time.process_time() - used
            yield batch


def run(
    *,
    items: Count = 1_000_000,
    small: Count = 300,
    place: str | None = None,
    quick: bool = False,
) -> dict[str, Any]:
    """Measure; ``place`` is a folder on the disk to use, ``quick`` takes little of everything."""
    if quick:
        items, small = 2000, 0
    driver = json.loads(
        subprocess.run(
            [sys.executable, "-m", "benchmarks.scale.run", str(items), place or ""],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout
    )  # fmt: skip
    result: dict[str, Any] = {"quick": quick, "driver": driver, "engines": []}
    if small:
        result["engines"] = [_engine(name, small) for name in ("local", "ray")]
    return result


def _driver(items: int, where: str | None) -> dict[str, Any]:
    """One job in a process of its own, so that the peak of memory is its own."""
    with tempfile.TemporaryDirectory(prefix="sfumato-scale-", dir=where) as place:
        folder = Path(place, "in")
        _sources(folder, items)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        engine = AtOnce()
        began, used = time.perf_counter(), time.process_time()
        report = run_job(
            folder,
            Path(place, "out"),
            no_op,
            settings={"empty": True},
            engine=engine,
            suffix=".bin",
        )
        assert report.outcomes.count("done") == items
        seconds = time.perf_counter() - began - engine.seconds
        cpu = time.process_time() - used - engine.cpu
        manifest = Path(place, "out.job.jsonl").stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"items": items, "seconds": seconds, "cpu_seconds": cpu, "peak_kb": peak,
            "before_kb": before, "manifest_bytes": manifest, "load": os.getloadavg()[0]}  # fmt: skip


def _sources(folder: Path, items: int) -> None:
    for number in range(items):
        if number % _A_FOLDER == 0:
            part = folder / f"{number // _A_FOLDER:06d}"
            part.mkdir(parents=True)
        (part / f"{number:09d}.mp4").write_text(str(number))


def _engine(name: str, items: int) -> dict[str, Any]:
    place = Path(tempfile.mkdtemp(prefix="sfumato-scale-"))
    stop: Callable[[], None] = lambda: None  # noqa: E731
    try:
        if name == "ray":
            stop = _cluster()
        engine: Engine = choose_engine(name, 3)
        best = dict.fromkeys((items, 4 * items), float("inf"))
        for count in best:
            _sources(place / f"in{count}", count)
        for turn in range(4):  # the first starts what a cluster keeps
            for count in best:
                began = time.perf_counter()
                run_job(place / f"in{count}", place / f"out{count}-{turn}", no_op, settings={},
                        engine=engine, needs=Needs(1, 100 << 20), suffix=".bin")  # fmt: skip
                best[count] = min(best[count], time.perf_counter() - began)
        few, many = best.values()
        each = max(0.0, many - few) / (3 * items)
        return {"engine": name, "items": items, "seconds": few, "ms": 1000 * each,
                "start_seconds": max(0.0, few - items * each)}  # fmt: skip
    finally:
        stop()
        shutil.rmtree(place, ignore_errors=True)


def _cluster() -> Callable[[], None]:
    ray: Any = import_module("ray")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    source = Path(__file__).parents[2]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(source / "src"), str(source)])
    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**node)
    cluster.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = cluster.address

    def stop() -> None:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]

    return stop


def _rows(result: dict[str, Any]) -> list[list[str]]:
    found = result["driver"]
    count, clock, used = found["items"], found["seconds"], found["cpu_seconds"]
    return [
        ["no-op items", f"{count:,}"],
        ["items a second, by the clock", f"{count / clock:,.0f}"],
        ["items a second of processor time", f"{count / used:,.0f}"],
        ["peak memory of the driver", f"{found['peak_kb'] / 2**10:,.0f} MB"],
        ["of which before the job", f"{found['before_kb'] / 2**10:,.0f} MB"],
        ["manifest", f"{found['manifest_bytes'] / 2**20:,.0f} MB"],
        ["processes waiting for a core (load)", f"{found['load']:.0f}"],
    ]


_ENGINES = ["engine", "milliseconds an item, workers up", "seconds to start a job"]


def _engine_row(each: dict[str, Any]) -> list[str]:
    return [each["engine"], f"{each['ms']:.1f}", f"{each['start_seconds']:.1f}"]


def tables(result: dict[str, Any]) -> dict[str, str]:
    found = {"driver": markdown(["driver", ""], _rows(result))}
    if result["engines"]:
        found["engines"] = markdown(
            _ENGINES,
            [_engine_row(each) for each in result["engines"]],
        )
    return found


def terminal(result: dict[str, Any]) -> list[Any]:
    grid = Grid("driver", "")
    for row in _rows(result):
        grid.add_row(*row)
    beside = Grid(*_ENGINES)
    for each in result["engines"]:
        beside.add_row(*_engine_row(each))
    return [grid, beside] if result["engines"] else [grid]


if __name__ == "__main__":
    print(json.dumps(_driver(int(sys.argv[1]), sys.argv[2] or None)))
