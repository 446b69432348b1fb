"""Snow and randomised response: what is shown, how often, and what that proves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.privacy import Guarantee, NoGuarantee, RandomizedResponse, SelfComposed
from sfumato.protect import Shape
from sfumato.protect.noise import GreyLevelResponse, Snow

SHAPE = Shape(height=20, width=30, frames=4)


def flat(level: int, count: int = 1) -> list[Frame]:
    picture = np.full((20, 30, 3), level, np.uint8)
    return [Frame(picture, number, Fraction(number, 25)) for number in range(count)]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 1), (2, 4)])
def test_snow_promises_the_chance_that_nothing_survives(m: int, n: int) -> None:
    """The release differs only if a changed pixel is shown: total variation 1 - p^(m n)."""
    promise = Snow(p=0.9, unit=f"pixels({m}, frames={n})").promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert promise.delta == pytest.approx(1 - 0.9 ** (m * n), abs=1e-8)
    assert promise.delta >= 1 - 0.9 ** (m * n)
    assert promise.epsilon < 0.05


def test_snow_says_plainly_when_something_surely_survives() -> None:
    promise = Snow(p=0.5, unit="clip").promise(SHAPE)
    assert isinstance(promise, NoGuarantee)
    assert "almost surely shown" in promise.reason


def test_snow_replaces_whole_pixels_with_probability_p() -> None:
    out = np.stack([f.image for f in Snow(p=0.7, unit="frame", seed=1).frames(flat(200, 40))])
    grey = (out == 127).all(axis=-1)
    shown = (out == 200).all(axis=-1)
    assert np.array_equal(grey, ~shown), "the three channels go together, by one coin"
    assert stats.binomtest(int(grey.sum()), grey.size, 0.7).pvalue > 1e-6
    assert stats.binomtest(int((grey[1:] == grey[:-1]).sum()), grey[1:].size, 0.58).pvalue > 1e-6


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 2)])
def test_response_composes_every_value_of_the_unit(m: int, n: int, delta: float) -> None:
    method = GreyLevelResponse(epsilon=6, delta=delta, unit=f"pixels({m}, frames={n})")
    promise = method.promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert 0.99 * 6 <= promise.epsilon <= 6
    assert isinstance(promise.event, SelfComposed)
    assert promise.event.count == 3 * m * n
    assert isinstance(promise.event.event, RandomizedResponse)
    each = math.log(1 + 256 * (1 - method.noise(SHAPE)) / method.noise(SHAPE))
    if delta == 0:
        assert each * 3 * m * n == pytest.approx(6, rel=1e-9)
    else:
        assert each * 3 * m * n >= 6, "composition at a delta allows more than the sum"


@pytest.mark.parametrize("level", [0, 77, 255])
def test_response_has_the_likelihoods_that_its_event_states(level: int) -> None:
    method = GreyLevelResponse(noise=0.6, unit="pixels(1, frames=1)", seed=2)
    out = np.stack([f.image for f in method.frames(flat(level, 100))])
    counts = np.bincount(out.ravel(), minlength=256)
    expected = np.full(256, 0.6 / 256)
    expected[level] += 0.4
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > 1e-6
    ratio = expected[level] / expected[(level + 1) % 256]
    assert math.log(ratio) == pytest.approx(RandomizedResponse(0.6, 256).epsilon)
    kept = out == level
    both = (kept[..., 0] & kept[..., 1]).mean()
    assert both == pytest.approx(kept.mean() ** 2, abs=0.01), "a coin for every channel"


def test_impossible_settings_are_refused_in_words() -> None:
    with pytest.raises(
        SfumatoError, match="p of the method snow as a number above 0 and of at most 1"
    ):
        Snow(p=0, unit="frame")
    with pytest.raises(SfumatoError, match="either epsilon or noise"):
        GreyLevelResponse(unit="frame")
    with pytest.raises(SfumatoError, match="either epsilon or noise"):
        GreyLevelResponse(unit="frame", epsilon=1, noise=0.5)
    with pytest.raises(
        SfumatoError, match="noise of the method randomized-response as a number above 0"
    ):
        GreyLevelResponse(unit="frame", noise=0)
