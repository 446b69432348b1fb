"""What somebody needs who must judge a release: a first page, pictures, history, and a draft to fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_material import a_measure, make_release, page_of, proven, unproven

from sfumato.ledger import Ledger, LedgerError
from sfumato.media import VideoWriter
from sfumato.privacy import Card, Output
from sfumato.report import (
    Report,
    ReportError,
    collect,
    impact_as_html,
    impact_as_markdown,
    write_report,
)
from sfumato.report._questions import three_questions

EVIL = "<script>alert(1)</script> [x](y) | # *b*"


def film(path: Path, frames: int = 20) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, rate=Fraction(10), size=(64, 48), codec="ffv1") as writer:
        for number in range(frames):
            writer.write(np.full((48, 64, 3), 10 * number, np.uint8))
    return path


def vouched(path: Path) -> Path:
    film(path)
    Card(method="noise", done="D.", promise=proven(), outputs=(Output.of(path),)).write(path)
    return path


def ledger(path: Path, **said: str) -> Ledger:
    book = Ledger.open(path)
    book.create("gym", owner="Ada", epsilon=6, delta=1e-5, unit="record", relation="add-remove")
    book.reserve("gym", proven(), key="k", **said)
    book.commit("k")
    book.record_outputs("k", [("walk.mp4", "ab" * 32)])
    return book


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


def test_a_strip_is_shown_of_every_video_that_a_card_vouches_for_and_of_no_other(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    vouched(run / "a.mkv")
    film(run / "stranger.mkv")
    changed = vouched(run / "changed.mkv")
    changed.write_bytes(film(tmp_path / "other.mkv", 7).read_bytes())
    make_release(run / "broken.mp4")
    found = collect([run])
    assert [(each.name, each.shown) for each in found.strips] == [("a.mkv", (0, 5, 10, 14, 19))]
    assert found.unshown == 1
    page = page_of(run)
    assert section(page, "strips").count("<img") == 1
    assert "1 released videos could not be decoded" in page


def test_a_forged_card_shows_nothing(tmp_path: Path) -> None:
    from sfumato.privacy import _signature

    video = vouched(tmp_path / "run" / "a.mkv")
    _signature.make_key(tmp_path / "key")
    file = video.with_name("a.mkv.card.json")
    signed = _signature.sign(Card.from_json(json.loads(file.read_text())), tmp_path / "key")
    text = json.dumps(signed.to_json())
    file.write_text(text)
    assert len(collect([tmp_path / "run"]).strips) == 1
    file.write_text(text.replace('"D."', '"E."'))
    assert collect([tmp_path / "run"]).strips == ()


def history(step: int, accuracy: float) -> dict[str, Any]:
    return {
        "step": step,
        "epsilon": step / 10,
        "held_out_accuracy": accuracy,
        "held_out_mean_class_accuracy": accuracy / 2,
        "held_out_per_class": {"wave": accuracy, "sit": 0.25},
    }


def test_a_model_has_its_learning_curve_and_bars_by_class(tmp_path: Path) -> None:
    model = make_release(tmp_path / "run" / "model.safetensors")
    rows = [history(10, 0.5), history(20, 0.75)]
    model.with_name("history.json").write_text(json.dumps({"history": rows}))
    found = collect([tmp_path / "run"])
    (learned,) = found.learned
    assert learned.scores["held-out accuracy"] == (0.5, 0.75)
    assert learned.per_class == {"wave": 0.75, "sit": 0.25}
    assert found.left_out == 0
    page = page_of(tmp_path / "run")
    assert 'id="figure-learning-1"' in section(page, "learning")
    assert 'id="figure-classes-1"' in section(page, "classes")


@pytest.mark.parametrize("text", ["[", "{}", '{"history": [{"step": "x"}]}', '{"history": []}'])
def test_a_history_that_cannot_be_read_is_no_reason_to_stop(tmp_path: Path, text: str) -> None:
    model = make_release(tmp_path / "run" / "model.safetensors")
    model.with_name("history.json").write_text(text)
    assert collect([tmp_path / "run"]).learned == ()


def test_the_ledger_is_read_from_the_folder_or_by_name(tmp_path: Path) -> None:
    make_release(tmp_path / "run" / "walk.mp4")
    ledger(tmp_path / "book.db", operator="Olga", purpose=EVIL)
    page = page_of(tmp_path / "run", tmp_path / "book.db")
    assert "Olga" in section(page, "history")
    assert EVIL not in page
    assert "&lt;script&gt;" in section(page, "history")
    assert "% left: epsilon" in section(page, "summary")
    assert 'id="history"' not in page_of(tmp_path / "run")
    (tmp_path / "book.db").rename(tmp_path / "run" / "book.db")
    assert "Olga" in section(page_of(tmp_path / "run"), "history")


def test_a_database_that_is_no_ledger_is_left_out_of_a_folder_and_refused_by_name(
    tmp_path: Path,
) -> None:
    import sqlite3

    make_release(tmp_path / "run" / "walk.mp4")
    with sqlite3.connect(tmp_path / "run" / "other.db") as made:
        made.execute("create table t (x)")
    found = collect([tmp_path / "run"])
    assert (found.statements, found.left_out) == ((), 1)
    with pytest.raises(LedgerError, match="Expected a ledger"):
        collect([tmp_path / "run" / "other.db"])


def test_the_summary_comes_first_and_says_what_to_decide(
    tmp_path: Path, release: Callable[..., Path]
) -> None:
    release("walk.mp4")
    release("blurred.mp4", unproven())
    (tmp_path / "run" / "x.measures.json").write_text(
        json.dumps({"schema": "sfumato-measures", "version": 1, "measures": [a_measure()]})
    )
    page = page_of(tmp_path / "run")
    assert page.index('id="summary"') < page.index('id="promise"')
    told = section(page, "summary")
    for words in (
        "What is released",
        "blurred.mp4: nobody is promised anything",
        "walk.mp4: for",
        "0.71, guessing gets 0.5",
        "No ledger was given",
        "they stay personal data",
        "did better than",
        "Decide who signs",
    ):
        assert words in told, words
    (tmp_path / "run" / "walk.mp4").write_bytes(b"other")
    assert "Hold back what changed" in section(page_of(tmp_path / "run"), "summary")


def card_of(method: str, **settings: Any) -> Card:
    output = Output(name="a.mp4", sha256="0" * 64, size=1)
    return Card(method=method, done="D.", promise=unproven(), outputs=(output,), settings=settings)


def test_the_three_questions_are_answered_by_method() -> None:
    cards = {
        "faces": card_of("blur", region="faces"),
        "people": card_of("blur", region="people"),
        "avatar": card_of("avatar"),
        "skeleton": card_of("skeleton"),
        "edges": card_of("edges"),
        "model": card_of("sgd"),
        "pass": card_of("pass"),
    }
    answers = {name: tuple(three_questions(card).values()) for name, card in cards.items()}
    assert len(set(answers.values())) == len(answers)
    assert all(len(each) == 3 for each in answers.values())
    assert "was not found" in answers["faces"][0]
    assert "moves as the person did" in answers["avatar"][0]
    assert "no pixel of the recording" in answers["skeleton"][0]
    # of a chain, what is seen in the end
    assert three_questions(card_of("blur+avatar")) == three_questions(cards["avatar"])
    # where people are shown on purpose, nobody is told that their faces are gone
    for method in ("silhouette", "blur", "edges"):
        for region in ("background", "text", "mask file"):
            assert (
                "are shown as they"
                in three_questions(card_of(method, region=region))["singling out"]
            )
    faces = three_questions(card_of("silhouette", region="faces"))
    assert tuple(faces.values()) == answers["faces"]
    # an unknown method is not made better than it is
    assert all("Not excluded" in each for each in three_questions(card_of("new")).values())


def test_details_of_each_clip_are_folded(page: str) -> None:
    assert page.count("<details") >= 4
    assert "<details open" not in page


def draft(tmp_path: Path) -> Report:
    make_release(tmp_path / "run" / "walk.mp4", done=EVIL)
    make_release(tmp_path / "run" / "blurred.mp4", unproven(), method="blur")
    ledger(tmp_path / "run" / "book.db", operator="Olga", purpose="falls")
    return Report(collect([tmp_path / "run"]), made_on="2026-01-02")


def test_an_impact_assessment_has_the_usual_headings_what_is_known_and_blanks(
    tmp_path: Path,
) -> None:
    report = draft(tmp_path)
    markdown, page = impact_as_markdown(report), impact_as_html(report)
    for heading in ("Description", "Necessity", "Risks", "Measures", "Residual risk"):
        assert re.search(rf"^## \d\. {heading}", markdown, re.MULTILINE)
        assert re.search(rf"<h2>\d\. {heading}", page)
    for known in ("falls", "Olga", "Blur can be undone.", "a person with several records"):
        assert known in markdown, known
        assert known in page, known
    assert markdown.count(r"\[to be filled in\]") >= 12
    assert page.count("<mark>") >= 12


def test_nothing_that_a_card_says_becomes_markup_in_the_draft(tmp_path: Path) -> None:
    report = draft(tmp_path)
    markdown, page = impact_as_markdown(report), impact_as_html(report)
    assert "<script" not in markdown + page
    assert r"\[x\](y) \| \# \*b\*" in markdown
    columns = {line.count(" | ") for line in markdown.splitlines() if line.startswith("| walk")}
    assert columns == {2, 3}
    for loads in ("http:", "https:", "url(", " src="):
        assert loads not in page


def test_the_draft_is_written_beside_the_report_or_nothing_is(tmp_path: Path) -> None:
    make_release(tmp_path / "run" / "walk.mp4")
    with pytest.raises(ReportError, match=r"as \.md or \.html"):
        write_report([tmp_path / "run"], tmp_path / "r.html", impact=tmp_path / "d.pdf")
    assert not (tmp_path / "r.html").exists()
    for name in ("d.md", "d.html"):
        write_report([tmp_path / "run"], tmp_path / "r.html", impact=tmp_path / name, force=True)
        assert "to be filled in" in (tmp_path / name).read_text()
