"""sfumato review: a page, answers, and an exit code that says whether somebody was seen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command import DONE, FAILED, Run

from sfumato.media import write_image
from sfumato.protect import make, release


@pytest.fixture
def released(tmp_path: Path) -> Path:
    picture = np.arange(32 * 48 * 3, dtype=np.uint8).reshape(32, 48, 3)
    write_image(tmp_path / "in.png", picture)
    release(make("edges", {}), tmp_path / "in.png", tmp_path / "out.png")
    return tmp_path / "out.png"


def answers_of(page: Path, left: str) -> Path:
    """What the page's script saves when every frame gets the same answer."""
    (data,) = re.findall(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    answers = json.loads(data)["unanswered"]
    for one in answers["answers"]:
        one["left"] = left
    page.with_suffix(".json").write_text(json.dumps(answers))
    return page.with_suffix(".json")


def test_page_then_answers_then_the_card(run: Run, released: Path, tmp_path: Path) -> None:
    code, said, _ = run("review", released, "--sheet", "page.html")
    assert code == DONE
    assert "nobody has looked yet" in said
    assert "Nobody has looked" in run("verify", released)[1]
    answers = answers_of(tmp_path / "page.html", "no")
    code, said, _ = run("review", released, "--answers", answers, "--by", "Jane Doe")
    assert code == DONE
    assert "Jane Doe looked" in said
    assert "Jane Doe looked" in run("verify", released)[1]


def test_somebody_who_is_seen_is_recorded_and_fails_the_command(
    run: Run, released: Path, tmp_path: Path
) -> None:
    run("review", released)
    page = tmp_path / "out.png.review.html"
    answers = answers_of(page, "yes")
    code, said, _ = run("review", released, "--answers", answers, "--by", "Jane Doe", "--json")
    found = json.loads(said)
    assert code == FAILED
    assert not found["ok"]
    assert found["left"] == [{"recording": "out.png", "frame": 0}]
    assert found["review"]["share_at_most"] == 1
    run("review", released, "--force")
    code, said, _ = run("review", released, "--answers", answers_of(page, "yes"), "--by", "Joe")
    assert code == FAILED
    assert "--cover" in said
    assert "frame 0 of out.png" in said


@pytest.mark.parametrize(
    "words",
    [
        ["--by", "Jane Doe"],
        ["--answers", "answers.json"],
        ["--answers", "answers.json", "--by", "Jane Doe"],
        ["--answers", "answers.json", "--by", "Jane Doe", "--frames", "3"],
        ["--answers", "out.png", "--by", "Jane Doe"],
        ["--sheet", "."],
        ["--sheet", "in.png"],
    ],
)
def test_what_does_not_fit_together_is_one_sentence(
    run: Run, released: Path, words: list[str]
) -> None:
    code, _, told = run("review", released, *words)
    assert code == FAILED
    assert told.startswith("sfumato: Expected")
