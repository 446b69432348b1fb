"""Visual privacy: what an attacker reads off protected clips, attribute by attribute.

The headline attacker learns from protected clips and is asked about protected clips of other
people, because a release is public and so is its method. One who learned from raw clips is shown
beside it and named for what it is: domain shift, not leakage. Actions are scored by the two
protocols of Video-DPRP (4.3): trained on protected and tested on raw, or on protected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._attacker import Effort, Model, cross_infer
from sfumato.audit.measure._accuracy import MeanPerClassAccuracy, TopOne
from sfumato.audit.measure._measure import MeasureError, Result
from sfumato.audit.measure._multi_label import MultiLabel
from sfumato.audit.measure._scores import AttributeScores, ClassifierScores

SHIFT = "trained on raw, tested on protected: domain shift, not leakage"
HEADLINE = "trained and tested on protected"
PROTOCOLS = {
    "action, tested on raw": ("protected", "raw"),
    "action, tested on protected": ("protected", "protected"),
}


@dataclass(frozen=True)
class Attribute:
    """What one attribute is for every clip. ``people`` says whose clip it is where the attacker is
    to be tested on people it has never seen; without, it knows everybody from other clips."""

    codes: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    people: tuple[str, ...] | None = None

    @classmethod
    def of(cls, values: Sequence[Any], people: Sequence[str] | None = None) -> Attribute:
        """From one value a clip; classes are the values in order."""
        classes = sorted({str(value) for value in values})
        codes = np.array([classes.index(str(value)) for value in values], dtype=np.int64)
        return cls(codes, tuple(classes), None if people is None else tuple(people))


@dataclass(frozen=True)
class VisualReport:
    """Scores by attribute: of the headline attacker, under domain shift, and without protection."""

    scores: Mapping[str, AttributeScores]
    shifted: Mapping[str, AttributeScores]
    unprotected: Mapping[str, AttributeScores]
    multi_label: MultiLabel
    multi_label_unprotected: MultiLabel

    def results(self, **facts: Any) -> list[Result]:
        """Entries of a measures file; ``facts`` are ``release`` and ``epsilon``."""
        raw = self.multi_label_unprotected.compute()
        rows = []
        for result in self.multi_label.results(note=HEADLINE, **facts):
            whole = {"cMAP": raw.cmap, "class-wise F1": raw.f1}[result.name].value
            rows.append(result.about(unprotected=whole) if result.value is not None else result)
        for name, score in self.scores.items():
            before = self.unprotected[name]
            values = (before.balanced_accuracy, before.accuracy)
            for result, plain in zip(score.results(), values, strict=True):
                rows.append(result.about(target=name, unprotected=plain, note=HEADLINE, **facts))
            shifted = self.shifted[name].results()[0]
            rows.append(shifted.about(target=name, note=SHIFT, **facts))
        return rows


def visual_attack(
    originals: Mapping[str, Any],
    protected: Mapping[str, Any],
    attributes: Mapping[str, Attribute],
    *,
    attacker: Callable[[], Model] | None = None,
    effort: Effort | None = None,
) -> VisualReport:
    """Attack every attribute; ``originals`` and ``protected`` are views (``views_of``) of the same
    clips, or arrays of features of your own: ``{"mine": array}``."""
    if not attributes:
        raise MeasureError("Expected at least one attribute to attack, got none.")
    found: dict[str, dict[str, AttributeScores]] = {"shown": {}, "shift": {}, "raw": {}}
    ways = {"shown": (protected, protected), "shift": (originals, protected),
            "raw": (originals, originals)}  # fmt: skip
    guesses: dict[str, dict[str, npt.NDArray[np.float64]]] = {way: {} for way in ways}
    for name, attribute in attributes.items():
        for way, (taught, asked) in ways.items():
            guess = infer(taught, asked, attribute, attacker=attacker, effort=effort)
            measure = ClassifierScores(len(attribute.classes))
            measure.update(guess, attribute.codes, attribute.people)
            found[way][name] = measure.compute()
            guesses[way][name] = guess
    return VisualReport(
        found["shown"], found["shift"], found["raw"],
        multi_label(guesses["shown"], attributes), multi_label(guesses["raw"], attributes),
    )  # fmt: skip


def multi_label(
    guesses: Mapping[str, npt.NDArray[np.float64]], attributes: Mapping[str, Attribute]
) -> MultiLabel:
    """All attributes as one multi-label question, as VISPR asks it: cMAP and class-wise F1."""
    names = [each for name, attribute in attributes.items() for each in _names(name, attribute)]
    columns = [_one_sided(guesses[name]) for name in attributes]
    truth = [_one_sided(np.eye(len(each.classes))[each.codes]) for each in attributes.values()]
    known = [each.people for each in attributes.values() if each.people is not None]
    measure = MultiLabel(names)
    # recordings of one person are drawn together, also for what was learned about known people
    measure.update(
        np.concatenate(columns, 1), np.concatenate(truth, 1), known[0] if known else None
    )
    return measure


def infer(
    taught: Mapping[str, Any],
    asked: Mapping[str, Any],
    attribute: Attribute,
    *,
    attacker: Callable[[], Model] | None = None,
    effort: Effort | None = None,
) -> npt.NDArray[np.float64]:
    """Probabilities of the attribute's classes for every clip, learned from other clips."""
    return cross_infer(
        taught, asked, attribute.codes, groups=attribute.people, classes=len(attribute.classes),
        attacker=attacker, effort=effort,
    )  # fmt: skip


def action_protocols(
    originals: Mapping[str, Any],
    protected: Mapping[str, Any],
    actions: Attribute,
    *,
    attacker: Callable[[], Model] | None = None,
    effort: Effort | None = None,
    **facts: Any,
) -> list[Result]:
    """Utility by both protocols of Video-DPRP: top-1 and mPCA, and what raw clips give beside them."""
    views = {"raw": originals, "protected": protected}

    def scored(taught: str, asked: str) -> tuple[TopOne, MeanPerClassAccuracy]:
        guess = infer(views[taught], views[asked], actions, attacker=attacker, effort=effort)
        top, fair = TopOne(), MeanPerClassAccuracy()
        top.update(guess, actions.codes)
        fair.update(guess, actions.codes)
        return top, fair

    raw = [measure.compute().value for measure in scored("raw", "raw")]
    rows = []
    for target, (taught, asked) in PROTOCOLS.items():
        for measure, before in zip(scored(taught, asked), raw, strict=True):
            rows += measure.results(target=target, unprotected=before, **facts)
    return rows


def _one_sided(columns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Two classes are one question with two answers; more classes are one question each."""
    return columns[:, 1:] if columns.shape[1] == 2 else columns


def _names(name: str, attribute: Attribute) -> list[str]:
    if len(attribute.classes) == 2:
        return [f"{name} {attribute.classes[1]}"]
    return [f"{name} {each}" for each in attribute.classes]
