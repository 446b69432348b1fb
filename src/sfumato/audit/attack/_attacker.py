"""An attacker who learns a class from views: strong by default, and anybody's own instead.

Ridge regression onto the classes, closed form, on each view and on all together; how much it shrinks
and which views it believes is chosen on records that it did not learn from, whole people at a time.
Where there are enough records, the network of the probing attack (``_probe``) competes with it. Few
records and many features are the usual case of an audit, and there this is hard to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sfumato.attributes import AttributeTable
from sfumato.audit.attack._probe import ProbeNetwork, ProbeSettings, train_probe
from sfumato.audit.measure._measure import MeasureError

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Groups = npt.NDArray[Any]
_SHRINKS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0)
_COMPONENTS, _FOLDS = 512, 3


class Model(Protocol):
    """Your own attacker, as scikit-learn's classifiers are."""

    def fit(self, x: Any, y: Any) -> Any: ...

    def predict_proba(self, x: Any) -> Any: ...


@dataclass(frozen=True)
class Effort:
    """How hard the attacker tries. ``network_from`` records on, a network competes with ridge."""

    network_from: int = 1000
    network: ProbeSettings = field(
        default_factory=lambda: ProbeSettings(epochs=40, patience=6, width=512)
    )
    seed: int = 0


def folds_of(groups: Groups, count: int, seed: int = 0) -> Codes:
    """A fold for every record, so that no group is in two; groups are dealt by their size."""
    names, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise MeasureError(
            "Expected at least two groups (people, or recordings) to learn from some and be tested "
            f"on others, got {len(names)}: bring more."
        )
    count = min(count, len(names))
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    load, place = np.zeros(count), np.zeros(len(names), np.int64)
    for name in order:
        place[name] = int(load.argmin())
        load[place[name]] += sizes[name]
    return np.asarray(place[number], dtype=np.int64)


class Attacker:
    """Learns ``codes`` from ``views`` and gives probabilities of the classes for others."""

    def __init__(self, classes: int, effort: Effort | None = None) -> None:
        self.classes, self.effort = classes, effort or Effort()
        self.chosen = ""

    def fit(self, views: Mapping[str, Any], codes: Codes, groups: Groups | None = None) -> Attacker:
        groups = np.arange(len(codes)) if groups is None else np.asarray(groups)
        fold = folds_of(groups, _FOLDS, self.effort.seed)
        options = [*((name,) for name in views), tuple(views)] if len(views) > 1 else [tuple(views)]
        best = (-np.inf, 0.0)
        for names in options:
            space = Space.of({name: views[name] for name in names})
            points = space(views)
            for shrink in _SHRINKS:
                scores = np.zeros((len(codes), self.classes))
                for k in range(fold.max() + 1):
                    scores[fold == k] = _ridge(points[fold != k], codes[fold != k], self.classes,
                                               shrink)(points[fold == k])  # fmt: skip
                sharp, likelihood = _sharpened(scores, codes)
                quality = (_balanced_accuracy(scores, codes), likelihood)
                if quality > best:
                    best, self.chosen = quality, "+".join(names)
                    self._space, self._sharp, self._shrink = space, sharp, shrink
        self._solve = _ridge(self._space(views), codes, self.classes, self._shrink)
        self._network: ProbeNetwork | None = None
        if len(codes) >= self.effort.network_from:
            self._try_classifiers(views, codes, fold, best[0])
        return self

    def _try_classifiers(
        self, views: Mapping[str, Any], codes: Codes, fold: Codes, to_beat: float
    ) -> None:
        """A network on the same points; kept when it does better on the first fold left out."""
        points = self._space(views)
        learn, held = fold != 0, fold == 0
        settings = replace(self.effort.network, seed=self.effort.seed)
        network, _ = train_probe(None, _table(points[learn], codes[learn], self.classes), settings)
        if _balanced_accuracy(_network_probabilities(network, points[held]), codes[held]) > to_beat:
            self._network, _ = train_probe(None, _table(points, codes, self.classes), settings)
            self.chosen += " (network)"

    def predict(self, views: Mapping[str, Any]) -> Floats:
        """Probabilities (records, classes)."""
        points = self._space(views)
        if self._network is not None:
            return _network_probabilities(self._network, points)
        return _softmax(self._solve(points) * self._sharp)


def cross_infer(
    taught: Mapping[str, Any],
    asked: Mapping[str, Any],
    codes: npt.ArrayLike,
    *,
    groups: Sequence[Any] | None = None,
    classes: int | None = None,
    folds: int = 4,
    attacker: Callable[[], Model] | None = None,
    effort: Effort | None = None,
) -> Floats:
    """Probabilities for every record, by an attacker who learned from the records of other groups.

    ``taught`` and ``asked`` are views of the same records, as the attacker studies them and as it
    meets them: both protected is the headline, raw and protected is domain shift. ``attacker`` makes
    a model of your own with ``fit(x, y)`` and ``predict_proba(x)``.
    """
    truth = np.asarray(codes, dtype=np.int64)
    count = int(truth.max()) + 1 if classes is None else classes
    whom = np.arange(len(truth)) if groups is None else np.asarray(groups)
    names = [name for name in taught if name in asked]
    taught, asked = ({n: np.asarray(v[n]) for n in names} for v in (taught, asked))
    for name in names:
        if not len(taught[name]) == len(asked[name]) == len(truth) == len(whom):
            raise MeasureError(
                f"Expected one row of {name} a record ({len(truth)}), got {len(taught[name])} and "
                f"{len(asked[name])}."
            )
    fold, found = folds_of(whom, folds), np.zeros((len(truth), count))
    for k in range(fold.max() + 1):
        learn, test = fold != k, fold == k
        studied = {n: v[learn] for n, v in taught.items()}
        met = {n: v[test] for n, v in asked.items()}
        if attacker is None:
            found[test] = (
                Attacker(count, effort).fit(studied, truth[learn], whom[learn]).predict(met)
            )
        else:
            found[test] = _own_model_probabilities(attacker(), studied, truth[learn], met, count)
    return found


def _own_model_probabilities(
    model: Model, studied: Mapping[str, Any], codes: Codes, met: Mapping[str, Any], count: int
) -> Floats:
    model.fit(np.concatenate(list(studied.values()), 1), codes)
    given = np.asarray(model.predict_proba(np.concatenate(list(met.values()), 1)), np.float64)
    present = np.unique(codes)
    if given.shape[1] not in (count, len(present)):
        raise MeasureError(
            f"Expected your model to give probabilities of {len(present)} classes, got "
            f"{given.shape[1]}."
        )
    if given.shape[1] == count:
        return given
    whole = np.zeros((len(given), count))
    whole[:, present] = given
    return whole


@dataclass(frozen=True)
class Space:
    """Standardised columns, every view with the same weight, on their principal directions."""

    names: tuple[str, ...]
    mean: Floats
    scale: Floats
    directions: Floats

    @classmethod
    def of(cls, views: Mapping[str, Any]) -> Space:
        x = _flat(views, tuple(views))
        mean, spread = x.mean(0), x.std(0)
        width = np.concatenate([np.full(_width(v), np.sqrt(_width(v))) for v in views.values()])
        # a column that never changes carries nothing
        scale = np.where(spread > 1e-9, 1 / (np.maximum(spread, 1e-9) * width), 0.0)
        z = torch.from_numpy((x - mean) * scale)
        short = z if len(z) > z.shape[1] else z.T
        values, vectors = torch.linalg.eigh(short.T @ short)
        kept = torch.argsort(values, descending=True)[:_COMPONENTS]
        kept = kept[values[kept] > 1e-9 * values.max().clamp(min=1e-30)]
        found = vectors[:, kept]
        if short is not z:
            found = z.T @ found / values[kept].sqrt()
        return cls(tuple(views), mean, scale, found.numpy())

    def __call__(self, views: Mapping[str, Any]) -> Floats:
        return np.asarray((_flat(views, self.names) - self.mean) * self.scale @ self.directions)


def _width(view: Any) -> int:
    return int(np.prod(np.shape(view)[1:]))


def _flat(views: Mapping[str, Any], names: Sequence[str]) -> Floats:
    rows = [np.asarray(views[n], np.float64).reshape(len(views[n]), -1) for n in names]
    return np.concatenate(rows, 1)


def _ridge(x: Floats, codes: Codes, classes: int, shrink: float) -> Callable[[Floats], Floats]:
    """Least squares onto the classes, every class with the same weight, shrunk by ``shrink``."""
    counts = np.bincount(codes, minlength=classes)
    weight = (1 / np.maximum(counts, 1))[codes]
    weight = weight / weight.sum()
    target = np.eye(classes)[codes]
    centre, middle = weight @ x, weight @ target
    z = (x - centre) * np.sqrt(weight)[:, None]
    square = z.T @ z
    scale = np.trace(square) / max(len(square), 1)
    lifted = square + (shrink * scale + 1e-12) * np.eye(len(square))
    slope = np.linalg.solve(lifted, z.T @ ((target - middle) * np.sqrt(weight)[:, None]))
    return lambda other: np.asarray((other - centre) @ slope + middle, dtype=np.float64)


def _balanced_accuracy(scores: Floats, codes: Codes) -> float:
    guess = scores.argmax(1)
    return float(np.mean([(guess[codes == code] == code).mean() for code in np.unique(codes)]))


def _sharpened(scores: Floats, codes: Codes) -> tuple[float, float]:
    """The sharpness under which held-out classes are likeliest, and that mean log-likelihood."""
    rows = np.arange(len(codes))
    tried = [
        (float(np.log(np.maximum(_softmax(scores * s)[rows, codes], 1e-12)).mean()), s)
        for s in _SHARPNESS
    ]
    likelihood, sharp = max(tried)
    return sharp, likelihood


def _softmax(scores: Floats) -> Floats:
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def _table(points: Floats, codes: Codes, classes: int) -> AttributeTable:
    return AttributeTable(
        x=torch.from_numpy(points).float(),
        labels={"class": torch.from_numpy(codes)},
        classes={"class": tuple(str(code) for code in range(classes))},
        owners=((),) * len(codes),
    )


def _network_probabilities(network: Any, points: Floats) -> Floats:
    with torch.no_grad():
        logits = network(network.features(torch.from_numpy(points).float()))["class"]
    return np.asarray(torch.softmax(logits, 1).cpu().numpy(), dtype=np.float64)
