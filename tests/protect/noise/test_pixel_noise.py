"""Laplace noise and DPPix: no change within the unit moves more than the noise was made for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.fft import idctn

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.privacy import Guarantee, Unit
from sfumato.protect import Shape
from sfumato.protect.noise import DpPix, LaplaceNoise
from sfumato.protect.noise._bases import Array
from sfumato.protect.noise._block_mean import BlockMean
from sfumato.protect.noise._prediction import predict_means, prior_energies

# neither side is a whole number of blocks of 4
SHAPE = Shape(height=10, width=14, frames=3)


def frames(pictures: Array) -> list[Frame]:
    return [Frame(p.astype(np.uint8), n, Fraction(n, 25)) for n, p in enumerate(pictures)]


def made(size: int, **settings: Any) -> LaplaceNoise:
    return DpPix(b=size, **settings) if size > 1 else LaplaceNoise(**settings)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("unit", ["pixels(1, frames=1)", "pixels(20, frames=2)", "frame", "clip"])
def test_no_change_within_the_unit_costs_more_than_promised(size: int, unit: str) -> None:
    """The exact epsilon of a change is its l1 move over the scale of the noise."""
    method = made(size, epsilon=0.7, unit=unit)
    promise = method.promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert promise.delta == 0
    assert 0.999 * 0.7 <= promise.epsilon <= 0.7
    parsed = Unit.parse(unit)
    area = SHAPE.height * SHAPE.width
    pixels, count = parsed.pixel_count or area, parsed.frame_count or 3
    generator = np.random.default_rng(0)
    basis, costs = method.basis(SHAPE), []
    places = [np.arange(pixels), np.arange(area)[-pixels:], area // 2 - np.arange(pixels)]
    places += [generator.permutation(area)[:pixels] for _ in range(30)]
    for place in places:
        change = np.zeros((count, area, 3), np.float32)
        change[:, place] = 255
        moved = sum(
            float(np.abs(basis.analyse(each.reshape(1, SHAPE.height, SHAPE.width, 3))).sum())
            for each in change
        )
        costs.append(moved / method.scale(SHAPE))
    assert max(costs) <= 0.7
    assert max(costs) > 0.7 * (1 - 1e-4), "the bound is attained: no noise is wasted"


@pytest.mark.parametrize("size", [1, 4])
def test_noise_is_laplace_of_that_scale_on_every_value(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = made(size, epsilon=0.7, unit="pixels(2, frames=1)", seed=5)
    seen: list[Array] = []
    whole = BlockMean.synthesise

    def synthesise(self: BlockMean, coefficients: Array) -> Array:
        seen.append(coefficients.copy())
        return whole(self, coefficients)

    monkeypatch.setattr(BlockMean, "synthesise", synthesise)
    pictures = np.full((400, 10, 14, 3), 127)
    pictures[:, ::2] = 128
    list(method.frames(frames(pictures)))
    clean = method.basis(SHAPE).analyse(pictures[:1].astype(np.float32) - 127.5)
    noise = (np.concatenate(seen) - clean) / method.scale(SHAPE)
    assert stats.kstest(noise.ravel()[::7], "laplace").pvalue > 1e-4
    # every value by itself: the mean of |noise| is one, and no two values share their noise
    means = np.abs(noise).reshape(400, -1).mean(axis=0)
    assert np.abs(means - 1).max() < 6 / np.sqrt(400)
    correlation = np.corrcoef(noise.reshape(400, -1).T[:40])
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 0.35


def test_dppix_shows_nothing_but_means() -> None:
    """Two pictures with the same block means give the same release from the same coins."""
    generator = np.random.default_rng(1)
    one = generator.integers(0, 256, (1, 8, 12, 3))
    tiles = one.reshape(1, 2, 4, 3, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 16, 3)
    moved = tiles[..., generator.permutation(16), :].reshape(1, 2, 3, 4, 4, 3)
    two = moved.transpose(0, 1, 3, 2, 4, 5).reshape(1, 8, 12, 3)
    assert not np.array_equal(one, two)
    outputs = [
        next(DpPix(epsilon=1, unit="pixels(1, frames=1)", b=4, seed=3).frames(frames(each))).image
        for each in (one, two)
    ]
    np.testing.assert_array_equal(*outputs)


def test_block_means_of_the_border_are_as_sensitive_as_any_other() -> None:
    basis = BlockMean(5, 5, size=4)
    change = np.zeros((1, 5, 5, 3), np.float32)
    change[0, 4, 4] = 1
    assert np.abs(basis.analyse(change)).sum() == pytest.approx(basis.l1_gain(1, 1))
    assert basis.synthesise(basis.analyse(change)).shape == (1, 5, 5, 3)


def test_l2_gain_of_block_means_is_attained_by_whole_blocks() -> None:
    basis = BlockMean(8, 8, size=4)
    change = np.zeros((1, 8, 8, 3), np.float32)
    change[0, :4, :4] = 1
    change[0, :2, 4:8] = 1
    assert np.linalg.norm(basis.analyse(change)) == pytest.approx(basis.gain(24, 1))


def test_impossible_settings_are_refused_in_words() -> None:
    with pytest.raises(SfumatoError, match="epsilon of the method laplace as a number from 1e-06"):
        LaplaceNoise(epsilon=0, unit="frame")
    with pytest.raises(
        SfumatoError, match="b of the method dppix as a whole number from 1 to 1024"
    ):
        DpPix(epsilon=1, unit="frame", b=0)
    with pytest.raises(SfumatoError, match="number must be known"):
        LaplaceNoise(epsilon=1, unit="clip").promise(Shape(10, 14))
    assert "nothing useful" in LaplaceNoise(epsilon=1, unit="frame").remarks(SHAPE)[0]


@pytest.mark.parametrize(("size", "scale"), [(1, 20.0), (1, 300.0), (8, 5.0), (8, 60.0)])
def test_prediction_agrees_with_what_pictures_of_the_prior_give(size: int, scale: float) -> None:
    generator = np.random.default_rng(0)
    energies = np.sqrt(prior_energies(48, 64))[..., None]
    basis, errors, greys = BlockMean(48, 64, size=size), [], []
    for _ in range(40):
        drawn = energies * generator.standard_normal((48, 64, 3))
        picture = np.stack([idctn(drawn[..., c], norm="ortho") for c in range(3)], axis=-1)
        noisy = basis.analyse(picture[None].astype(np.float32))
        noisy += generator.laplace(scale=scale, size=noisy.shape).astype(np.float32)
        shown = basis.synthesise(np.clip(noisy, -127.5, 127.5))[0]
        errors.append(np.mean((shown - picture) ** 2))
        greys.append(np.mean(picture**2))
    predicted = predict_means(48, 64, size, scale)
    assert predicted.psnr == pytest.approx(10 * np.log10(255**2 / np.mean(errors)), abs=0.7)
    assert predicted.grey_psnr == pytest.approx(10 * np.log10(255**2 / np.mean(greys)), abs=1.0)
