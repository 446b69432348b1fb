"""A run ends in three lines, shows how far it is on a terminal only, and says where the names are."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import DONE, FAILED, Run
from rich.console import Console

from sfumato.cli._output import Bar, ending, not_safe
from sfumato.jobs import name_list, names_of
from sfumato.media import MediaError, VideoWriter
from sfumato.privacy import Bounds, Gaussian, Guarantee, NoGuarantee
from sfumato.progress import ProgressStep, listening, tell, track

TITLES = ("Done:", "Not safe:", "Next:")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "patients"
    made.mkdir()
    for name, level in (("anna", 20), ("bert", 90)):
        with VideoWriter(made / f"{name}.mkv", rate=10, size=(32, 24), codec="ffv1") as writer:
            for number in range(3):
                writer.write(np.full((24, 32, 3), level + number, np.uint8))
    return made


def last_three(said: str) -> list[str]:
    lines = said.rstrip().splitlines()[-3:]
    assert [line.split()[0] for line in lines] == [title.split()[0] for title in TITLES]
    return lines


def test_one_file_ends_in_three_lines_and_the_paragraph_is_on_the_card(
    run: Run, folder: Path
) -> None:
    code, said, _ = run("protect", folder / "anna.mkv", "out.mkv", "--method", "edges")
    assert code == DONE
    done, unsafe, then = last_three(said)
    assert "out.mkv" in done
    assert "nothing is proven" in unsafe
    assert "sfumato review out.mkv" in then
    assert len(said.split()) < 90
    assert "Does not cover" not in said
    assert "exact time of every frame" in Path("out.mkv.card.md").read_text()
    told = json.loads(
        run("protect", folder / "bert.mkv", "b.mkv", "--method", "edges", "--json")[1]
    )
    assert told["promise"]["not_covered"]


def test_a_proven_release_ends_with_its_terms_and_what_it_does_not_cover(
    run: Run, folder: Path
) -> None:
    words = ["--method", "dprp", "--epsilon", "8", "--unit", "pixels(4, frames=1)"]
    code, said, _ = run("protect", folder / "anna.mkv", "out.mkv", *words)
    assert code == DONE
    unsafe = last_three(said)[1]
    for part in ("epsilon 8", "delta 1e-05", "relation replace", "accountant"):
        assert part in unsafe


def test_a_folder_ends_with_where_the_names_are_and_names_prints_them(
    run: Run, folder: Path
) -> None:
    code, said, _ = run("protect", folder, "out", "--method", "edges", "--workers", "1")
    assert code == DONE
    done, _, then = last_three(said)
    assert "out.job.jsonl" in done
    assert then.endswith("sfumato names out")
    code, said, _ = run("names", "out")
    assert code == DONE
    assert "who is who" in said
    found = json.loads(run("names", "out", "--json")[1])["names"]
    assert {Path(source).name for source in found.values()} == {"anna.mkv", "bert.mkv"}
    for output in found:
        assert (Path("out") / output).is_file()
        assert output in said
    assert not any(b"anna" in file.read_bytes() for file in Path("out").rglob("*"))
    assert name_list(Path("out")).stat().st_mode & 0o077 == 0


def test_a_folder_that_failed_in_part_says_so_in_its_last_lines(run: Run, folder: Path) -> None:
    (folder / "broken.mkv").write_bytes(b"no video")
    code, said, _ = run("protect", folder, "out", "--method", "edges", "--workers", "1")
    assert code == FAILED
    assert "1 failed" in said
    assert "fix what failed" in last_three(said)[2]


def test_names_are_read_without_a_change_and_refused_where_there_are_none(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(MediaError, match="private name list"):
        names_of(tmp_path)
    assert run("names", tmp_path / "nowhere")[0] == FAILED
    run("protect", folder, "out", "--method", "edges", "--workers", "1")
    record = name_list(Path("out"))
    whole = record.read_bytes()
    record.write_bytes(whole + b'{"item": {"cut')
    assert len(names_of(Path("out"))) == 2
    assert record.read_bytes() == whole + b'{"item": {"cut'
    record.write_bytes(b"something else\n")
    assert run("names", "out")[0] == FAILED


def test_what_is_not_safe_is_said_of_every_promise() -> None:
    proven = Guarantee(mechanism="m", unit="record", relation="replace", delta=1e-5,
                       event=Gaussian(4.0, Bounds.DIFFERENCE), accountant="analytic-gaussian",
                       not_covered=("the sound",))  # fmt: skip
    for part in ("epsilon", "delta 1e-05", "replace", "analytic-gaussian", "the sound"):
        assert part in not_safe(proven)
    many = replace(proven, not_covered=("the sound", "the room", "the time", "the place"))
    assert not_safe(many).endswith("the sound; the room; 2 more on its card.")
    assert not_safe(NoGuarantee(mechanism="m", reason="A blur hides little.")).endswith(
        "A blur hides little."
    )
    assert [line.split("]")[1].split("[")[0] for line in ending("a", "b", "c")] == [
        f"{title:<9}" for title in TITLES
    ]


# -- progress ----------------------------------------------------------------------------------


def test_nothing_is_told_without_a_listener_and_all_is_told_to_one() -> None:
    assert list(track([1, 2], "clips")) == [1, 2]
    heard: list[ProgressStep] = []
    with listening(heard.append):
        for _ in track("abc", "clips"):
            pass
    tell("frames", 1, 2)
    assert [step.done for step in heard] == [0, 1, 2, 3]
    assert {step.total for step in heard} == {3}


def test_the_parts_of_an_item_are_shares_of_the_whole_and_never_go_back() -> None:
    heard: list[ProgressStep] = []
    with listening(heard.append):
        for _ in track(range(2), "clips"):
            for part in (1, 3, 2, 4):
                tell("frames", part, 4)
        tell("page", 1, 1)
    assert [step.done for step in heard[:-1]] == [
        0, 0.25, 0.75, 0.75, 1.0, 1, 1.25, 1.75, 1.75, 2.0, 2,
    ]  # fmt: skip
    assert heard[-1] == ProgressStep("page", 1, 1)


def test_a_loop_that_is_left_early_gives_the_listener_back() -> None:
    heard: list[ProgressStep] = []
    with listening(heard.append):
        steps = track(range(5), "clips")
        next(steps)
        steps.close()  # type: ignore[attr-defined]
        tell("page", 1, 2)
    assert heard[-1] == ProgressStep("page", 1, 2)


def test_the_bar_shows_the_share_and_the_time_left_on_a_terminal() -> None:
    screen = io.StringIO()
    bar = Bar(Console(file=screen, force_terminal=True, width=80, color_system=None))
    bar(ProgressStep("3/10 frames", 3, 10))
    bar(ProgressStep("4/10 frames", 4, 10))
    bar.stop()
    assert "40%" in screen.getvalue()
    assert "left, 4/10 frames" in screen.getvalue()
    Bar(None)(ProgressStep("frames", 1, 2))


def test_a_protected_video_tells_every_frame_and_prints_nothing(run: Run, folder: Path) -> None:
    from sfumato import protect

    heard: list[ProgressStep] = []
    with listening(heard.append):
        protect.release(protect.make("edges", {}), folder / "anna.mkv", folder.parent / "out.mkv")
    assert heard[-1].done == heard[-1].total == 6
    assert "left, " not in run("protect", folder / "anna.mkv", "b.mkv", "--method", "edges")[2]
