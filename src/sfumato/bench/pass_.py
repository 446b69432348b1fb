"""Table ``pass``: PASS on real recordings, attacked by the exact and by a trained attacker.

Results go to ``results/pass.json`` after every run, and runs already there are not repeated, so the
table can be stopped and resumed. NAGs are in per cent of the way from guessing to the same attack
on unprotected records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sfumato.audit import (
    AttributeScores,
    BayesAttacker,
    ClassifierScores,
    Obfuscation,
    ProbeReport,
    ProbeSettings,
    mnag,
    nag,
    probe,
    repeated_release,
    unfinetuned,
)
from sfumato.data import ArrayRecords, Records, Subset, audio_mnist, sisfall, utkface
from sfumato.files import write_json
from sfumato.privacy import Randomness
from sfumato.protect.attributes import (
    DonorSet,
    Pass,
    Table,
    Training,
    guess_bound,
    read_table,
)
from sfumato.protect.attributes.baselines import BASELINES, AdversarialMethod, GameSettings

Split = tuple[Records, Records]
_ATTACK = ProbeSettings(epochs=12)


@dataclass(frozen=True)
class Case:
    """One task on one data set. ``hidden`` attributes are used in the attack only."""

    name: str
    load: Callable[[Path], Split]
    private: tuple[str, ...]
    useful: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    donors: int = 4096
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    # the paper's Table 15: the protector sees half of what the attacker has
    protector_share: float = 1.0

    @property
    def attributes(self) -> tuple[str, ...]:
        return (*self.private, *self.useful, *self.hidden)


def audio_split(data: Path) -> Split:
    """Takes 0-39 train, 40-49 test, as in the paper."""
    folder = data / "audiomnist"
    return audio_mnist(folder, "train"), audio_mnist(folder, "test")


def motion_split(data: Path) -> Split:
    """Each person's windows of an activity: the first 70 % train, a gap of one window, the rest.

    Windows of 128 as log spectra (65, 6): where in a step a window starts says nothing.
    """
    windows = sisfall(data / "sisfall", magnitude=False)
    windows.x = np.log1p(np.abs(np.fft.rfft(windows.x, axis=1))).astype(np.float32)
    assert windows.owners is not None
    runs: dict[tuple[str, int], list[int]] = {}
    for index, (who, activity) in enumerate(zip(windows.owners, windows.y.tolist())):
        runs.setdefault((who[0], activity), []).append(index)
    train, test = [], []
    for run in runs.values():
        cut = round(0.7 * len(run))
        # windows overlap by half: two steps apart they share nothing
        train += run[: max(0, cut - 1)]
        test += run[cut + 1 :]
    return _rows(windows, train), _rows(windows, test)


def face_split(data: Path) -> Split:
    """Every fifth face is a test face; age in four groups."""
    faces = utkface(data / "utkface")
    order = np.arange(len(faces))
    return _faces(faces, order[order % 5 != 0]), _faces(faces, order[order % 5 == 0])


def _faces(faces: Records, chosen: np.ndarray) -> ArrayRecords:
    kept = [faces[int(index)] for index in chosen]
    # small grey pictures: half the size, one channel; ImageNet features can be put here instead
    pixels = np.stack([each.x[::2, ::2].mean(2) for each in kept]).astype(np.float32)
    age = np.digitize([int(each.attributes["age"]) for each in kept], [30, 45, 60])
    return ArrayRecords(
        pixels,
        age,
        attributes={
            "gender": [int(each.attributes["gender"]) for each in kept],
            "race": [int(each.attributes["race"]) for each in kept],
            "age": age,
        },
    )


def _share(records: Records, share: float) -> Records:
    if share == 1:
        return records
    chosen = np.random.default_rng(0).permutation(len(records))[: round(share * len(records))]
    return Subset(records, [int(index) for index in np.sort(chosen)])


def _rows(records: ArrayRecords, chosen: Sequence[int]) -> ArrayRecords:
    owners = records.owners
    return ArrayRecords(
        records.x[list(chosen)],
        records.y[list(chosen)],
        owners=None if owners is None else [owners[index] for index in chosen],
        attributes={name: value[list(chosen)] for name, value in records.attributes.items()},
    )


# with no hidden attribute to keep, general features are worth little
_NOTHING_HIDDEN = {"mu": 0.02}
_AUDIO_HIDDEN = ("accent", "age", "speaker")
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("audio", audio_split, ("gender",), ("digit",), _AUDIO_HIDDEN),
        Case("audio-keep-all", audio_split, ("gender",), (*_AUDIO_HIDDEN, "digit")),
        Case("audio-two", audio_split, ("gender", "accent"), ("age", "speaker", "digit")),
        Case("audio-three", audio_split, ("gender", "accent", "age"), ("speaker", "digit")),
        Case("audio-four", audio_split, ("gender", "accent", "age", "speaker"), ("digit",)),
        Case(
            "motion",
            motion_split,
            ("sex", "person"),
            ("activity",),
            donors=1024,
            settings=_NOTHING_HIDDEN,
        ),
        Case(
            "motion-half",
            motion_split,
            ("sex", "person"),
            ("activity",),
            donors=1024,
            settings=_NOTHING_HIDDEN,
            protector_share=0.5,
        ),
        Case("faces", face_split, ("gender",), ("race",), ("age",), donors=2048),
    )
}
# Tables 9-12 of the paper and what sfumato changed, each one setting away from "audio".
for _name, _settings, _training, _donors in (
    ("lambda-0.2", {"lambda_": 0.2}, {}, 4096),
    ("lambda-5", {"lambda_": 5.0}, {}, 4096),
    ("mu-0.02", {"mu": 0.02}, {}, 4096),
    ("mu-0.5", {"mu": 0.5}, {}, 4096),
    ("donors-1024", {}, {}, 1024),
    ("donors-2048", {}, {}, 2048),
    ("batch-entropy", {}, {"bank_rate": 1.0}, 4096),
    ("own-start", {}, {"donor_start": "encoder"}, 4096),
    ("random-start", {}, {"donor_start": "random"}, 4096),
):
    CASES[f"audio-{_name}"] = Case(
        f"audio-{_name}",
        audio_split,
        ("gender",),
        ("digit",),
        _AUDIO_HIDDEN,
        _donors,
        _settings,
        _training,
    )


def run(
    data: Path,
    results: Path = Path("results/pass.json"),
    *,
    cases: Sequence[str] = ("audio",),
    seeds: Sequence[int] = (0, 1, 2),
    methods: Sequence[str] = ("pass",),
    steps: int = 400,
    trained_attacker: bool = True,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Fill the table; every finished run is stored before the next begins."""
    stored: dict[str, Any] = json.loads(results.read_text()) if results.is_file() else {}
    for name in cases:
        case = CASES[name]
        train, test = case.load(data)
        seen = _share(train, case.protector_share)
        known = read_table(train, case.attributes)
        tested = read_table(test, case.attributes, classes=known.classes)
        reference = f"{case.load.__name__}/unprotected"
        missing = [each for each in case.attributes if f"{reference}/{each}" not in stored]
        if missing:
            say(f"{name}: reference attack on unprotected records")
            clear_report = probe(None, train, test, missing, settings=_ATTACK, together=True)
            for each, score in clear_report.scores.items():
                stored[f"{reference}/{each}"] = score.accuracy
            write_json(results, stored, force=True)
        clear = {each: stored[f"{reference}/{each}"] for each in case.attributes}
        for method in methods:
            for seed in seeds:
                key = f"{name}/{method}/{seed}"
                if _finished(stored.get(key), steps, trained_attacker):
                    continue
                say(f"{key}: fitting")
                if method == "pass":
                    fitted, seconds = _fitted(case, seen, seed, steps)
                    found = _bayes(case, fitted, known, tested, clear)
                    found |= {"seconds": seconds, "steps": steps}
                    released: Obfuscation = fitted
                else:
                    released, found = _adversarial(case, method, seen, tested, seed, clear)
                stored[key] = found
                write_json(results, stored, force=True)
                if trained_attacker:
                    found["probe"] = _probed(case, released, train, test, clear)
                    plain = unfinetuned(released, train, test, case.useful, settings=_ATTACK)
                    found["unfinetuned_nag"] = {
                        each: round(value, 2) for each, value in _gains(plain.scores, clear).items()
                    }
                stored[key] = found
                write_json(results, stored, force=True)
                say(f"{key}: {summary(found)}")
    return stored


def _finished(found: Mapping[str, Any] | None, steps: int, trained_attacker: bool) -> bool:
    """A run counts as done if it was as long as asked for and attacked as asked for."""
    if found is None or found.get("steps", steps) != steps:
        return False
    return "probe" in found or not trained_attacker


def _fitted(case: Case, train: Records, seed: int, steps: int) -> tuple[Pass, float]:
    donors = DonorSet.sample(train, min(case.donors, len(train)), declared="public", seed=seed)
    method = Pass(
        case.private,
        case.useful,
        donors,
        training=Training(**{"steps": steps, "seed": seed, **case.training}),
        randomness=Randomness(seed),
        **case.settings,
    )
    started = time.perf_counter()
    method.fit(train)
    return method, round(time.perf_counter() - started, 1)


def _bayes(
    case: Case, method: Pass, known: Table, tested: Table, clear: Mapping[str, float]
) -> dict[str, Any]:
    train_rows, test_rows = method.substitution(known.x), method.substitution(tested.x)
    scores, gains = {}, {}
    found: dict[str, Any] = {}
    for name in case.attributes:
        attacker = BayesAttacker.learn(train_rows, known.labels[name], known.class_count(name))
        scores[name] = attacker.score(test_rows, tested.labels[name])
        gains[name] = nag(
            scores[name].accuracy, guessing=scores[name].guessing, unprotected=clear[name]
        )
        if name in case.private:
            bound = guess_bound(train_rows, known.labels[name], known.class_count(name))
            found[f"gamma_{name}"] = bound.gamma
            if all(tested.owners):
                owners = [who[0] for who in tested.owners]
                found[f"repeated_{name}"] = [
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
    assert method.theory is not None
    found |= {
        "bayes": {name: score.to_json() for name, score in scores.items()},
        "bayes_nag": {name: round(value, 2) for name, value in gains.items()},
        "bayes_mnag": _mnag(case, gains),
        "live_bound": method.theory.live_bound(
            method.history[-1][1].total(method.lambda_, method.mu)
        ),
        "row_entropy": float(-(test_rows * test_rows.clamp(min=1e-12).log()).sum(1).mean()),
        "confusion": {name: _confusion(method, test_rows, tested, name) for name in case.useful},
    }
    return found


def _confusion(method: Pass, rows: torch.Tensor, tested: Table, name: str) -> list[list[float]]:
    """Share of records of class i replaced by a donor of class j."""
    donors = method.donors.table(method.task, method.classes).labels[name]
    count = tested.class_count(name)
    onto = rows @ torch.nn.functional.one_hot(donors, count).to(rows.dtype)
    return [
        [round(float(value), 4) for value in onto[tested.labels[name] == code].mean(0)]
        for code in range(count)
    ]


def _adversarial(
    case: Case, name: str, train: Records, tested: Table, seed: int, clear: Mapping[str, float]
) -> tuple[AdversarialMethod, dict[str, Any]]:
    """A baseline with its own adversary's success: the paper's NAG-Protector."""
    started = time.perf_counter()
    method = BASELINES[name](case.private, case.useful, settings=GameSettings(seed=seed))
    method.fit(train)
    guesses = method.protector_guesses(tested.x)
    gains, information = {}, {}
    for attribute, probabilities in guesses.items():
        measure = ClassifierScores(tested.class_count(attribute))
        measure.update(probabilities.numpy(), tested.labels[attribute].numpy())
        score = measure.compute()
        gains[attribute] = round(
            nag(score.accuracy, guessing=score.guessing, unprotected=clear[attribute]), 2
        )
        information[attribute] = score.information
    return method, {
        "protector_nag": gains,
        "protector_information": information,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _probed(
    case: Case, method: Obfuscation, train: Records, test: Records, clear: Mapping[str, float]
) -> dict[str, Any]:
    scores = dict(probe(method, train, test, case.private, settings=_ATTACK).scores)
    rest = (*case.useful, *case.hidden)
    scores |= probe(method, train, test, rest, settings=_ATTACK, together=True).scores
    gains = _gains(scores, clear)
    return {
        "scores": ProbeReport(scores, 0).to_json()["scores"],
        "nag": {name: round(value, 2) for name, value in gains.items()},
        "mnag": _mnag(case, gains),
    }


def summary(found: Mapping[str, Any]) -> str:
    """One line of the table: NAGs by attacker."""
    parts = [
        f"{title} {json.dumps(found[key])}"
        for title, key in (
            ("exact attacker", "bayes_nag"),
            ("mNAG", "bayes_mnag"),
            ("own adversary", "protector_nag"),
        )
        if key in found
    ]
    if "probe" in found:
        parts.append(f"probe {json.dumps(found['probe']['nag'])} mNAG {found['probe']['mnag']}")
    return "; ".join(parts)


def _gains(scores: Mapping[str, AttributeScores], clear: Mapping[str, float]) -> dict[str, float]:
    return {
        name: nag(score.accuracy, guessing=score.guessing, unprotected=clear[name])
        for name, score in scores.items()
    }


def _mnag(case: Case, gains: Mapping[str, float]) -> float:
    kept = {name: gains[name] for name in (*case.useful, *case.hidden)}
    private = {name: gains[name] for name in case.private}
    return round(mnag(private=private, kept=kept), 2)
