"""Conformance of releases: operator norms, noise, tables; each check fails on a seeded mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.audit import AuditError, check_basis, check_release_noise, check_table
from sfumato.protect.video._bases import Basis, Dct3, GaussianProjection, Srht
from sfumato.protect.video._noisy_blocks import NoisyBlocks

HEIGHT, WIDTH, BLOCK = 10, 12, 4


def bases() -> list[Basis]:
    generator = np.random.default_rng(1)
    return [
        Dct3(HEIGHT, WIDTH, block=BLOCK, kept_frames=2, kept_size=4),
        Srht(HEIGHT, WIDTH, block=BLOCK, k=30, generator=generator),
        GaussianProjection(HEIGHT, WIDTH, block=BLOCK, k=30, generator=generator),
    ]


@pytest.mark.parametrize(("pixels", "frames"), [(1, 1), (5, 2), (HEIGHT * WIDTH, 4)])
def test_every_basis_keeps_its_gain(pixels: int, frames: int) -> None:
    for basis in bases():
        finding = check_basis(basis, HEIGHT, WIDTH, pixels=pixels, frames=frames)
        assert finding.conforms, finding


def test_a_gain_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Dct3.gain
    monkeypatch.setattr(Dct3, "gain", lambda self, p, f: 0.5 * real(self, p, f))
    finding = check_basis(bases()[0], HEIGHT, WIDTH, pixels=HEIGHT * WIDTH, frames=4)
    assert not finding.conforms


def test_noise_conforms_in_every_basis() -> None:
    for basis in bases():
        generator = np.random.default_rng(2)
        assert check_release_noise(basis, 3.0, HEIGHT, WIDTH, generator=generator).conforms


def _same_for_channels(real: Any) -> Any:
    def noised(self: Any, coefficients: Any, *scale: Any) -> Any:
        noise = real(self, coefficients, *scale) - coefficients
        return coefficients + np.repeat(noise[..., :1], noise.shape[-1], axis=-1)

    return noised


def _none_on_the_first(real: Any) -> Any:
    def noised(self: Any, coefficients: Any, *scale: Any) -> Any:
        out = real(self, coefficients, *scale)
        out.reshape(-1)[0] = coefficients.reshape(-1)[0]
        return out

    return noised


@pytest.mark.parametrize("bug", [_same_for_channels, _none_on_the_first])
def test_noise_that_is_shared_or_missing_is_found(
    bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoisyBlocks, "_noised", bug(NoisyBlocks._noised))
    finding = check_release_noise(
        bases()[0], 3.0, HEIGHT, WIDTH, generator=np.random.default_rng(2)
    )
    assert not finding.conforms


def test_noise_a_tenth_too_small_is_found() -> None:
    found = check_release_noise(
        bases()[0],
        3.0,
        HEIGHT,
        WIDTH,
        generator=_Weak(np.random.default_rng(2)),  # type: ignore[arg-type]
    )
    assert not found.conforms


class _Weak:
    def __init__(self, inner: np.random.Generator) -> None:
        self.inner = inner

    def standard_normal(self, *args: Any, **kwargs: Any) -> Any:
        return np.float32(0.9) * self.inner.standard_normal(*args, **kwargs)


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
        check_basis(basis, 1080, 1920, pixels=1, frames=1)
