"""The page: complete, self-contained, escaped, the same for the same input."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import pytest
from report_material import a_measure, all_kinds, page_of, proven

from sfumato.files import OutputExistsError
from sfumato.privacy import format_epsilon
from sfumato.report import Report, collect, render, write_report

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> $\\frac{1} {{ 7*7 }} #0a0a01"
_VOID = {"meta", "img", "br", "link", "input", "hr"}


class Tags(HTMLParser):
    """Tags and identifiers of a page; fails on a tag that is closed in the wrong order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_every_section_and_figure_is_there(page: str) -> None:
    found = Tags(page)
    sections = [
        "promise",
        "attacks",
        "curves",
        "classes",
        "confusions",
        "pictures",
        "gaps",
        "cards",
        "reproduce",
    ]
    drawn = [
        "allowed",
        "overview-privacy",
        "overview-utility",
        "curves",
        "classes-1",
        "confusion-1",
    ]
    assert set(sections) <= set(found.ids)
    assert {f"figure-{key}" for key in [*drawn, "picture-1"]} <= set(found.ids)
    assert sum(tag == "svg" for tag, _ in found.tags) == len(drawn)
    for tag, attributes in found.tags:
        if tag == "svg":
            assert attributes["role"] == "img"
            assert set((attributes["aria-labelledby"] or "").split()) <= set(found.ids)


def test_page_says_what_the_promise_says(page: str) -> None:
    assert str(proven()) in page
    assert f"Proven: epsilon {format_epsilon(proven().epsilon)}" in page
    assert "No guarantee: nothing is proven" in page
    assert "a person with several records" in page
    assert "epsilon of at least 1.25" in page
    assert "3 of 3 releases" not in page


def test_every_field_of_the_card_is_shown(page: str, untouched_run: Path) -> None:
    card = json.loads((untouched_run / "walk.mp4.card.json").read_text())
    for name in card.keys() - {"promise", "promise_in_words"}:
        assert f">{name}</th>" in page, name
    for name in card["promise"]:
        assert f">promise: {name}</th>" in page, name
    assert card["outputs"][0]["sha256"] in page


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    assert not re.search(r"https?:|//[a-z]|@import|@font-face", page.replace("data:image", ""))
    found = Tags(page)
    assert not {"script", "link", "iframe", "object", "embed"} & {tag for tag, _ in found.tags}
    for _, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/jpeg;base64,"))
    for target in re.findall(r"url\(([^)]*)\)", page):
        assert target.strip("\"'").lstrip("#") in found.ids


def test_identifiers_are_unique(page: str) -> None:
    ids = Tags(page).ids
    assert len(ids) > 50
    assert len(ids) == len(set(ids))


def test_hostile_words_stay_words(tmp_path: Path, release: Callable[..., Path]) -> None:
    target = release(method=HOSTILE, done=HOSTILE, tuning=HOSTILE)
    entries = [
        {k: (HOSTILE if k in {"name", "target"} else v) for k, v in one.items()}
        for one in all_kinds()
    ]
    entries[6]["per_class"] = {HOSTILE: 0.5, "_hidden": 0.2, "#0a0a01": 0.1}
    entries[7]["labels"] = [HOSTILE, "$\\frac{$", "漢字"]
    file = {"title": HOSTILE, "commands": [HOSTILE], "settings": {"x": HOSTILE}}
    measures = target.with_name("x.measures.json")
    measures.write_text(json.dumps({**file, "measures": entries}))
    (target.parent / "t.json").write_text(json.dumps({"rows": [{HOSTILE: HOSTILE}]}))
    page = page_of(target, measures, target.parent / "t.json")
    harmless = Tags(page)
    tags = {tag for tag, _ in harmless.tags}
    assert "script" not in tags
    assert "img" not in tags
    assert not [a for _, attributes in harmless.tags for a in attributes if a.startswith("on")]
    assert page.count("{{ 7*7 }}") > 10
    for label in ("_hidden", "#0a0a01", "$\\frac{$", "漢字"):
        assert re.search(rf"<text[^>]*>{re.escape(label)}</text>", page), label


def test_no_path_of_an_input_is_shown(tmp_path: Path, run: Path) -> None:
    (run / "rows.json").write_text(
        json.dumps({"rows": [{"clip": "/srv/ward7/ann.mp4"}], "source": "ward7/ann.mp4"})
    )
    page = page_of(run)
    assert "ward7" not in page
    assert str(tmp_path) not in page
    assert tmp_path.name not in page
    assert "[path withheld]" in page


def test_same_input_same_bytes_but_for_the_date(page: str, untouched_run: Path) -> None:
    before = dict(mpl.rcParams)
    later = render(Report(collect([untouched_run]), made_on="2031-05-06"))
    assert later != page
    assert later.replace("2031-05-06", "2026-01-02") == page
    assert dict(mpl.rcParams) == before


def test_colours_follow_the_page(page: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == set()
        assert "<text" in svg
    style = page.split("</style>")[0]
    used = set(re.findall(r"var\((--[\w-]+)\)", page))
    for scheme in (style, style.split("prefers-color-scheme: dark")[1], style.split("print {")[1]):
        assert used <= set(re.findall(r"(--[\w-]+):", scheme))


def test_releases_that_differ_by_file_only_stand_together(release: Callable[..., Path]) -> None:
    made = [release(f"{n}.mp4", content=b"%d" % n) for n in range(7)]
    page = page_of(*made)
    assert page.count('class="release"') == 1
    for target in made:
        assert (
            json.loads((target.parent / f"{target.name}.card.json").read_text())["outputs"][0][
                "sha256"
            ]
            in page
        )


def test_test_runs_and_changed_files_are_not_drawn_as_promises(
    release: Callable[..., Path],
) -> None:
    seeded = release("seeded.mp4", proven(seeded=True))
    changed = release("changed.mp4")
    changed.write_bytes(b"other")
    page = page_of(seeded, changed)
    assert 'id="figure-allowed"' not in page
    assert "2 of 2 releases cannot be relied on" in page
    assert "Proven:" not in page


@pytest.mark.parametrize(("unit", "part"), [("person", 0), ("record", 0), ("frame", 1)])
def test_a_promise_for_a_part_is_not_taken_for_one_for_a_person(
    release: Callable[..., Path], unit: str, part: int
) -> None:
    page = page_of(release(promise=replace(proven(), unit=unit, relation="replace")))
    assert "1 of 1 releases have a proven guarantee" in page
    assert page.count("protect a part of a recording only, not the person shown") == part


def test_originals_are_called_so(tmp_path: Path, run: Path) -> None:
    (run / "sheet.png").rename(tmp_path / "original.png")
    page = page_of(run / "walk.mp4", tmp_path / "original.png", with_originals=True)
    assert "ORIGINAL, not protected." in page
    assert "keep it like the recordings" in page
    assert "Protected frames" not in page


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ([{"low": 0.45, "value": 0.5}], "None of 1 measured attacks", "could not be judged"),
        ([{"chance": None}], "1 of 1 measured attacks could not be judged", "None of"),
        ([{"low": None, "high": None}], "1 of 1 measured attacks could not be judged", "None of"),
        ([{"low": 0.2, "value": 0.3, "high": 0.4}], "1 of 1 measured attacks could", "None of"),
        ([{}, {"chance": None}], "1 of 2 measured attacks did better", "None of"),
        ([{}, {"chance": None}], "1 of 2 measured attacks could not be judged", "None of"),
    ],
)
def test_none_is_said_only_when_every_attack_could_be_judged(
    tmp_path: Path, changes: list[dict[str, object]], said: str, unsaid: str
) -> None:
    measures = [a_measure(**each) for each in changes]
    (tmp_path / "m.measures.json").write_text(json.dumps(measures))
    page = page_of(tmp_path)
    assert said in page
    assert unsaid not in page


def test_an_attack_with_classes_alone_is_not_passed_over(tmp_path: Path) -> None:
    bars = {k: v for k, v in all_kinds()[6].items() if k != "target"}
    (tmp_path / "m.measures.json").write_text(json.dumps([bars]))
    assert "1 of 1 measured attacks could not be judged" in page_of(tmp_path)
    (tmp_path / "m.measures.json").write_text(
        json.dumps([bars, a_measure(name=bars["name"], low=0.4, value=0.5)])
    )
    assert "None of 1 measured attacks" in page_of(tmp_path)


def test_measures_alone_are_not_called_a_promise(tmp_path: Path) -> None:
    (tmp_path / "m.measures.json").write_text(json.dumps([a_measure()]))
    page = page_of(tmp_path)
    assert "Nothing on this page is a promise" in page
    assert "Leaks: better than guessing." in page


def test_output_is_whole_or_absent_and_never_replaced_unasked(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "report.html"
    run = run / "speed.json"
    write_report([run], target)
    written = target.read_bytes()
    with pytest.raises(OutputExistsError):
        write_report([run], target)
    assert target.read_bytes() == written
    write_report([run], target, force=True)
    assert os.listdir(target.parent) == ["report.html"]
