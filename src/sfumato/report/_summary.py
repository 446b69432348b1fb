"""The first page: what is released, what is promised to whom, what attacks got, what is left, what to decide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.ledger import Statement
from sfumato.privacy import Guarantee, NoGuarantee, UnitKind, format_epsilon, format_factor
from sfumato.privacy.measures import Measured

if TYPE_CHECKING:
    from sfumato.report._page import CardGroup, Report

Toned = tuple[str, str]
_NEARLY_SPENT = 0.9
_LINES_SHOWN = 5
_URGENCY = ("bad", "warn", "plain", "good")
PARTS = {UnitKind.PIXELS, UnitKind.FRAME, UnitKind.MASKED_TOKENS, UnitKind.FEATURES}


@dataclass(frozen=True)
class OfficerSummary:
    """Sentences with a tone each, in the order in which they are read."""

    released: tuple[Toned, ...]
    promised: tuple[Toned, ...]
    attacked: tuple[Toned, ...]
    budget: tuple[Toned, ...]
    decide: tuple[str, ...]


def summary_of(report: Report) -> OfficerSummary:
    return OfficerSummary(
        tuple(_released(report)),
        tuple(_first_lines([promised(group) for group in report.groups])),
        tuple(_attacked(report.measures)),
        tuple(_budget(each) for each in report.found.statements)
        or (
            ("warn", "No ledger was given: what these people were promised before is not counted."),
        ),
        tuple(_decisions(report)),
    )


def _released(report: Report) -> list[Toned]:
    kinds = Counter(group.card.method for group in report.groups for _ in group.outputs)
    made = ", ".join(f"{count} by {method}" for method, count in kinds.most_common())
    lines = (
        [("plain", f"{kinds.total()} output{'s' * (kinds.total() > 1)}: {made}")] if kinds else []
    )
    changed = sum(each.intact == "changed" for each in report.found.releases)
    return lines + ([("bad", f"{changed} changed since their card was written")] if changed else [])


def promised(group: CardGroup) -> Toned:
    """What one promise means for whom, in a sentence."""
    tone, words = group.first.status
    promise = group.card.promise
    if tone == "bad":
        return tone, f"{group.name}: nothing that can be relied on. {words}."
    if isinstance(promise, NoGuarantee):
        return "warn", f"{group.name}: nobody is promised anything. {promise.reason}"
    part = promise.unit.kind in PARTS
    beyond = " That is a part of a recording, not the person shown." if part else ""
    return "warn" if part else tone, (
        f"{group.name}: for {promise.unit.sentence}, what anybody concludes may change by a factor of at "
        f"most {format_factor(promise.epsilon)} (epsilon {format_epsilon(promise.epsilon)}, "
        f"{promise.terms}).{beyond}"
    )


def _attacked(measures: Sequence[Measured]) -> list[Toned]:
    attacks = [one for one in measures if one.group == "privacy" and one.value is not None]
    if not attacks:
        return [("warn", "No attack on the content was measured.")]
    return _first_lines(
        [
            ("bad" if one.leaks else "plain" if one.judged else "warn", _attack(one))
            for one in attacks
        ]
    )


def _first_lines(lines: list[Toned]) -> list[Toned]:
    """As many as fit a page, what is worst first; the sections below have all of them."""
    lines = sorted(lines, key=lambda line: _URGENCY.index(line[0]))
    if (more := len(lines) - _LINES_SHOWN) > 0:
        lines[_LINES_SHOWN:] = [("plain", f"and {more} more, below")]
    return lines


def _attack(one: Measured) -> str:
    guess = "" if one.chance is None else f", guessing gets {one.chance:.3g}"
    return f"{one.title}: {one.value:.3g}{guess}. {one.reading.capitalize().rstrip('.')}."


def _budget(statement: Statement) -> Toned:
    tone = "good" if statement.used < _NEARLY_SPENT else "bad"
    budget = statement.budget
    if not budget.finite:
        tone, words = "warn", f"no limit; {format_epsilon(statement.spent_epsilon)} spent"
    else:
        words = (
            f"{math.floor(100 * (1 - statement.used) + 1e-9)} % left: epsilon {format_epsilon(statement.spent_epsilon)} of "
            f"{budget.epsilon:g} spent"
        )
    bare = len(statement.without_guarantee)
    beside = f"; {bare} releases beside it that no number covers" if bare else ""
    if bare and tone == "good":
        tone = "warn"
    return tone, f"{statement.dataset}: {words} ({budget.terms}){beside}."


def _decisions(report: Report) -> list[str]:
    """What only a person can settle, the most urgent first."""
    found, counts = report.found, report.summary()
    promises = [each.card.promise for each in found.releases]
    asked = [
        (counts["changed"] + counts["forged"], "Hold back what changed since its card was written, or "
         "whose signature does not fit, and find out why."),
        (counts["refuted"], "Hold back the release whose promise an audit refuted."),
        (sum(isinstance(each, Guarantee) and not each.is_private for each in promises),
         "Make the test runs anew without a seed before anything is released."),
        (found.private, "Move the private previews and exports away from the release."),
        (found.without_card, "Protect or remove the files that no card describes."),
        (counts["leaking"], "Decide whether a release is acceptable although an attack did better than "
         "guessing: say for which recipients, under which contract, until when."),
        (sum(isinstance(each, NoGuarantee) for each in promises), "Decide who may receive the releases "
         "without a guarantee: they stay personal data."),
        (sum(each.used >= _NEARLY_SPENT for each in found.statements), "Decide whether a budget that is "
         "nearly spent ends here."),
        (sum(each.verdict is None and isinstance(each.card.promise, Guarantee)
             for each in found.releases), "Have the promises audited: sfumato audit guarantee OUTPUT."),
        (not counts["measures"] and bool(found.releases), "Have somebody attack the content: sfumato audit leaks OUTPUT."),
        (sum(each.card.signature is None for each in found.releases), "Decide who signs the cards: "
         "sfumato verify OUTPUT --sign KEY."),
    ]  # fmt: skip
    return [words for wanted, words in asked if wanted] or ["Nothing is open on this page."]
