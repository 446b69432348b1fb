"""The attacker of the VoicePrivacy challenges: trained on protected speech of other speakers.

It never hears its targets while it learns. Then it enrols them with speech that it protected itself,
and compares each recording of the release with everybody who is enrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack import SpeakerVerification, discriminant_features

Floats = npt.NDArray[np.float64]
Views = Mapping[str, Floats]


def cosine(probes: Floats, means: Floats) -> Floats:
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (probes, means)]
    return np.asarray(unit[0] @ unit[1].T)


def by_stranger(
    learned: Views, speakers: Sequence[int], enrolled: Views, who: Sequence[int], asked: Views
) -> Floats:
    """(recordings asked, speakers enrolled): cosines where the speakers it learned from lie apart."""
    _, known = discriminant_features(learned, enrolled, speakers)
    _, probes = discriminant_features(learned, asked, speakers)
    ids = np.asarray(who)
    return cosine(probes, np.stack([known[ids == k].mean(0) for k in range(ids.max() + 1)]))


def every_pair(
    made: Views, makers: Sequence[int], enrolled: Views, known: Sequence[int], asked: Views,
    truth: Sequence[int],
) -> SpeakerVerification:  # fmt: skip
    """Every two speakers as targets; what it learns from are all others, and the ``made`` voices.

    Of four real speakers two are left to learn from, which is few: made voices are added.
    """
    ids, who = np.asarray(known), np.asarray(truth)
    measure = SpeakerVerification()
    for pair in combinations(range(ids.max() + 1), 2):
        mine, probes, others = np.isin(ids, pair), np.isin(who, pair), ~np.isin(ids, pair)
        learned = {name: np.concatenate([enrolled[name][others], made[name]]) for name in enrolled}
        names = [*ids[others].tolist(), *(int(ids.max()) + 1 + np.asarray(makers)).tolist()]
        scores = by_stranger(
            learned, names, _rows(enrolled, mine), (ids[mine] == pair[1]).astype(int).tolist(),
            _rows(asked, probes),
        )  # fmt: skip
        measure.update(scores, (who[probes] == pair[1]).astype(int))
    return measure


def every_pair_by_length(
    known: Sequence[int], seconds: Floats, truth: Sequence[int], asked: Floats
) -> SpeakerVerification:
    """The same trials by how near two lengths are: nothing is learned, nothing is heard."""
    ids, who = np.asarray(known), np.asarray(truth)
    measure = SpeakerVerification()
    means = np.array([np.log(seconds[ids == k]).mean() for k in range(ids.max() + 1)])
    for pair in combinations(range(len(means)), 2):
        probes = np.isin(who, pair)
        scores = -np.abs(np.log(asked[probes])[:, None] - means[list(pair)])
        measure.update(scores, (who[probes] == pair[1]).astype(int))
    return measure


def _rows(views: Views, rows: npt.NDArray[np.bool_]) -> dict[str, Floats]:
    return {name: values[rows] for name, values in views.items()}
