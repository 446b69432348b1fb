"""Whatever the engine, the same comes out: nothing lost, nothing twice, nothing published by a worker."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from job_works import copy_reversed
from test_folder_jobs import Ledger, contents, run, sources

from sfumato.errors import MissingExtraError, SfumatoError
from sfumato.files import sha256
from sfumato.jobs import Answer, Needs, NodeTally, Processes, choose_engine, run_all, run_job
from sfumato.jobs._engine import attempt


class InThisProcess:
    """An engine of a few lines: what it answers, and in which order, is for the test to say."""

    remote = True

    def __init__(self, lost: dict[int, int] | None = None, late: bool = False) -> None:
        self.lost, self.late = lost or {}, late
        self.asked: list[tuple[int, int]] = []
        self.roots: list[Path] = []

    def prepare(self, folder: Path, warm: Any, needs: Needs) -> None:
        self.folder = folder

    def nodes(self) -> tuple[NodeTally, ...]:
        return (NodeTally("here", len(self.asked)),)

    def run(
        self, work: Any, count: int, task: Any, *, repeatable: bool = False, **more: Any
    ) -> Generator[list[Answer], None, None]:
        batch, given_up = [], []
        for number in range(count):
            for turn in range(1, 4):
                self.asked.append((number, turn))
                arguments = task(number, turn)
                self.roots.append(arguments[3])
                if turn <= self.lost.get(number, 0):
                    given_up.append(arguments)
                    if repeatable:
                        continue
                    batch.append(Answer(number, failure="lost", attempt=turn))
                    break
                batch.append(Answer(number, *attempt(work, arguments), turn))
                break
        if self.late:  # workers that were given up work on, and nobody hears them
            for arguments in given_up:
                attempt(work, arguments)
        yield batch


def test_every_attempt_has_a_place_of_its_own_and_late_ones_are_not_heard(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="content:A:1", b="content:B:1", c="content:C:1")
    engine = InThisProcess(lost={0: 1, 2: 2}, late=True)
    report = run(items, tmp_path / "out", engine=engine, repeatable=True)
    assert (len(report.done), report.repeated) == (3, 2)
    assert engine.asked == [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2), (2, 3)]
    assert len(set(engine.roots)) == 6
    lines = [json.loads(line) for line in (tmp_path / "out.job.jsonl").read_text().splitlines()]
    published = [line["item"] for line in lines if "item" in line]
    assert len(published) == 3
    for item in published:  # of each the last attempt, and nothing that came after it
        (name,) = item["outputs"]
        assert sha256(tmp_path / "out" / name) == item["outputs"][name]
    assert "2 done again after their worker was lost" in report.summary()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out", "out.job.jsonl"}


def test_work_that_draws_noise_is_not_drawn_again_by_itself(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="content:A:1", b="content:B:1")
    engine, ledger = InThisProcess(lost={0: 1}), Ledger()
    report = run(items, tmp_path / "out", engine=engine, guard=ledger)
    assert [each.state for each in report.outcomes] == ["failed", "done"]
    assert engine.asked == [(0, 1), (1, 1)]
    assert ledger.committed == []
    again = run(items, tmp_path / "out", engine=InThisProcess(), guard=ledger)
    assert [each.state for each in again.outcomes] == ["done", "skipped"]
    assert len(set(ledger.reserved)) == 1


@pytest.mark.parametrize("trick", ["link", "outside", "changed", "gone"])
def test_a_driver_publishes_only_what_it_has_seen_itself(tmp_path: Path, trick: str) -> None:
    """A shared folder into which somebody else writes, or that shows old content."""
    items = sources(tmp_path / "in", a="fine:1")

    class Tampering(InThisProcess):
        def run(self, *arguments: Any, **more: Any) -> Generator[list[Answer], None, None]:
            for (answer,) in super().run(*arguments, **more):
                digest, outputs, result = answer.value
                (name,) = (name for name in outputs if not name.endswith(".json"))
                staged = self.roots[-1] / name
                if trick == "link":
                    staged.unlink()
                    staged.symlink_to(items[0])
                    outputs[name] = sha256(items[0])
                if trick == "outside":
                    outputs[f"../../../in/{items[0].name}"] = sha256(items[0])
                if trick == "changed":
                    staged.write_bytes(items[0].read_bytes())
                if trick == "gone":
                    staged.unlink()
                yield [Answer(answer.number, (digest, outputs, result))]

    report = run(items, tmp_path / "out", engine=Tampering())
    assert [each.state for each in report.outcomes] == ["failed"]
    assert "nothing of it was released" in report.failed[0].reason
    assert not (tmp_path / "out").exists() or contents(tmp_path / "out") == {}
    assert items[0].read_text() == "fine:1"


def test_a_node_that_sees_another_file_reads_nothing(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1")

    class Elsewhere(InThisProcess):
        def run(self, work: Any, count: int, task: Any, **more: Any) -> Any:
            def changed(number: int, turn: int) -> Any:
                *given, seen = task(number, turn)
                return (*given, (seen[0], seen[1] + 1))

            return super().run(work, count, changed, **more)

    report = run(items, tmp_path / "out", engine=Elsewhere())
    assert "sees another one" in report.failed[0].reason


def test_equal_recordings_that_are_answered_together_are_one(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="fine:1", c="content:X:1", d="content:X:2")
    report = run(items, tmp_path / "out", engine=InThisProcess())
    assert [each.state for each in report.outcomes] == ["done", "left out", "done", "left out"]


def test_a_manifest_of_one_write_for_many_items_is_read_back_whole(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", **{f"f{number}": f"fine:{number}" for number in range(50)})
    first = run(items, tmp_path / "out", engine=InThisProcess())
    assert len(first.done) == 50
    again = run(items, tmp_path / "out", engine=InThisProcess())
    assert len(again.skipped) == 50
    assert [each.output for each in again.outcomes] == [each.output for each in first.outcomes]
    assert [each.result for each in again.outcomes] == [{"bytes": 6 + (n > 9), "settings": 0} for n in range(50)]  # fmt: skip


def test_engines_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(choose_engine("local", 3), Processes)
    for name in ("rays", "ray:/head", "ray://", "ray://head", "ray://head:x", "dask", ""):
        with pytest.raises(SfumatoError, match="local, ray, ray://HOST:PORT"):
            choose_engine(name)
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"sfumato\[ray\]"):
        choose_engine("ray")


def test_processes_answer_in_place_and_one_failure_is_one_answer(tmp_path: Path) -> None:
    good, bad = sources(tmp_path / "in", a="fine:1", b="refuse:2")
    tasks = [(path, tmp_path / f"{path.stem}.out", {}) for path in (good, bad, good)]
    heard: list[int] = []
    first, second, third = run_all(Processes(2), copy_reversed, tasks, answered=heard.append)
    assert first == third == {"bytes": 6, "settings": 0}
    assert isinstance(second, SfumatoError)
    assert heard[-1] == 3


@pytest.mark.slow
def test_a_cluster_of_three_nodes_gives_the_bytes_of_this_machine(
    cluster: Any, tmp_path: Path
) -> None:
    """One short pass over a real cluster; ``make test-cluster`` kills its workers and drivers too."""
    content = {f"f{number}": f"fine:{number}" for number in range(12)}
    folder = tmp_path / "in"
    sources(folder, **content, refuses="refuse:1")
    reports = {}
    for name in ("local", "ray"):
        engine = choose_engine(name, 2)
        out = tmp_path / name
        reports[name] = run_job(
            folder, out, copy_reversed, settings={}, engine=engine, names="keep",
            needs=Needs(1, 100 << 20), warm=os.getpid, progress=lambda standing: None,
        )  # fmt: skip
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    local, ray = (reports[name].outcomes for name in ("local", "ray"))
    assert [(each.state, each.reason, each.result) for each in ray] == [
        (each.state, each.reason, each.result) for each in local
    ]
    assert len(reports["ray"].nodes) == 3
    assert sum(node.answered for node in reports["ray"].nodes) == 13
    # a folder that the nodes do not see as the driver does: said before anything is read
    from sfumato.jobs import _ray

    engine = choose_engine("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ray, "_read_plain", lambda path: "something else")
        with pytest.raises(SfumatoError, match="mounted at the same path"):
            run_job(folder, tmp_path / "other", copy_reversed, settings={}, engine=engine)
    with pytest.raises(SfumatoError, match="4000 CPUs"):
        run_job(
            folder, tmp_path / "much", copy_reversed, settings={}, engine=engine, needs=Needs(4000)
        )
    assert not (tmp_path / "other").exists()
