"""Outputs appear whole or not at all; what a killed run left goes, what is not ours stays."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from sfumato import files
from sfumato.errors import SfumatoError
from sfumato.files import atomic_output, is_within, staging_folder, write_text


def _write_and_wait(target: str, pipe: Any) -> None:
    with atomic_output(target, force=True) as temporary:
        temporary.write_text("half of it")
        pipe.send("writing")
        pipe.recv()


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    """Another process in the middle of writing ``out.txt``."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_write_and_wait, args=(str(tmp_path / "out.txt"), theirs))
    process.start()
    assert ours.recv() == "writing"
    yield process
    process.kill()
    process.join()


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".sfumato-"))


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path, writer: Any) -> None:
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    left = hidden(tmp_path)
    assert len(left) == 1
    write_text(tmp_path / "other.txt", "another target")
    assert hidden(tmp_path) == left
    write_text(tmp_path / "out.txt", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.txt", "out.txt"]


def test_a_run_that_lives_is_not_disturbed(tmp_path: Path, writer: Any) -> None:
    theirs = hidden(tmp_path)
    write_text(tmp_path / "out.txt", "ours")
    assert hidden(tmp_path) == theirs
    assert writer.is_alive()
    assert (tmp_path / "out.txt").read_text() == "ours"


def test_folders_that_sfumato_did_not_make_are_never_touched(tmp_path: Path) -> None:
    with staging_folder(tmp_path / "out.txt") as work:
        name = work.parent.name
        assert stat.S_IMODE(work.parent.stat().st_mode) == 0o700
    assert hidden(tmp_path) == []
    foreign = tmp_path / name
    foreign.mkdir()
    (foreign / "precious").write_text("not yours")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / files._MARKER).write_bytes(files._MARKED)
    (elsewhere / files._WORK).mkdir()
    (elsewhere / files._WORK / "precious").write_text("behind a link")
    (tmp_path / name.replace("-0", "-1")).symlink_to(elsewhere)
    forged = tmp_path / name.replace("-0", "-2")
    forged.mkdir()
    (forged / files._MARKER).write_text("something else")
    write_text(tmp_path / "out.txt", "whole")
    assert (foreign / "precious").read_text() == "not yours"
    assert (elsewhere / files._WORK / "precious").exists()
    assert (forged / files._MARKER).exists()
    assert (tmp_path / "out.txt").read_text() == "whole"


def test_many_may_write_one_target_at_once(tmp_path: Path) -> None:
    from contextlib import ExitStack

    with ExitStack() as stack:
        folders = [stack.enter_context(staging_folder(tmp_path / "out")) for _ in range(20)]
        assert len(set(folders)) == 20
    assert list(tmp_path.iterdir()) == []


def test_private_outputs_are_for_the_owner_only(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        write_text(old / "new" / "deep" / "secret.txt", "x", private=True)
        write_text(old / "open.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((old / "new" / "deep" / "secret.txt").stat().st_mode) == 0o600
    assert stat.S_IMODE((old / "new" / "deep").stat().st_mode) == 0o700
    assert stat.S_IMODE((old / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE(old.stat().st_mode) == 0o755
    assert stat.S_IMODE((old / "open.txt").stat().st_mode) == 0o666


def test_a_pipe_or_a_device_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        pytest.raises(SfumatoError, match="device or a pipe"),
        files.atomic_output(pipe, force=True),
    ):
        pass
    assert pipe.is_fifo()


def test_one_file_under_any_of_its_names_is_within_its_folder(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    (folder / "sub").mkdir(parents=True)
    elsewhere.mkdir()
    file = folder / "sub" / "a.txt"
    file.write_text("")
    os.link(file, elsewhere / "hard.txt")
    (elsewhere / "soft.txt").symlink_to(file)
    (elsewhere / "way").symlink_to(folder)
    (folder / "out").symlink_to(elsewhere)
    within = [file, folder, folder / "new" / "b.txt", elsewhere / "soft.txt", elsewhere / "way" / "new",
              elsewhere / ".." / "folder" / "c", folder / "out", folder / "out" / "hard.txt"]  # fmt: skip
    assert [is_within(path, folder) for path in within] == [True] * len(within)
    assert is_within(elsewhere / "hard.txt", file)
    assert is_within(folder / "sub", elsewhere / "way")
    outside = [
        folder / ".." / "private",
        elsewhere,
        elsewhere / "hard.txt",
        tmp_path,
        tmp_path / "folder2",
        Path("/"),
    ]
    assert [is_within(path, folder) for path in outside] == [False] * len(outside)


def test_a_name_of_thousands_of_folders_is_resolved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was resolved once for each of them, which took minutes."""
    resolved, resolve = [], Path.resolve

    def counted(path: Path, strict: bool = False) -> Path:
        resolved.append(path)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", counted)
    deep = tmp_path.joinpath(*["y"] * 1000, "z.mp4")
    assert not is_within(deep, tmp_path / "in.mp4")
    assert not is_within(tmp_path / "in.mp4", deep)
    assert len(resolved) == 4
