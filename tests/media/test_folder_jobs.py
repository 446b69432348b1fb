"""Folder jobs: nothing partial, nothing skipped wrongly, nothing of the inputs in the release."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from job_works import copy_reversed
from rich.console import Console

from sfumato.files import sha256
from sfumato.media import Item, JobReport, MediaError, Standing, dataset_items, run_job
from sfumato.media._progress import Bar


def sources(folder: Path, **content: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in content.items():
        path = folder / f"{name}.mp4"
        path.write_text(text)
        paths.append(path)
    return paths


def run(items: Any, out: Path, **settings: Any) -> JobReport:
    arguments: dict[str, Any] = {"settings": {}, "workers": 2, "progress": lambda standing: None}
    return run_job(items, out, copy_reversed, **{**arguments, **settings})


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_every_item_ends_in_one_state_and_bad_ones_leave_nothing(tmp_path: Path) -> None:
    items = sources(
        tmp_path / "in",
        P001="fine:1",
        P002="kill:2",
        P003="refuse:3",
        P004="crash:4",
        P005="nothing:5",
        P006="hang:6",
        P007="fine:7",
    )
    items.append(tmp_path / "in" / "absent.mp4")
    seen: list[Standing] = []
    report = run(items, tmp_path / "out", timeout=6.0, progress=seen.append)

    assert [outcome.state for outcome in report.outcomes] == [
        *("done", "failed", "failed", "failed", "failed", "failed", "done", "failed")
    ]
    reasons = {outcome.source.stem: outcome.reason for outcome in report.failed}
    assert "SIGKILL" in reasons["P002"]
    assert reasons["P003"] == "Expected something else, got this: change it."
    assert "KeyError" in reasons["P004"]
    assert "secret" not in reasons["P004"]
    assert "found none" in reasons["P005"]
    assert "too long" in reasons["P006"]
    assert "nothing there" in reasons["absent"]
    assert (report.exit_code, report.ok) == (1, False)
    assert report.summary().startswith("8 files: 2 done, 0 skipped (finished before), 6 failed.")
    assert all(name in report.summary() for name in reasons)

    written = contents(tmp_path / "out")
    assert sorted(written.values()) == sorted([b"{}", b"{}", b"1:enif", b"7:enif"])
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out", "out.job.jsonl"}

    assert [standing.finished for standing in seen] == list(range(9))
    assert seen[-1].bytes_finished == seen[-1].bytes_total
    assert (seen[-1].done, seen[-1].failed) == (2, 6)


def test_nothing_of_the_inputs_is_in_the_release(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", P001="fine:1", P002="fine:2")
    report = run(items, tmp_path / "out")
    assert report.ok
    digests = [sha256(item) for item in items]
    for name, data in contents(tmp_path / "out").items():
        assert re.fullmatch(r"[0-9a-f]{16}\.mp4(\.card\.json)?", name)
        for secret in ("P001", "P002", *digests):
            assert secret not in name
            assert secret.encode() not in data
    times = {file.stat().st_mtime for file in (tmp_path / "out").iterdir()}
    assert len(times) == 1
    manifest = tmp_path / "out.job.jsonl"
    assert stat.S_IMODE(manifest.stat().st_mode) == 0o600
    assert all(digest in manifest.read_text() for digest in digests)


def test_finished_items_are_skipped_only_if_all_agrees(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="fine:2")
    out = tmp_path / "out"
    first = run(items, out, settings={"level": 1})
    before = contents(out)

    again = run(items, out, settings={"level": 1})
    assert [outcome.state for outcome in again.outcomes] == ["skipped", "skipped"]
    assert [outcome.result for outcome in again.outcomes] == [
        outcome.result for outcome in first.outcomes
    ]
    assert [outcome.output for outcome in again.outcomes] == [
        outcome.output for outcome in first.outcomes
    ]

    other = run(items, out, settings={"level": 2})
    assert all("settings" in outcome.reason for outcome in other.failed)
    assert len(other.failed) == 2

    items[0].write_text("fine:changed")
    changed = run(items, out, settings={"level": 1})
    assert [outcome.state for outcome in changed.outcomes] == ["failed", "skipped"]
    assert "source" in changed.failed[0].reason
    assert contents(out) == before

    forced = run(items, out, settings={"level": 2}, force=True)
    assert forced.ok
    assert len(forced.done) == 2
    assert set(contents(out)) == set(before)  # one item keeps one name
    assert sorted(contents(out).values())[:1] == [b"2:enif"]

    no_resume = run(items, out, settings={"level": 2}, resume=False)
    assert len(no_resume.failed) == 2


def test_a_lost_output_is_made_again_and_a_changed_one_is_not_touched(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="fine:2")
    out = tmp_path / "out"
    first = run(items, out)
    lost, kept = first.outcomes[0].output, first.outcomes[1].output
    assert lost is not None
    assert kept is not None
    lost.unlink()
    kept.write_bytes(b"edited by hand")
    second = run(items, out)
    assert [outcome.state for outcome in second.outcomes] == ["done", "failed"]
    assert lost.read_bytes() == b"1:enif"
    assert kept.read_bytes() == b"edited by hand"


def test_a_torn_manifest_line_costs_one_item_only(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="fine:2")
    out = tmp_path / "out"
    run(items, out, workers=1)
    manifest = tmp_path / "out.job.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2
    manifest.write_bytes(lines[0] + lines[1][:40])
    report = run(items, out)
    assert [outcome.state for outcome in report.outcomes] == ["skipped", "done"]
    manifest.write_bytes(b"not json\n")
    with pytest.raises(MediaError, match="manifest"):
        run(items, out)


def test_names_can_be_kept_and_then_nothing_foreign_is_overwritten(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="fine:2")
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.mp4").write_bytes(b"precious")
    report = run(items, out, names="keep")
    assert [outcome.state for outcome in report.outcomes] == ["failed", "done"]
    assert (out / "a.mp4").read_bytes() == b"precious"
    assert (out / "b.mp4").read_bytes() == b"2:enif"
    assert not (out / "a.mp4.card.json").exists()


def test_a_data_set_is_released_by_split_and_class_with_an_index(tmp_path: Path) -> None:
    sources(tmp_path / "in" / "train" / "walk", P001="fine:1", P002="fine:2")
    sources(tmp_path / "in" / "test" / "run", P003="fine:3")
    out = tmp_path / "out"
    report = run(dataset_items(tmp_path / "in"), out, index=True)
    assert report.ok
    rows = [json.loads(line) for line in (out / "metadata.jsonl").read_text().splitlines()]
    assert [row["file_name"] for row in rows] == sorted(row["file_name"] for row in rows)
    assert sorted((row["split"], row["label"]) for row in rows) == [
        ("test", "run"),
        ("train", "walk"),
        ("train", "walk"),
    ]
    for row in rows:
        assert row["file_name"].startswith(f"{row['split']}/{row['label']}/")
        assert (out / row["file_name"]).is_file()
    assert b"P00" not in b"".join(contents(out).values())
    again = run(dataset_items(tmp_path / "in"), out, index=True)
    assert len(again.skipped) == 3


@pytest.mark.parametrize("folder", ["../up", "a//b", ".hidden", "a/../b"])
def test_items_cannot_leave_the_release(tmp_path: Path, folder: str) -> None:
    (item,) = sources(tmp_path / "in", a="fine:1")
    with pytest.raises(MediaError, match="plain folder name"):
        run([Item(item, folder)], tmp_path / "out")


def test_layouts_that_would_leak_are_refused(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1")
    with pytest.raises(MediaError, match="apart from the originals"):
        run(items, tmp_path / "in")
    with pytest.raises(MediaError, match="outside"):
        run(items, tmp_path / "out", manifest=tmp_path / "out" / "job.jsonl")
    with pytest.raises(MediaError, match="at least one"):
        run([], tmp_path / "out")
    with pytest.raises(MediaError, match="JSON"):
        run(items, tmp_path / "out", settings={"a": object()})
    with pytest.raises(MediaError, match="import"):
        run_job(items, tmp_path / "out", lambda source, target, settings: None, settings={})
    assert not (tmp_path / "out").exists()


def _whole_job(folder: str) -> None:
    run(Path(folder) / "in", Path(folder) / "out", workers=1)


def test_a_killed_job_resumes_without_partial_outputs(tmp_path: Path) -> None:
    good = {f"f{number}": f"fine:{number}" for number in range(6)}
    sources(tmp_path / "in", **good, f9="hang:")
    manifest = tmp_path / "out.job.jsonl"
    job = multiprocessing.get_context("spawn").Process(target=_whole_job, args=(str(tmp_path),))
    job.start()
    while job.is_alive() and not (manifest.exists() and manifest.read_bytes().count(b"\n") >= 6):
        job.join(0.05)
    assert job.pid is not None
    assert job.is_alive()
    os.kill(job.pid, signal.SIGKILL)
    job.join()
    for file in (tmp_path / "out").glob("*.mp4"):
        assert file.read_bytes().endswith(b":enif")
    (tmp_path / "in" / "f9.mp4").write_text("fine:9")
    report = run(tmp_path / "in", tmp_path / "out")
    assert report.ok
    assert len(report.skipped) >= 5
    released = [file.read_bytes() for file in (tmp_path / "out").glob("*.mp4")]
    assert sorted(released) == sorted(f"fine:{number}"[::-1].encode() for number in (*range(6), 9))
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out", "out.job.jsonl"}


def test_two_jobs_on_one_folder_are_refused(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1")
    refused = []

    def start_another(standing: Standing) -> None:
        if not refused:
            with pytest.raises(MediaError, match="another one is running") as caught:
                run(items, tmp_path / "out")
            refused.append(caught)

    assert run(items, tmp_path / "out", progress=start_another).ok
    assert refused


def test_the_bar_shows_counts_and_ends_full(tmp_path: Path) -> None:
    with open(tmp_path / "screen", "w") as screen:
        console = Console(file=screen, force_terminal=True, width=100, color_system=None)
        with Bar(console) as bar:
            bar(Standing(total=3, skipped=1, bytes_total=10))
            bar(Standing(total=3, skipped=1, failed=1, bytes_total=10, bytes_finished=4))
            assert bar._progress.tasks[0].percentage == pytest.approx(40)
            bar(Standing(total=3, skipped=1, failed=1, done=1, bytes_total=10, bytes_finished=10))
            assert bar._progress.finished
    assert "3/3 files, 1 skipped, 1 failed" in (tmp_path / "screen").read_text()
