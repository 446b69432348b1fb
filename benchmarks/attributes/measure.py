"""One row of table ``pass``: a protector fitted, then attacked by everybody who may.

NAGs are in per cent of the way from guessing to the same attack on unprotected records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.attributes.cases import VALIDATION_LIMIT, VALIDATION_SEED, Case, tried
from benchmarks.attributes.data import Split, share_of
from sfumato.attributes import (
    AttributeTable,
    DonorSet,
    Pass,
    PassTraining,
    best_channel,
    guess_bound,
    read_table,
)
from sfumato.attributes.baselines import BASELINES, GameSettings
from sfumato.audit import ProbeSettings
from sfumato.audit.attack import BayesAttacker, Obfuscation, probe, repeated_release
from sfumato.audit.attack._probe import score_probe, train_probe
from sfumato.audit.measure import AttributeScores, ClassifierScores, mnag, nag
from sfumato.data import ArrayRecords, chosen_rows
from sfumato.privacy import Randomness

Row = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How hard everybody tries; ``quick`` tables say so and prove nothing."""

    steps: int = 400
    game: GameSettings = field(default_factory=GameSettings)
    attack: ProbeSettings = field(default_factory=lambda: ProbeSettings(epochs=10, batch=512))
    most_donors: int = 24_000


class Reference:
    """The classifier of unprotected records: where NAG is 100, and the one nobody adapted."""

    def __init__(self, names: Sequence[str], split: Split, effort: Effort) -> None:
        train, test = split
        self._known = read_table(train, names)
        self._tested = read_table(test, names, classes=self._known.classes)
        self._network, _ = train_probe(None, self._known, effort.attack)

    def on(self, protector: Obfuscation | None) -> dict[str, AttributeScores]:
        """Its success on test records as ``protector`` releases them."""
        return score_probe(self._network, protector, self._tested, self._known)

    def guesses(self) -> dict[str, npt.NDArray[np.int64]]:
        """What it takes every unprotected test record for."""
        with torch.no_grad():
            logits = self._network(self._network.features(self._tested.x))
        return {name: logit.argmax(1).numpy() for name, logit in logits.items()}

    @property
    def truth(self) -> dict[str, npt.NDArray[np.int64]]:
        return {name: codes.numpy() for name, codes in self._tested.labels.items()}


def floor_row(case: Case, split: Split, clear: Row) -> Row:
    """NAG of what must disappear where exactly the useful classes are shown: nobody gets below it.

    Beyond this a method tells more than was asked to be kept (the gap of Theorem 4.2).
    """
    train, test = split
    known = read_table(train, (*case.private, *case.useful))
    tested = read_table(test, (*case.private, *case.useful), classes=known.classes)
    shown = []
    for table in (known, tested):
        code = torch.zeros(len(table), dtype=torch.int64)
        for name in case.useful:
            code = code * known.class_count(name) + table.labels[name]
        shown.append(code)
    # classes that occur, numbered: with several useful attributes most combinations never do
    kinds, numbers = torch.unique(torch.cat(shown), return_inverse=True)
    rows = torch.nn.functional.one_hot(numbers, len(kinds)).double()
    scores = {
        name: BayesAttacker.learn(
            rows[: len(known)], known.labels[name], known.class_count(name)
        ).score(rows[len(known) :], tested.labels[name])
        for name in case.private
    }
    return {name: each["nag"] for name, each in _with_nag(scores, clear).items()}


def bound_row(case: Case, plain: Reference, clear: Row, most: float) -> Row:
    """mNAG that no channel beats which hides as much: one that sees the labels, one that guesses.

    The second knows of a record what the classifier of unprotected records takes it for, and its
    NAG has that classifier's scale.
    """
    names = (*case.private, *case.kept)
    truth = {name: plain.truth[name] for name in names}
    guessed = plain.guesses()
    scales = {
        "labels": (truth, dict.fromkeys(names, 1.0)),
        "guesses": (guessed, {name: clear[name]["accuracy"] for name in names}),
    }
    found = {}
    for kind, (shown, unprotected) in scales.items():
        seen = np.zeros(len(truth[names[0]]), dtype=np.int64)
        for name in names:
            seen = seen * (int(truth[name].max()) + 1) + shown[name]
        best = best_channel(seen, truth, private=case.private, unprotected=unprotected, most=most)
        nags = {name: round(value, 3) for name, value in best.nags.items()}
        found[kind] = {"mnag": round(best.mnag, 3), "nags": nags}
    return found | {"most": most}


def fit_row(case: Case, train: ArrayRecords, seed: int, effort: Effort, kept: Path) -> Row:
    """Fit PASS and keep the model; what the fit alone took, by the clock and of processor time."""
    seen = share_of(train, case.share)
    steps = min(effort.steps, case.training.get("steps", effort.steps))
    method = Pass(
        case.private,
        case.useful,
        donors_of(case, seen, seed, effort),
        training=PassTraining(**{**case.training, "steps": steps, "seed": seed}),
        **case.settings,
    )
    started, used = time.perf_counter(), time.process_time()
    method.fit(seen)
    cost = {
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(time.process_time() - used, 1),
        "threads": torch.get_num_threads(),
        "steps": steps,
    }
    assert method.theory is not None
    bound = method.theory.live_bound(method.history[-1][1].total(method.lambda_, method.mu))
    method.save(kept, force=True)
    return cost | {"live_bound": round(bound, 4)}


def validated_lambda(case: Case, train: ArrayRecords, effort: Effort) -> Row:
    """The lambda of ``case.lambdas`` that does best on a fifth of the training records, which the fits
    do not see: the highest mNAG among those whose private NAGs stay within ``VALIDATION_LIMIT``, or the
    one that hides best where none does. Test records have no say."""
    order = np.arange(len(train))
    split = tuple(
        chosen_rows(train, order[part].tolist()) for part in (order % 5 != 0, order % 5 == 0)
    )
    known = Reference(sorted(case.attributes), (split[0], split[1]), effort)
    clear = {name: rounded(score) for name, score in known.on(None).items()}
    rows: dict[float, Row] = {}
    for lambda_ in case.lambdas:
        short = tried(case, lambda_)
        with TemporaryDirectory() as folder:
            kept = Path(folder) / "tried.safetensors"
            fit_row(short, split[0], VALIDATION_SEED, effort, kept)
            found = pass_row(
                short, (split[0], split[1]), clear, VALIDATION_SEED, effort, kept, None
            )
        worst = max(found["attackers"]["exact"][name]["nag"] for name in case.private)
        rows[lambda_] = {"mnag": found["mnag"]["exact"], "worst": worst}
    return {"lambda": best_lambda(rows), "tried": {str(each): row for each, row in rows.items()}}


def best_lambda(rows: Mapping[float, Row]) -> float:
    hiding = {each: row for each, row in rows.items() if row["worst"] <= VALIDATION_LIMIT}
    if hiding:
        return max(hiding, key=lambda each: hiding[each]["mnag"])
    return min(rows, key=lambda each: rows[each]["worst"])


def donors_of(case: Case, seen: ArrayRecords, seed: int, effort: Effort) -> DonorSet:
    """The donors of a case: who they are follows from the seed."""
    count = min(case.donors, effort.most_donors, len(seen))
    if case.donor_mix is None:
        return DonorSet.sample(seen, count, declared="public", seed=seed)
    name, shares = case.donor_mix
    return DonorSet.mixed(seen, count, name, shares, declared="public", seed=seed)


def pass_row(
    case: Case,
    split: Split,
    clear: Row,
    seed: int,
    effort: Effort,
    kept: Path,
    plain: Callable[[], Reference] | None,
) -> Row:
    """The PASS in ``kept``, by the exact attacker and, with ``plain``, by a trained and an unadapted one."""
    train, test = split
    donors = donors_of(case, share_of(train, case.share), seed, effort)
    method = Pass.load(kept, donors, randomness=Randomness(seed))
    known = read_table(train, case.attributes)
    tested = read_table(test, case.attributes, classes=known.classes)
    found = _exact(case, method, known, tested, clear)
    if plain is not None:
        _probe_into(found, case, method, split, clear, effort)
        _unfinetuned_into(found, case, method, clear, plain())
    return found


def baseline_row(
    case: Case,
    name: str,
    split: Split,
    clear: Row,
    seed: int,
    effort: Effort,
    plain: Callable[[], Reference],
) -> Row:
    """An adversarial method: what its own adversary sees, and what a fresh attacker does."""
    train, test = split
    seen = share_of(train, case.share)
    settings = GameSettings(**{**vars(effort.game), "seed": seed})
    started = time.perf_counter()
    method = BASELINES[name](case.private, case.useful, settings=settings).fit(seen)
    seconds = time.perf_counter() - started
    known = read_table(train, case.private)
    tested = read_table(test, case.private, classes=known.classes)
    own = {}
    for attribute, probabilities in method.protector_guesses(tested.x).items():
        measure = ClassifierScores(tested.class_count(attribute))
        measure.update(probabilities.numpy(), tested.labels[attribute].numpy())
        own[attribute] = measure.compute()
    found: Row = {"attackers": {"own": _with_nag(own, clear)}, "mnag": {}}
    _probe_into(found, case, method, split, clear, effort)
    _unfinetuned_into(found, case, method, clear, plain())
    return found | {"seconds": round(seconds, 1)}


def released_row(case: Case, released: Split, clear: Row, effort: Effort) -> Row:
    """Records released by another method already: the probing attack on them as they are."""
    found: Row = {"attackers": {}, "mnag": {}}
    _probe_into(found, case, None, released, clear, effort)
    return found


def _probe_into(
    found: Row,
    case: Case,
    method: Obfuscation | None,
    split: Split,
    clear: Row,
    effort: Effort,
) -> None:
    train, test = split
    scores = dict(probe(method, train, test, case.private, settings=effort.attack).scores)
    scores |= probe(
        method, train, test, (*case.kept, *case.also), settings=effort.attack, together=True
    ).scores
    found["attackers"]["probe"] = _with_nag(scores, clear)
    found["mnag"]["probe"] = _mnag(case, found["attackers"]["probe"])


def _unfinetuned_into(
    found: Row, case: Case, method: Obfuscation, clear: Row, plain: Reference
) -> None:
    scores = plain.on(method)
    kept = {name: scores[name] for name in case.useful}
    found["attackers"]["unfinetuned"] = _with_nag(kept, clear)


def _exact(
    case: Case, method: Pass, known: AttributeTable, tested: AttributeTable, clear: Row
) -> Row:
    train_rows, test_rows = method.substitution(known.x), method.substitution(tested.x)
    scores, gamma, repeated = {}, {}, {}
    for name in case.attributes:
        attacker = BayesAttacker.learn(train_rows, known.labels[name], known.class_count(name))
        scores[name] = attacker.score(test_rows, tested.labels[name])
        if name not in case.private:
            continue
        gamma[name] = guess_bound(train_rows, known.labels[name], known.class_count(name)).gamma
        if all(tested.owners):
            owners = [who[0] for who in tested.owners]
            repeated[name] = [
                {"draws": each.draws, "accuracy": each.accuracy, "remembered": kept}
                for kept in (False, True)
                for each in repeated_release(
                    attacker,
                    test_rows,
                    tested.labels[name],
                    owners,
                    draws=(1, 10, 100),
                    trials=5,
                    remembered=kept,
                )
            ]
    exact = _with_nag(scores, clear)
    return {
        "attackers": {"exact": exact},
        "mnag": {"exact": _mnag(case, exact)},
        "gamma": gamma,
        "repeated": repeated,
        "row_entropy": round(float(-torch.special.xlogy(test_rows, test_rows).sum(1).mean()), 4),
        "confusion": {
            name: confusion(method, test_rows, tested, name)
            for name in (*case.private, *case.useful)
        },
    }


def confusion(
    method: Pass, substitution: torch.Tensor, tested: AttributeTable, name: str
) -> list[list[float]]:
    """Share of records of class i replaced by a donor of class j (the paper's Figure 4)."""
    donors = read_table(method.donors.records, [name], classes=tested.classes).labels[name]
    count = tested.class_count(name)
    onto = substitution @ torch.nn.functional.one_hot(donors, count).to(substitution.dtype)
    return [
        [round(float(value), 3) for value in onto[tested.labels[name] == code].mean(0)]
        for code in range(count)
    ]


def rounded(score: AttributeScores) -> dict[str, float]:
    """What the table shows of an attack, as shares."""
    return {
        "accuracy": round(score.accuracy, 5),
        "guessing": round(score.guessing, 5),
        "balanced": round(score.balanced_accuracy, 5),
        "chance": round(1 / score.classes, 5),
        "auc": round(score.auc, 5),
        "information": round(score.information, 5),
        "information_bias": round(score.information_bias, 5),
    }


def _with_nag(scores: Mapping[str, AttributeScores], clear: Row) -> Row:
    return {
        name: rounded(score)
        | {
            "nag": round(
                nag(
                    score.accuracy,
                    guessing=score.guessing,
                    unprotected=clear[name]["accuracy"],
                ),
                3,
            )
        }
        for name, score in scores.items()
    }


def _mnag(case: Case, scores: Row) -> float:
    kept = {name: scores[name]["nag"] for name in case.kept}
    private = {name: scores[name]["nag"] for name in case.private}
    return round(mnag(private=private, kept=kept), 3)
