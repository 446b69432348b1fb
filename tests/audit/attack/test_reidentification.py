"""Who is who: rank-1 and ROC against slow oracles, gait, speakers, rooms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.attacks.people import KINECT_BONES
from sfumato.audit import MeasureError, measures_json
from sfumato.audit.attack import (
    Reidentification,
    discriminant_features,
    gait_vector,
    reidentify,
)
from sfumato.data import audio_mnist, utd_mhad
from sfumato.report import parse_measures


def test_rank_one_and_the_roc_area_equal_those_counted_pair_by_pair() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 4, 20).tolist()
    gallery = rng.normal(size=(20, 3)) + np.array(ids)[:, None]
    probes = gallery + rng.normal(size=(20, 3))
    found = reidentify(probes, gallery, ids).compute()
    hits, genuine, impostor = [], [], []
    for i in range(20):
        far = [(np.linalg.norm(probes[i] - gallery[j]), ids[j]) for j in range(20) if j != i]
        hits.append(min(far)[1] == ids[i])
        genuine += [d for d, who in far if who == ids[i]]
        impostor += [d for d, who in far if who != ids[i]]
    assert found.rank_one.value == pytest.approx(np.mean(hits))
    assert found.auc.value == pytest.approx(np.mean([g < d for g in genuine for d in impostor]))
    low = found.rank_one.low
    assert low is not None
    assert low < found.rank_one.value


def test_whoever_is_not_found_is_not_recognised_and_still_counts() -> None:
    gallery = np.eye(4)
    probes = np.eye(4)
    probes[2:] = np.nan
    measure = Reidentification()
    measure.update(probes, [0, 1, 2, 3], gallery, [0, 1, 2, 3])
    found = measure.compute()
    assert found.rank_one.value == 0.5
    assert found.rank_one.chance == pytest.approx(1 / 4)
    assert len(parse_measures(measures_json([measure])).measures) == 2


def test_equal_vectors_recognise_nobody() -> None:
    """A release that shows the same for everybody: rank-1 is guessing, the area one half."""
    ids = [k // 2 for k in range(12)]
    found = reidentify(np.zeros((12, 3)), np.zeros((12, 3)), ids).compute()
    assert found.rank_one.value == pytest.approx(found.rank_one.chance)
    assert found.auc.value == 0.5


def test_nobody_in_common_is_an_error() -> None:
    with pytest.raises(MeasureError, match="nobody"):
        reidentify(np.zeros((2, 3)), np.zeros((2, 3)), ["a", "b"])
    with pytest.raises(MeasureError, match="one length"):
        Reidentification().update(np.zeros((1, 3)), [0], np.zeros((1, 2)), [0])


def test_a_gait_is_the_same_wherever_one_stands_and_however_large() -> None:
    rng = np.random.default_rng(1)
    joints = rng.normal(size=(9, 5, 3))
    bones = ((0, 1), (1, 2), (2, 3), (3, 4))
    usual = gait_vector(joints, bones)
    assert np.allclose(gait_vector(2.5 * joints + [3, 1, -2], bones), usual)
    assert len(gait_vector(joints, bones, proportions=False)) == len(usual) - len(bones)
    with pytest.raises(MeasureError, match="frames"):
        gait_vector(joints[0], bones)


def test_real_skeletons_are_not_anonymous(real_data: Path) -> None:
    records = utd_mhad(real_data / "utd_mhad", "skeleton")
    wave = [r for r in records if r.y in (2, 3, 21, 22)]  # wave, clap, jog, walk
    ids = [r.owners[0] for r in wave]
    for proportions, least in ((True, 0.6), (False, 0.25)):
        vectors = np.stack([gait_vector(r.x.reshape(len(r.x), 20, 3), KINECT_BONES,
                                        proportions=proportions) for r in wave])  # fmt: skip
        first = np.array([r.attributes["trial"] <= 2 for r in wave])
        gallery, probes = discriminant_features(
            {"gait": vectors[first]},
            {"gait": vectors[~first]},
            [i for i, f in zip(ids, first) if f],
        )
        measure = Reidentification()
        measure.update(
            probes, [i for i, f in zip(ids, first) if not f],
            gallery, [i for i, f in zip(ids, first) if f],
        )  # fmt: skip
        found = measure.compute()
        assert found.rank_one.value > least
        assert found.rank_one.chance == pytest.approx(1 / 8, abs=0.03)


def test_real_voices_are_recognised_and_averaged_ones_are_not(real_data: Path) -> None:
    takes = [audio_mnist(real_data / "audiomnist", part) for part in ("train", "test")]
    rng = np.random.default_rng(2)
    some = [rng.choice(len(part), n, replace=False) for part, n in zip(takes, (2400, 300))]
    known, asked = ({"mel": part.x[rows].reshape(len(rows), -1)} for part, rows in zip(takes, some))
    ids, probes = (part.attributes["speaker"][rows] for part, rows in zip(takes, some))
    gallery, vectors = discriminant_features(known, asked, ids.tolist())
    measure = Reidentification()
    measure.update(vectors, probes.tolist(), gallery, ids.tolist())
    assert measure.compute().rank_one.value > 0.5
    blind = Reidentification()
    blind.update(np.zeros_like(vectors), probes.tolist(), np.zeros_like(gallery), ids.tolist())
    assert blind.compute().rank_one.value == pytest.approx(1 / 60, abs=0.01)
