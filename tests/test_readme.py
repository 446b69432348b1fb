"""The pages say what is true: examples run, tables are generated, links lead somewhere, the navigation is whole."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sfumato.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_python_examples_run(page: Path) -> None:
    done = doctest.testfile(str(page), module_relative=False)
    assert done.failed == 0


def test_generated_tables_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs/generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_page_of_results_says_first_what_is_real_and_who_chose_the_settings() -> None:
    for page in sorted((DOCS / "results").glob("*.md")):
        title, first = page.read_text(encoding="utf-8").split("\n\n", 2)[:2]
        assert title.startswith("# "), page.name
        marked = " ".join(re.findall(r"\*\*(.+?)\*\*", first)).lower()
        for said in ("real", "staged", "oracle", "settings"):
            assert said in first.lower(), (page.name, said)
        assert "real" in marked, page.name
        assert "settings" in marked, page.name


def test_a_figure_is_stale_when_its_data_are_and_not_when_its_bytes_are() -> None:
    path = DOCS / "results" / "maskdp-accuracy.svg"
    figure = path.read_text(encoding="utf-8")
    elsewhere = figure.replace('id="p', 'id="q').replace("url(#p", "url(#q")
    assert elsewhere != figure
    current = runpy.run_path(str(ROOT / "docs/generate.py"))["current"]
    assert current(path, figure, elsewhere)
    number = re.search(r"\d\.\d{4,}", drawn_part := figure[figure.index("description") :])
    assert number
    other = figure.replace(drawn_part, drawn_part.replace(number[0], f"9{number[0]}", 1))
    assert not current(path, figure, other)
    assert not current(DOCS / "results.md", figure, elsewhere)


def anchors(text: str) -> set[str]:
    """What a link to the page may name: its headings, as GitHub and the site spell them, and its own ids."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[\s]+", "-", heading) for heading in plain} | set(
        re.findall(r"<a id=\"([^\"]+)\"", text)
    )


def broken_links(page: Path, text: str) -> list[str]:
    """Links of ``text``, which stands in ``page``, to files and anchors that are not there."""
    links = re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)
    links += re.findall(r"<img src=\"(?!https?:)([^\"]+)\"", text)
    broken = []
    for link in links:
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8") if file else text)
        ):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_or_anchor_is_noticed() -> None:
    page = DOCS / "train.md"
    fine = "# Some heading, here\n[a](pose.md) [b](#some-heading-here) [c](soundness.md#Lemma-D)"
    assert broken_links(page, fine) == []
    wrong = "[a](nowhere.md) [b](#nothing) [c](soundness.md#Lemma-Z) ![d](images/none.jpg)"
    assert len(broken_links(page, wrong)) == 4


def in_navigation(entry: Any) -> list[str]:
    """The files below an entry of the navigation in mkdocs.yml."""
    if isinstance(entry, str):
        return [entry]
    return [file for each in entry for file in in_navigation(
        next(iter(each.values())) if isinstance(each, dict) else each)]  # fmt: skip


def test_every_page_is_in_the_navigation_once() -> None:
    shown = in_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    # CONTRIBUTING.md lies at the root: docs/site_hooks.py takes it along
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | {"contributing.md"}
    assert sorted(shown) == sorted(pages)


def changes(page: Path) -> list[list[str]]:
    """The rows of a page's table of everyday changes: what, and the files it touches."""
    table = page.read_text(encoding="utf-8").split("| change | files |\n")[1].split("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def test_the_twelve_changes_are_the_same_on_both_pages_and_name_files_that_are_there() -> None:
    rows = changes(ROOT / "CONTRIBUTING.md")
    assert rows == changes(DOCS / "architecture.md")
    assert len(rows) == 12
    for change, where in rows:
        paths = [path for path in re.findall(r"`([^` ]+)`", where) if "/" in path or "." in path]
        assert paths, change
        for path in paths:
            assert (ROOT / path).exists(), (change, path)


def test_every_room_but_the_command_line_has_a_page_of_reference() -> None:
    law = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rooms = set(re.findall(r"^\| `(\w+)` \|", law.split("## ")[1], re.MULTILINE)) - {
        "cli",
        "studio",
    }
    pages = {path.stem: path for path in (DOCS / "reference").glob("*.md")}
    assert rooms == set(pages) - {"index"}
    for room in rooms:
        assert f"::: sfumato.{room}\n" in pages[room].read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every ``sfumato ...`` line of code in the pages, continued lines joined, comments dropped."""
    found = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
        fenced = "".join(
            re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        )
        shown = re.findall(r"^    (sfumato [a-z][^\n#`|]*)", text, re.MULTILINE)
        found += shown + re.findall(r"^(?:\$ )?(sfumato [a-z][^\n#`|]*)", fenced, re.MULTILINE)
    # brackets mark what may be left out; it must exist all the same
    return sorted({re.sub(r"[\[\]]", " ", line).strip() for line in found})


def test_every_command_shown_exists_with_its_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each verb and option in the pages is known to the command line."""
    monkeypatch.setenv("COLUMNS", "200")
    wrong = []
    helps: dict[tuple[str, ...], str] = {}
    for line in commands():
        words = shlex.split(line)[1:]
        for depth in (2, 1):
            verb = tuple(word for word in words[:depth] if re.fullmatch(r"[a-z][a-z-]*", word))
            if len(verb) == depth and verb not in helps:
                monkeypatch.setattr(sys, "argv", ["sfumato", *verb, "--help-all"])
                with pytest.raises(SystemExit) as stopped:
                    main()
                said = capsys.readouterr().out
                helps[verb] = said if not stopped.value.code else ""
            if len(verb) == depth and helps[verb]:
                break
        else:
            wrong.append(f"{line}: no such verb")
            continue
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        wrong += [f"{line}: no {option}" for option in options if option not in helps[verb]]
    assert not wrong, "\n".join(wrong)
    assert len(helps) >= 5
