"""Long work outlives whoever asked for it, in processes that end when they are told to."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import SfumatoError
from sfumato.files import parse_json, write_json
from sfumato.jobs import (
    Assistant,
    JobQueue,
    QueuedJob,
    Worker,
    WorkerEndedError,
    _assistant,
    _queue,
)

KINDS = {"count": ("queue_works:count", "long"), "wait": ("queue_works:wait", "long")}


class Fake:
    """Works in this process; ``hold`` keeps it until it is ended."""

    began = threading.Event()
    hold: threading.Event | None = None
    alive = True

    def run(self, target: str, arguments: dict[str, Any], hear: Any) -> Any:
        Fake.began.set()
        hear({"half": True})
        if Fake.hold is not None:
            Fake.hold.wait(60)
            raise WorkerEndedError("ended")
        if arguments.get("fail"):
            raise SfumatoError("Expected something else.")
        return {"sum": sum(arguments["numbers"])}

    def end(self) -> None:
        if Fake.hold is not None:
            Fake.hold.set()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    monkeypatch.setattr(_queue, "Worker", Fake)
    Fake.hold, Fake.began = None, threading.Event()
    return Fake


def finished(queue: JobQueue, id: str) -> QueuedJob:
    over = threading.Event()
    stop = queue.listen(lambda job: over.set() if job.id == id and job.finished else None)
    found = queue.get(id)
    assert found is not None
    if not found.finished:
        assert over.wait(120)
    stop()
    job = queue.get(id)
    assert job is not None
    return job


def test_jobs_run_in_order_and_say_what_came_of_them(tmp_path: Path, fake: type[Fake]) -> None:
    queue = JobQueue(tmp_path / "jobs", KINDS)
    ids = [queue.add("count", f"{n}", {"numbers": [n, 1]}).id for n in range(3)]
    wrong = queue.add("count", "x", {"fail": True}).id
    assert [finished(queue, id).result for id in ids] == [{"sum": 1}, {"sum": 2}, {"sum": 3}]
    assert finished(queue, wrong).error == "Expected something else."
    assert [job.id for job in queue.all()] == [wrong, *reversed(ids)]
    queue.close()
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "jobs").iterdir())


def test_a_server_that_ends_leaves_its_work_waiting(tmp_path: Path, fake: type[Fake]) -> None:
    fake.hold = threading.Event()
    queue = JobQueue(tmp_path / "jobs", KINDS)
    running = queue.add("count", "a", {"numbers": [5]}).id
    waiting = queue.add("count", "b", {"numbers": [6]}).id
    assert fake.began.wait(60)
    queue.close()
    fake.hold = None
    again = JobQueue(tmp_path / "jobs", KINDS)
    assert finished(again, running).result == {"sum": 5}
    assert finished(again, waiting).result == {"sum": 6}
    again.close()
    third = JobQueue(tmp_path / "jobs", KINDS)
    assert {job.state for job in third.all()} == {"done"}  # nothing is done twice
    third.close()


def test_a_killed_server_finds_what_was_running(tmp_path: Path, fake: type[Fake]) -> None:
    queue = JobQueue(tmp_path / "jobs", KINDS, start=False)
    id = queue.add("count", "a", {"numbers": [5]}).id
    file = tmp_path / "jobs" / f"{id}.json"
    write_json(file, {**parse_json(file.read_bytes()), "state": "running"}, force=True)
    again = JobQueue(tmp_path / "jobs", KINDS)
    assert finished(again, id).result == {"sum": 5}
    again.close()


def test_cancel_ends_a_job_and_resume_begins_it_again(tmp_path: Path, fake: type[Fake]) -> None:
    fake.hold = threading.Event()
    queue = JobQueue(tmp_path / "jobs", KINDS)
    first = queue.add("count", "a", {"numbers": [5]}).id
    never = queue.add("count", "b", {"numbers": [6]}).id
    assert fake.began.wait(60)
    queue.cancel(never)
    hold, fake.hold = fake.hold, None
    queue.cancel(first)
    hold.set()
    assert finished(queue, first).state == "cancelled"
    assert finished(queue, never).state == "cancelled"
    later = queue.add("count", "c", {"numbers": [1]}).id
    assert finished(queue, later).state == "done"
    queue.resume(first)
    assert finished(queue, first).result == {"sum": 5}
    queue.close()


def test_files_of_others_are_no_jobs(tmp_path: Path, fake: type[Fake]) -> None:
    folder = tmp_path / "jobs"
    queue = JobQueue(folder, KINDS, start=False)
    id = queue.add("count", "a", {"numbers": []}).id
    (folder / "notes.json").write_text("{}")
    (folder / f"{'a' * 24}.json").write_text("[")
    (folder / f"{'b' * 24}.json").write_text((folder / f"{id}.json").read_text())  # another's name
    (folder / f"{'c' * 24}.json").symlink_to(folder / f"{id}.json")
    again = JobQueue(folder, KINDS, start=False)
    assert [job.id for job in again.all()] == [id]
    fewer = JobQueue(folder, {"wait": KINDS["wait"]}, start=False)
    assert fewer.all() == []  # a kind of work that nobody does here


def test_a_process_tells_how_far_it_is_fails_in_a_sentence_and_ends_when_told() -> None:
    worker, heard = Worker(), list[Any]()
    try:
        assert worker.run("queue_works:count", {"numbers": [1, 2, 3]}, heard.append) == 6
        assert {"so far": 1} in heard
        with pytest.raises(SfumatoError, match=r"^Expected a number$"):
            worker.run("queue_works:wrong", {})
        with pytest.raises(SfumatoError, match="Unexpected ZeroDivisionError") as bug:
            worker.run("queue_works:bug", {})
        assert "private" not in str(bug.value)
        began = threading.Event()
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                worker.run("queue_works:wait", {}, lambda said: began.set())
            except SfumatoError as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        assert began.wait(120)
        worker.end()
        thread.join(120)
        assert isinstance(ended[0], WorkerEndedError)
        assert not worker.alive
    finally:
        worker.end()


def test_an_assistant_is_replaced_when_its_process_died(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Dying:
        alive = True

        def __init__(self) -> None:
            made.append(self)

        def run(self, target: str, arguments: dict[str, Any]) -> Any:
            if arguments["die"]:
                raise WorkerEndedError("died")
            return arguments

        def end(self) -> None:
            self.alive = False

    monkeypatch.setattr(_assistant, "Worker", Dying)
    assistant = Assistant(idle=1000)
    assert assistant.ask("x", {"die": False}) == {"die": False}
    with pytest.raises(WorkerEndedError):
        assistant.ask("x", {"die": True})
    assert assistant.ask("x", {"die": False}) == {"die": False}
    assert len(made) == 2
    assistant.close()
    assert not made[1].alive
