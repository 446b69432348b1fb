"""DP-Image: the latent is clipped whatever the picture, and the noise is made for that."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.privacy import Guarantee
from sfumato.protect import Shape
from sfumato.protect.noise import DpImage, Latent, dct_latent, learn_latent
from sfumato.protect.noise._dp_image import shared_power

SHAPE = Shape(height=24, width=32, frames=6)


def method(**changes: Any) -> DpImage:
    return DpImage(**({"epsilon": 3.0, "delta": 1e-5, "unit": "frame", "clip": 0.25} | changes))


def pictures() -> list[Any]:
    generator = np.random.default_rng(0)
    flat = [np.full((24, 32, 3), level, np.uint8) for level in (0, 255)]
    left = np.zeros((24, 32, 3), np.uint8)
    left[:, :16] = 255
    noise = list(generator.integers(0, 256, (4, 24, 32, 3)).astype(np.uint8))
    return [*flat, left, 255 - left, *noise]


@pytest.mark.parametrize(("unit", "frames"), [("frame", 1), ("frame(4)", 4), ("clip", 6)])
def test_no_two_recordings_are_farther_apart_than_the_sensitivity(unit: str, frames: int) -> None:
    made = method(unit=unit)
    codes = [made.clipped(picture) for picture in pictures()]
    farthest = max(float(np.linalg.norm(a - b)) for a in codes for b in codes)
    moved = farthest * math.sqrt(frames)
    assert moved <= made.sensitivity(SHAPE)
    assert moved == pytest.approx(made.sensitivity(SHAPE), rel=1e-6), "black and white attain it"
    promise = made.promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert 0.99 * 3 <= promise.epsilon <= 3
    assert made.scale(SHAPE) == pytest.approx(made.multiplier * moved, rel=1e-6)


def test_noise_is_normal_and_fresh_in_every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    made = method(seed=4, epsilon=500.0)
    codes: list[Any] = []
    monkeypatch.setattr(DpImage, "estimated", lambda self, noisy, scale: noisy)

    def decode(self: Latent, code: Any, height: int, width: int) -> Any:
        codes.append(code)
        return np.zeros((height, width, 3), np.uint8)

    monkeypatch.setattr(Latent, "decode", decode)
    picture = pictures()[4]
    list(made.frames([Frame(picture, n, Fraction(n, 25)) for n in range(60)]))
    noise = (np.stack(codes) - made.clipped(picture)) / made.scale(SHAPE)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    assert np.abs((noise**2).mean(axis=0) - 1).max() < 6 * math.sqrt(2 / 60)
    assert np.abs(np.corrcoef(noise)[np.triu_indices(60, 1)]).max() < 0.5


def test_release_reads_the_picture_through_the_clipped_latent_only() -> None:
    """Contrast beyond the clip norm cannot show: the latent has the same direction."""
    soft, hard = (np.full((24, 32, 3), level, np.uint8) for level in (200, 255))
    out = [
        next(method(seed=1).frames([Frame(each, 0, Fraction(0))])).image for each in (soft, hard)
    ]
    np.testing.assert_array_equal(*out)


def test_latent_is_learned_saved_and_loaded(tmp_path: Path) -> None:
    """Pictures of one pattern are kept by one component."""
    pattern = np.linspace(-1, 1, 24 * 32 * 3).reshape(24, 32, 3)
    strengths = np.linspace(-60, 60, 12)
    public = [np.rint(128 + s * pattern).astype(np.uint8) for s in strengths]
    latent = learn_latent(public, learned_from="a test pattern", components=1)
    back = latent.decode(latent.encode(public[2]), 24, 32)
    assert np.abs(back.astype(int) - public[2]).max() <= 2
    latent.save(tmp_path / "latent.safetensors")
    made = method(encoder=tmp_path / "latent.safetensors")
    np.testing.assert_allclose(made.latent.components, latent.components, atol=1e-3)
    assert "a test pattern" in str(made.promise(SHAPE))
    assert str(tmp_path) not in str(made.settings)
    (tmp_path / "other.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(SfumatoError, match="cannot be read"):
        Latent.load(tmp_path / "other.safetensors")
    with pytest.raises(SfumatoError, match="more pictures than components"):
        learn_latent(public, learned_from="a test pattern", components=12)
    with pytest.raises(SfumatoError, match="got none"):
        learn_latent(public, learned_from=" ")


def test_built_in_waves_are_orthonormal() -> None:
    waves = dct_latent(4, (12, 16)).components
    np.testing.assert_allclose(waves @ waves.T, np.eye(len(waves)), atol=1e-5)


def test_no_other_share_of_the_norm_gives_a_smaller_expected_error() -> None:
    spread = np.array([9.0, 4.0, 4.0, 1.0, 0.1])
    generator = np.random.default_rng(0)
    for loudness in (0.05, 0.5, 3.0, 50.0):
        best = shared_power(spread, loudness)
        assert best.sum() == pytest.approx(1)
        assert (best >= 0).all()

        def error(powers: Any, noise: float = loudness**2) -> float:
            return float((spread**2 * noise / (powers + noise)).sum())

        others = generator.dirichlet(np.full(5, 0.4), 500)
        assert error(best) <= min(error(each) for each in others) + 1e-12
        near = np.maximum(0, best + 1e-3 * generator.standard_normal((200, 5)))
        assert error(best) <= min(error(each / each.sum()) for each in near) + 1e-12


def test_loud_noise_shows_the_mean_picture_and_little_noise_the_picture() -> None:
    """Never much worse than showing nothing, and a picture of the prior comes back without noise."""
    vertical, horizontal = np.indices((24, 32))
    picture = (60 + 3 * vertical + 2 * horizontal)[..., None].repeat(3, axis=2).astype(np.uint8)
    frames = [Frame(picture, n, Fraction(n, 25)) for n in range(40)]

    def error(epsilon: float) -> float:
        made = DpImage(epsilon=epsilon, delta=1e-5, unit="frame", clip=2.0)
        shown = np.stack([frame.image for frame in made.frames(frames)]).astype(float)
        return float(np.square(shown - picture).mean())

    grey = float(np.square(127.5 - picture).mean())
    assert error(0.5) < 1.3 * grey
    assert error(1e5) < 0.1 * grey
