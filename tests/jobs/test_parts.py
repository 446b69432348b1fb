"""Parts of one recording: all of them as their workers wrote them, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from job_works import write_part
from test_engines import InThisProcess

from sfumato.errors import SfumatoError
from sfumato.jobs import Processes, run_parts


def parts(words: str) -> list[tuple[str]]:
    return [(word,) for word in words.split()]


@pytest.mark.parametrize("workers", [1, 2])
def test_parts_come_in_their_order_whoever_is_first(tmp_path: Path, workers: int) -> None:
    heard: list[int] = []
    done = run_parts(
        Processes(workers), write_part, parts("a b c d e"), tmp_path, repeatable=False,
        answered=heard.append,
    )  # fmt: skip
    assert [part.value for part in done] == ["A", "B", "C", "D", "E"]
    assert ["".join(p.read_text() for p in part.folder.iterdir()) for part in done] == list("abcde")
    assert sorted(heard) == list(range(5))
    done[0].remove()
    assert not done[0].folder.exists()


@pytest.mark.parametrize(("word", "sentence"), [("kill", "SIGKILL"), ("refuse", "change it")])
def test_one_part_that_fails_fails_all(tmp_path: Path, word: str, sentence: str) -> None:
    with pytest.raises(SfumatoError, match=sentence):
        run_parts(Processes(2), write_part, parts(f"a {word} c"), tmp_path, repeatable=False)


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_lost_part_is_done_again_only_where_no_noise_is_drawn(
    tmp_path: Path, repeatable: bool
) -> None:
    class Here(InThisProcess):
        def run(self, work: Any, count: int, task: Any, **more: Any) -> Any:
            def known(number: int, attempt: int) -> Any:
                arguments = task(number, attempt)
                return (*arguments, arguments[1])  # where the engine of the tests looks for a root

            def without(*arguments: Any) -> Any:
                return work(*arguments[:-1])

            return super().run(without, count, known, repeatable=more["repeatable"])

    engine = Here(lost={1: 1}, late=True)
    if not repeatable:
        with pytest.raises(SfumatoError, match="lost"):
            run_parts(engine, write_part, parts("a b c"), tmp_path, repeatable=False)
        return
    done = run_parts(engine, write_part, parts("a b c"), tmp_path, repeatable=True)
    assert [part.value for part in done] == ["A", "B", "C"]
    assert engine.asked == [(0, 1), (1, 1), (1, 2), (2, 1)]
    assert len({part.folder for part in done}) == 3


@pytest.mark.parametrize("trick", ["another file", "link", "gone"])
def test_a_part_is_what_its_worker_wrote(tmp_path: Path, trick: str) -> None:
    one, other = run_parts(
        Processes(1), write_part, parts("a b"), tmp_path, repeatable=False
    )  # fmt: skip
    file = one.folder / "piece"
    file.unlink()
    if trick == "another file":
        file.write_bytes((other.folder / "piece").read_bytes())
    if trick == "link":
        file.symlink_to(other.folder / "piece")
    with pytest.raises(SfumatoError, match="nothing of it was released"):
        one.require_as_written()
    other.require_as_written()
