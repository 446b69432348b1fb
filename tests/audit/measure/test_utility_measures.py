"""Utility and multi-label measures against slow, obvious oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sfumato.audit import MeasureError, measures_json
from sfumato.audit.measure import (
    HeadSizedKeypoints,
    MeanPerClassAccuracy,
    MultiLabel,
    NormalizedAccuracyGain,
    Psnr,
    Ssim,
    TopOne,
    UsefulAccuracyGain,
    average_precision,
    class_f1,
    cmap,
)
from sfumato.audit.measure._multi_label import blind_precision
from sfumato.data import pckh
from sfumato.report import parse_measures


def test_accuracies_of_an_unbalanced_task() -> None:
    truth, guess = [0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0]
    top, fair = TopOne(), MeanPerClassAccuracy()
    for part in (slice(0, 3), slice(3, 8)):
        top.update(guess[part], truth[part])
        fair.update(np.eye(2)[guess[part]], truth[part])
    assert top.compute().value == 7 / 8
    assert top.compute().chance == 6 / 8
    assert fair.compute().value == pytest.approx((1 + 0.5) / 2)
    low, high = fair.compute().low, fair.compute().high
    assert low is not None
    assert high is not None
    assert low < 0.5 < high < 1
    assert top.confusion(("a", "b")).matrix == [[6, 0], [1, 1]]


def slow_ssim(x: np.ndarray, y: np.ndarray) -> float:
    """The formula of the paper, window by window."""
    place = np.arange(11) - 5
    window = np.exp(-(place[:, None] ** 2 + place[None] ** 2) / (2 * 1.5**2))
    window /= window.sum()
    c1, c2, values = (0.01 * 255) ** 2, (0.03 * 255) ** 2, []
    for channel in range(x.shape[2]):
        for i in range(x.shape[0] - 10):
            for j in range(x.shape[1] - 10):
                a = x[i : i + 11, j : j + 11, channel].astype(float)
                b = y[i : i + 11, j : j + 11, channel].astype(float)
                ma, mb = (window * a).sum(), (window * b).sum()
                va, vb = (window * (a - ma) ** 2).sum(), (window * (b - mb) ** 2).sum()
                cov = (window * (a - ma) * (b - mb)).sum()
                values.append(
                    (2 * ma * mb + c1) * (2 * cov + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))
                )
    return float(np.mean(values))


def test_ssim_and_psnr_are_those_of_their_formulas() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (2, 16, 19, 3), dtype=np.uint8)
    y = np.clip(x + rng.normal(0, 30, x.shape), 0, 255).astype(np.uint8)
    measure, noise = Ssim(), Psnr()
    for a, b in zip(y, x, strict=True):
        measure.update(a, b)
        noise.update(a, b)
    assert measure.compute() == pytest.approx(np.mean([slow_ssim(a, b) for a, b in zip(x, y)]))
    error = np.mean((x.astype(float) - y) ** 2)
    assert noise.compute() == pytest.approx(10 * math.log10(255**2 / error))
    same = Ssim()
    same.update(x, x)
    assert same.compute() == pytest.approx(1)
    with pytest.raises(MeasureError, match="11 pixels"):
        Ssim().update(x[:, :8], y[:, :8])


def test_pckh_over_batches_is_pckh_over_all() -> None:
    rng = np.random.default_rng(1)
    truth = np.concatenate([rng.normal(0, 5, (9, 4, 2)), rng.integers(0, 2, (9, 4, 1))], -1)
    guess, size = truth[..., :2] + rng.normal(0, 1, (9, 4, 2)), rng.uniform(1, 4, 9)
    measure = HeadSizedKeypoints()
    for part in (slice(0, 4), slice(4, 9)):
        measure.update(guess[part], truth[part], size[part])
    assert measure.compute() == pytest.approx(np.nanmean(pckh(guess, truth, size)))


def slow_average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    own = [(scores >= s) for s, t in zip(scores, truth, strict=True) if t]
    return float(np.mean([truth[among].mean() for among in own]))


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(np.int8, st.integers(2, 12), elements=st.integers(0, 4)),
    st.integers(0, 2**31),
)
def test_average_precision_with_ties(scores: np.ndarray, seed: int) -> None:
    truth = np.random.default_rng(seed).random(len(scores)) < 0.4
    truth[0] = True
    assert average_precision(scores, truth) == pytest.approx(
        slow_average_precision(scores.astype(float), truth)
    )


def test_a_blind_order_has_a_precision_above_the_share_of_positives() -> None:
    rng = np.random.default_rng(5)
    truth = np.arange(20) < 4
    drawn = [average_precision(rng.random(20), truth) for _ in range(4000)]
    assert blind_precision(4, 20) == pytest.approx(
        np.mean(drawn), abs=4 * np.std(drawn) / 4000**0.5
    )
    assert blind_precision(4, 20) > 0.2 + 0.05


def test_cmap_averages_over_attributes_that_occur_and_guessing_gets_their_share() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random((900, 3)) < [0.1, 0.6, 0.0]
    blind = rng.random(truth.shape)
    measure = MultiLabel(("face", "sex", "nudity"))
    measure.update(blind[:300], truth[:300])
    measure.update(blind[300:], truth[300:])
    found = measure.compute()
    assert found.cmap.value == pytest.approx(cmap(blind, truth))
    counts = truth[:, :2].sum(0)
    assert found.cmap.chance == pytest.approx(np.mean([blind_precision(n, 900) for n in counts]))
    assert found.cmap.value == pytest.approx(found.cmap.chance, abs=0.06)
    assert set(found.average_precision) == {"face", "sex"}
    assert found.records == 900
    # never better than always saying yes, without looking
    always = class_f1(np.ones_like(truth), truth)[:2].mean()
    assert found.f1.chance == pytest.approx(always)
    assert found.f1.value < always
    perfect = MultiLabel(("face", "sex", "nudity"))
    perfect.update(truth.astype(float), truth)
    best = perfect.compute()
    assert best.cmap.value == best.f1.value == 1


def test_frames_of_one_video_are_not_many_pictures() -> None:
    rng = np.random.default_rng(3)
    truth, scores = rng.random((12, 1)) < 0.5, rng.random((12, 1))
    truth[:2] = [[True], [False]]
    widths = []
    for groups in (None, np.repeat(np.arange(12), 30).tolist()):
        measure = MultiLabel(("face",))
        measure.update(np.repeat(scores, 30, 0), np.repeat(truth, 30, 0), groups)
        value = measure.compute().cmap
        assert value.low is not None
        assert value.high is not None
        widths.append(value.high - value.low)
    assert widths[1] > 2 * widths[0]
    assert len(parse_measures(measures_json([measure])).measures) == 4


def test_nothing_is_scored_on_nothing() -> None:
    for measure in (TopOne(), MeanPerClassAccuracy(), Ssim(), Psnr(), HeadSizedKeypoints(),
                    MultiLabel(("a",))):  # fmt: skip
        with pytest.raises(MeasureError, match="got none"):
            measure.compute()


def test_nag_is_worse_for_what_is_private_and_better_for_what_is_useful() -> None:
    for kind, better in ((NormalizedAccuracyGain, False), (UsefulAccuracyGain, True)):
        measure = kind(guessing=0.5, unprotected=0.9)
        measure.update(19, 20)
        (result,) = measure.results(target="digit")
        assert result.value == pytest.approx(100 * 0.45 / 0.4)  # beyond 100, and no error
        assert result.higher_is_better is better
        assert result.group == ("utility" if better else "privacy")
        assert len(parse_measures(measures_json([result])).measures) == 1
