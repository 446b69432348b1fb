"""The README says what is true: its examples run, its tables are generated, its links lead somewhere."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
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


def test_a_figure_is_stale_when_its_data_are_and_not_when_its_bytes_are() -> None:
    figure = (ROOT / "benchmarks/results/maskdp-accuracy.svg").read_text(encoding="utf-8")
    elsewhere = figure.replace('id="p', 'id="q').replace("url(#p", "url(#q")
    assert elsewhere != figure
    current = runpy.run_path(str(ROOT / "docs/generate.py"))["current"]
    assert current("benchmarks/results/maskdp-accuracy.svg", figure, elsewhere)
    number = re.search(r"\d\.\d{4,}", drawn_part := figure[figure.index("description") :])
    assert number
    other = figure.replace(drawn_part, drawn_part.replace(number[0], f"9{number[0]}", 1))
    assert not current("benchmarks/results/maskdp-accuracy.svg", figure, other)
    assert not current("docs/results.md", figure, elsewhere)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


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


def test_every_command_shown_exists_with_its_options() -> None:
    """Each verb and option in the pages is known to the command line."""
    wrong = []
    helps: dict[tuple[str, ...], str] = {}
    for line in commands():
        words = shlex.split(line)[1:]
        for depth in (2, 1):
            verb = tuple(word for word in words[:depth] if re.fullmatch(r"[a-z][a-z-]*", word))
            if len(verb) == depth and verb not in helps:
                done = subprocess.run(
                    [sys.executable, "-m", "sfumato", *verb, "--help-all"],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={"COLUMNS": "200", "TERM": "dumb", "PATH": "/usr/bin:/bin"},
                )
                helps[verb] = done.stdout if done.returncode == 0 else ""
            if len(verb) == depth and helps[verb]:
                break
        else:
            wrong.append(f"{line}: no such verb")
            continue
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        wrong += [f"{line}: no {option}" for option in options if option not in helps[verb]]
    assert not wrong, "\n".join(wrong)
    assert len(helps) >= 5
