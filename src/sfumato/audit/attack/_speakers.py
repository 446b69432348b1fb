"""Who speaks in protected sound: speaker verification by attackers who know more and more.

Each hears a recording and scores every speaker it has enrolled. *Ignorant*: enrolled with originals,
and compared by a speaker network as it stands. *Lazy-informed*: the same, enrolled with protected
recordings. *Semi-informed*: it knows the method but not the secrets, protects recordings of its
targets itself, and trains on those, on everything it can measure: the network's vectors, spectra,
their dynamics, pitch. That is more than the challenges allow, where it trains on other speakers.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import logsumexp
from torch import nn

from sfumato.audit.attack._voice_views import voice_views
from sfumato.audit.measure._measure import BatchedMeasure, Estimate, MeasureError, Result
from sfumato.audit.measure._scores import wilson
from sfumato.devices import device_for
from sfumato.errors import reading
from sfumato.media import list_media, read_audio
from sfumato.models import SPEAKER_RATE, SpeakerEncoder

Floats = npt.NDArray[np.float64]
_RESAMPLES = 200


def equal_error_rate(genuine: npt.ArrayLike, impostor: npt.ArrayLike) -> float:
    """Where as many speakers are refused as impostors are let in; 0.5 is guessing.

    | case | rate |
    | --- | --- |
    | every genuine score above every impostor's | 0 |
    | all scores equal | 0.5 |
    """
    own, other = np.sort(np.asarray(genuine, float)), np.sort(np.asarray(impostor, float))
    if not len(own) or not len(other):
        raise MeasureError("Expected genuine and impostor scores, got none of one kind.")
    levels = np.unique(np.concatenate([own, other, [np.inf]]))
    refused = np.searchsorted(own, levels, "left") / len(own)
    let_in = 1 - np.searchsorted(other, levels, "left") / len(other)
    after = int(np.argmax(refused >= let_in))
    if after == 0:
        return float((refused[0] + let_in[0]) / 2)
    # between two levels the curve is a straight line
    before = after - 1
    gap = (let_in - refused)[[before, after]]
    share = gap[0] / (gap[0] - gap[1])
    return float(refused[before] + share * (refused[after] - refused[before]))


class SpeakerVerification(BatchedMeasure):
    """``update(scores, speakers)``: a score for every recording and speaker, and who it truly was."""

    name = "equal error rate"
    higher_is_better = True
    bounds = (0.0, 1.0)

    needs = "scores to measure"

    def update(self, scores: npt.ArrayLike, speakers: npt.ArrayLike) -> None:
        given, truth = np.asarray(scores, float), np.asarray(speakers, np.int64)
        if given.ndim != 2 or len(given) != len(truth) or given.shape[1] < 2:
            raise MeasureError(
                f"Expected a score for each recording and each of two or more speakers, got {given.shape}."
            )
        self.keep(given, truth)

    def compute(self) -> Estimate:
        """With a 95 % interval over recordings drawn again; of few speakers it says nothing more."""
        scores, truth = self.joined()
        drawn = np.random.default_rng(0).integers(0, len(truth), (_RESAMPLES, len(truth)))
        rates = [_rate(scores[rows], truth[rows]) for rows in drawn]
        value = _rate(scores, truth)
        low, high = np.quantile(rates, [0.025, 0.975])
        return Estimate(value, min(float(low), value), max(float(high), value), 0.95, 0.5)

    def rank_one(self) -> Estimate:
        """How often the speaker with the best score is the right one."""
        scores, truth = self.joined()
        hits = int((scores.argmax(1) == truth).sum())
        low, high = wilson(hits, len(truth))
        return Estimate(hits / len(truth), low, high, 0.95, 1 / scores.shape[1])

    def results(self, **facts: Any) -> list[Result]:
        rank = self.rank_one().parts
        return [
            self.result(**self.compute().parts, **facts),
            Result("rank-1", "privacy", False, (0.0, 1.0), **rank, **facts),
        ]


def _rate(scores: Floats, truth: npt.NDArray[np.int64]) -> float:
    own = np.eye(scores.shape[1], dtype=bool)[truth]
    return equal_error_rate(scores[own], scores[~own])


def attack_speakers(
    originals: Mapping[str, Floats], enrolled: Mapping[str, Floats], asked: Mapping[str, Floats],
    speakers: Sequence[npt.ArrayLike],
) -> dict[str, SpeakerVerification]:  # fmt: skip
    """Every attacker on the same recordings.

    ``originals``, ``enrolled`` (protected by the attacker) and ``asked`` (the release) hold views of
    recordings, ``network`` among them (``voice_views``); ``speakers`` says who speaks in each, from 0.
    """
    at_rest, known, truth = (np.asarray(each, np.int64) for each in speakers)
    found = {
        "ignorant": _to_means(originals["network"], at_rest, asked["network"]),
        "lazy-informed": _to_means(enrolled["network"], known, asked["network"]),
    }
    for name in [*enrolled, "everything"]:
        views = list(enrolled) if name == "everything" else [name]
        before, after = (np.hstack([each[v] for v in views]) for each in (enrolled, asked))
        found[f"semi-informed, {name}"] = trained_scores(before, known, after)
    measures = {}
    for name, scores in found.items():
        measures[name] = SpeakerVerification()
        measures[name].update(scores, truth)
    return measures


def _to_means(gallery: Floats, ids: npt.NDArray[np.int64], asked: Floats) -> Floats:
    """The cosine to the mean vector of each speaker."""
    means = np.stack([gallery[ids == k].mean(0) for k in range(ids.max() + 1)])
    return np.asarray(asked @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T)


def trained_scores(
    known: Floats, ids: npt.NDArray[np.int64], asked: Floats, *, steps: int = 150
) -> Floats:
    """Log probabilities of speakers: the mean of three networks and of discriminant analysis."""
    mean, spread = known.mean(0), known.std(0) + 1e-6
    # a number that hardly ever moved while it learned must not shout when it does
    x, y = (np.clip((each - mean) / spread, -4, 4) for each in (known, asked))
    return (_by_networks(x, ids, y, steps) + _by_discriminants(x, ids, y)) / 2


def _by_networks(x: Floats, ids: npt.NDArray[np.int64], y: Floats, steps: int) -> Floats:
    """Three networks with one hidden layer."""
    device = device_for("networks that learn voices")
    seen, asked = (torch.as_tensor(each, dtype=torch.float32).to(device) for each in (x, y))
    labels = torch.as_tensor(ids).to(device)
    total = torch.zeros(len(asked), int(ids.max()) + 1, device=device)
    with torch.random.fork_rng():
        for seed in range(3):
            torch.manual_seed(seed)
            net = nn.Sequential(
                nn.Dropout(0.2), nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Dropout(0.3),
                nn.Linear(64, total.shape[1]),
            ).to(device)  # fmt: skip
            optimizer = torch.optim.AdamW(net.parameters(), 5e-3, weight_decay=0.1)
            for _ in range(steps):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(seen), labels).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            net.eval()
            with torch.no_grad():
                total += torch.log_softmax(net(asked), 1)
    return np.asarray(total.cpu().double().numpy() / 3)


def _by_discriminants(x: Floats, ids: npt.NDArray[np.int64], y: Floats) -> Floats:
    """Linear discriminant analysis; its covariance is mixed half and half with a diagonal one."""
    means = np.stack([x[ids == k].mean(0) for k in range(ids.max() + 1)])
    within = x - means[ids]
    covariance = within.T @ within / len(x)
    even = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(0.5 * covariance + 0.5 * even + 1e-9 * np.eye(len(even)), means.T)
    found = y @ weights - 0.5 * (means * weights.T).sum(1)
    return np.asarray(found - logsumexp(found, axis=1, keepdims=True))


def speakers_folder(
    originals: Path, protected: Path, labels: Path | None = None, **facts: Any
) -> list[Result]:
    """Sound files beside the same protected: the first half of each speaker's enrolled, the rest asked.

    Who speaks is the column ``person`` of the labels, or the folder that a file lies in.
    """
    encoder = SpeakerEncoder.pretrained().to(device_for("speaker network"))
    files, people = _paired_sounds(originals, protected, labels)
    names = sorted(set(people))
    who = np.array([names.index(each) for each in people])
    place = np.array([np.sum(who[:k] == w) for k, w in enumerate(who)])
    known = place < np.bincount(who)[who] // 2
    if len(names) < 2 or np.bincount(who).min() < 2:
        raise MeasureError(
            f"Expected two recordings or more of each of two speakers or more, got {len(names)} "
            "speakers: say who speaks in a column person of --labels, or in the names of folders."
        )
    clear, shown = (
        _joined([voice_views([read_audio(p, SPEAKER_RATE).astype(float)], SPEAKER_RATE, encoder)
                 for p in paths])
        for paths in zip(*files)
    )  # fmt: skip

    def part(views: dict[str, Floats], rows: npt.NDArray[np.bool_]) -> dict[str, Floats]:
        return {name: values[rows] for name, values in views.items()}

    ids = [who[known], who[known], who[~known]]
    before = attack_speakers(part(clear, known), part(clear, known), part(clear, ~known), ids)
    after = attack_speakers(part(clear, known), part(shown, known), part(shown, ~known), ids)
    rows = []
    for name, measure in after.items():
        for result, plain in zip(measure.results(), before[name].results(), strict=True):
            note = f"{name} attacker"
            rows.append(result.about(target="speaker", note=note, unprotected=plain.value, **facts))
    return rows


def _joined(views: Sequence[dict[str, Floats]]) -> dict[str, Floats]:
    return {name: np.concatenate([each[name] for each in views]) for name in views[0]}


def _paired_sounds(
    originals: Path, protected: Path, labels: Path | None
) -> tuple[list[tuple[Path, Path]], list[str]]:
    first, second = (
        {p.relative_to(f).with_suffix("").as_posix(): p for p in list_media(f, kinds=("audio",))}
        for f in (originals, protected)
    )
    both = [key for key in first if key in second]
    if labels is not None:
        with reading("labels as CSV with columns file_name and person", MeasureError):
            text = labels.read_text(encoding="utf-8").splitlines()
            rows = {Path(r["file_name"]).with_suffix("").as_posix(): r["person"]
                    for r in csv.DictReader(text)}  # fmt: skip
        both = [key for key in both if key in rows]
    if not both:
        raise MeasureError(
            "Expected sound files of the same names in both folders (and in the labels), got none: "
            "protect with --keep-names."
        )
    people = [Path(key).parent.as_posix() if labels is None else rows[key] for key in both]
    return [(first[key], second[key]) for key in both], people
