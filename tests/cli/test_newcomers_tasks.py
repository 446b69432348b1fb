"""The tasks of a newcomer, by the commands of the README word for word, in a folder with eight clips.

Somebody with clips to send, somebody who trains a model, somebody who must judge a release.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from command import DONE, FAILED, Answer, Run

from sfumato import stage
from sfumato.ledger import Ledger
from sfumato.media import VideoWriter, open_video
from sfumato.people import search
from sfumato.privacy import BestOf, Guarantee, NoGuarantee, checked_card, read_card
from sfumato.store import CacheError, DownloadError, OfflineError

Follow = Callable[..., list[tuple[str, Answer]]]
README = Path(__file__).resolve().parents[2] / "README.md"
OPENING = "Share recordings"  # what stands above the first heading in bold
# three hundred recordings are fitted for minutes (tests/attributes runs it with a short fit), and the studio
# serves until it is stopped (tests/studio)
ELSEWHERE = ("--method pass", "audit probe", "sfumato studio")


def shown() -> dict[str, list[str]]:
    """Bold heading -> the ``sfumato`` lines below it, continued lines joined, comments dropped."""
    text = re.sub(r"\\\n\s*", " ", README.read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {OPENING: []}
    heading = OPENING
    for line in text.splitlines():
        if bold := re.match(r"\*\*([^*]+?)[.,]?\*\*", line):
            heading = bold[1]
        if line.startswith("    sfumato ") and not any(each in line for each in ELSEWHERE):
            found.setdefault(heading, []).append(line.split("  #")[0].strip())
    return found


@pytest.fixture
def follow(run: Run, tmp_path: Path) -> Follow:
    """Run all commands below a heading, as a shell would; ``edit`` what they write by ``>``."""

    def follow(
        heading: str, edit: Callable[[str], str] = lambda text: text
    ) -> list[tuple[str, Answer]]:
        answers = []
        for line in shown()[heading]:
            words = shlex.split(line)[1:]
            target = None
            if ">" in words:
                words, target = words[: words.index(">")], words[words.index(">") + 1]
            answer = run(*words)
            if target is not None:
                (tmp_path / target).write_text(edit(answer[1]), encoding="utf-8")
            answers.append((line, answer))
        return answers

    return follow


# before ``follow``, after which nothing may be downloaded
@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """``in.mp4`` and eight recordings, small and short."""
    try:
        search()
    except (CacheError, DownloadError, OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")
    (tmp_path / "recordings").mkdir()
    staged(
        [tmp_path / "in.mp4", *(tmp_path / f"recordings/p{n}.mp4" for n in range(1, 9))], 160, 120
    )
    return tmp_path


def staged(paths: list[Path], width: int, height: int) -> None:
    staging = stage.Staging(
        clips=len(paths), frames=3, fps=8.0, width=width, height=height, actors=3, rooms=3, seed=3,
        actions=("walk", "wave"),
    )  # fmt: skip
    for path, clip in zip(paths, stage.clips(staging), strict=True):
        with VideoWriter(path, rate=Fraction(8), size=(width, height)) as writer:
            for frame in clip.frames:
                writer.write(frame)


def last_lines(answer: Answer) -> tuple[str, str, str]:
    """Every run ends in three lines: done, what is not safe, the next command."""
    lines = answer[1].splitlines()
    assert [line.split(":")[0] for line in lines[-3:]] == ["Done", "Not safe", "Next"], answer
    return lines[-3], lines[-2], lines[-1]


def test_every_command_of_the_readme_is_followed_here() -> None:
    assert set(shown()) == {
        OPENING,
        "Video",
        "Video with a proof",
        "A model",
        "A budget",
        "A release to judge",
    }


def test_eight_clips_are_sent_and_judged(clips: Path, follow: Follow) -> None:
    for line, answer in follow(OPENING):
        assert answer[0] == DONE, (line, answer)
        assert last_lines(answer)[2].startswith("Next:     sfumato ")
    released = sorted((clips / "released").glob("*.mp4"))
    assert len(released) == 8
    for output in (clips / "out.mp4", *released):
        assert isinstance(checked_card(output).promise, NoGuarantee)
        with open_video(output) as video:
            assert sum(1 for _ in video) == 3

    verify, review, leaks, report, names = follow("Video")
    for line, answer in (verify, review, report, names):
        assert answer[0] == DONE, (line, answer)
        last_lines(answer)
    found, not_safe, _ = last_lines(leaks[1])
    assert leaks[1][0] == (FAILED if "do not release" in not_safe else DONE)
    assert "looked" in found
    assert (clips / "out.mp4.review.html").is_file()
    assert "<html" in (clips / "report.html").read_text(encoding="utf-8")
    for number in range(1, 9):
        assert f"p{number}.mp4" in names[1][1], "who is who, for oneself"

    for line, answer in follow("A budget"):
        assert answer[0] == DONE, (line, answer)
    assert Ledger.open(clips / "book.db").show("films").spent_epsilon == pytest.approx(4, rel=0.01)

    verify, leaks, history, report = follow("A release to judge")
    assert verify[1][0] == DONE
    assert "All 8 outputs and their 8 cards agree" in verify[1][1]
    assert leaks[1][1].count(".mp4 ") >= 8, "one verdict a clip"
    assert "gait study" in history[1][1]
    assert report[1][0] == DONE, report
    assert "gait study" in (clips / "judged.html").read_text(encoding="utf-8")
    draft = (clips / "assessment.md").read_text(encoding="utf-8").lower()
    for part in ("description", "necessity", "risks", "measures", "residual risk"):
        assert part in draft, "the usual headings of an impact assessment"


def test_a_recording_with_a_proof(follow: Follow, tmp_path: Path) -> None:
    staged([tmp_path / "in.mp4"], 64, 48)
    for line, answer in follow("Video with a proof"):
        assert answer[0] == DONE, (line, answer)
        last_lines(answer)
    promise = read_card(tmp_path / "noisy.mp4").promise
    assert isinstance(promise, Guarantee)
    assert promise.epsilon <= 8
    assert (tmp_path / "noisy.mp4.audit.json").is_file()


def shorter(text: str) -> str:
    """A training file with less to do; test_schemas_and_examples.py plans them as they ship."""
    for long, short in (("clips: 200", "clips: 40"), ("batch: 64", "batch: 8")):
        assert long in text
        text = text.replace(long, short)
    return re.sub(r"steps: \d+", "steps: 6", text)


def test_a_first_model(follow: Follow, tmp_path: Path) -> None:
    _, train, _, tune, account, published = follow("A model", edit=shorter)
    for line, answer in (train, tune, account, published):
        assert answer[0] == DONE, (line, answer)
    promise = read_card(tmp_path / "runs" / "first" / "model.safetensors").promise
    assert isinstance(promise, Guarantee)
    assert 7.9 < promise.epsilon <= 8
    chosen = read_card(tmp_path / "runs" / "tuned" / "model.safetensors").promise
    assert isinstance(chosen, Guarantee)
    assert isinstance(chosen.event, BestOf)
    assert 7.9 < chosen.epsilon <= 8
    assert "noise" in account[1][1]
    assert "epsilon" in published[1][1]
