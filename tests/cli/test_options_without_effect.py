"""An option that would do nothing where it stands is refused, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from command import DONE, FAILED, Run, in_words

from sfumato.media import SoundWriter, VideoWriter, write_image

SOUND = [("--codec", "ffv1"), ("--codec", "h264"), ("--quality", "3"), ("--tolerant",),
         ("--pairs", "2", "--pairs-to", "pairs")]  # fmt: skip
FOLDER = [("--workers", "2"), ("--keep-names",)]
PICTURE = [("--codec", "h264"), ("--quality", "3"), ("--audio", "keep"), ("--audio", "anonymize")]
LEDGER = [("--key", "k"), ("--acknowledge-no-guarantee",), ("--purpose", "p"), ("--operator", "o")]


@pytest.fixture
def there(tmp_path: Path, run: Run) -> list[str]:
    """A video, a picture, a sound file, a folder of each; the names of what lies there."""
    grey = np.full((24, 32, 3), 90, np.uint8)
    with VideoWriter(tmp_path / "in.mkv", rate=10, size=(32, 24), codec="ffv1") as writer:
        for _ in range(3):
            writer.write(grey)
    write_image(tmp_path / "in.png", grey)
    rate = 16_000
    tone = 0.3 * np.sin(np.arange(rate) * 0.08)
    with SoundWriter(tmp_path / "in.wav", rate, 1) as sound:
        sound.write(tone.astype(np.float32)[None])
    for name, file in (("videos", "in.mkv"), ("sounds", "in.wav")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes((tmp_path / file).read_bytes())
    return sorted(os.listdir(tmp_path))


CASES = [
    *[("in.wav", "out.wav", "voice", words) for words in (*SOUND, *FOLDER, *LEDGER)],
    *[("sounds", "out", "voice", words) for words in SOUND],
    *[("in.png", "out.png", "edges", words) for words in (*PICTURE, *FOLDER, *LEDGER)],
    *[("in.mkv", "out.mkv", "edges", words) for words in (*FOLDER, *LEDGER)],
]


@pytest.mark.parametrize(("source", "target", "method", "words"), CASES)
def test_an_option_that_has_no_effect_is_refused(
    run: Run, there: list[str], source: str, target: str, method: str, words: tuple[str, ...]
) -> None:
    answer = run("protect", source, target, "--method", method, *words)
    assert in_words(answer)
    assert answer[0] == FAILED
    assert words[0] in answer[2]
    assert sorted(os.listdir(".")) == there


def test_the_same_options_are_taken_where_they_do_something(run: Run, there: list[str]) -> None:
    for words in (
        ["in.mkv", "a.mkv", "--codec", "ffv1", "--tolerant", "--audio", "keep"],
        ["in.mkv", "a.mp4", "--codec", "h264", "--quality", "30"],
        ["in.png", "a.png", "--tolerant"],
        ["videos", "a", "--workers", "1", "--keep-names", "--quality", "30"],
    ):
        assert run("protect", *words, "--method", "edges")[0] == DONE, words


@pytest.mark.parametrize(
    "words",
    [("--codec", "h264"), ("--quality", "3"), ("--tolerant",), ("--workers", "2"), ("--keep-names",),
     ("--pairs-to", "x"), ("--audio", "keep"), ("--preview", "p.png")],
)  # fmt: skip
def test_pass_takes_no_options_for_recordings(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    base = ["protect", "in", "out", "--method", "pass", "--private", "a", "--useful", "b",
            "--donors-are", "public", "--dry-run"]  # fmt: skip
    assert run(*base)[0] == DONE
    answer = run(*base, *words)
    assert in_words(answer)
    assert answer[0] == FAILED


@pytest.mark.parametrize(
    ("method", "words", "named"),
    [
        ("blur", ("--import-boxes", "boxes.json"), "--import-boxes"),
        ("blur", ("--region", "mask.mkv"), "mask video"),
        ("blur", ("--cover", "0:0,0,5,5"), "--cover"),
        ("blur", ("--except", "1"), "--except"),
        ("avatar", ("--set", "poses=path:poses.npz"), "poses"),
        ("avatar", ("--set", "masks=masks.npz"), "masks"),
        ("avatar", ("--set", "inpainting=filled.mkv"), "inpainting"),
        ("blur+edges", ("--set", "blur.import_boxes=boxes.json"), "--import-boxes"),
    ],
)
def test_what_is_known_of_one_recording_is_not_used_for_a_folder(
    run: Run, there: list[str], method: str, words: tuple[str, ...], named: str
) -> None:
    """Boxes of one recording say nothing of where people are in the next."""
    Path("mask.mkv").write_bytes(Path("in.mkv").read_bytes())
    before = sorted(os.listdir("."))
    answer = run("protect", "videos", "out", "--method", method, *words)
    assert in_words(answer)
    assert answer[0] == FAILED
    assert named in answer[2]
    assert "got a folder" in answer[2]
    assert sorted(os.listdir(".")) == before


@pytest.mark.parametrize("more", ["out.mkv", "--signed", "--registry", "--key=k", "--sign=k"])
def test_a_key_is_made_by_itself(run: Run, tmp_path: Path, more: str) -> None:
    answer = run("verify", "--make-key", "lab", more)
    assert in_words(answer)
    assert answer[0] == FAILED
    assert "--make-key by itself" in answer[2]
    assert os.listdir(".") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", "out.mkv", "--registry", "--json"), "--registry or --json"),
        (("audit", "reconstruct", "a", "b", "--method", "deblur", "--public", "p"), "learned"),
        (("audit", "cross-data", "a", "b", "c", "--set", "x=1"), "--method"),
        (("audit", "cross-data", "a", "b", "c", "--shift"), "--method"),
    ],
)
def test_options_that_need_another_one_say_which(
    run: Run, words: tuple[str, ...], said: str
) -> None:
    code, out, told = run(*words)
    assert code == FAILED
    assert said in out + told


@pytest.mark.parametrize(
    ("method", "random"), [("edges", False), ("snow", True), ("edges+snow", True)]
)
def test_a_seed_where_nothing_is_random_is_said_to_have_no_effect(
    run: Run, there: list[str], method: str, random: bool
) -> None:
    words = ["--set", "p=0.1", "--unit", "frame"] if random else []
    code, _, told = run("protect", "in.png", "out.png", "--method", method, "--seed", "3", *words)
    assert code == DONE
    assert ("The seed has no effect" in told) is not random
    code, _, told = run("protect", "in.png", "b.png", "--method", method, *words)
    assert code == DONE
    assert "The seed" not in told
