"""Folder jobs: nothing partial, nothing skipped wrongly, nothing of the inputs in the release."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from job_works import copy_reversed

from sfumato.errors import SfumatoError
from sfumato.files import sha256
from sfumato.jobs import Item, JobReport, Standing, Start, dataset_items, run_job
from sfumato.media import MediaError
from sfumato.progress import ProgressStep, listening


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


@pytest.mark.processes
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
    report = run(items, tmp_path / "out", timeout=20.0, progress=seen.append)

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
    assert report.summary().startswith(
        "8 files: 2 done, 0 skipped (finished before), 6 failed, 0 left out."
    )
    assert all(name in report.summary() for name in reasons)

    written = contents(tmp_path / "out")
    assert sorted(written.values()) == sorted([b"{}", b"{}", b"1:enif", b"7:enif"])
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out", "out.job.jsonl"}

    assert [standing.finished for standing in seen] == list(range(9))
    assert seen[-1].bytes_finished == seen[-1].bytes_total
    assert (seen[-1].done, seen[-1].failed) == (2, 6)


@pytest.mark.processes
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
    assert len(lines) == 3  # the run, and its two items
    manifest.write_bytes(lines[0] + lines[1] + lines[2][:40])
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
    for out in (tmp_path / "in", tmp_path, tmp_path / "in" / "out"):
        with pytest.raises(SfumatoError, match="apart from the originals"):
            run(tmp_path / "in", out)
    with pytest.raises(SfumatoError, match="apart from the originals"):
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


@pytest.mark.processes
def test_a_killed_job_resumes_without_partial_outputs(tmp_path: Path) -> None:
    good = {f"f{number}": f"fine:{number}" for number in range(6)}
    sources(tmp_path / "in", **good, f9="hang:")
    manifest = tmp_path / "out.job.jsonl"
    job = multiprocessing.get_context("spawn").Process(target=_whole_job, args=(str(tmp_path),))
    job.start()
    while job.is_alive() and not (manifest.exists() and manifest.read_bytes().count(b"\n") >= 7):
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


def test_whoever_listens_hears_counts_and_the_end(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="fine:2")
    heard: list[ProgressStep] = []
    with listening(heard.append):
        assert run(items, tmp_path / "out", progress=None).ok
    assert heard[0].done == 0
    assert heard[-1].done == heard[-1].total
    assert heard[-1].what == f"{len(items)}/{len(items)} files"


def test_a_standing_names_what_was_skipped_and_failed() -> None:
    standing = Standing(total=3, skipped=1, failed=1, done=1, bytes_total=10, bytes_finished=10)
    assert str(standing) == "3/3 files, 1 skipped, 1 failed"


def test_what_lies_beside_the_release_is_not_touched(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1")
    foreign = tmp_path / "out.staging"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("precious")
    assert run(items, tmp_path / "out").ok
    assert (foreign / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize(
    "text",
    [
        '{"mine": 1}\n{"half a li',
        "no json at all",
        '{"version": 1, "source": "a", "digest": "", "settings": ""}\n{"version"',
        '{"item": {"source": "a", "digest": "", "settings": ""}}\n',
        '{"sfumato": "job manifest of tomorrow", "version": 3, "run": "x"}\n',
        '{"closed": ""}\n{"closed": ""',
    ],
)
def test_a_foreign_file_in_the_manifests_place_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    items = sources(tmp_path / "in", a="fine:1")
    foreign = tmp_path / "out.job.jsonl"
    foreign.write_text(text)
    foreign.chmod(0o644)
    with pytest.raises(MediaError, match="left as it is"):
        run(items, tmp_path / "out")
    assert foreign.read_text() == text
    assert stat.S_IMODE(foreign.stat().st_mode) == 0o644
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_link_or_folder_in_the_manifests_place_is_left_as_it_is(
    tmp_path: Path, kind: str
) -> None:
    items = sources(tmp_path / "in", a="fine:1")
    precious, place = tmp_path / "precious", tmp_path / "out.job.jsonl"
    precious.write_text("mine")
    place.symlink_to(precious) if kind == "link" else place.mkdir()
    with pytest.raises(MediaError, match="left as it is"):
        run(items, tmp_path / "out", force=True)
    assert precious.read_text() == "mine"
    assert place.is_symlink() or place.is_dir()


@pytest.mark.processes
def test_equal_recordings_are_one(tmp_path: Path) -> None:
    """By their bytes, or by what the work saw in them; on the next run too, and renamed."""
    items = sources(
        tmp_path / "in", a="fine:1", b="fine:1", c="content:X:1", d="content:X:2", e="content:Y:1"
    )
    report = run(items, tmp_path / "out")
    assert report.ok
    assert len(report.done) == 3
    assert {each.source.stem for each in report.left_out} in ({"a", "c"}, {"a", "d"}, {"b", "c"}, {"b", "d"})  # fmt: skip
    assert "the same recording as" in report.summary()
    videos = list((tmp_path / "out").glob("*.mp4"))
    assert len(videos) == 3
    for item in items:
        item.rename(item.with_name(f"renamed-{item.name}"))
    before = contents(tmp_path / "out")
    again = run(tmp_path / "in", tmp_path / "out")
    assert (len(again.done), len(again.left_out)) == (0, 5)
    assert contents(tmp_path / "out") == before


class Ledger:
    """Notes what a guard hears; a run that is committed is never entered again."""

    def __init__(self) -> None:
        self.reserved: list[str] = []
        self.committed: list[str] = []
        self.refused: Any = None

    @contextmanager
    def __call__(self, start: Start) -> Iterator[None]:
        assert start.run not in self.committed
        assert (start.kept is None) == (start.run not in self.reserved)
        if start.kept is None:
            start.keep({"for": start.run})
        else:
            assert start.kept == {"for": start.run}
        self.reserved.append(start.run)
        yield
        self.committed.append(start.run)

    def check(self, result: Any) -> None:
        if result == self.refused:
            raise MediaError("Expected less, got more.")


def test_under_a_guard_nothing_published_is_made_again(tmp_path: Path) -> None:
    """R20: a bad file keeps the reservation open, and no way to run again draws twice under it."""
    good = sources(tmp_path / "in", a="fine:1", b="fine:2")
    (bad,) = sources(tmp_path / "in", c="refuse:3")
    ledger, out = Ledger(), tmp_path / "out"
    first = run(tmp_path / "in", out, guard=ledger)
    assert (len(first.done), len(first.failed)) == (2, 1)
    assert ledger.committed == []
    published = contents(out)

    taken = first.done[0].output
    assert taken is not None
    taken.rename(tmp_path / "handed over.mp4")
    good[1].rename(good[1].with_name("other name.mp4"))
    second = run(tmp_path / "in", out, guard=ledger)
    assert second.done == ()
    assert any("second release" in each.reason for each in second.failed)
    assert [each.source.name for each in second.left_out] == ["other name.mp4"]
    with pytest.raises(MediaError, match="released again uncounted"):
        run(tmp_path / "in", out, guard=ledger, force=True)

    (tmp_path / "handed over.mp4").rename(taken)
    bad.write_text("fine:3")
    third = run(tmp_path / "in", out, guard=ledger)
    assert third.ok
    assert [each.source for each in third.done] == [bad]
    assert set(published) < set(contents(out))
    assert len(set(ledger.reserved)) == 1
    assert ledger.committed == ledger.reserved[:1]

    assert run(tmp_path / "in", out, guard=ledger).ok  # nothing to do, nothing to reserve
    sources(tmp_path / "in", d="fine:4")
    assert run(tmp_path / "in", out, guard=ledger).ok
    assert len(set(ledger.reserved)) == 2
    assert len(ledger.committed) == 2

    (tmp_path / "out.job.jsonl").unlink()
    out.rename(tmp_path / "handed over")
    assert run(tmp_path / "in", out, guard=ledger).ok  # drawn anew, reserved anew
    assert len(set(ledger.reserved)) == 3


def test_the_same_recording_in_another_file_is_not_paid_for_again(tmp_path: Path) -> None:
    """Only decoding shows that it is the same; that was done once, and the manifest says so."""
    sources(tmp_path / "in", a="content:X:1", b="content:X:2", c="content:Y:1")
    ledger = Ledger()
    first = run(tmp_path / "in", tmp_path / "out", guard=ledger)
    assert (len(first.done), len(first.left_out)) == (2, 1)
    for _ in range(2):
        again = run(tmp_path / "in", tmp_path / "out", guard=ledger)
        assert (len(again.skipped), len(again.left_out)) == (2, 1)
    assert len(ledger.reserved) == 1
    left = first.left_out[0].source
    left.write_text("content:Z:1")  # another recording under that name is another one
    assert len(run(tmp_path / "in", tmp_path / "out", guard=ledger).done) == 1
    assert len(ledger.reserved) == 2


@pytest.mark.parametrize("name", ["new\nline", "\x1b[2J", "\u202egpm"])
def test_a_kept_name_that_no_card_may_hold_is_refused_before_anything_is_reserved(
    tmp_path: Path, name: str
) -> None:
    sources(tmp_path / "in", **{"a": "fine:1", name: "fine:2"})
    ledger = Ledger()
    with pytest.raises(MediaError, match="plain characters"):
        run(tmp_path / "in", tmp_path / "out", guard=ledger, names="keep")
    assert ledger.reserved == []


def test_a_refused_format_leaves_the_reservation_open(tmp_path: Path) -> None:
    sources(tmp_path / "in", a="fine:1")
    (tmp_path / "in" / "b.heic").write_bytes(b"x")
    ledger = Ledger()
    report = run(tmp_path / "in", tmp_path / "out", guard=ledger)
    assert (len(report.done), len(report.failed)) == (1, 1)
    assert ledger.committed == []


def test_what_was_recorded_before_a_kill_is_moved_and_not_drawn_again(tmp_path: Path) -> None:
    """A kill between the manifest's line and the move: the drawn output is the output."""
    (item,) = sources(tmp_path / "in", a="content:X:1")  # every draw differs
    out, manifest = tmp_path / "out", tmp_path / "out.job.jsonl"
    ledger = Ledger()
    first = run([item], out, guard=ledger)
    (name,) = contents(out)
    drawn = (out / name).read_bytes()
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    staged = tmp_path / lines[2]["item"]["staged"]
    assert not staged.exists()
    staged.mkdir(parents=True)
    (out / name).rename(staged / name)
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))  # not closed
    ledger.committed.clear()
    again = run([item], out, guard=ledger)
    assert [each.state for each in again.outcomes] == ["skipped"]
    assert (out / name).read_bytes() == drawn
    assert first.done


def test_an_output_that_cannot_be_moved_is_not_counted_as_published(tmp_path: Path) -> None:
    (item,) = sources(tmp_path / "in", a="fine:1")
    out, ledger = tmp_path / "out", Ledger()
    out.write_text("a file where the folder should be")
    assert [each.state for each in run([item], out, guard=ledger).outcomes] == ["failed"]
    out.unlink()
    assert [each.state for each in run([item], out, guard=ledger).outcomes] == ["done"]
    assert len(set(ledger.reserved)) == 1


def test_everything_in_a_folder_is_done_failed_or_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    sources(folder, a="fine:1")
    (folder / "b.M2TS").write_text("fine:2")
    (folder / "c.AVI").write_text("fine:3")
    (folder / "deep").mkdir()
    (folder / "deep" / "d.mov").write_text("fine:4")
    (folder / ".git").mkdir()
    (folder / ".git" / "e.mp4").write_text("fine:5")
    for name in (".f.mp4", "g.wav", "h.txt", "i", "j.heic"):
        (folder / name).write_text(f"fine:{name}")
    (tmp_path / "k.mp4").write_text("fine:k")
    (folder / "l.mp4").symlink_to(tmp_path / "k.mp4")
    (folder / "m.mp4").symlink_to(folder / "nowhere.mp4")
    (folder / "n").symlink_to(tmp_path)
    os.mkfifo(folder / "o.mp4")
    report = run(folder, tmp_path / "out")
    told = {each.source.relative_to(folder).as_posix(): each.state for each in report.outcomes}
    assert told == {
        "a.mp4": "done", "b.M2TS": "done", "c.AVI": "done", "deep/d.mov": "done",
        ".git": "left out", ".f.mp4": "left out", "g.wav": "left out", "h.txt": "left out",
        "i": "left out", "j.heic": "failed", "l.mp4": "left out", "m.mp4": "left out",
        "n": "left out", "o.mp4": "left out",
    }  # fmt: skip
    assert all(each.reason for each in (*report.failed, *report.left_out))
    assert all(each.source.name in report.summary() for each in report.left_out)
    assert report.exit_code == 1


def test_kept_names_that_would_become_one_are_refused_before_anything(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    sources(folder, a="fine:1")
    (folder / "A.avi").write_text("fine:2")
    ledger = Ledger()
    with pytest.raises(MediaError, match="every kept name once"):
        run(folder, tmp_path / "out", names="keep", suffix=".mp4", guard=ledger)
    assert ledger.reserved == []
    report = run(folder, tmp_path / "out", suffix=lambda source: f"{source.suffix}.x")
    assert sorted(
        path.name[16:] for path in (tmp_path / "out").iterdir() if path.suffix == ".x"
    ) == [
        ".avi.x",
        ".mp4.x",
    ]
    assert report.ok


def test_what_a_guard_refuses_is_not_published(tmp_path: Path) -> None:
    items = sources(tmp_path / "in", a="fine:1", b="content:X:1")
    ledger = Ledger()
    ledger.refused = {"content": "X"}
    report = run(items, tmp_path / "out", guard=ledger)
    assert [each.state for each in report.outcomes] == ["done", "failed"]
    assert report.failed[0].reason == "Expected less, got more."
    assert len(list((tmp_path / "out").glob("*.mp4"))) == 1
    assert ledger.committed == []
