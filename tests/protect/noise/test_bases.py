"""The bases of the noisy transform: what a change of the picture can do to the coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.protect.noise._bases import Basis, BasisError, Dct3, dct_matrix
from sfumato.protect.noise._random_bases import GaussianProjection, Srht, johnson_lindenstrauss

HEIGHT, WIDTH, BLOCK = 6, 8, 4


def dct() -> Basis:
    return Dct3(HEIGHT, WIDTH, block=BLOCK, kept_frames=2, kept_size=3)


def srht() -> Basis:
    return Srht(HEIGHT, WIDTH, block=BLOCK, k=20, generator=np.random.default_rng(1))


def gaussian() -> Basis:
    return GaussianProjection(HEIGHT, WIDTH, block=BLOCK, k=20, generator=np.random.default_rng(2))


ALL = pytest.mark.parametrize("make", [dct, srht, gaussian])
ORTHONORMAL = pytest.mark.parametrize("make", [dct, srht])


def matrix_of(basis: Basis) -> npt.NDArray[np.float64]:
    """The analysis as a matrix, by feeding it every unit vector (the slow, obvious way)."""
    columns = []
    for index in range(BLOCK * HEIGHT * WIDTH * 3):
        unit = np.zeros(BLOCK * HEIGHT * WIDTH * 3, dtype=np.float32)
        unit[index] = 1
        columns.append(basis.analyse(unit.reshape(BLOCK, HEIGHT, WIDTH, 3)).ravel())
    return np.stack(columns, axis=1).astype(np.float64)


def columns_of(pixels: npt.NDArray[np.int64], frames: npt.NDArray[np.int64]) -> list[int]:
    """Column numbers of all channels; ``pixels[i]`` are the pixels that change in ``frames[i]``."""
    area = HEIGHT * WIDTH
    return [
        (frame * area + pixel) * 3 + channel
        for frame, chosen in zip(frames, pixels)
        for pixel in chosen
        for channel in range(3)
    ]


@ORTHONORMAL
def test_analysis_has_orthonormal_rows(make: Callable[[], Basis]) -> None:
    matrix = matrix_of(make())
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-13)


@ORTHONORMAL
def test_synthesis_is_the_transpose_of_analysis(make: Callable[[], Basis]) -> None:
    basis = make()
    matrix = matrix_of(basis)
    shape = basis.analyse(np.zeros((BLOCK, HEIGHT, WIDTH, 3), np.float32)).shape
    drawn = np.random.default_rng(3).standard_normal(shape)
    np.testing.assert_allclose(basis.synthesise(drawn).ravel(), matrix.T @ drawn.ravel(), atol=2e-5)


def test_gaussian_synthesis_is_the_pseudo_inverse() -> None:
    basis = gaussian()
    matrix = matrix_of(basis)
    drawn = np.random.default_rng(3).standard_normal((BLOCK, 20))
    expected = np.linalg.pinv(matrix) @ drawn.ravel()
    np.testing.assert_allclose(basis.synthesise(drawn).ravel(), expected, atol=1e-4)


@ALL
@pytest.mark.parametrize(("pixels", "frames"), [(1, 1), (1, 4), (3, 2), (10, 1), (48, 1), (48, 4)])
def test_no_change_within_the_unit_moves_coefficients_beyond_the_gain(
    make: Callable[[], Basis], pixels: int, frames: int
) -> None:
    """Operator norm by enumeration: random places (different in each frame), worst direction."""
    basis = make()
    matrix = matrix_of(basis)
    bound = basis.gain(pixels, frames)
    generator = np.random.default_rng(4)
    worst = 0.0
    for trial in range(60):
        where = generator.permutation(BLOCK)[:frames]
        shared = generator.permutation(HEIGHT * WIDTH)[:pixels]
        places = np.array(
            [shared if trial % 2 else generator.permutation(HEIGHT * WIDTH)[:pixels] for _ in where]
        )
        part = matrix[:, columns_of(places, where)]
        _, _, right = np.linalg.svd(part, full_matrices=False)
        for change in (
            np.sign(right[0]),
            np.ones(part.shape[1]),
            generator.choice([-1, 1], part.shape[1]),
        ):
            worst = max(worst, float(np.linalg.norm(part @ change)))
    assert 0 < worst <= bound


def test_gain_is_exact_for_one_value_of_one_pixel_up_to_the_channels() -> None:
    """One pixel, one frame: the bound is the largest column norm times sqrt(3)."""
    basis = dct()
    columns = np.linalg.norm(matrix_of(basis), axis=0)
    assert basis.gain(1, 1) == pytest.approx(math.sqrt(3) * columns.max(), rel=1e-8)


def test_gain_covers_frames_spread_over_several_blocks() -> None:
    """R11: the same frames in one block or in many never move more than the bound."""
    basis = dct()
    matrix = matrix_of(basis)
    for split in ([4], [2, 2], [1, 1, 1, 1], [3, 1]):
        squared = 0.0
        for count in split:
            places = np.array([np.arange(5)] * count)
            part = matrix[:, columns_of(places, np.arange(count))]
            squared += np.linalg.norm(part, 2) ** 2 * part.shape[1]
        assert math.sqrt(squared) <= basis.gain(5, 4)


def test_leverages_of_the_soundness_table() -> None:
    basis = Dct3(240, 320, block=64, kept_frames=4, kept_size=16)
    assert basis.temporal_leverage.max() == pytest.approx(0.109, abs=5e-4)
    assert basis.spatial_leverage.max() == pytest.approx(0.0124, abs=5e-5)


@pytest.mark.parametrize(("height", "width"), [(7, 5), (241, 5), (30, 40)])
def test_srht_fits_any_size(height: int, width: int) -> None:
    basis = Srht(height, width, block=2, k=11, generator=np.random.default_rng(0))
    picture = np.random.default_rng(1).standard_normal((2, height, width, 3)).astype(np.float32)
    coefficients = basis.analyse(picture)
    assert coefficients.shape == (2, 11)
    assert np.linalg.norm(coefficients) <= np.linalg.norm(picture)
    inner = float((coefficients * coefficients).sum())
    back = float((basis.synthesise(coefficients) * picture).sum())
    assert back == pytest.approx(inner, rel=1e-4)


def test_dct_matrix_agrees_with_scipy() -> None:
    from scipy.fft import dct as reference

    np.testing.assert_allclose(
        dct_matrix(9, 4), reference(np.eye(9), norm="ortho", axis=0)[:4], atol=1e-14
    )


def test_cosines_of_high_frequencies_are_as_good_as_those_of_low_ones() -> None:
    """Rows of a long transform stay orthonormal to the last digits: arguments are reduced exactly."""
    matrix = dct_matrix(1920, 1920)[[0, 1, 960, 1918, 1919]]
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(5), atol=3e-14)


def test_a_matrix_beyond_memory_is_refused_in_words() -> None:
    with pytest.raises(BasisError, match=r"needs 13\.2 GB"):
        GaussianProjection(240, 320, block=8, k=15360, generator=np.random.default_rng(0))


def test_johnson_lindenstrauss_distortion_satisfies_the_lemma() -> None:
    eta = johnson_lindenstrauss(3072, 180)
    assert pytest.approx(4 * math.log(180) / (eta**2 / 2 - eta**3 / 3), rel=1e-6) == 3072
    assert johnson_lindenstrauss(10, 180) == math.inf
