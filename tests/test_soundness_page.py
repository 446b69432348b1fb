"""What source, messages and pages cite can be found: every rule, lemma, finding and section."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/soundness.md").read_text(encoding="utf-8")
ANCHORS = re.findall(r'<a id="([^"]+)"></a>', PAGE)
SECTIONS = re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", PAGE, re.MULTILINE)

# A score is called F1 too; as the finding F1 has an anchor, the two need not be told apart.
CITED = re.compile(r"(?<![\w#/.-])([RFGHJ]\d{1,2}b?|Lemma [A-D])(?![\w-])")
SECTION = re.compile(r"(?:SOUNDNESS(?: section)?|soundness notes' section) (\d(?:\.\d)?)")
BY_SECTION = re.compile(r"section (\d) of the soundness notes")


def cited_in(text: str) -> set[str]:
    return {found.replace(" ", "-") for found in CITED.findall(text)}


def texts() -> Iterator[tuple[Path, str]]:
    for folder in ("src", "docs", "tests", "mutants", "bench"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".html"} and path != Path(__file__):
                yield path, path.read_text(encoding="utf-8")
    yield ROOT / "README.md", (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_citation_leads_somewhere() -> None:
    known = set(ANCHORS)
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path, text in texts()
        for each in sorted(cited_in(text) - known)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_cited_section_is_there() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path, text in texts()
        for pattern in (SECTION, BY_SECTION)
        for each in pattern.findall(text)
        if each not in SECTIONS
    ]
    assert not wrong, "\n".join(wrong)


def test_all_rules_and_lemmas_are_published_once() -> None:
    assert len(ANCHORS) == len(set(ANCHORS))
    for letter, last in (("R", 26), ("F", 13), ("G", 14), ("H", 13), ("J", 9)):
        assert {f"{letter}{number}" for number in range(1, last + 1)} <= set(ANCHORS)
    assert {f"Lemma-{letter}" for letter in "ABCD"} <= set(ANCHORS)


def test_no_entry_is_a_bare_number() -> None:
    for anchor in ANCHORS:
        entry = PAGE.split(f'<a id="{anchor}"></a>')[1].split("<a id=")[0]
        assert len(entry.split()) >= 6, anchor


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("refused (R5): leave", {"R5"}),
        ("(SOUNDNESS H8, R5)", {"H8", "R5"}),
        ("see Lemma D.", {"Lemma-D"}),
        ("R14: kept sound", {"R14"}),
        ("findings J6b and G12", {"J6b", "G12"}),
        ("H264, R2D2, 3F1, #F1F1, h.F12x, mp4/H2", set()),
    ],
)
def test_citations_are_seen(text: str, found: set[str]) -> None:
    assert cited_in(text) == found
