"""Banded noise (R28): its sensitivity against every pattern of participation, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from sfumato.privacy import (
    AccountingError,
    BandedGaussian,
    EventError,
    Gaussian,
    Group,
    SelfComposed,
    banded_coefficients,
    epsilon_of,
    event_from_json,
)


def _matrix(bands: int, steps: int) -> np.ndarray:
    c = banded_coefficients(bands)
    return np.array([[c[t - s] if 0 <= t - s < bands else 0.0 for s in range(steps)]
                     for t in range(steps)])  # fmt: skip


def _patterns(steps: int, separation: int) -> Iterator[tuple[int, ...]]:
    """Every set of steps, any two of them at least ``separation`` apart."""
    for size in range(1, steps + 1):
        for chosen in combinations(range(steps), size):
            if all(b - a >= separation for a, b in pairwise(chosen)):
                yield chosen


def _largest(bands: int, separation: int, steps: int) -> float:
    """By trying everything: the largest |C u| with u of norm 1 at the unit's steps, 0 elsewhere.

    The norm is convex in every contribution, and with two of opposite or equal direction it is
    largest: so signs are all that must be tried.
    """
    matrix, largest = _matrix(bands, steps), 0.0
    for chosen in _patterns(steps, separation):
        columns = matrix[:, chosen]
        for signs in product((1.0, -1.0), repeat=len(chosen)):
            largest = max(largest, float(np.linalg.norm(columns @ np.array(signs))))
    return largest


@pytest.mark.parametrize(("bands", "separation", "steps"), [
    (1, 1, 5), (1, 3, 7), (2, 2, 7), (2, 3, 8), (3, 3, 9), (3, 4, 10), (3, 5, 11), (4, 4, 3), (5, 6, 13),
])  # fmt: skip
def test_no_pattern_moves_the_sums_further_than_the_event_says(
    bands: int, separation: int, steps: int
) -> None:
    event = BandedGaussian(1.0, bands, separation, steps)
    assert event.sensitivity("zero-out") == pytest.approx(  # type: ignore[arg-type]
        _largest(bands, separation, steps), rel=1e-12
    )


def test_turns_that_come_closer_than_the_bands_would_move_more_and_are_refused() -> None:
    apart = _largest(3, 3, 6)
    assert _largest(3, 2, 6) > 1.05 * math.sqrt(3 / 2) * apart, "columns overlap, and add up"
    with pytest.raises(EventError, match="would overlap"):
        BandedGaussian(1.0, 3, 2, 6)


@pytest.mark.parametrize("wrong", [
    {"bands": 0}, {"steps": 0}, {"separation": 2.5}, {"noise_multiplier": 0.0}, {"bands": True},
])  # fmt: skip
def test_fields_that_mean_nothing_are_refused(wrong: dict[str, object]) -> None:
    usual = {"noise_multiplier": 1.0, "bands": 2, "separation": 4, "steps": 8}
    with pytest.raises(EventError):
        BandedGaussian(**usual | wrong)  # type: ignore[arg-type]


def test_one_band_and_a_turn_in_every_step_is_the_plain_gaussian() -> None:
    banded, plain = BandedGaussian(20.0, 1, 1, 12), SelfComposed(Gaussian(20.0), 12)
    for relation in ("replace", "zero-out"):
        assert epsilon_of(banded, 1e-5, relation) == pytest.approx(
            epsilon_of(plain, 1e-5, relation), rel=1e-9
        )


def test_epsilon_grows_with_steps_relation_and_group_and_falls_with_separation() -> None:
    def epsilon(event: BandedGaussian | Group, relation: str = "replace") -> float:
        return epsilon_of(event, 1e-5, relation)

    usual = BandedGaussian(10.0, 3, 4, 12)
    assert event_from_json(usual.to_json()) == usual
    assert epsilon(BandedGaussian(10.0, 3, 4, 11)) <= epsilon(usual)
    assert epsilon(BandedGaussian(10.0, 3, 4, 13)) > epsilon(usual)
    assert epsilon(BandedGaussian(10.0, 3, 12, 12)) < epsilon(usual)
    assert epsilon(usual, "zero-out") == pytest.approx(epsilon(BandedGaussian(20.0, 3, 4, 12)))
    assert epsilon(Group(usual, 3)) == pytest.approx(epsilon(BandedGaussian(10 / 3, 3, 4, 12)))


def test_add_remove_is_refused() -> None:
    with pytest.raises(AccountingError, match="moves theirs"):
        epsilon_of(BandedGaussian(10.0, 3, 4, 12), 1e-5, "add-remove")


def test_the_coefficients_are_a_square_root_of_running_sums() -> None:
    c = np.array(banded_coefficients(6)) / banded_coefficients(6)[0]
    assert np.convolve(c, c)[:6] == pytest.approx(np.ones(6), rel=1e-12)
    assert sum(value**2 for value in banded_coefficients(6)) == pytest.approx(1, rel=1e-12)
