"""The page: everything collected, in the order in which a data-protection officer asks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from sfumato import __version__
from sfumato.errors import needs_extra
from sfumato.files import refuse_overwrite, write_text
from sfumato.ledger import HistoryRow
from sfumato.privacy import (
    Card,
    Guarantee,
    Output,
    checklist,
)
from sfumato.privacy.measures import Measured
from sfumato.report._collect import Collected, ReportedRelease, ReportError, collect
from sfumato.report._impact import impact_as_html, impact_as_markdown
from sfumato.report._learning import Learned
from sfumato.report._questions import three_questions
from sfumato.report._summary import PARTS, summary_of
from sfumato.report._templates import environment

if TYPE_CHECKING:
    from sfumato.report._figures import Figure

_NAMES_SHOWN = 3
_OF_ONE_FILE = {"outputs", "readable"}


@dataclass(frozen=True)
class CardGroup:
    """Releases with one and the same promise, method and state."""

    releases: tuple[ReportedRelease, ...]

    @property
    def first(self) -> ReportedRelease:
        return self.releases[0]

    @property
    def card(self) -> Card:
        return self.first.card

    @property
    def outputs(self) -> list[Output]:
        return [output for release in self.releases for output in release.card.outputs]

    @property
    def name(self) -> str:
        names = [release.name for release in self.releases]
        if len(names) <= _NAMES_SHOWN:
            return ", ".join(names)
        return f"{names[0]} and {len(names) - 1} more"


@dataclass(frozen=True)
class Report:
    """What ``render`` draws; also the numbers that the command line prints."""

    found: Collected
    made_on: str

    @cached_property
    def measures(self) -> list[Measured]:
        return [one for each in self.found.measures for one in each.measures]

    @cached_property
    def groups(self) -> list[CardGroup]:
        """Releases that differ in their files only stand together."""
        together: dict[str, list[ReportedRelease]] = {}
        for release in self.found.releases:
            body = {k: v for k, v in release.card.body().items() if k not in _OF_ONE_FILE}
            # one entry of the ledger or several: the promise and the method are the same
            body["settings"] = {k: v for k, v in body["settings"].items() if k != "ledger_key"}
            state = [
                body,
                release.status,
                release.audit,
                release.intact,
                release.signer,
            ]
            together.setdefault(json.dumps(state, sort_keys=True), []).append(release)
        return [CardGroup(tuple(each)) for each in together.values()]

    @cached_property
    def figures(self) -> dict[str, list[Figure]]:
        """The drawings by section; empty sections stay out of the page."""
        with needs_extra("matplotlib", "report", "A report with figures"):
            from sfumato.report import _figures

        per_class = [one for one in self.measures if one.per_class is not None]
        per_class += [classes_of(each) for each in self.found.learned if each.per_class]
        matrices = [one for one in self.measures if one.matrix is not None]
        single = {
            "promise": [
                _figures.allowed_hits(
                    [
                        (each.name, each.card.promise)
                        for each in self.groups
                        if isinstance(each.card.promise, Guarantee)
                        and each.first.status[0] == "good"
                    ]
                )
            ],
            "attacks": [
                _figures.overview(group, self.measures) for group in ("privacy", "utility")
            ],
            "curves": [_figures.curves(self.measures)],
            "learning": [
                _figures.learning_curve(number, each)
                for number, each in enumerate(self.found.learned, start=1)
            ],
        }
        return {
            **{where: [each for each in made if each] for where, made in single.items()},
            "classes": [_figures.class_bars(n, one) for n, one in enumerate(per_class, start=1)],
            "confusions": [_figures.confusion(n, one) for n, one in enumerate(matrices, start=1)],
        }

    def summary(self) -> dict[str, int]:
        """Counts that a machine may act on."""
        releases = self.found.releases
        return {
            "releases": len(releases),
            "proven": sum(each.status[0] == "good" for each in releases),
            "changed": sum(each.intact == "changed" for each in releases),
            "forged": sum(each.forged for each in releases),
            "refuted": sum(each.audit[0] == "bad" for each in releases),
            "measures": len(self.measures),
            "leaking": sum(one.leaks for one in self.measures),
            "unjudged": sum(
                one.group == "privacy" and one.value is not None and not one.judged
                for one in self.measures
            ),
            "figures": sum(map(len, self.figures.values())),
            "pictures": len(self.found.pictures),
            "strips": len(self.found.strips),
            "ledger_releases": len(self.found.history),
            "left_out": self.found.left_out,
            "private": self.found.private,
            "without_card": self.found.without_card,
        }


def classes_of(learned: Learned) -> Measured:
    """The last held-out score of every class, as a measure that bars can be drawn of."""
    return Measured(
        name=f"held-out {learned.measure}", group="utility", release=learned.name,
        higher_is_better=True, bounds=(0.0, 1.0), per_class=learned.per_class,
    )  # fmt: skip


_DRAFTS = {".md": impact_as_markdown, ".html": impact_as_html}


def write_report(
    runs: list[str | os.PathLike[str]] | list[Path],
    output: str | os.PathLike[str],
    *,
    with_originals: bool = False,
    impact: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Report:
    """Collect ``runs`` and write one HTML file, all of it or nothing.

    ``impact`` names a second file, ``.md`` or ``.html``: the draft of an impact assessment.
    """
    refuse_overwrite(Path(output), force=force)
    if impact is not None:
        refuse_overwrite(Path(impact), force=force)
        if Path(impact).suffix.lower() not in _DRAFTS:
            raise ReportError(
                f"Expected the impact assessment as .md or .html, got {Path(impact).name!r}: rename it."
            )
    report = Report(
        collect([Path(run) for run in runs], with_originals=with_originals),
        made_on=datetime.now(UTC).date().isoformat(),
    )
    page = render(report)
    if impact is not None:
        write_text(impact, _DRAFTS[Path(impact).suffix.lower()](report), force=force)
    write_text(output, page, force=force)
    return report


def render(report: Report) -> str:
    """The whole page as text."""
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            version=__version__,
            risks=three_questions,
            summary=summary_of(report),
            checklist=checklist,
            fields=_fields,
            short=_in_short(report),
            gaps=_gaps(report),
            commands=_commands(report),
            picture=lambda each: Markup(each.uri),
        )
    )


def history_page(rows: Sequence[HistoryRow]) -> str:
    """The ledger's history as a page of its own; nothing that somebody typed into it can run there."""
    return environment().get_template("history.html").render(rows=rows, version=__version__)


def _in_short(report: Report) -> list[tuple[str, str]]:
    """The first things to know: a tone and a sentence each, where there is anything to count."""
    found, releases = report.found, report.found.releases
    tones = [each.status[0] for each in releases]
    proven = [
        (each.card.promise, tone)
        for each, tone in zip(releases, tones, strict=True)
        if isinstance(each.card.promise, Guarantee)
    ]
    bad, good, total = tones.count("bad"), tones.count("good"), len(releases)
    unseen = sum(tone == "warn" for _, tone in proven)
    parts = sum(tone == "good" and promise.unit.kind in PARTS for promise, tone in proven)
    stray = sum(not (each.vouched or each.original) for each in found.pictures)
    rows = [
        (bad, "bad", f"{bad} of {total} releases cannot be relied on."),
        (good, "good", f"{good} of {total} releases have a proven guarantee."),
        (unseen, "warn", f"{unseen} of {total} promises are about files that were not compared."),
        (parts, "warn", f"{parts} of these protect a part of a recording only, not the person shown."),
        (total - len(proven), "warn",
         f"{total - len(proven)} of {total} releases have no guarantee at all."),
        *_attacks_in_short(report.measures),
        (any(each.original for each in found.pictures), "bad",
         "This page shows original pictures: keep it like the recordings."),
        (stray, "bad",
         f"Pictures on this page that no card vouches for: {stray}. They may show anybody."),
        (found.private, "bad",
         f"Private previews or exports among these files: {found.private}. They show or describe "
         "the people unprotected: move them away before anything is shared."),
        (found.without_card, "bad",
         "Recordings, models or archives without a card among these files: "
         f"{found.without_card}. Nothing is known about them."),
    ]  # fmt: skip
    return [(tone, sentence) for count, tone, sentence in rows if count]


def _attacks_in_short(measures: list[Measured]) -> list[tuple[int, str, str]]:
    """ "None" is said only when every attack could be judged."""
    attacks = [one for one in measures if one.group == "privacy" and one.value is not None]
    named = {(one.name, one.release) for one in attacks}
    # classes and confusions belong to the value of the same name, or are an attack of their own
    attacks += [
        one
        for one in measures
        if one.group == "privacy" and one.value is None and (one.name, one.release) not in named
    ]
    leaking, total = sum(one.leaks for one in attacks), len(attacks)
    unjudged = total - sum(one.judged for one in attacks)
    harmless = 0 if leaking or unjudged else total
    return [
        (leaking, "bad", f"{leaking} of {total} measured attacks did better than guessing."),
        (unjudged, "warn",
         f"{unjudged} of {total} measured attacks could not be judged: see their reading."),
        (harmless, "plain", f"None of {total} measured attacks was shown to beat guessing."),
    ]  # fmt: skip


def _fields(group: CardGroup) -> dict[str, Any]:
    """Every field of the card as it stands in its file, with the promise spread out."""
    body = group.card.to_json()
    body["outputs"] = [vars(output) for output in group.outputs]
    body["readable"] = [each.card.readable or "not covered" for each in group.releases]
    promise = body.pop("promise")
    body.pop("promise_in_words")
    return {
        **{name: body[name] for name in sorted(body)},
        **{f"promise: {name}": value for name, value in promise.items()},
    }


def _gaps(report: Report) -> list[str]:
    """What nobody should read into this report."""
    found = report.found
    not_so: dict[str, Callable[[ReportedRelease], bool]] = {
        "Promises that no audit tried to refute": lambda each: (
            each.verdict is None and isinstance(each.card.promise, Guarantee)
        ),
        "Not at hand, so not compared with the card": lambda each: each.intact is None,
        "Cards of an older version, which do not cover their readable page": lambda each: (
            each.card.readable is None
        ),
        "Stored words that this version would not derive from the promise; derived ones are shown": (
            lambda each: not each.card.says_what_it_stored
        ),
        "Cards without a signature, so that nobody knows who wrote them": lambda each: (
            each.card.signature is None
        ),
    }
    gaps = [
        f"{sentence}: {', '.join(names)}."
        for sentence, is_so in not_so.items()
        if (names := [each.name for each in found.releases if is_so(each)])
    ]
    for each in found.releases:
        if each.verdict is not None:
            gaps += [f"The audit of {each.name} left out {what}." for what in each.verdict.not_run]
    unsure = sum(one.value is not None and one.low is None for one in report.measures)
    more = [
        (not any(one.group == "privacy" for one in report.measures),
         "No attack on the content was measured."),
        (unsure, f"{unsure} of the measured values came without an interval."),
        (found.left_out,
         f"{found.left_out} files in the named folders are not shown: pictures that no card vouches "
         "for, or JSON of another kind."),
        (True, "An attack that failed proves nothing: a better one may succeed. Only a proven guarantee "
         "limits all attacks, and only for the unit it names."),
        (found.unshown,
         f"{found.unshown} released videos could not be decoded, so they are not shown."),
        (not found.statements,
         "Releases of the same people add up: the ledger counts them, and none was given here "
         "(sfumato report FOLDER LEDGER.db)."),
    ]  # fmt: skip
    return gaps + [sentence for wanted, sentence in more if wanted]


def _commands(report: Report) -> list[str]:
    lines = []
    for release in report.found.releases:
        lines += [f"sfumato verify {output.name}" for output in release.card.outputs]
        lines.append(f"sfumato audit guarantee {release.card.outputs[0].name}.card.json")
    for each in report.found.measures:
        lines += each.commands
    lines.append("sfumato report RUN... -o report.html")
    return list(dict.fromkeys(lines))
