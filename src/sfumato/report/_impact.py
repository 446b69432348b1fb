"""A draft for a data-protection impact assessment: what cards, audits and ledger know, and blanks.

The headings are those of Article 35(7) of the GDPR. Whatever only people know is a blank, marked as one;
nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.ledger import epsilon_in_words
from sfumato.privacy import Guarantee, checklist, without_paths
from sfumato.report._questions import three_questions
from sfumato.report._summary import promised, summary_of
from sfumato.report._templates import environment

if TYPE_CHECKING:
    from sfumato.report._page import Report

BLANK = "[to be filled in]"


@dataclass(frozen=True)
class ImpactTable:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ImpactPart:
    """One heading with sentences, questions that only people can answer, and tables."""

    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[ImpactTable, ...] = ()
    blanks: tuple[str, ...] = ()


def impact_assessment(report: Report) -> tuple[ImpactPart, ...]:
    return (
        _description(report),
        _necessity(report),
        _risks(report),
        _measures(report),
        _residual(report),
    )


def _description(report: Report) -> ImpactPart:
    made = ImpactTable(
        ("release", "method", "what was done", "made on"),
        tuple(
            (group.name, group.card.method, group.card.done, group.card.created)
            for group in report.groups
        ),
    )
    history = ImpactTable(
        ("date", "data set", "method", "purpose", "operator", "epsilon in all", "for"),
        tuple(
            (row.release.at[:10], row.release.dataset, row.release.mechanism,
             row.release.purpose or BLANK, row.release.operator or BLANK, epsilon_in_words(row.total),
             row.terms)
            for row in report.found.history
        ),
    )  # fmt: skip
    return ImpactPart(
        "1. Description of the processing",
        (f"Examined on {report.made_on}; releases: {len(report.found.releases)}.",),
        (made, history),
        (
            "Controller, and contact of the data-protection officer",
            "Who was recorded, how many people, where and when; are there children or patients",
            "Legal basis, and what the people recorded were told",
            "Recipients, and in which countries",
            "How long originals, private name lists and keys are kept, and who can reach them",
        ),
    )


def _necessity(report: Report) -> ImpactPart:
    purposes = sorted({row.release.purpose for row in report.found.history if row.release.purpose})
    said = (f"Purposes that the ledger has: {'; '.join(purposes)}.",) if purposes else ()
    useful = tuple(
        (one.title, f"{one.value:.3g}", "higher" if one.higher_is_better else "lower")
        for one in report.measures
        if one.group == "utility" and one.value is not None
    )
    return ImpactPart(
        "2. Necessity and proportionality",
        (*said, *(() if useful else ("How useful the releases are was not measured.",))),
        (ImpactTable(("what is still useful", "value", "better is"), useful),),
        (
            "Why the purpose cannot be reached with synthetic data, or with fewer recordings",
            "Why this method, and not one that shows less",
            "How the rights of the people recorded are met (access, erasure, objection)",
        ),
    )


def _risks(report: Report) -> ImpactPart:
    rows = [
        (group.name, question, answer)
        for group in report.groups
        for question, answer in three_questions(group.card).items()
    ]
    attacks = tuple(words for _, words in summary_of(report).attacked)
    return ImpactPart(
        "3. Risks to the people recorded",
        (
            "The three questions of the WP29 opinion 05/2014; then what attacks really got.",
            *attacks,
        ),
        (ImpactTable(("release", "risk", "answer"), tuple(rows)),),
        (
            "What would happen to a person who is recognised: likelihood and severity, in your setting",
            "Who could want to recognise somebody, and what they know already",
        ),
    )


def _measures(report: Report) -> ImpactPart:
    promises = [promised(group)[1] for group in report.groups]
    audits = [f"{group.name}: {group.first.audit[1]}" for group in report.groups]
    trust = dict.fromkeys(
        checklist(group.card)["Setting (who is trusted)"] for group in report.groups
    )
    budgets = [str(each) for each in report.found.statements]
    return ImpactPart(
        "4. Measures against these risks",
        (*promises, *audits, *trust, *budgets),
        (),
        (
            "Access control, contracts and deletion dates for recipients",
            "Who looked at the outputs by eye, when, and what they found",
            "Who signs the cards, and where exports of the ledger are kept",
        ),
    )


def _residual(report: Report) -> ImpactPart:
    lines: list[str] = []
    for group in report.groups:
        promise = group.card.promise
        if isinstance(promise, Guarantee) and group.first.status[0] == "good":
            lines.append(f"{group.name}: what goes beyond the stated epsilon, and beyond its unit.")
        else:
            lines.append(f"{group.name}: everything; nothing that can be relied on is proven.")
        if promise.not_covered:
            lines.append(f"{group.name}: not covered: {'; '.join(promise.not_covered)}.")
        if promise.assumptions:
            lines.append(f"{group.name}: assumed, not enforced: {'; '.join(promise.assumptions)}.")
    decisions = [f"To decide: {words}" for words in summary_of(report).decide]
    return ImpactPart(
        "5. Residual risk and decision",
        tuple(dict.fromkeys((*lines, *decisions))),
        (),
        (
            "Residual risk after all measures: low, medium or high, and why",
            "Must the supervisory authority be consulted (Article 36)",
            "Opinion of the data-protection officer; decision, name and date; next review",
        ),
    )


def impact_as_markdown(report: Report) -> str:
    """The draft as Markdown: nothing that a card says can become a heading, a link or markup."""
    lines = [
        "# Data-protection impact assessment (draft)",
        "",
        f"Filled by sfumato {__version__} on {report.made_on} from cards, audits and ledger. Every "
        f"{_plain(BLANK)} is for people to answer; this draft decides nothing.",
    ]
    for part in impact_assessment(report):
        lines += ["", f"## {part.heading}", ""]
        lines += [f"- {_plain(sentence)}" for sentence in part.sentences]
        for table in part.tables:
            if table.rows:
                lines += ["", _row(table.columns), _row("---" for _ in table.columns)]
                lines += [_row(map(_plain, row)) for row in table.rows]
        lines.append("")
        lines += [f"- **{question}:** {_plain(BLANK)}" for question in part.blanks]
    return "\n".join(lines) + "\n"


def impact_as_html(report: Report) -> str:
    """The same as one self-contained page, escaped by the template."""
    return (
        environment()
        .get_template("impact.html")
        .render(
            parts=impact_assessment(report),
            blank=BLANK,
            made_on=report.made_on,
            version=__version__,
        )
    )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text of others on one line, with everything escaped that Markdown or HTML would read."""
    flat = " ".join(without_paths(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{each}" if each in "\\`*_{}[]|#!" else each for each in flat)
