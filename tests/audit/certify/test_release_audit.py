"""Conformance of releases: operator norms, noise, tables; each check fails on a seeded mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.audit import AuditError
from sfumato.audit.certify import check_basis, check_release_noise, check_table
from sfumato.privacy import KeyStream, NoiseKind, Randomness
from sfumato.protect.noise._bases import Basis, Dct3, reach_of
from sfumato.protect.noise._lattice import Lattice
from sfumato.protect.noise._random_bases import GaussianProjection, Srht

HEIGHT, WIDTH, BLOCK = 10, 12, 4


def bases() -> list[Basis]:
    generator = np.random.default_rng(1)
    return [
        Dct3(HEIGHT, WIDTH, block=BLOCK, kept_frames=2, kept_size=4),
        Srht(HEIGHT, WIDTH, block=BLOCK, k=30, generator=generator),
        GaussianProjection(HEIGHT, WIDTH, block=BLOCK, k=30, generator=generator),
    ]


def lattice_for(basis: Basis, pixels: int, frames: int) -> Lattice:
    return Lattice.calibrated(1.0, reach_of(basis, pixels, frames))


def stream() -> KeyStream:
    return Randomness(2).keystream()


@pytest.mark.parametrize(("pixels", "frames"), [(1, 1), (5, 2), (HEIGHT * WIDTH, 4)])
def test_every_basis_keeps_its_bound_on_the_lattice(pixels: int, frames: int) -> None:
    for basis in bases():
        lattice = lattice_for(basis, pixels, frames)
        finding = check_basis(basis, lattice, HEIGHT, WIDTH, pixels=pixels, frames=frames)
        assert finding.conforms, finding


def test_a_gain_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Dct3.gain
    monkeypatch.setattr(Dct3, "gain", lambda self, p, f: 0.5 * real(self, p, f))
    basis, pixels = bases()[0], HEIGHT * WIDTH
    lattice = lattice_for(basis, pixels, 4)
    assert not check_basis(basis, lattice, HEIGHT, WIDTH, pixels=pixels, frames=4).conforms


def test_analysis_in_single_precision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 17, 3.4: here by a few parts in 10^5, at 1080p by several times."""
    real = Dct3.analyse

    def single(self: Dct3, block: Any) -> Any:
        return real(self, block).astype(np.float32).astype(np.float64)

    basis = Dct3(HEIGHT, WIDTH, block=BLOCK, kept_frames=1, kept_size=1)
    lattice = lattice_for(basis, 1, 1)
    assert check_basis(basis, lattice, HEIGHT, WIDTH, pixels=1, frames=1).conforms
    monkeypatch.setattr(Dct3, "analyse", single)
    assert not check_basis(basis, lattice, HEIGHT, WIDTH, pixels=1, frames=1).conforms


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_conforms_in_every_basis(kind: NoiseKind) -> None:
    for basis in bases():
        lattice = Lattice(3.0, 20, kind)
        assert check_release_noise(basis, lattice, HEIGHT, WIDTH, stream=stream()).conforms


def _same_for_channels(lattice: Lattice, points: Any, released: Any) -> Any:
    noise = released - points
    return points + np.repeat(noise[..., :1], noise.shape[-1], axis=-1)


def _none_on_the_first(lattice: Lattice, points: Any, released: Any) -> Any:
    released.reshape(-1)[0] = points.reshape(-1)[0]
    return released


def _a_tenth_too_small(lattice: Lattice, points: Any, released: Any) -> Any:
    return points + 9 * (released - points) // 10


def _coarse(lattice: Lattice, points: Any, released: Any) -> Any:
    """As noise in single precision would be: its last bits are always the same."""
    return points + (released - points) // 16 * 16


def _of_another_shape(lattice: Lattice, points: Any, released: Any) -> Any:
    """The right standard deviation, from a uniform distribution."""
    reach = int(3**0.5 * 2**lattice.bits)
    noise = np.random.default_rng(int(released.sum()) & 0xFFFF).integers(
        -reach, reach, points.shape
    )
    return points + noise


@pytest.mark.parametrize(
    "bug",
    [_same_for_channels, _none_on_the_first, _a_tenth_too_small, _coarse, _of_another_shape],
)
def test_noise_that_is_not_what_was_promised_is_found(
    bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lattice.noised

    def noised(self: Lattice, values: Any, source: KeyStream) -> Any:
        return bug(self, self.points(values), real(self, values, source))

    monkeypatch.setattr(Lattice, "noised", noised)
    lattice = Lattice(3.0, 20)
    assert not check_release_noise(bases()[0], lattice, HEIGHT, WIDTH, stream=stream()).conforms


def test_a_release_of_more_than_the_noised_points_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lattice, "values", lambda self, points: (points + 0.25) * self.spacing)
    lattice = Lattice(3.0, 20)
    found = check_release_noise(bases()[0], lattice, HEIGHT, WIDTH, stream=stream())
    assert not found.conforms
    assert "something else" in found.detail


def test_tables_are_enumerated() -> None:
    scores = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])
    table = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    largest = float(np.abs(np.log(table[0] / table[1])).max())
    assert check_table(table, largest).conforms
    assert not check_table(table, largest - 1e-3).conforms
    assert not check_table(np.eye(3), 100.0).conforms, "a zero against a one is an infinite ratio"
    assert not check_table(2 * table, largest).conforms, "rows must sum to one"
    assert check_table([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], 0.0).conforms
    with pytest.raises(AuditError):
        check_table([0.5, 0.5], 1.0)


def test_blocks_beyond_memory_are_refused() -> None:
    basis = Dct3(1080, 1920, block=64, kept_frames=1, kept_size=1)
    with pytest.raises(AuditError, match="smaller recording"):
        check_basis(basis, lattice_for(basis, 1, 1), 1080, 1920, pixels=1, frames=1)
