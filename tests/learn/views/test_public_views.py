"""Private pixels may change as they like: the public view and its gradient stay bit-identical."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.data import ArrayRecords, Record
from sfumato.learn import (
    AsIs,
    BlurFeatures,
    FeatureMap,
    LowFrequency,
    MaskedPixels,
    PixelateFeatures,
    Plan,
    Preparation,
    Speed,
    VideoClips,
    ViewError,
    cross_entropy,
    parse_config,
)
from sfumato.learn.config._from_config import public_view
from sfumato.learn.engine._persons import mean_gradient
from sfumato.learn.engine._streams import Streams
from sfumato.learn.views._public_view import is_blank
from sfumato.models import VideoViT

SHAPE = (12, 40, 36, 3)
CLIPS = VideoClips(frames=4, height=16, width=16)


def _recordings(seed: int = 0) -> tuple[Record, Record]:
    """The same clip twice, with other private pixels."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(SHAPE[:3], dtype=bool)
    mask[:, 3:37, 0:25] = True
    mask[5] = rng.random(SHAPE[1:3]) < 0.5
    x, other = (rng.integers(0, 256, SHAPE).astype(np.uint8) for _ in range(2))
    changed = np.where(mask[..., None], x, other)
    assert not np.array_equal(x, changed)
    return Record(x, 1, mask), Record(changed, 1, mask)


def _vit() -> VideoViT:
    torch.manual_seed(0)
    return VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 4, 4), width=12, depth=2, heads=2)


class _Pooling(nn.Module):
    """Overlapping stem, pooling and attention over all tokens: what leaks when pixels do."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv3d(3, 6, (3, 7, 7), (2, 4, 4), (1, 3, 3))
        self.pool = nn.Conv3d(6, 6, 3, 1, 1, groups=6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.pool(self.stem(x)).flatten(2).transpose(1, 2)
        return self.head(F.scaled_dot_product_attention(tokens, tokens, tokens).mean(1))


def _public_gradient(
    record: Record, model: nn.Module, view: Any, prepare: Preparation, clips: int = 1
) -> dict[str, Tensor]:
    unit = "masked-tokens" if isinstance(view, MaskedPixels) else f"features({view.name})"
    plan = Plan(
        epsilon=1.0, delta=1e-5, records=2, batch=1, steps=1, clip_norm=1.0, relation="replace",
        unit=unit, public_view=view, clips=clips,
    )  # fmt: skip
    data = ArrayRecords(record.x[None], np.array([record.y]), mask=record.mask[None])  # type: ignore[index]
    rows = Streams(model, data, plan, prepare).public([0])
    assert rows is not None
    return mean_gradient(model, cross_entropy, rows, Speed())


def _identical(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    assert any(bool(part.any()) for part in first.values()), "a gradient of zeros shows nothing"
    return all(torch.equal(part, second[name]) for name, part in first.items())


@pytest.mark.parametrize("clips", [1, 2])
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("make", [_vit, _Pooling])
@pytest.mark.parametrize(
    "prepare", [CLIPS, VideoClips(4, 16, 16, mean=0.5, deviation=0.1)], ids=["plain", "scaled"]
)
def test_the_public_gradient_ignores_private_pixels(
    make: Any, prepare: Preparation, drop: bool, clips: int
) -> None:
    view = MaskedPixels(drop=drop)
    model = make()
    one, other = (_public_gradient(record, model, view, prepare, clips) for record in _recordings())
    assert _identical(one, other)


def test_the_private_view_does_see_private_pixels() -> None:
    for private in ("whole", "rest"):
        view = MaskedPixels(private)
        seen = [view.private_input(r, CLIPS, _vit(), 1) for r in _recordings()]
        first, second = (s[0] if isinstance(s, tuple) else s for s in seen)
        assert not torch.equal(first, second)


# The mistakes of SOUNDNESS F8 (mutants 20 to 23), each of which the comparison above must notice.


def _majority_tokens_unmasked(record: Record, model: VideoViT) -> tuple[Tensor, Tensor]:
    pixels = CLIPS(record.x, 1)
    mask = F.interpolate(torch.from_numpy(record.mask[::3]).float()[:, None], (16, 16))[:, 0]  # type: ignore[index]
    cut = mask.reshape(2, 2, 4, 4, 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(32, -1)
    return pixels, cut.mean(1) > 0.5


def _attend_then_drop(record: Record, model: VideoViT) -> tuple[Tensor, Tensor]:
    return CLIPS(record.x, 1), torch.ones(model.tokens, dtype=torch.bool)


def _statistics_of_all_pixels(record: Record, model: VideoViT) -> Tensor:
    pixels = CLIPS(record.x, 1)
    return (pixels - pixels.mean()) / pixels.std() * CLIPS.mask(record.mask, 1)  # type: ignore[arg-type]


def _resize_before_mask(record: Record, model: VideoViT) -> Tensor:
    nearest = torch.from_numpy(record.mask[::3]).float()[:, None]  # type: ignore[index]
    return CLIPS(record.x, 1) * F.interpolate(nearest, (16, 16))[:, 0]


@pytest.mark.parametrize(
    "mistake",
    [
        _majority_tokens_unmasked,
        _attend_then_drop,
        _statistics_of_all_pixels,
        _resize_before_mask,
    ],
)
def test_leaks_through_preprocessing_are_noticed(
    mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(
        MaskedPixels,
        "public_input",
        lambda view, record, prepare, model, clips: mistake(record, model),
    )
    model = _vit()
    one, other = (_public_gradient(r, model, MaskedPixels(), CLIPS) for r in _recordings())
    assert not _identical(one, other)


def test_no_token_straddles_the_border() -> None:
    model = _vit()
    public = torch.ones(1, 4, 16, 16, dtype=torch.bool)
    assert bool(model.kept_tokens(public).all())
    public[0, 0, 0, 0] = False
    kept = model.kept_tokens(public)[0]
    assert not bool(kept[0])
    assert bool(kept[1:].all())


def test_dropped_tokens_are_as_if_they_were_not_there() -> None:
    model = _vit().eval()
    x = torch.randn(2, 3, 4, 16, 16)
    keep = torch.rand(2, model.tokens, generator=torch.Generator().manual_seed(1)) < 0.4
    changed = model.tubelets(x).clone()
    with torch.no_grad():
        seen = model(x, keep)
        changed[~keep] += 100
        t, h, w = model.grid
        dt, dh, dw = model.tubelet
        back = changed.reshape(2, t, h, w, 3, dt, dh, dw).permute(0, 4, 1, 5, 2, 6, 3, 7)
        assert torch.equal(model(back.reshape(x.shape), keep), seen)
        torch.testing.assert_close(model(x, torch.ones_like(keep)), model(x))


def test_a_view_of_masks_needs_masks() -> None:
    with pytest.raises(ViewError, match="mask"):
        MaskedPixels().public_input(Record(np.zeros(SHAPE, np.uint8), 0), CLIPS, _vit(), 1)
    wrong = Record(np.zeros(SHAPE, np.uint8), 0, np.ones((2, 2, 2), dtype=bool))
    with pytest.raises(ViewError, match="shaped"):
        MaskedPixels().public_input(wrong, CLIPS, _vit(), 1)


def test_a_record_without_private_pixels_is_blank_for_the_private_stream() -> None:
    record, _ = _recordings()
    full = Record(record.x, 1, np.ones(SHAPE[:3], dtype=bool))
    assert is_blank(full, MaskedPixels())
    assert not is_blank(record, MaskedPixels())
    assert not is_blank(full, None)


# -- feature maps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("psi", [LowFrequency(4, 16.0), PixelateFeatures(8)])
@pytest.mark.parametrize("shape", [(3, 32, 24, 3), (32, 24, 3), (64, 6)])
def test_many_pictures_share_one_view(psi: FeatureMap, shape: tuple[int, ...]) -> None:
    """A collision by construction: add a pattern that the map cannot see."""
    rng = np.random.default_rng(0)
    x = rng.uniform(60, 190, shape).astype(np.float32)
    checker = np.indices(shape)[-3 if len(shape) > 2 else 0 :]
    sign = (-1.0) ** (checker[0] + (checker[1] if len(shape) > 2 else 0))
    if isinstance(psi, LowFrequency):
        from scipy.fft import dctn, idctn

        axes = (len(shape) - 3, len(shape) - 2) if len(shape) > 2 else (0,)
        spectrum = dctn(sign, axes=axes, norm="ortho")
        low = tuple(slice(4) if i in axes else slice(None) for i in range(len(shape)))
        spectrum[low] = 0
        sign = idctn(spectrum, axes=axes, norm="ortho")
    other = (x.astype(np.float64) + 20 * sign).astype(np.float32)
    assert np.abs(other - x).max() > 5
    np.testing.assert_allclose(
        psi(x), psi(other), atol=2.01 if isinstance(psi, PixelateFeatures) else 1e-3
    )
    assert psi.invertibility(shape).many_to_one
    assert psi.invertibility(shape).kept <= 0.2
    assert psi.warning is None


def test_the_public_coefficients_are_whole_numbers_and_decide_the_view() -> None:
    psi = LowFrequency(4, 16.0)
    x = np.random.default_rng(1).integers(0, 256, (32, 24, 3)).astype(np.uint8)
    kept = psi.coefficients(x)
    assert kept.shape == (4, 4, 3)
    assert np.array_equal(kept, np.rint(kept))
    again = psi(psi(x).astype(np.float64))
    np.testing.assert_allclose(again, psi(x), atol=20)


def test_blur_is_invertible_and_says_so() -> None:
    found = BlurFeatures().invertibility((256, 192, 3))
    assert not found.many_to_one
    # SOUNDNESS G5: cond 6.4e7 on 256 x 192 with reflected borders
    assert 1e7 < found.condition < 1e9
    assert "guarantee is empty" in found.sentence
    assert BlurFeatures().warning is not None


def test_blur_matches_opencv() -> None:
    import cv2

    x = np.random.default_rng(2).uniform(0, 255, (40, 30, 3))
    expected = cv2.GaussianBlur(x, (25, 25), 10, borderType=cv2.BORDER_REFLECT_101)
    np.testing.assert_allclose(BlurFeatures()(x), expected, atol=1e-3)


def test_a_feature_gradient_depends_on_the_view_alone() -> None:
    psi = PixelateFeatures(4)
    rng = np.random.default_rng(3)
    x = np.repeat(rng.integers(50, 200, (12, 10, 9, 3)), 4, axis=1).repeat(4, axis=2)
    swap = np.zeros(SHAPE, dtype=int)
    swap[:, ::2], swap[:, 1::2] = 7, -7
    pair = [Record(v.astype(np.uint8), 1, np.ones(SHAPE[:3], bool)) for v in (x, x + swap)]
    assert not np.array_equal(pair[0].x, pair[1].x)
    model = _vit()
    one, other = (_public_gradient(record, model, psi, CLIPS) for record in pair)
    assert _identical(one, other)


def test_values_as_they_are_bring_their_own_clips() -> None:
    assert AsIs()(np.zeros((2, 5)), 2).shape == (2, 5)
    assert CLIPS(np.zeros(SHAPE, np.uint8), 3).shape == (3, 3, 4, 16, 16)


def test_plans_and_run_folders_of_former_versions_keep_their_texts() -> None:
    views = (MaskedPixels("rest"), LowFrequency(4, 16.0), PixelateFeatures(8), BlurFeatures(5, 2.0))
    assert [view.stored for view in views] == [
        "MaskedPixels(private='rest', drop=True)",
        "LowFrequency(size=4, step=16.0)",
        "Pixelate(block=8)",
        "Blur(size=5, sigma=2.0)",
    ]
    nothing = {"size": None, "step": None, "block": None, "sigma": None}
    written = {"kind": "pixelate", "private": "whole", **nothing, "block": 8}
    config = parse_config({"out": "x", "method": "feature", "view": written})
    assert public_view(config) == PixelateFeatures(8)
